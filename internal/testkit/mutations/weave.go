package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"
)

// All mutations are compiled together, and an environment variable of the test chooses one: to compile the tests of a package
// takes longer than to run those that find a mutation. Each function with mutations becomes several:
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
//	func (q *Quorum) ConfirmMutant7(pos uint64) { ... }   with mutation 7

// variable is the environment variable that has the number of a mutation.
const variable = "COUNTERD_MUTANT"

// weave returns files that take the place of those of the tree at root, by their paths from root: all mutations are in them.
func weave(root string, all []*Mutation) (map[string][]byte, error) {
	woven, by := map[string][]byte{}, map[string][]*Mutation{}
	for _, m := range all {
		by[m.File] = append(by[m.File], m)
	}
	for file, list := range by {
		text, name, err := weaveFile(root, file, list)
		if err != nil {
			return nil, err
		}
		woven[file] = text
		woven[path.Join(path.Dir(file), "mutant_variable.go")] = fmt.Appendf(nil, "package %s\n\nimport \"os\"\n\nvar mutant = os.Getenv(%q)\n", name, variable)
	}
	return woven, nil
}

// weaveFile returns a file with all its mutations, and the name of its package.
func weaveFile(root, file string, list []*Mutation) (woven []byte, name string, err error) {
	text, err := list[0].read(root)
	if err != nil {
		return nil, "", err
	}
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, "", err
	}
	at := func(p token.Pos) int { return fset.Position(p).Offset }
	done := 0
	var tail []byte
	for _, d := range tree.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		var copies []byte
		var cases strings.Builder
		for _, m := range list {
			if m.Function != fullName(fn) {
				continue
			}
			changed, err := m.Apply(root)
			if err != nil {
				return nil, "", err
			}
			end := at(fn.End()) + len(changed) - len(text)
			copies = append(copies, renamed(string(changed[at(fn.Pos()):end]), fn, at, m.N)...)
			fmt.Fprintf(&cases, "case \"%d\":\n%s\n", m.N, call(fn, m.N))
		}
		if cases.Len() == 0 {
			continue
		}
		if fn.Type.TypeParams != nil {
			return nil, "", fmt.Errorf("%s, %s: functions with type parameters are not supported", file, fullName(fn))
		}
		body := string(text[at(fn.Pos()):at(fn.End())])
		woven = append(woven, text[done:at(fn.Pos())]...)
		woven = fmt.Appendf(woven, "%s {\nswitch mutant {\n%s}\n%s\n}\n", head(fn, text, at), &cases, strings.TrimSuffix(call(fn, 0), "\nreturn"))
		done = at(fn.End())
		tail = append(append(tail, copies...), renamed(body, fn, at, 0)...)
	}
	return append(append(woven, text[done:]...), tail...), tree.Name.Name, nil
}

// renamed returns a copy of a function under the name of a mutation.
func renamed(text string, fn *ast.FuncDecl, at func(token.Pos) int, n int) string {
	end := at(fn.Name.End()) - at(fn.Pos())
	return fmt.Sprintf("\n%sMutant%d%s\n", text[:end], n, text[end:])
}

// head is a function without its body. All parameters have names.
func head(fn *ast.FuncDecl, text []byte, at func(token.Pos) int) string {
	of := func(e ast.Expr) string { return string(text[at(e.Pos()):at(e.End())]) }
	var b strings.Builder
	b.WriteString("func ")
	if fn.Recv != nil {
		fmt.Fprintf(&b, "(receiver %s) ", of(fn.Recv.List[0].Type))
	}
	b.WriteString(fn.Name.Name + "(")
	n := 0
	for _, p := range fn.Type.Params.List {
		for range max(1, len(p.Names)) {
			fmt.Fprintf(&b, "p%d %s, ", n, of(p.Type))
			n++
		}
	}
	b.WriteString(")")
	if r := fn.Type.Results; r != nil {
		b.WriteString("(")
		for _, p := range r.List {
			for range max(1, len(p.Names)) {
				b.WriteString(of(p.Type) + ", ")
			}
		}
		b.WriteString(")")
	}
	return b.String()
}

// call calls the copy of a function with a mutation.
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
