// Command unraced prints a pattern for go test -run: it names the tests of some packages which do less, or nothing, under the race detector. make
// test runs those packages twice, once with the detector and once without. All their other tests do the same in both runs, so the run without
// the detector leaves them out. That saves a third of its processor time.
//
// # How it decides
//
// A test does less if it mentions package racetest or testing.Short, directly or through functions, methods, constants, variables
// and types of its package's test files. Names are compared as text, without types, so the pattern has some tests too many
// and none too few. Code that is not a test's must not ask for the detector.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	flag.Usage = func() { fmt.Fprintln(flag.CommandLine.Output(), "usage: unraced FOLDER...") }
	flag.Parse()
	var names []string
	for _, dir := range flag.Args() {
		found, err := unraced(dir)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		names = append(names, found...)
	}
	slices.Sort(names)
	fmt.Printf("^(%s)$\n", strings.Join(slices.Compact(names), "|"))
}

// unraced names the tests of a folder which do less under the race detector.
func unraced(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	var all []declaration
	fset := token.NewFileSet()
	for _, name := range files {
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		all = append(all, declarations(file)...)
	}
	less := map[string]bool{}
	for before := -1; len(less) != before; { // until nothing more is found
		before = len(less)
		for _, d := range all {
			if d.asks || slices.ContainsFunc(d.mentions, func(name string) bool { return less[name] }) {
				less[d.name] = true
			}
		}
	}
	var tests []string
	for name := range less {
		if strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz") || strings.HasPrefix(name, "Example") {
			tests = append(tests, name)
		}
	}
	return tests, nil
}

// A declaration is a name of a package, or of a method, with the names that its text has.
type declaration struct {
	name     string
	mentions []string
	asks     bool // for the race detector or for -short
}

func declarations(file *ast.File) []declaration {
	var all []declaration
	conditional := false // the file is compiled with the detector alone, or without it alone
	for _, group := range file.Comments {
		for _, c := range group.List {
			conditional = conditional || strings.HasPrefix(c.Text, "//go:build") && strings.Contains(c.Text, "race")
		}
	}
	add := func(name string, n ast.Node) {
		d := declaration{name: name, asks: conditional}
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				of, _ := n.X.(*ast.Ident)
				d.asks = d.asks || of != nil && (of.Name == "racetest" || of.Name == "testing" && n.Sel.Name == "Short")
			case *ast.Ident:
				d.mentions = append(d.mentions, n.Name)
			}
			return true
		})
		all = append(all, d)
	}
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			add(decl.Name.Name, decl)
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						add(name.Name, spec)
					}
				case *ast.TypeSpec:
					add(spec.Name.Name, spec)
				}
			}
		}
	}
	return all
}
