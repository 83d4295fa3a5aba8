package secretfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "secret"), filepath.Join(dir, "link")
	if err := os.WriteFile(path, []byte("key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for mode, open := range map[os.FileMode]bool{0o400: false, 0o600: false, 0o640: false, 0o660: false, 0o644: true, 0o604: true, 0o602: true, 0o666: true} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{path, link} {
			data, err := Read(p)
			if errors.Is(err, ErrOpenToOthers) != open || errors.Is(Check(p), ErrOpenToOthers) != open {
				t.Errorf("%#o: got %v and %v", mode, err, Check(p))
			}
			if open && (data != nil || !strings.Contains(err.Error(), "chmod o= "+p)) || !open && string(data) != "key" {
				t.Errorf("%#o: got %q, %v", mode, data, err)
			}
		}
	}
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("a directory: %v", err)
	}
	if _, err := Read(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	large := filepath.Join(dir, "large")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, MaxSize+1); err != nil {
		t.Fatal(err)
	}
	if data, err := Read(large); err == nil || data != nil {
		t.Errorf("%d bytes: got %d, %v", MaxSize+1, len(data), err)
	}
}
