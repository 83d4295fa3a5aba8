package tidy

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
)

// scenario is how a file of tests that belongs to no file of the code begins.
var scenario = regexp.MustCompile(`^// Scenario: \S+ \S+`)

// platform is an ending of a file's name that the build system knows.
var platform = regexp.MustCompile(`_(linux|other|unix|amd64|arm64|epoll)$`)

// plain are files of tests about a whole package, which its name or their kind tells.
var plain = []string{"bench", "fuzz", "main", "example", "helper"}

// checkScenarios: the tests of a file are those of the file of the code with the same name, or of the package with that name. A file of tests whose subject is not one file says so before its package
// clause: "// Scenario: what happens in it". Files without tests, of which the tests of a package share something, need neither.
func checkScenarios(t *Tree, report Report) {
	got := map[string]int{}
	orphans := map[string][]string{}
	t.Each(func(d *Dir) {
		if d.OnlyTests() { // scenarios all
			return
		}
		d.EachFile(func(name string, f *File) {
			base, _ := strings.CutSuffix(name, "_test.go")
			if !f.Test || !f.hasTests() || d.Files[base+".go"] != nil || slices.Contains(plain, base) || base == path.Base(d.Path) || d.Files[platform.ReplaceAllString(base, "")+".go"] != nil {
				return
			}
			for _, c := range f.Comments {
				if c.Pos() < f.Package && scenario.MatchString(c.List[0].Text) {
					return
				}
			}
			got[d.Path]++
			orphans[d.Path] = append(orphans[d.Path], name)
		})
	})
	const rule = "tests of no file, without a line Scenario"
	for dir := range got {
		if !*renew && got[dir] > t.breakers.allowed[[2]string{rule, dir}] {
			report("%s: these tests belong to no file of the code, and do not begin with \"// Scenario: what happens\": %v", dir, orphans[dir])
		}
	}
	t.breakers.check(report, rule, 0, got)
}

// hasTests says whether the go command finds something to run in the file.
func (f *File) hasTests() bool {
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && testName.MatchString(fn.Name.Name) {
			return true
		}
	}
	return false
}
