package tidy

import (
	"go/ast"
	"strings"
)

// checkTestkit: a package that only tests import lives in a folder testkit, and no code imports a package that lives there.
func checkTestkit(t *Tree, report Report) {
	byCode, byTests := map[string]bool{}, map[string]bool{}
	t.Each(func(d *Dir) {
		d.EachFile(func(_ string, file *File) {
			for _, imp := range file.Imports() {
				to, ours := strings.CutPrefix(imp, module+"/")
				if !ours {
					continue
				}
				if file.Test || isTestkit(d.Path) || within(d.Path, "cmd/counterd/e2e") {
					byTests[to] = true
					continue
				}
				byCode[to] = true
				if isTestkit(to) {
					report("%s imports %s, which is for tests only", file.Path, to)
				}
			}
		})
	})
	t.Each(func(d *Dir) {
		if byTests[d.Path] && !byCode[d.Path] && !isTestkit(d.Path) && !public[d.Path] && !d.isMain() && !within(d.Path, "cmd/counterd/e2e") {
			report("only tests import %s: it belongs in a folder testkit", d.Path)
		}
	})
}

func (d *Dir) isMain() bool {
	for _, f := range d.Files {
		if f.Name.Name == "main" {
			return true
		}
	}
	return false
}

// public packages are imported by other modules: their exported names need not be used here.
var public = map[string]bool{"schema": true, "counter": true, "counter/client": true, "counter/datadir": true}

// checkExports: code uses what a package exports, outside of public packages and those for tests. It goes by names alone, so
// it misses some unused names and reports no used one.
func checkExports(t *Tree, report Report) {
	used := map[string]bool{} // names that code mentions otherwise than to declare them
	tested := map[string]bool{}
	note := func(names map[string]bool, f *File) {
		declared := map[*ast.Ident]bool{}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				declared[d.Name] = true
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						declared[s.Name] = true
					case *ast.ValueSpec:
						for _, n := range s.Names {
							declared[n] = true
						}
					}
				}
			}
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && id.IsExported() && !declared[id] {
				names[id.Name] = true
			}
			return true
		})
	}
	t.Each(func(d *Dir) {
		d.EachFile(func(_ string, f *File) {
			if f.Test || isTestkit(d.Path) {
				note(tested, f)
			} else {
				note(used, f)
			}
		})
	})
	got := map[string]int{}
	t.Each(func(d *Dir) {
		if public[d.Path] || isTestkit(d.Path) || within(d.Path, "cmd/counterd/e2e") {
			return
		}
		d.EachFile(func(_ string, f *File) {
			if f.Test {
				return
			}
			for _, decl := range f.Decls {
				fn, ok := decl.(*ast.FuncDecl)
				if ok && fn.Name.IsExported() && !used[fn.Name.Name] && tested[fn.Name.Name] {
					name := fn.Name.Name
					if fn.Recv != nil {
						name = receiver(fn) + "." + name
					}
					got[d.Path+"."+name] = 1
				}
			}
		})
	})
	t.breakers.check(report, "exported, and only tests use it", 0, got)
}
