package main

import (
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// dir is this package's directory, from the root of the repository.
const dir = "internal/testkit/mutations"

// A Mutation is one row of the table.
type Mutation struct {
	N        int
	File     string // a slash-separated path from the root
	Function string // Function, or Type.Method
	Old, New string // one of Old's places in the function gets New; \n stands for a line break and any indentation
	Breaks   string // the harm that it does to users
	Kills    []Run  // the tests that find it; none for an equivalent one
	Reason   string // why no test can tell it apart; empty: tests can
}

// A Run is one go test: a package and a pattern of tests, with the build tags before it where it needs some. Hangs: the mistake makes
// the tests wait for ever, so that the end of their time is how they find it.
type Run struct {
	Tags, Package, Tests string
	Hangs                bool
}

func (r Run) String() string {
	return strings.TrimSpace(r.Tags + " " + r.Package + " " + r.Tests)
}

const header = "n\tfile\tfunction\told\tnew\twhat it breaks\tfound by\tequivalent because"

// Read reads the table of the repository at root.
func Read(root string) ([]Mutation, error) {
	data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(dir), "mutations.tsv"))
	if err != nil {
		return nil, err
	}
	return parse(string(data))
}

func parse(text string) ([]Mutation, error) {
	head, body, _ := strings.Cut(text, "\n")
	if head != header {
		return nil, fmt.Errorf("the table begins with %q, want %q", head, header)
	}
	var all []Mutation
	for i, line := range strings.Split(strings.TrimSuffix(body, "\n"), "\n") {
		cells := strings.Split(line, "\t")
		if len(cells) != 8 {
			return nil, fmt.Errorf("line %d has %d cells, want 8: %q", i+2, len(cells), line)
		}
		n, err := strconv.Atoi(cells[0])
		if err != nil || n != i+1 {
			return nil, fmt.Errorf("line %d has the number %q, want %d: rows count up without a gap", i+2, cells[0], i+1)
		}
		m := Mutation{N: n, File: cells[1], Function: cells[2], Old: cells[3], New: cells[4], Breaks: cells[5], Reason: cells[7]}
		if m.Kills, err = parseRuns(cells[6]); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+2, err)
		}
		if m.File == "" || m.Function == "" || m.Old == "" || m.Old == m.New || m.Breaks == "" || (len(m.Kills) == 0) == (m.Reason == "") {
			return nil, fmt.Errorf("line %d: want a file, a function, two texts that differ, what breaks, and either tests or a reason", i+2)
		}
		all = append(all, m)
	}
	return all, nil
}

// parseRuns reads a cell such as "./persist TestAwait|TestPack; noepoll ./simulation TestWholeSystem; ./persist TestAwait hangs".
func parseRuns(cell string) (runs []Run, err error) {
	for _, part := range strings.Split(cell, ";") {
		words := strings.Fields(part)
		var r Run
		if n := len(words) - 1; n == 2 && words[n] == "hangs" {
			r.Hangs, words = true, words[:n]
		}
		if len(words) > 0 && !strings.HasPrefix(words[0], "./") {
			r.Tags, words = words[0], words[1:]
		}
		switch {
		case len(words) == 0 && r.Tags == "":
			continue
		case len(words) == 1:
			r.Package = words[0]
		case len(words) == 2:
			r.Package, r.Tests = words[0], words[1]
		default:
			return nil, fmt.Errorf("%q is no run: want [tags] ./package [tests], or ./package tests hangs", part)
		}
		runs = append(runs, r)
	}
	return runs, nil
}

// read returns the file of a mutation as it is.
func (m *Mutation) read(root string) ([]byte, error) {
	return os.ReadFile(filepath.Join(root, filepath.FromSlash(m.File)))
}

// Apply returns the file of a mutation with the mistake in it.
func (m *Mutation) Apply(root string) ([]byte, error) {
	text, err := m.read(root)
	if err != nil {
		return nil, err
	}
	from, to, err := function(m.File, text, m.Function)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(m.Old, `\n`)
	for i, line := range lines {
		lines[i] = regexp.QuoteMeta(line)
	}
	found := regexp.MustCompile(strings.Join(lines, `\n\s*`)).FindAllIndex(text[from:to], -1)
	if len(found) != 1 {
		return nil, fmt.Errorf("%s, %s: %q stands there %d times, want once", m.File, m.Function, m.Old, len(found))
	}
	made := append([]byte(nil), text[:from+found[0][0]]...)
	made = append(made, strings.ReplaceAll(m.New, `\n`, "\n")...)
	made = append(made, text[from+found[0][1]:]...)
	if _, err := format.Source(made); err != nil {
		return nil, fmt.Errorf("%s, %s: the new text is no Go: %w", m.File, m.Function, err)
	}
	return made, nil
}

// function returns where a function stands in a file.
func function(file string, text []byte, name string) (from, to int, err error) {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, file, text, parser.SkipObjectResolution)
	if err != nil {
		return 0, 0, err
	}
	for _, d := range tree.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if fullName(fn) == name {
			return fset.Position(fn.Pos()).Offset, fset.Position(fn.End()).Offset, nil
		}
	}
	return 0, 0, fmt.Errorf("%s has no function %s", file, name)
}

// fullName is Function, or Type.Method.
func fullName(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	of := fn.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if id, ok := of.(*ast.Ident); ok {
		return id.Name + "." + fn.Name.Name
	}
	return fn.Name.Name
}
