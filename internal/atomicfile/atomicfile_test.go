package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
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
