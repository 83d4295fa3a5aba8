package tidy

import (
	"flag"
	"testing"
)

var (
	lower = flag.Bool("lower-breakers", false, "lower the numbers of breakers.txt to what the code needs, and remove rows that it does not need")
	renew = flag.Bool("renew-breakers", false, "write breakers.txt anew, after files or packages were moved or renamed: a review sees what has grown")
)

// A Rule looks at the tree and reports what breaks it.
type Rule struct {
	Name  string
	Check func(tree *Tree, report Report)
}

// Report is told of one fault, as fmt.Sprintf is.
type Report func(format string, args ...any)

// Rules returns all rules.
func Rules() []Rule {
	return []Rule{
		{"top level", topLevel},
		{"floors", checkFloors},
		{"borders", checkBorders},
		{"pure", checkPure},
		{"testkit", checkTestkit},
		{"unused exports", checkExports},
		{"files of a package", checkPackages},
		{"lines of a file", checkLines},
		{"methods of a type", checkMethods},
		{"lists of files", checkLists},
		{"names in comments", checkComments},
		{"ledgers", checkLedgers},
		{"scenarios", checkScenarios},
		{"words", checkWords},
		{"riddles", checkRiddles},
		{"file names", checkFileNames},
		{"race", checkRace},
		{"seams", checkSeams},
		{"clocks", checkClocks},
	}
}

// Run runs every rule as a subtest on the tree at root.
func Run(t *testing.T, root string) {
	tree, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range Rules() {
		t.Run(rule.Name, func(t *testing.T) {
			t.Helper()
			rule.Check(tree, t.Errorf)
		})
	}
	if *lower || *renew {
		if err := tree.breakers.write(root, *renew); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range tree.breakers.loose() {
		t.Log(line)
	}
}
