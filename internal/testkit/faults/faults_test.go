package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/testkit/docpage"
	"github.com/counterd/counterd/internal/testkit/programs"
)

// ledger reads the table of this repository, and finds its tests.
func ledger(t *testing.T) (root string, faults []Fault, tests map[string][]Test) {
	t.Helper()
	root, err := programs.Root()
	if err != nil {
		t.Fatal(err)
	}
	if faults, err = Read(root); err != nil {
		t.Fatal(err)
	}
	if tests, err = Tests(root); err != nil {
		t.Fatal(err)
	}
	return root, faults, tests
}

// TestReferenceFaults: docs/internals/faults.md shows the table.
func TestReferenceFaults(t *testing.T) {
	root, faults, _ := ledger(t)
	docpage.Check(t, "docs/internals/faults.md", "faults", Page(root, faults))
}

// TestLedger: each fault has tests that exist and that do not skip themselves.
func TestLedger(t *testing.T) {
	_, faults, tests := ledger(t)
	if len(faults) < 200 {
		t.Errorf("the ledger has %d faults only: rows are never removed", len(faults))
	}
	for i, f := range faults {
		if f.N != i+1 {
			t.Errorf("row %d has the number %d: numbers count up without a gap", i+1, f.N)
		}
		if len(f.Mended) != 7 || strings.Trim(f.Mended, "0123456789abcdef") != "" {
			t.Errorf("fault %d: mended in %q, want a commit of 7 digits", f.N, f.Mended)
		}
		for _, text := range []string{f.Users, f.Cause} {
			if !strings.HasSuffix(text, ".") {
				t.Errorf("fault %d: want a sentence: %q", f.N, text)
			}
		}
		for _, cell := range f.Tests {
			test, err := find(tests, cell)
			if err != nil {
				t.Errorf("fault %d: %v", f.N, err)
			} else if test.Skips {
				t.Errorf("fault %d: %s skips itself", f.N, cell)
			}
		}
	}
}

// staleBreaks is how many patches may no longer apply: none, as a reversal that does not apply proves nothing.
const staleBreaks = 0

// TestBreaks: each patch belongs to a fault, and applies to the tree as it is.
func TestBreaks(t *testing.T) {
	root, faults, _ := ledger(t)
	names, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(dir), "breaks", "*"))
	if err != nil || len(names) < 20 {
		t.Fatalf("%d patches, want 20 at least: %v", len(names), err)
	}
	stale := 0
	for _, name := range names {
		n, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(name), ".patch"))
		if err != nil || n < 1 || n > len(faults) {
			t.Errorf("%s is not named after a fault, as 17.patch is", name)
			continue
		}
		if _, err := patched(root, name); err != nil {
			stale++
			t.Logf("the reversal of the mend of fault %d no longer applies: write it anew.\n%s\n%v", n, faults[n-1].Users, err)
		}
	}
	if stale > staleBreaks {
		t.Errorf("%d patches no longer apply, want %d at most", stale, staleBreaks)
	}
}

// TestPatch: patches are applied by their text, in a file of another name too, and refused where they fit no place or two.
func TestPatch(t *testing.T) {
	const diff = "Why.\n--- a/x.go\n+++ b/x.go\n@@ -9,3 +9,3 @@ func\n a\n-b\n+B\n c\n"
	for _, c := range []struct{ name, text, want string }{
		{"x.go", "0\na\nb\nc\nd\n", "0\na\nB\nc\nd\n"},
		{"moved/y.go", "a\nb\nc\n", "a\nB\nc\n"},
		{"x.go", "a\nb\nd\n", ""},
		{"x.go", "a\nb\nc\na\nb\nc\n", ""},
		{"x.txt", "a\nb\nc\n", ""},
	} {
		root := t.TempDir()
		for name, text := range map[string]string{c.name: c.text, "1.patch": diff} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		made, err := patched(root, filepath.Join(root, "1.patch"))
		if got := made[c.name]; got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s with %q is %q, %v; want %q", c.name, c.text, got, err, c.want)
		}
	}
	for _, text := range []string{"", "Why.\n", "+++ b/x.go\n", "@@ -1 +1 @@\n-a\n", "+++ b/x.go\n@@ -1 +1 @@\n?\n"} {
		if got, err := parsePatch(text); err == nil {
			t.Errorf("%q is %v, want an error", text, got)
		}
	}
}

// TestTable: a row that is not as the others is refused.
func TestTable(t *testing.T) {
	if got, err := parse(header + "\n1\tlog\tabcdef0\tTestX TestY\tSeen.\tWhy.\n"); err != nil || len(got) != 1 || len(got[0].Tests) != 2 {
		t.Errorf("got %v, %v", got, err)
	}
	for _, text := range []string{"", "n\tx\n", header + "\n1\tlog\tabc\tTestX\tSeen.\n", header + "\nx\tlog\tabc\tTestX\tSeen.\tWhy.\n",
		header + "\n1\tlog\tabc\tTestX\t \tWhy.\n", header + "\n1\tlog\tabc\tTestX\tSeen.\tWhy.\n1\tlog\tabc\tTestX\tSeen.\tWhy.\n"} {
		if got, err := parse(text); err == nil {
			t.Errorf("%q is %v, want an error", text, got)
		}
	}
}
