// Package weave compiles a tree together with versions of it in which some functions are changed: mistakes that tests must find. To
// compile the tests of a package takes longer than to run those that find a mistake, so all versions are compiled at once, and an
// environment variable of the test chooses one. Each function that a version changes becomes several:
//
//	func (q *Quorum) Confirm(pos uint64) {               what callers call
//		switch mutant {
//		case "7":
//			q.ConfirmMutant7(pos)
//			return
//		}
//		q.ConfirmMutant0(pos)
//	}
//	func (q *Quorum) ConfirmMutant0(pos uint64) { ... }   as it is
//	func (q *Quorum) ConfirmMutant7(pos uint64) { ... }   as version 7 has it
//
// Nothing is copied: the go command reads the changed files by its flag -overlay.
package weave

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Variable is the environment variable that has the number of a version.
const Variable = "COUNTERD_MUTANT"

// A Version is a tree in which some functions are changed.
type Version struct {
	N     int
	Files map[string][]byte // the changed files, by their paths from the root
}

// ErrOutside: a version changes something that is not the body of a function.
var ErrOutside = errors.New("not the body of a function")

// Check returns nil if a version can be woven, an error that matches ErrOutside, or why its files are no Go.
func Check(root string, v Version) error {
	for file := range v.Files {
		if _, _, err := weaveFile(root, file, []Version{v}); err != nil {
			return err
		}
	}
	return nil
}

// files returns files that take the place of those of the tree at root, by their paths from root: all versions are in them.
func files(root string, all []Version) (map[string][]byte, error) {
	woven, by := map[string][]byte{}, map[string][]Version{}
	for _, v := range all {
		for file := range v.Files {
			by[file] = append(by[file], v)
		}
	}
	for file, list := range by {
		text, name, err := weaveFile(root, file, list)
		if err != nil {
			return nil, err
		}
		woven[file] = text
		woven[path.Join(path.Dir(file), "mutant_variable.go")] = fmt.Appendf(nil, "package %s\n\nimport \"os\"\n\nvar mutant = os.Getenv(%q)\n", name, Variable)
	}
	return woven, nil
}

// A source is a file of a tree or of a version.
type source struct {
	text []byte
	set  *token.FileSet
	tree *ast.File
}

func parse(name string, text []byte) (s source, err error) {
	s = source{text: text, set: token.NewFileSet()}
	s.tree, err = parser.ParseFile(s.set, name, text, parser.SkipObjectResolution)
	return s, err
}

func (s *source) at(p token.Pos) int { return s.set.Position(p).Offset }

func (s *source) of(n ast.Node) string { return string(s.text[s.at(n.Pos()):s.at(n.End())]) }

// weaveFile returns a file with all versions of it, and the name of its package.
func weaveFile(root, file string, list []Version) (woven []byte, name string, err error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
	if err != nil {
		return nil, "", err
	}
	was, err := parse(file, text)
	if err != nil {
		return nil, "", err
	}
	copies := make([][]variant, len(was.tree.Decls)) // by function
	for _, v := range list {
		if err := differences(&was, file, v, copies); err != nil {
			return nil, "", err
		}
	}
	done := 0
	var tail []byte
	for i, d := range was.tree.Decls {
		if len(copies[i]) == 0 {
			continue
		}
		fn := d.(*ast.FuncDecl)
		woven = append(woven, text[done:was.at(fn.Pos())]...)
		woven = fmt.Appendf(woven, "%s {\nswitch mutant {\n", was.head(fn))
		for _, c := range copies[i] {
			woven = fmt.Appendf(woven, "case \"%d\":\n%s\n", c.n, call(fn, c.n))
			tail = append(tail, c.text...)
		}
		woven = fmt.Appendf(woven, "}\n%s\n}\n", strings.TrimSuffix(call(fn, 0), "\nreturn"))
		done = was.at(fn.End())
		tail = append(tail, was.renamed(fn, 0)...)
	}
	return slices.Concat(woven, text[done:], tail), was.tree.Name.Name, nil
}

// A variant is a function as a version has it.
type variant struct {
	n    int
	text string
}

// differences appends the functions that a version changes in a file to copies, at the places of their declarations.
func differences(was *source, file string, v Version, copies [][]variant) error {
	is, err := parse(file, v.Files[file])
	if err != nil {
		return fmt.Errorf("version %d: %w", v.N, err)
	}
	if len(is.tree.Decls) != len(was.tree.Decls) {
		return fmt.Errorf("version %d, %s: %w", v.N, file, ErrOutside)
	}
	for i, d := range was.tree.Decls {
		if was.of(d) == is.of(is.tree.Decls[i]) {
			continue
		}
		old, ok := d.(*ast.FuncDecl)
		next, ok2 := is.tree.Decls[i].(*ast.FuncDecl)
		if !ok || !ok2 || old.Type.TypeParams != nil || generic(old) || !bytes.Equal(was.text[was.at(old.Pos()):was.at(old.Body.Lbrace)], is.text[is.at(next.Pos()):is.at(next.Body.Lbrace)]) {
			return fmt.Errorf("version %d, %s: %w", v.N, file, ErrOutside)
		}
		copies[i] = append(copies[i], variant{v.N, is.renamed(next, v.N)})
	}
	return nil
}

// generic tells whether a method is one of a type with type parameters.
func generic(fn *ast.FuncDecl) bool {
	if fn.Recv == nil {
		return false
	}
	of := fn.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	_, ok := of.(*ast.Ident)
	return !ok
}

// renamed returns a function under the name that it has in a version.
func (s *source) renamed(fn *ast.FuncDecl, n int) string {
	text, end := s.of(fn), s.at(fn.Name.End())-s.at(fn.Pos())
	return fmt.Sprintf("\n%sMutant%d%s\n", text[:end], n, text[end:])
}

// head is a function without its body. All parameters have names.
func (s *source) head(fn *ast.FuncDecl) string {
	var b strings.Builder
	b.WriteString("func ")
	if fn.Recv != nil {
		fmt.Fprintf(&b, "(receiver %s) ", s.of(fn.Recv.List[0].Type))
	}
	b.WriteString(fn.Name.Name + "(")
	n := 0
	for _, p := range fn.Type.Params.List {
		for range max(1, len(p.Names)) {
			fmt.Fprintf(&b, "p%d %s, ", n, s.of(p.Type))
			n++
		}
	}
	b.WriteString(")")
	if r := fn.Type.Results; r != nil {
		b.WriteString("(")
		for _, p := range r.List {
			for range max(1, len(p.Names)) {
				b.WriteString(s.of(p.Type) + ", ")
			}
		}
		b.WriteString(")")
	}
	return b.String()
}

// call calls the copy of a function that a version has.
func call(fn *ast.FuncDecl, n int) string {
	var b strings.Builder
	if fn.Type.Results != nil {
		b.WriteString("return ")
	}
	if fn.Recv != nil {
		b.WriteString("receiver.")
	}
	fmt.Fprintf(&b, "%sMutant%d(", fn.Name.Name, n)
	k := 0
	for _, p := range fn.Type.Params.List {
		for range max(1, len(p.Names)) {
			fmt.Fprintf(&b, "p%d", k)
			if _, several := p.Type.(*ast.Ellipsis); several {
				b.WriteString("...")
			}
			b.WriteString(", ")
			k++
		}
	}
	b.WriteString(")")
	if fn.Type.Results == nil {
		b.WriteString("\nreturn")
	}
	return b.String()
}
