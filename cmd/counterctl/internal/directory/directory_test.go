package directory

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"testing"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist/format"
)

// TestWith reads a directory that a server has open: another missing file each time means that the server goes on, the
// same one five times that the file is missing.
func TestWith(t *testing.T) {
	dir := t.TempDir()
	store, err := counter.Open(dir, counter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	gone := func(name string) error { return &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist} }
	other := errors.New("another fault")
	for _, c := range []struct {
		what  string
		fault func(n int) error // of attempt n, from 1
		calls int
		want  error
	}{
		{"another file each time", func(n int) error {
			if n > 3*Attempts {
				return nil
			}
			return gone(fmt.Sprint("MANIFEST-", n))
		}, 3*Attempts + 1, nil},
		{"the same file", func(int) error { return gone("MANIFEST-1") }, Attempts, fs.ErrNotExist},
		{"damage", func(int) error { return format.ErrCorrupt }, Attempts, format.ErrCorrupt},
		{"another fault", func(int) error { return other }, 1, other},
	} {
		calls := 0
		err := With(t.Context(), dir, io.Discard, func(d *Dir) error {
			if !d.InUse {
				t.Errorf("%s: the directory is not in use", c.what)
			}
			calls++
			return c.fault(calls)
		})
		if !errors.Is(err, c.want) || calls != c.calls {
			t.Errorf("%s: got %v after %d attempts, want %v after %d", c.what, err, calls, c.want, c.calls)
		}
	}
}
