package main

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/testkit/racetest"
)

// TestRaceRun: what make race leaves out has nothing to show to the race detector. The Makefile finds the packages to run by
// a pattern, which every package with a go statement or a lock must match; and a test that skips itself there (racetest) says
// so in its first line, and starts no goroutine.
func TestRaceRun(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	text, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "\nCONCURRENT := ")
	line, _, ok := strings.Cut(after, "\n")
	if !ok {
		t.Fatal("the Makefile does not say what is concurrent")
	}
	pattern := regexp.MustCompile("(?m)" + line)
	s := parseTree(t)
	skips, left := 0, 0
	for dir, files := range s.dirs {
		concurrent, matched := false, false
		for name, f := range files {
			for _, imp := range f.Imports {
				concurrent = concurrent || imp.Path.Value == `"sync"` || imp.Path.Value == `"sync/atomic"`
			}
			ast.Inspect(f, func(n ast.Node) bool {
				_, statement := n.(*ast.GoStmt)
				concurrent = concurrent || statement
				return true
			})
			text, err := os.ReadFile(filepath.Join("..", "..", dir, name))
			if err != nil {
				t.Fatal(err)
			}
			matched = matched || pattern.Match(text)
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
					skips += checkRaceSkip(t, s, fn)
				}
			}
		}
		if !matched {
			left++
		}
		if concurrent && !matched {
			t.Errorf("%s is concurrent, and make race leaves it out", dir)
		}
	}
	if skips == 0 || left == 0 {
		t.Errorf("%d tests skip themselves and %d packages are left out", skips, left)
	}
}

// checkRaceSkip looks at a function that may skip itself under the race detector, and returns how often it does.
func checkRaceSkip(t *testing.T, s *sources, fn *ast.FuncDecl) (skips int) {
	starts := false
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			starts = true
		case *ast.SelectorExpr:
			pkg, _ := n.X.(*ast.Ident)
			switch {
			case n.Sel.Name == "Go":
				starts = true
			case n.Sel.Name == "Skip" && pkg != nil && pkg.Name == "racetest":
				skips++
				if s.fset.Position(n.Pos()).Line != s.fset.Position(fn.Body.Lbrace).Line+1 {
					t.Errorf("%s: racetest.Skip does not stand in the first line", s.fset.Position(n.Pos()))
				}
			}
		}
		return true
	})
	if skips > 0 && starts {
		t.Errorf("%s: %s starts goroutines, and skips itself under the race detector", s.fset.Position(fn.Pos()), fn.Name.Name)
	}
	return skips
}
