// Package secretfile reads files that hold secrets: private keys, passwords, users. A file that every user of the
// machine can read holds no secret, so it is refused, with advice.
package secretfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// MaxSize is how large such a file may be, in bytes.
const MaxSize = 16 << 20

// openToOthers are the permissions that a file with secrets must not have. A group may read it: it is how a server that
// runs under a user of its own is given a key that root owns.
const openToOthers fs.FileMode = 0o007

// ErrOpenToOthers is the error of a file that others may read, write or execute.
var ErrOpenToOthers = errors.New("every user of this machine can access it")

// Read returns what a file holds. The permissions are those of the file that is read, also where path is a link.
func Read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := checked(path, info); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err == nil && len(data) > MaxSize {
		err = fmt.Errorf("%s: got more than %d bytes, want a file with a secret", path, MaxSize)
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

// Check tells whether a file may hold secrets.
func Check(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return checked(path, info)
}

func checked(path string, info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case mode.IsDir():
		return fmt.Errorf("%s is a directory, want a file", path)
	case mode.IsRegular() && mode.Perm()&openToOthers != 0:
		return fmt.Errorf("%s has the permissions %#o, want none for others (chmod o= %s): %w", path, mode.Perm(), path, ErrOpenToOthers)
	}
	return nil
}
