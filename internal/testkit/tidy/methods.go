package tidy

import (
	"go/ast"
	"path"
	"strconv"
	"strings"
)

// A methodSet has the methods that a type declares and the types of this module that it embeds.
type methodSet struct {
	declared map[string]bool
	embeds   []string
}

// methodSets finds them by "directory.Type". It goes by the text: an alias of a type is not followed.
func (t *Tree) methodSets() map[string]*methodSet {
	sets := map[string]*methodSet{}
	of := func(name string) *methodSet {
		if sets[name] == nil {
			sets[name] = &methodSet{declared: map[string]bool{}}
		}
		return sets[name]
	}
	t.Each(func(d *Dir) {
		d.EachFile(func(_ string, f *File) {
			if f.Test {
				return
			}
			for _, decl := range f.Decls {
				switch decl := decl.(type) {
				case *ast.FuncDecl:
					if decl.Recv != nil {
						of(d.Path + "." + receiver(decl)).declared[decl.Name.Name] = true
					}
				case *ast.GenDecl:
					for _, spec := range decl.Specs {
						spec, ok := spec.(*ast.TypeSpec)
						if !ok {
							continue
						}
						m := of(d.Path + "." + spec.Name.Name)
						switch declared := spec.Type.(type) {
						case *ast.StructType:
							for _, field := range declared.Fields.List {
								if len(field.Names) == 0 {
									m.embeds = append(m.embeds, d.qualify(f, field.Type))
								}
							}
						case *ast.InterfaceType:
							for _, field := range declared.Methods.List {
								for _, n := range field.Names {
									m.declared[n.Name] = true
								}
								if len(field.Names) == 0 {
									m.embeds = append(m.embeds, d.qualify(f, field.Type))
								}
							}
						}
					}
				}
			}
		})
	})
	return sets
}

// qualify gives the "directory.Type" of an embedded type of this module, "" for another.
func (d *Dir) qualify(f *File, e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return d.qualify(f, e.X)
	case *ast.ParenExpr:
		return d.qualify(f, e.X)
	case *ast.IndexExpr:
		return d.qualify(f, e.X)
	case *ast.IndexListExpr:
		return d.qualify(f, e.X)
	case *ast.Ident:
		return d.Path + "." + e.Name
	case *ast.SelectorExpr:
		x, ok := e.X.(*ast.Ident)
		if !ok {
			return ""
		}
		for _, imp := range f.File.Imports {
			p, _ := strconv.Unquote(imp.Path.Value)
			name := path.Base(p)
			if imp.Name != nil {
				name = imp.Name.Name
			}
			if dir, ours := strings.CutPrefix(p, module+"/"); ours && name == x.Name {
				return dir + "." + e.Sel.Name
			}
		}
	}
	return ""
}

// receiver is the name of the type that a method belongs to.
func receiver(fn *ast.FuncDecl) string { return baseType(fn.Recv.List[0].Type) }

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

// methodCount counts the methods of a type, promoted ones included, each name once.
func methodCount(sets map[string]*methodSet, name string) int {
	all, seen := map[string]bool{}, map[string]bool{}
	var add func(name string)
	add = func(name string) {
		m := sets[name]
		if m == nil || seen[name] {
			return
		}
		seen[name] = true
		for n := range m.declared {
			all[n] = true
		}
		for _, e := range m.embeds {
			add(e)
		}
	}
	add(name)
	return len(all)
}

func checkMethods(t *Tree, report Report) {
	sets := t.methodSets()
	got := map[string]int{}
	for name := range sets {
		if n := methodCount(sets, name); n > 0 {
			got[name] = n
		}
	}
	t.breakers.check(report, "methods of a type, promoted ones included", maxMethods, got)
}
