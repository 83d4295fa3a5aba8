package vfs

import (
	"errors"
	"io/fs"
	"slices"
	"testing"
)

// TestView changes everything through a view: the view shows the changes, the file system below does not.
func TestView(t *testing.T) {
	lower := NewSim()
	put := func(fsys FS, name, text string) {
		t.Helper()
		if err := writeNew(fsys, name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	check := func(fsys FS, name, want string) {
		t.Helper()
		got, err := ReadFile(fsys, name, 1<<20)
		if want == "" && !errors.Is(err, fs.ErrNotExist) || want != "" && (err != nil || string(got) != want) {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
		}
	}
	if err := lower.MkdirAll("/d/sub"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c", "tail"} {
		put(lower, "/d/"+name, "old "+name)
	}
	before := lower.Ops()
	v := NewView(lower, func(dir string, names []string) []string {
		if dir == "/d" {
			return []string{"tail"}
		}
		return nil
	})
	if names, err := v.List("/d"); err != nil || !slices.Equal(names, []string{"a", "b", "c", "sub", "tail"}) {
		t.Fatalf("list %q, %v", names, err)
	}
	if _, err := v.Create("/d/a"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("create over a file below: %v", err)
	}
	put(v, "/d/new", "new")
	put(v, "/d/sub/deep", "deep")
	if err := v.Remove("/d/a"); err != nil {
		t.Fatal(err)
	}
	if err := v.Remove("/d/a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("second remove: %v", err)
	}
	if err := v.Rename("/d/b", "/d/c"); err != nil {
		t.Fatal(err)
	}
	f, err := v.OpenRW("/d/c")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(3); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "", "b": "", "c": "old", "new": "new", "sub/deep": "deep", "tail": "old tail"} {
		check(v, "/d/"+name, want)
	}
	if names, err := v.List("/d"); err != nil || !slices.Equal(names, []string{"c", "new", "sub", "tail"}) {
		t.Errorf("list %q, %v", names, err)
	}
	put(v, "/d/a", "again")
	check(v, "/d/a", "again")
	if lower.Ops() != before {
		t.Error("the view changed what is below")
	}

	// What somebody else does below: a frozen file stays as it was, as do lists.
	g, err := lower.OpenRW("/d/tail")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.WriteAt([]byte("more"), 8); err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	put(lower, "/d/later", "later")
	check(v, "/d/tail", "old tail")
	if names, err := v.List("/d"); err != nil || !slices.Equal(names, []string{"a", "c", "new", "sub", "tail"}) {
		t.Errorf("list %q, %v", names, err)
	}
	for _, leak := range append(lower.Leaks(), v.upper.Leaks()...) {
		t.Error("left open:", leak)
	}
	if len(v.upper.Misuse()) > 0 {
		t.Error(v.upper.Misuse())
	}
}
