package tidy

import (
	"os"
	"path"
	"path/filepath"
	"strings"
)

// checkLedgers: each test that a table of internal/testkit/faults or of internal/testkit/mutations names exists. A commit that renames or removes a test
// changes its row too.
func checkLedgers(t *Tree, report Report) {
	tests := t.tests()
	var files []string
	for _, of := range []string{"faults", "mutations"} {
		found, err := filepath.Glob(filepath.Join(t.Root, "internal", "testkit", of, "*.tsv"))
		if err != nil || len(found) == 0 {
			report("no tables of %s: %v", of, err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			report("%v", err)
		}
		for i, line := range strings.Split(string(data), "\n") {
			for _, name := range testName.FindAllString(line, -1) {
				if !tests[name] {
					report("%s:%d: %s does not exist: change the row, and run make reference", path.Join("internal/testkit", filepath.Base(filepath.Dir(file)), filepath.Base(file)), i+1, name)
				}
			}
		}
	}
}

// tests are the names of all tests, benchmarks and fuzz targets.
func (t *Tree) tests() map[string]bool {
	names := map[string]bool{}
	for _, d := range t.Dirs {
		for _, f := range d.Files {
			for _, name := range f.declares() {
				if testName.MatchString(name) {
					names[name] = true
				}
			}
		}
	}
	return names
}
