package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/testkit/docpage"
)

// root is the root of the repository as this package's tests see it.
const root = ".."

// frontLines bounds README.md: what is longer belongs on a page of its own.
const frontLines = 200

// pages are the Markdown files that readers are sent to, as paths from the root: the front page, CONTRIBUTING.md and
// everything below docs.
func pages(t *testing.T) []string {
	t.Helper()
	found := []string{"README.md", "CONTRIBUTING.md"}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			found = append(found, filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator))))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 20 {
		t.Fatalf("found %d pages only: %v", len(found), found)
	}
	return found
}

// read returns the lines of a file, named from the root.
func read(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// TestFrontPage: README.md is short.
func TestFrontPage(t *testing.T) {
	if n := len(read(t, "README.md")); n > frontLines {
		t.Errorf("README.md has %d lines, want at most %d: move the rest to a page below docs", n, frontLines)
	}
}

// TestTitles: each page begins with its title, so that it can be listed.
func TestTitles(t *testing.T) {
	for _, page := range pages(t) {
		if first := read(t, page)[0]; !strings.HasPrefix(first, "# ") {
			t.Errorf("%s begins with %q, want its title", page, first)
		}
	}
}

// TestIndex: docs/README.md lists all pages, and no page twice.
func TestIndex(t *testing.T) {
	const index = "docs/README.md"
	var listed []string
	for _, target := range targets(read(t, index)) {
		if file, _, _ := strings.Cut(target, "#"); strings.HasSuffix(file, ".md") {
			listed = append(listed, resolve(index, file))
		}
	}
	for _, page := range pages(t) {
		n := len(slices.DeleteFunc(slices.Clone(listed), func(other string) bool { return other != page }))
		if n != 1 && page != index && page != "README.md" {
			t.Errorf("%s lists %s %d times, want once", index, page, n)
		}
	}
}

// TestReferenceIndex makes docs/llms.txt, the list of all pages for language models, of docs/README.md.
func TestReferenceIndex(t *testing.T) {
	_, list, found := strings.Cut(strings.Join(read(t, "docs/README.md"), "\n"), "\n\n")
	if !found {
		t.Fatal("docs/README.md has a title alone")
	}
	docpage.Check(t, "docs/llms.txt", "pages", list)
}
