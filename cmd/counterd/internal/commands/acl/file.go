package acl

//lint:file-ignore ST1005 the errors are Redis's words

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/counterd/counterd/cmd/internal/secretfile"
	"github.com/counterd/counterd/internal/atomicfile"
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
	return atomicfile.Replace(path, mode, func(w io.Writer) error {
		_, err := io.WriteString(w, strings.Join(us.Lines(), "\n")+"\n")
		return err
	})
}
