package tidy

import (
	"go/ast"
	"go/token"
	"path"
	"strconv"
)

// checkSeams: a test assigns to no variable of another package (net.DefaultResolver), and to none of the code that it tests.
// Goroutines of an earlier test may still read such a variable, and two parallel tests may both set it: a run fails now and then, on
// a busy machine first. The value belongs in a field or an argument. The environment and the working directory are changed by
// t.Setenv and t.Chdir, which refuse parallel tests.
func checkSeams(t *Tree, report Report) {
	got := map[string]int{}
	t.Each(func(d *Dir) {
		vars := d.codeVars()
		d.EachFile(func(_ string, f *File) {
			if !f.Test {
				return
			}
			imports := f.importNames()
			for _, decl := range f.Decls {
				fn, ok := decl.(*ast.FuncDecl)
				if !ok || fn.Body == nil {
					continue
				}
				local := localNames(fn)
				for _, e := range assigned(fn.Body) {
					switch base, member := variable(e); {
					case local[base]:
					case member != "" && imports[base] != "":
						got[imports[base]+"."+member]++
					case vars[base]:
						got[d.Path+"."+base]++
					}
				}
				for _, call := range processCalls(fn.Body) {
					report("%s: %s changes the whole process: use the method of testing.T", t.Fset.Position(call.Pos()), call.Sel.Name)
				}
			}
		})
	})
	t.breakers.check(report, "variable of a package that tests assign to", 0, got)
}

// codeVars are the variables that the package's code declares.
func (d *Dir) codeVars() map[string]bool {
	vars := map[string]bool{}
	d.EachFile(func(_ string, f *File) {
		for _, decl := range f.Decls {
			g, ok := decl.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR || f.Test {
				continue
			}
			for _, spec := range g.Specs {
				for _, name := range spec.(*ast.ValueSpec).Names {
					vars[name.Name] = name.Name != "_"
				}
			}
		}
	})
	return vars
}

// importNames are the paths of the imported packages, by the names that the file uses for them.
func (f *File) importNames() map[string]string {
	names := map[string]string{}
	for _, imp := range f.File.Imports {
		p, _ := strconv.Unquote(imp.Path.Value)
		if imp.Name != nil {
			names[imp.Name.Name] = p
		} else {
			names[path.Base(p)] = p
		}
	}
	return names
}

// localNames are the names that a function declares anywhere in it. A name that is also a package's counts as the function's own.
func localNames(fn *ast.FuncDecl) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, e := range n.Lhs {
					if id, ok := e.(*ast.Ident); ok {
						names[id.Name] = true
					}
				}
			}
		case *ast.RangeStmt:
			for _, e := range []ast.Expr{n.Key, n.Value} {
				if id, ok := e.(*ast.Ident); ok && n.Tok == token.DEFINE {
					names[id.Name] = true
				}
			}
		case *ast.ValueSpec:
			for _, id := range n.Names {
				names[id.Name] = true
			}
		case *ast.Field:
			for _, id := range n.Names {
				names[id.Name] = true
			}
		}
		return true
	})
	return names
}

// assigned are the left sides of all assignments.
func assigned(body *ast.BlockStmt) (list []ast.Expr) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				list = append(list, n.Lhs...)
			}
		case *ast.IncDecStmt:
			list = append(list, n.X)
		}
		return true
	})
	return list
}

// variable is the variable that an assignment changes, fully or in part: the name at its left end, and the member that follows it.
func variable(e ast.Expr) (base, member string) {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x.Name, member
		case *ast.SelectorExpr:
			e, member = x.X, x.Sel.Name
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return "", ""
		}
	}
}

// processCalls are the calls that change the environment or the directory for the whole process.
func processCalls(body *ast.BlockStmt) (list []*ast.SelectorExpr) {
	ast.Inspect(body, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, ok := s.X.(*ast.Ident)
		if ok && pkg.Name == "os" && (s.Sel.Name == "Setenv" || s.Sel.Name == "Unsetenv" || s.Sel.Name == "Chdir") {
			list = append(list, s)
		}
		return true
	})
	return list
}
