// Package docpage keeps the generated parts of the documentation current. A page in docs/ has a generated part between two
// comments:
//
//	<!-- begin settings: generated, run make reference -->
//	...
//	<!-- end settings -->
//
// The package that owns the table behind such a part has a test, named after make reference. The test makes the
// text from the table and calls Check. The page fails the test when it has another text, and make reference, which runs
// these tests with -update, writes the page. Text outside the comments is written by hand.
package docpage

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the generated parts of the documentation")

// Check compares the part of a page, such as docs/reference/settings.md, with text. With -update it writes the part.
func Check(t *testing.T, page, part, text string) {
	t.Helper()
	path := filepath.Join(root(t), filepath.FromSlash(page))
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(data), "<!-- begin "+part+":")
	head, rest, found2 := strings.Cut(rest, "-->\n")
	old, after, found3 := strings.Cut(rest, "<!-- end "+part+" -->")
	if !found || !found2 || !found3 {
		t.Fatalf("%s lacks the comments around its generated part %q", page, part)
	}
	text = strings.Trim(text, "\n") + "\n"
	if old == text {
		return
	}
	if *update {
		if err := os.WriteFile(path, []byte(before+"<!-- begin "+part+":"+head+"-->\n"+text+"<!-- end "+part+" -->"+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("%s: the part %q is not current: run make reference\n%s", page, part, difference(old, text))
}

// root is the directory of go.mod.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = up
	}
}

// difference is the first line in which two texts differ.
func difference(old, text string) string {
	a, b := strings.Split(old, "\n"), strings.Split(text, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return "the page has:  " + a[i] + "\nthe table has: " + b[i]
		}
	}
	return "one is longer than the other"
}
