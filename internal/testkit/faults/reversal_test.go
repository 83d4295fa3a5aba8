package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestReversed: in a small tree, a reversal is found by a failing test and by an endless one. Reversals without a failing
// test, with an error of the compiler and without a place in the tree are reported, and the run goes on.
func TestReversed(t *testing.T) {
	root := t.TempDir()
	patch := func(old, text string) string {
		return "Why.\n--- a/x.go\n+++ b/x.go\n@@ -3 +3 @@\n-" + old + "\n+" + text + "\n"
	}
	const one = "func one() int { return 1 }"
	for name, text := range map[string]string{
		"go.mod":                "module x\n\ngo 1.24\n",
		"x.go":                  "package x\n\n" + one + "\n",
		"x_test.go":             "package x\n\nimport \"testing\"\n\nfunc TestOne(t *testing.T) {\n\tif one() < 1 {\n\t\tt.Fail()\n\t}\n}\n",
		dir + "/breaks/1.patch": patch(one, "func one() int { return 0 }"),
		dir + "/breaks/2.patch": patch(one, "func one() int { select {} }"),
		dir + "/breaks/3.patch": patch(one, "func one() int { return 2 }"),
		dir + "/breaks/4.patch": patch(one, "func one() int { return zero }"),
		dir + "/breaks/5.patch": patch("func two() int { return 2 }", one),
		dir + "/breaks/6.patch": patch(one, "var zero = 0\n+\n+func one() int { return zero }"), // not a function alone: in a copy
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tests, err := Tests(root)
	if err != nil {
		t.Fatal(err)
	}
	var faults []Fault
	for n := 1; n <= 7; n++ { // 7 has no patch
		faults = append(faults, Fault{N: n, Tests: []string{"TestOne"}})
	}
	results, err := openRecord("", "now")
	if err != nil {
		t.Fatal(err)
	}
	r := runner{root: root, tests: tests, limit: 5 * time.Second, quiet: true}
	if err := r.reversed(faults, results); err == nil || !strings.Contains(err.Error(), "3 of 6") {
		t.Errorf("the run says %v, want that 3 of 6 are not found", err)
	}
	want := map[int]Shown{1: found, 2: hangs, 3: missed, 4: unfit, 5: unfit, 6: found}
	for n, shown := range want {
		if got := results.got[n]; got.Shown != shown {
			t.Errorf("reversal %d: %v, want %s", n, got, shown)
		}
	}
	if len(results.got) != len(want) {
		t.Errorf("%d results, want %d", len(results.got), len(want))
	}
}

// TestReversedLater: a reversal with a result of an earlier run is not run again.
func TestReversedLater(t *testing.T) {
	root := t.TempDir()
	results, err := openRecord("", "now")
	if err != nil {
		t.Fatal(err)
	}
	results.got[1] = Result{N: 1, Shown: found}
	name := patchFile(root, 1)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte("No patch."), 0o644)); err != nil {
		t.Fatal(err)
	}
	if err := (runner{root: root}).reversed([]Fault{{N: 1, Tests: []string{"TestNone"}}}, results); err != nil {
		t.Error(err)
	}
}
