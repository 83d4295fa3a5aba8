package tidy

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// checkRace: tests that make race leaves out have nothing to show to the race detector. The Makefile finds the packages to
// run by a pattern, which every package that starts goroutines must match; and a test that skips itself there (racetest)
// says so in its first line, and starts no goroutine.
func checkRace(t *Tree, report Report) {
	text, err := os.ReadFile(filepath.Join(t.Root, "Makefile"))
	if err != nil {
		report("%v", err)
		return
	}
	_, after, _ := strings.Cut(string(text), "\nCONCURRENT := ")
	line, _, ok := strings.Cut(after, "\n")
	if !ok {
		report("the Makefile does not say what is concurrent")
		return
	}
	pattern := regexp.MustCompile("(?m)" + line)
	t.Each(func(d *Dir) {
		concurrent, matched := false, false
		d.EachFile(func(_ string, f *File) {
			ast.Inspect(f.File, func(n ast.Node) bool {
				_, statement := n.(*ast.GoStmt)
				concurrent = concurrent || statement
				return !concurrent
			})
			matched = matched || pattern.MatchString(f.Text)
			for _, decl := range f.Decls {
				if fn, ok := decl.(*ast.FuncDecl); ok && fn.Body != nil {
					checkSkip(t, report, fn)
				}
			}
		})
		if concurrent && !matched {
			report("%s is concurrent, and make race leaves it out", d.Path)
		}
	})
}

// checkSkip looks at a function that may skip itself under the race detector.
func checkSkip(t *Tree, report Report, fn *ast.FuncDecl) {
	skips, starts := false, false
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
				skips = true
				if t.Fset.Position(n.Pos()).Line != t.Fset.Position(fn.Body.Lbrace).Line+1 {
					report("%s: racetest.Skip does not stand in the first line", t.Fset.Position(n.Pos()))
				}
			}
		}
		return true
	})
	if skips && starts {
		report("%s: %s starts goroutines, and skips itself under the race detector", t.Fset.Position(fn.Pos()), fn.Name.Name)
	}
}
