package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	put := func(text string, err error) error {
		return Replace(path, 0o640, func(w io.Writer) error {
			_, werr := io.WriteString(w, text)
			return errors.Join(werr, err)
		})
	}
	full := errors.New("no room")
	for _, step := range []struct {
		text, want string
		err        error
	}{{"one", "one", nil}, {"half", "one", full}, {"two", "two", nil}} {
		if err := put(step.text, step.err); !errors.Is(err, step.err) {
			t.Errorf("%s: %v", step.text, err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != step.want {
			t.Errorf("behind %s: %q, %v", step.text, got, err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*"+TempSuffix)); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if err := Replace(filepath.Join(dir, "none", "a"), 0o600, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

// TestMkdirAll: the parent of each directory that is made is synced behind it, from the top down, and no other one.
func TestMkdirAll(t *testing.T) {
	top := t.TempDir()
	path := filepath.Join(top, "a", "b", "c")
	var synced []string
	sync := func(dir string) error {
		synced = append(synced, dir)
		return SyncDir(dir)
	}
	for range 2 { // the second time all is there
		if err := mkdirAll(path, 0o750, sync); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		t.Error(info, err)
	}
	if want := []string{top, filepath.Join(top, "a"), filepath.Join(top, "a", "b")}; !slices.Equal(synced, want) {
		t.Errorf("synced %q, want %q", synced, want)
	}
	file := filepath.Join(top, "file")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), MkdirAll(filepath.Join(file, "d"), 0o750)); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("below a file: %v", err)
	}
}
