package tidy

import (
	"path"
	"slices"
	"strings"
)

// maxUnlisted is how many files of code a package may have without a list of them.
const maxUnlisted = 8

// checkLists: the comment of a package with more than a few files has a section "# Files", which names every file of the package.
// (That it names no other is checked with the other comments.) Where a package is all tests, those are named.
func checkLists(t *Tree, report Report) {
	missing := map[string]int{}
	t.Each(func(d *Dir) {
		files := 0
		d.EachFile(func(name string, f *File) {
			if name != "doc.go" && (!f.Test || d.OnlyTests()) {
				files++
			}
		})
		list, ok := "", false
		if doc := d.Files["doc.go"]; doc != nil && doc.Doc != nil {
			_, list, ok = strings.Cut(doc.Doc.Text(), "\n# Files\n")
		}
		if !ok {
			if files > maxUnlisted {
				missing[d.Path] = 1
			}
			return
		}
		list, _, _ = strings.Cut(list, "\n# ")
		listed := fileName.FindAllString(list, -1)
		d.EachFile(func(name string, f *File) {
			if name == "doc.go" || f.Test && !d.OnlyTests() {
				return
			}
			if !slices.ContainsFunc(listed, func(pattern string) bool { ok, _ := path.Match(pattern, name); return ok }) {
				report("%s/doc.go does not list %s", d.Path, name)
			}
		})
	})
	t.breakers.check(report, `no list "# Files" in doc.go`, 0, missing)
}
