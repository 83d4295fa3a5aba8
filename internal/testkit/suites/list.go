package main

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

//go:embed *.tsv
var lists embed.FS

// row is a test of a suite, or a group of tests, and its fate. A row of the file is
//
//	unit <tab> name of the test <tab> fate
//
// The name * stands for all tests of the unit that have no row of their own, and a name that ends in * for those that begin so.
type row struct{ unit, test, what string }

// passes is the fate of a test that must pass. All others say why the test is left out.
const passes = "passes"

// notRun begins the reason of a test that is not run, because its failure would end or stop the run of all others.
const notRun = "not run: "

// skipped returns regular expressions of the tests that are not run.
func skipped(list []row) (names []string) {
	for _, l := range list {
		if strings.HasPrefix(l.what, notRun) {
			names = append(names, regexp.QuoteMeta(l.test))
		}
	}
	return names
}

// outcome tells whether a test passed.
type outcome struct {
	unit, test string
	passed     bool
	said       string // why it failed
}

// readList reads the table of a suite: a file, or the one of this program. Where there is none it has no rows.
func readList(suite, file string) (list []row, err error) {
	content, err := lists.ReadFile(suite + ".tsv")
	if file != "" {
		content, err = os.ReadFile(file)
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(content)) {
		line = strings.TrimRight(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 3 || f[2] == "" {
			return nil, fmt.Errorf("%s.tsv: got %q, want unit, test, and passes or a reason", suite, line)
		}
		list = append(list, row{f[0], f[1], f[2]})
	}
	return list, nil
}

// tables are the suites.
func tables() (names []string) {
	for name := range suites {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// of returns the rows of one unit.
func of(list []row, unit string) []row {
	return slices.DeleteFunc(slices.Clone(list), func(l row) bool { return l.unit != unit })
}

// index finds the row of a test: its own, else the longest group that has it.
type index struct {
	exact  map[row]string // without their fate
	groups []row          // the longest first
}

func newIndex(list []row) index {
	i := index{exact: map[row]string{}}
	for _, l := range list {
		if strings.HasSuffix(l.test, "*") {
			i.groups = append(i.groups, l)
		} else {
			i.exact[row{unit: l.unit, test: l.test}] = l.what
		}
	}
	slices.SortStableFunc(i.groups, func(a, b row) int { return len(b.test) - len(a.test) })
	return i
}

// what returns the fate of a test by the table. It is empty for a test that the table does not list.
func (i index) what(unit, test string) string {
	if what, ok := i.exact[row{unit: unit, test: test}]; ok {
		return what
	}
	for _, g := range i.groups {
		if matches(g, unit, test) {
			return g.what
		}
	}
	return ""
}

func matches(group row, unit, test string) bool {
	ok, err := path.Match(group.unit, unit)
	return err == nil && (ok || group.unit == unit) && strings.HasPrefix(test, strings.TrimSuffix(group.test, "*"))
}

// oneLine makes a name or a message fit a field of a table.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// compare prints the differences from the table, and fails if a test fails that the table does not leave out, or if one did not run that
// passes by the table.
func (o options) compare(suite string, list []row, found []outcome) error {
	table := newIndex(list)
	passed, left, wrong := 0, 0, 0
	ran, units := map[row]bool{}, map[string]bool{}
	for _, f := range found {
		ran[row{unit: f.unit, test: f.test}], units[f.unit] = true, true
		switch what := table.what(f.unit, f.test); {
		case f.passed:
			passed++
			if what != passes && what != "" {
				fmt.Printf("passes, and the table leaves it out: %s: %s: %s\n", f.unit, f.test, what)
			}
		case what == "" || what == passes:
			wrong++
			fmt.Printf("FAILED  %s: %s: %s\n", f.unit, f.test, f.said)
		default:
			left++
		}
	}
	for _, l := range list {
		if ran[row{unit: l.unit, test: l.test}] || strings.HasSuffix(l.test, "*") || o.only != "" && !units[l.unit] {
			continue
		}
		if l.what != passes {
			left++ // it is not run
			continue
		}
		wrong++
		fmt.Printf("DID NOT RUN  %s: %s\n", l.unit, l.test)
	}
	if o.renew {
		if err := os.WriteFile(o.table, renew(table, list, found), 0o644); err != nil {
			return err
		}
	}
	fmt.Printf("%s: %d tests passed, %d failed, %d are left out with a reason\n", suite, passed, wrong, left)
	if wrong > 0 {
		return errors.New("tests failed that the table does not leave out")
	}
	return nil
}

// renew returns the table of a run: reasons that the table has, and for others the message of the test behind a question mark.
func renew(table index, list []row, found []outcome) []byte {
	var lines []string
	seen := map[row]bool{}
	add := func(r row) {
		if key := (row{unit: r.unit, test: r.test}); !seen[key] {
			seen[key] = true
			lines = append(lines, r.unit+"\t"+r.test+"\t"+r.what+"\n")
		}
	}
	for _, f := range found {
		what := table.what(f.unit, f.test)
		switch {
		case f.passed:
			add(row{f.unit, f.test, passes})
		case what == "" || what == passes:
			add(row{f.unit, f.test, reason(f.said)})
		default:
			if _, exact := table.exact[row{unit: f.unit, test: f.test}]; exact {
				add(row{f.unit, f.test, what})
			}
		}
	}
	for _, l := range list {
		if l.what != passes {
			add(l) // a group, or a test that is not run
		}
	}
	slices.Sort(lines)
	return []byte(strings.Join(lines, ""))
}
