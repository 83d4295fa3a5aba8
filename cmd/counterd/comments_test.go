package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/testkit/racetest"
)

// sources are the Go files of the whole tree, by the directory they lie in. Paths begin at the root of the tree.
type sources struct {
	fset *token.FileSet
	dirs map[string]map[string]*ast.File
}

func parseTree(t *testing.T) *sources {
	t.Helper()
	root := filepath.Join("..", "..")
	s := &sources{fset: token.NewFileSet(), dirs: map[string]map[string]*ast.File{}}
	err := filepath.WalkDir(root, func(file string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := e.Name()
		if e.IsDir() && file != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules" || name == "bin" || name == "dist") {
			return filepath.SkipDir
		}
		if e.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(s.fset, file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := path.Dir(filepath.ToSlash(rel))
		if s.dirs[dir] == nil {
			s.dirs[dir] = map[string]*ast.File{}
		}
		s.dirs[dir][name] = f
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.dirs) < 60 {
		t.Fatalf("found %d packages only", len(s.dirs))
	}
	return s
}

// comments calls f for each comment of a directory's files.
func (s *sources) comments(dir string, f func(pos token.Position, text string)) {
	for _, name := range slices.Sorted(maps.Keys(s.dirs[dir])) {
		for _, group := range s.dirs[dir][name].Comments {
			for _, c := range group.List {
				f(s.fset.Position(c.Pos()), c.Text)
			}
		}
	}
}

// holds tells whether a file exists that a comment in dir calls name: a base name, or the end of a path, with * or not.
func (s *sources) holds(dir, name string) bool {
	if in, base := path.Split(name); in != "" {
		for d := range s.dirs {
			if (d == path.Clean(in) || strings.HasSuffix(d, "/"+path.Clean(in))) && s.holds(d, base) {
				return true
			}
		}
		return false
	}
	for file := range s.dirs[dir] {
		if ok, _ := path.Match(name, file); ok {
			return true
		}
	}
	return false
}

var (
	fileName = regexp.MustCompile(`[\w*/.-]*[\w*]\.go\b`)
	testName = regexp.MustCompile(`\b(?:Test|Benchmark|Fuzz)[A-Z]\w*`)
	member   = regexp.MustCompile(`\b([A-Za-z]\w*)\.([A-Za-z]\w*)\b`)
)

// TestNamesInComments: a file, a test, and a member of a type of the same package that a comment names exist.
func TestNamesInComments(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	s := parseTree(t)
	tests := map[string]bool{}
	for _, files := range s.dirs {
		for _, f := range files {
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && testName.MatchString(fn.Name.Name) {
					tests[fn.Name.Name] = true
				}
			}
		}
	}
	for dir := range s.dirs {
		types := s.types(dir)
		s.comments(dir, func(pos token.Position, text string) {
			for _, name := range fileName.FindAllString(text, -1) {
				if !s.holds(dir, name) {
					t.Errorf("%s: %s does not exist", pos, name)
				}
			}
			for _, name := range testName.FindAllString(text, -1) {
				if !tests[name] {
					t.Errorf("%s: %s does not exist", pos, name)
				}
			}
			for _, m := range member.FindAllStringSubmatch(text, -1) {
				if !slices.Contains([]string{"go", "html", "md"}, m[2]) && !types.has(m[1], m[2], 0) {
					t.Errorf("%s: %s has no %s", pos, m[1], m[2])
				}
			}
		})
	}
}

// typeSet is the types of a package by name.
type typeSet map[string]*typeMembers

// typeMembers are the fields and methods of a type, and the types of its package that it embeds.
type typeMembers struct {
	names    map[string]bool
	embedded []string
	open     bool // it has members that this package's text does not tell: of another package's type
}

// types finds the types of a package, tests included.
func (s *sources) types(dir string) typeSet {
	set := typeSet{}
	of := func(name string) *typeMembers {
		if set[name] == nil {
			set[name] = &typeMembers{names: map[string]bool{}}
		}
		return set[name]
	}
	for _, f := range s.dirs[dir] {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if spec, ok := spec.(*ast.TypeSpec); ok {
						of(spec.Name.Name).declare(spec.Type)
					}
				}
			case *ast.FuncDecl:
				if d.Recv != nil {
					if name := baseType(d.Recv.List[0].Type); name != "" {
						of(name).names[d.Name.Name] = true
					}
				}
			}
		}
	}
	return set
}

// declare notes what the type's declaration says.
func (m *typeMembers) declare(declared ast.Expr) {
	var fields *ast.FieldList
	switch d := declared.(type) {
	case *ast.StructType:
		fields = d.Fields
	case *ast.InterfaceType:
		fields = d.Methods
	default: // of another type, whose members it may have
		m.open = true
		return
	}
	for _, f := range fields.List {
		for _, n := range f.Names {
			m.names[n.Name] = true
		}
		if len(f.Names) > 0 {
			continue
		}
		if name := baseType(f.Type); name != "" {
			m.names[name] = true
			m.embedded = append(m.embedded, name)
		} else {
			m.open = true
		}
	}
}

// baseType is the name of a type of this package behind pointers and parameters; "" for others.
func baseType(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return baseType(e.X)
	case *ast.IndexExpr:
		return baseType(e.X)
	case *ast.IndexListExpr:
		return baseType(e.X)
	case *ast.ParenExpr:
		return baseType(e.X)
	}
	return ""
}

// has tells whether the type may have the member. Types of other packages may have any.
func (set typeSet) has(name, member string, depth int) bool {
	m := set[name]
	if m == nil || m.open || m.names[member] || depth > 8 {
		return true
	}
	return slices.ContainsFunc(m.embedded, func(e string) bool { return set[e] != nil && set.has(e, member, depth+1) })
}

// TestFilesListed: a package comment with "# Files" names every file of its package, and no other. Where a package is all tests,
// those are named.
func TestFilesListed(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	s := parseTree(t)
	lists := 0
	for dir, files := range s.dirs {
		doc := files["doc.go"]
		if doc == nil || doc.Doc == nil {
			continue
		}
		_, list, ok := strings.Cut(doc.Doc.Text(), "\n# Files\n")
		if !ok {
			continue
		}
		lists++
		list, _, _ = strings.Cut(list, "\n# ")
		listed := fileName.FindAllString(list, -1)
		onlyTests := true
		for name := range files {
			onlyTests = onlyTests && (name == "doc.go" || strings.HasSuffix(name, "_test.go"))
		}
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if name == "doc.go" || strings.HasSuffix(name, "_test.go") && !onlyTests {
				continue
			}
			if !slices.ContainsFunc(listed, func(pattern string) bool { ok, _ := path.Match(pattern, name); return ok }) {
				t.Errorf("%s/doc.go does not list %s", dir, name)
			}
		}
	}
	if lists < 15 {
		t.Errorf("%d packages list their files only", lists)
	}
}
