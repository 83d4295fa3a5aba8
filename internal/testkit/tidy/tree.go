package tidy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const module = "github.com/counterd/counterd"

// A Tree is the Go files of the repository, parsed. Directories and files are named by their slash-separated path from the root.
type Tree struct {
	Root string
	Fset *token.FileSet
	Dirs map[string]*Dir

	breakers *breakers
}

// A Dir is a directory with Go files.
type Dir struct {
	Path   string
	Files  map[string]*File // by base name
	Nested bool             // it is part of another module below the root
}

// A File is one Go file.
type File struct {
	*ast.File
	Path  string
	Text  string
	Lines int
	Test  bool
}

// Load parses the tree at root. It leaves out directories whose names begin with a dot, and those that hold no source.
func Load(root string) (*Tree, error) {
	t := &Tree{Root: root, Fset: token.NewFileSet(), Dirs: map[string]*Dir{}}
	nested := []string{}
	err := filepath.WalkDir(root, func(file string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := e.Name()
		if e.IsDir() {
			if file != root && (strings.HasPrefix(name, ".") || slices.Contains([]string{"testdata", "node_modules", "bin", "dist"}, name)) {
				return filepath.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if name == "go.mod" && rel != name {
			nested = append(nested, path.Dir(rel))
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(t.Fset, rel, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := path.Dir(rel)
		if t.Dirs[dir] == nil {
			t.Dirs[dir] = &Dir{Path: dir, Files: map[string]*File{}}
		}
		t.Dirs[dir].Files[name] = &File{File: parsed, Path: rel, Text: string(text), Lines: strings.Count(string(text), "\n"), Test: strings.HasSuffix(name, "_test.go")}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if t.breakers, err = readBreakers(root); err != nil {
		return nil, err
	}
	if len(t.Dirs) < 60 {
		return nil, fmt.Errorf("%s has only %d packages: is it the root of the tree?", root, len(t.Dirs))
	}
	for _, d := range t.Dirs {
		d.Nested = slices.ContainsFunc(nested, func(n string) bool { return within(d.Path, n) })
	}
	return t, nil
}

// Each calls f for each directory of the module, in order. Directories of nested modules are left out.
func (t *Tree) Each(f func(d *Dir)) {
	for _, name := range slices.Sorted(maps.Keys(t.Dirs)) {
		if d := t.Dirs[name]; !d.Nested {
			f(d)
		}
	}
}

// EachFile calls f for each file of the directory, in order.
func (d *Dir) EachFile(f func(name string, file *File)) {
	for _, name := range slices.Sorted(maps.Keys(d.Files)) {
		f(name, d.Files[name])
	}
}

// OnlyTests says whether the directory holds nothing but tests, a package comment aside.
func (d *Dir) OnlyTests() bool {
	for name, f := range d.Files {
		if !f.Test && name != "doc.go" {
			return false
		}
	}
	return true
}

// Imports returns the import paths of the file.
func (f *File) Imports() []string {
	var paths []string
	for _, imp := range f.File.Imports {
		if p, err := strconv.Unquote(imp.Path.Value); err == nil {
			paths = append(paths, p)
		}
	}
	return paths
}

// within says whether name is dir or lies below it.
func within(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

// isTestkit says whether a package is for tests only by its place.
func isTestkit(name string) bool { return strings.Contains("/"+name+"/", "/testkit/") }
