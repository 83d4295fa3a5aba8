package tidy

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	fileName = regexp.MustCompile(`[\w*/.-]*[\w*]\.go\b`)
	testName = regexp.MustCompile(`\b(?:Test|Benchmark|Fuzz)[A-Z]\w*`)
	member   = regexp.MustCompile(`\b([A-Za-z]\w*)\.([A-Za-z]\w*)\b`)
)

// checkComments: a file, a test, and a member of a type of the same package that a comment names exist; and so does what a comment
// names with the name of a package.
func checkComments(t *Tree, report Report) {
	tests := t.tests()
	exported := map[string]map[string]bool{} // by the name of a package
	for _, d := range t.Dirs {
		for _, f := range d.Files {
			if !f.Test && f.Name.Name != "main" {
				if exported[f.Name.Name] == nil {
					exported[f.Name.Name] = map[string]bool{}
				}
				for _, name := range f.declares() {
					exported[f.Name.Name][name] = true
				}
			}
		}
	}
	for _, d := range t.Dirs {
		types := d.types()
		d.comments(t.Fset, func(file *File, pos token.Position, text string) {
			for _, name := range fileName.FindAllString(text, -1) {
				if !t.holds(d.Path, name) {
					report("%s: %s does not exist", pos, name)
				}
			}
			for _, name := range testName.FindAllString(text, -1) {
				if !tests[name] {
					report("%s: %s does not exist", pos, name)
				}
			}
			for _, m := range member.FindAllStringSubmatch(text, -1) {
				switch {
				case slices.Contains([]string{"go", "html", "md", "txt"}, m[2]):
				case !types.has(m[1], m[2], 0):
					report("%s: %s has no %s", pos, m[1], m[2])
				case types[m[1]] == nil && exported[m[1]] != nil && ast.IsExported(m[2]) && !exported[m[1]][m[2]] && file.imports(m[1]):
					report("%s: package %s has no %s", pos, m[1], m[2])
				}
			}
		})
	}
}

// imports says whether the file imports a package of this module by its name.
func (f *File) imports(name string) bool {
	return slices.ContainsFunc(f.Imports(), func(p string) bool { return strings.HasPrefix(p, module+"/") && path.Base(p) == name })
}

// declares returns the exported names that a file declares at its top.
func (f *File) declares() (names []string) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				names = append(names, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					names = append(names, s.Name.Name)
				case *ast.ValueSpec:
					for _, n := range s.Names {
						names = append(names, n.Name)
					}
				}
			}
		}
	}
	return names
}

// comments calls f for each comment of a directory's files.
func (d *Dir) comments(fset *token.FileSet, f func(file *File, pos token.Position, text string)) {
	d.EachFile(func(_ string, file *File) {
		for _, group := range file.Comments {
			for _, c := range group.List {
				f(file, fset.Position(c.Pos()), c.Text)
			}
		}
	})
}

// holds tells whether a file exists that a comment in dir calls name: a base name, or the end of a path, with * or not.
func (t *Tree) holds(dir, name string) bool {
	if in, base := path.Split(name); in != "" {
		for d := range t.Dirs {
			if (d == path.Clean(in) || strings.HasSuffix(d, "/"+path.Clean(in))) && t.holds(d, base) {
				return true
			}
		}
		return false
	}
	for file := range t.Dirs[dir].Files {
		if ok, _ := path.Match(name, file); ok {
			return true
		}
	}
	return false
}

// typeSet is the types of a package by name.
type typeSet map[string]*typeMembers

// typeMembers are the fields and methods of a type, and the types of its package that it embeds.
type typeMembers struct {
	names    map[string]bool
	embedded []string
	open     bool // it has members that this package's text does not tell: of another package's type
}

// types finds the types of a package, tests included.
func (d *Dir) types() typeSet {
	set := typeSet{}
	of := func(name string) *typeMembers {
		if set[name] == nil {
			set[name] = &typeMembers{names: map[string]bool{}}
		}
		return set[name]
	}
	for _, f := range d.Files {
		for _, decl := range f.Decls {
			switch decl := decl.(type) {
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					if spec, ok := spec.(*ast.TypeSpec); ok {
						of(spec.Name.Name).declare(spec.Type)
					}
				}
			case *ast.FuncDecl:
				if decl.Recv != nil {
					if name := receiver(decl); name != "" {
						of(name).names[decl.Name.Name] = true
					}
				}
			}
		}
	}
	return set
}

// declare notes what the type's declaration says.
func (m *typeMembers) declare(declared ast.Expr) {
	var fields *ast.FieldList
	switch d := declared.(type) {
	case *ast.StructType:
		fields = d.Fields
	case *ast.InterfaceType:
		fields = d.Methods
	default: // of another type, whose members it may have
		m.open = true
		return
	}
	for _, f := range fields.List {
		for _, n := range f.Names {
			m.names[n.Name] = true
		}
		if len(f.Names) > 0 {
			continue
		}
		if name := baseType(f.Type); name != "" {
			m.names[name] = true
			m.embedded = append(m.embedded, name)
		} else {
			m.open = true
		}
	}
}

// has tells whether the type may have the member. Types of other packages may have any.
func (set typeSet) has(name, member string, depth int) bool {
	m := set[name]
	if m == nil || m.open || m.names[member] || depth > 8 {
		return true
	}
	return slices.ContainsFunc(m.embedded, func(e string) bool { return set[e] != nil && set.has(e, member, depth+1) })
}
