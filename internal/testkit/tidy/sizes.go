package tidy

// Limits of size for a reader's sake. A package, file or type that is larger has more than one
// subject.
const (
	maxFiles     = 30  // of code in a package
	maxLines     = 450 // of a file of code
	maxTestLines = 600 // of a file of tests: a table of cases is long and plain
	maxMethods   = 45  // of a type, those of embedded types of this module included
)

func checkPackages(t *Tree, report Report) {
	got := map[string]int{}
	t.Each(func(d *Dir) {
		n := 0
		d.EachFile(func(_ string, f *File) {
			if !f.Test {
				n++
			}
		})
		got[d.Path] = n
	})
	t.breakers.check(report, "files of a package", maxFiles, got)
}

func checkLines(t *Tree, report Report) {
	code, tests := map[string]int{}, map[string]int{}
	t.Each(func(d *Dir) {
		d.EachFile(func(_ string, f *File) {
			if f.Test {
				tests[f.Path] = f.Lines
			} else {
				code[f.Path] = f.Lines
			}
		})
	})
	t.breakers.check(report, "lines of a file", maxLines, code)
	t.breakers.check(report, "lines of tests", maxTestLines, tests)
}
