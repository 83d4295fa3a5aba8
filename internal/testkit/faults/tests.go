package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// A Test is a test function of the repository.
type Test struct {
	Name  string
	Dir   string // its package, a slash-separated path from the root
	Tag   string // the build tag that its file needs; empty for none
	Skips bool   // it calls Skip of testing itself, so it may run nothing
}

// Tests finds the test functions below root by their names.
func Tests(root string) (map[string][]Test, error) {
	found := map[string][]Test{}
	err := eachFile(root, func(rel string) error {
		if !strings.HasSuffix(rel, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, filepath.FromSlash(rel)), nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return err
		}
		tag := ""
		for _, group := range file.Comments {
			if group.Pos() < file.Package && strings.Contains(group.List[0].Text, "//go:build noepoll") {
				tag = "noepoll"
			}
		}
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "Test") && !strings.HasPrefix(fn.Name.Name, "Fuzz") {
				continue
			}
			name := fn.Name.Name
			found[name] = append(found[name], Test{Name: name, Dir: filepath.ToSlash(filepath.Dir(rel)), Tag: tag, Skips: skips(fn)})
		}
		return nil
	})
	return found, err
}

// skips tells whether a test calls t.Skip, t.Skipf or t.SkipNow. racetest.Skip is none of them: it leaves a test out of the race
// detector's run alone.
func skips(fn *ast.FuncDecl) bool {
	found := false
	ast.Inspect(fn, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && strings.HasPrefix(sel.Sel.Name, "Skip") {
			if id, ok := sel.X.(*ast.Ident); ok && id.Name == "t" {
				found = true
			}
		}
		return !found
	})
	return found
}

// find returns the one test that a cell of a table means: its name, or a folder on its path, a dot and its name.
func find(tests map[string][]Test, cell string) (Test, error) {
	folder, name, ok := strings.Cut(cell, ".")
	if !ok {
		folder, name = "", cell
	}
	var fit []Test
	for _, t := range tests[name] {
		if folder == "" || slices.Contains(strings.Split(t.Dir, "/"), folder) {
			fit = append(fit, t)
		}
	}
	switch {
	case len(fit) == 0:
		return Test{}, fmt.Errorf("there is no test %s", cell)
	case len(fit) > 1:
		return Test{}, fmt.Errorf("%s is a test of %s and of %s: name a folder, as in repl.%s", cell, fit[0].Dir, fit[1].Dir, name)
	}
	return fit[0], nil
}

// eachFile calls fn for each file of the source tree, by its slash-separated path from root.
func eachFile(root string, fn func(rel string) error) error {
	return filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if path != root && (e.Name() == ".git" || slices.Contains([]string{"bin", "dist", "node_modules"}, e.Name())) {
				return filepath.SkipDir
			}
			return nil
		}
		if !e.Type().IsRegular() {
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return fn(filepath.ToSlash(rel))
	})
}
