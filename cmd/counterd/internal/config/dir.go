package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// CheckDir returns an error if the data directory is a file, or if this user may not write it. A directory that does not
// exist is made later. Other errors of the disk are left to the store, which knows how to wait and to ask other nodes.
func (c *Config) CheckDir() error {
	if !c.AppendOnly {
		return nil
	}
	info, err := os.Stat(c.Dir)
	switch {
	case errors.Is(err, syscall.ENOTDIR), err == nil && !info.IsDir():
		return fmt.Errorf("dir: %s is a file or is in one, want a directory", c.Dir)
	case err == nil:
		err = unix.Access(c.Dir, unix.W_OK|unix.X_OK)
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("dir: %s: permission denied to the user with id %d: give the directory to the user that counterd runs as, or set dir to another one", c.Dir, os.Geteuid())
	}
	return nil
}
