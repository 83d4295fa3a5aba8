package acl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/counterd/counterd/cmd/internal/secretfile"
)

// LoadFile is Load of a file, which others on the machine must not be able to read.
func (us *Users) LoadFile(path string) (removed []*User, err error) {
	text, err := secretfile.Read(path)
	if err != nil {
		return nil, fmt.Errorf("Error loading ACLs, opening file '%s': %w", path, err)
	}
	return us.Load(path, string(text))
}

// SaveFile replaces a file by one with all users, durably. A new one is for its owner alone.
func (us *Users) SaveFile(path string) error {
	mode := os.FileMode(0o600)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm() &^ 0o007
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	_, err = f.WriteString(strings.Join(us.Lines(), "\n") + "\n")
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error is the one to tell
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
