package tidy

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// retired are words that meant two things, or that nobody else uses, by what to write instead. A word goes into the table when the
// last place has lost it; matching ignores case.
var retired = map[string]string{
	`status page`: "console",
	`hot\.Slot`:   "hot.Ref",
	`OneRound`:    "nothing: no release had it",
	`lanes-seed`:  "-seed (package testkit/seed)",
	`\w*grouped`:  "OneGroup, SlotGroups; change set",
	`figures?`:    "metrics, results, measurements, numbers",
}

// checkWords counts retired words, which breakers.txt allows where they still stand.
func checkWords(t *Tree, report Report) {
	for _, word := range slices.Sorted(maps.Keys(retired)) {
		re := regexp.MustCompile(`(?i)\b` + word + `\b`)
		got := map[string]int{}
		t.Each(func(d *Dir) {
			if d.Path == "internal/testkit/tidy" { // it has to name them
				return
			}
			d.EachFile(func(_ string, f *File) {
				if n := len(re.FindAllStringIndex(f.Text, -1)); n > 0 {
					got["Go files"] += n
				}
			})
		})
		t.breakers.check(report, "retired word "+strings.ReplaceAll(word, `\.`, ".")+" ("+retired[word]+")", 0, got)
	}
}

// checkFileNames: no file has the name of a package that stands beside it: a reader would look in the wrong place. The file of
// a program's command may have the name of the package that does its work.
func checkFileNames(t *Tree, report Report) {
	got := map[string]int{}
	t.Each(func(d *Dir) {
		d.EachFile(func(name string, f *File) {
			base := strings.TrimSuffix(name, ".go")
			if f.Test || f.Name.Name == "main" || base == path.Base(d.Path) {
				return
			}
			for _, beside := range []string{path.Join(d.Path, base), path.Join(path.Dir(d.Path), base), path.Join(d.Path, "internal", base)} {
				if t.Dirs[beside] != nil && strings.Contains(beside, "/") {
					got[f.Path] = 1
				}
			}
		})
	})
	t.breakers.check(report, "file with the name of a package beside it", 0, got)
}
