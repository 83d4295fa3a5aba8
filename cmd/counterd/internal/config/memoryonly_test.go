package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/counterd/counterd/counter"
)

// TestMemoryOnly: appendonly no is accepted with a missing or empty directory, and refused with a directory that holds a
// store.
func TestMemoryOnly(t *testing.T) {
	c := Default()
	c.AppendOnly = false
	c.Dir = filepath.Join(t.TempDir(), "data")
	if err := c.CheckMemoryOnly(); err != nil {
		t.Errorf("no directory: %v", err)
	}
	if err := os.Mkdir(c.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.Dir, "dump.rdb"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.CheckMemoryOnly(); err != nil {
		t.Errorf("a directory without a store: %v", err)
	}
	store, err := counter.Open(c.Dir, counter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	want := new(UnservedDataError)
	if err := c.CheckMemoryOnly(); !errors.As(err, &want) || want.Dir != c.Dir || !strings.Contains(err.Error(), c.Dir) {
		t.Errorf("a directory with a store: got %v, want a *UnservedDataError", err)
	}
	c.AppendOnly = true
	if err := c.CheckMemoryOnly(); err != nil {
		t.Errorf("with a log: %v", err)
	}
}

// TestSnapshots: a file that turns the log off must turn Redis's snapshots off too. The file that CONFIG REWRITE writes can
// be read.
func TestSnapshots(t *testing.T) {
	for text, ok := range map[string]bool{
		"appendonly no\n": false, "appendonly no\nsave 900 1\n": false, "save \"\"\nappendonly no\nsave 900 1\n": false,
		"appendonly no\nsave \"\"\n": true, "save 900 1\nsave ''\nappendonly no\n": true, "appendonly yes\nsave 900 1\n": true, "save 900 1\n": true,
	} {
		c, _, err := read(t, text)
		if ok != (err == nil) || !ok && !errors.Is(err, errSnapshots) {
			t.Errorf("%q: got %v", text, err)
		}
		c.AppendOnly = false
		again := rewrite(text, &c)
		if c, _, err := read(t, again); err != nil || c.AppendOnly {
			t.Errorf("%q rewritten as %q: %v", text, again, err)
		}
	}
	c := Default()
	c.ConfigFile = filepath.Join(t.TempDir(), "counterd.conf")
	if err := os.WriteFile(c.ConfigFile, []byte("appendonly no\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fs, _ := Flags(&c)
	if err := fs.Parse([]string{"--appendonly", "no"}); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(fs, &c); err != nil || c.AppendOnly {
		t.Errorf("on the command line: %v", err)
	}
}
