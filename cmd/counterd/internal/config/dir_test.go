package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckDir refuses files, and directories without permission, before anything else is tried with them.
func TestCheckDir(t *testing.T) {
	dir := t.TempDir()
	file, closed := filepath.Join(dir, "file"), filepath.Join(dir, "closed")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(closed, 0o500); err != nil {
		t.Fatal(err)
	}
	check := func(dir, want string) {
		t.Helper()
		c := Default()
		c.Dir = dir
		if err := c.CheckDir(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", dir, err, want)
		}
		c.AppendOnly = false // then nothing is read or written there
		if err := c.CheckDir(); err != nil {
			t.Errorf("%s, in memory only: %v", dir, err)
		}
	}
	check(dir, "")
	check(filepath.Join(dir, "new"), "")
	check(file, "is a file or is in one, want a directory")
	check(filepath.Join(file, "below"), "is a file or is in one, want a directory")
	if os.Geteuid() != 0 { // root may write everywhere
		check(closed, "permission denied to the user with id")
	}
}
