package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPlanted: each row has a patch that applies to the tree as it is and begins with a sentence, and each patch of planted has a row.
func TestPlanted(t *testing.T) {
	root, _, _ := ledger(t)
	list, err := ReadPlanted(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 20 {
		t.Errorf("got %d planted faults, want 20 at least", len(list))
	}
	stale := 0
	for i, p := range list {
		if _, err := patched(root, p.file(root)); err != nil {
			stale++
			t.Logf("%s no longer applies: write it anew.\n%v", p.Patch, err)
		}
		if what, err := p.sentence(root); err != nil || !strings.HasSuffix(what, ".") {
			t.Errorf("%s begins with %q, want a sentence: %v", p.Patch, what, err)
		}
		if slices.ContainsFunc(list[:i], func(o Planted) bool { return o.Patch == p.Patch }) {
			t.Errorf("%s has two rows", p.Patch)
		}
	}
	if stale > staleBreaks {
		t.Errorf("%d patches no longer apply, want %d at most", stale, staleBreaks)
	}
	files, err := os.ReadDir(filepath.Join(root, filepath.FromSlash(dir), "planted"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if name, ok := strings.CutSuffix(f.Name(), ".patch"); !ok || !slices.ContainsFunc(list, func(p Planted) bool { return p.Patch == name }) {
			t.Errorf("planted/%s has no row in planted.tsv", f.Name())
		}
	}
}

// TestPlayed: the simulation's output says whether a fault was found, in which run and how.
func TestPlayed(t *testing.T) {
	for _, c := range []struct {
		out    string
		failed bool
		want   string
	}{
		{"    x_test.go:81: seed 7, run 3: {100}.n: a | b\n", true, "run 3, seed 7"},
		{"panic: seed 3: the run does not go on\n", true, "the process ended"},
		{"    x_test.go:84: 20 runs from seed 1 in 3s: 0.1 simulated hours a second\nPASS\n", false, "not in 20 runs"},
		{"PASS\n", false, ""},
		{"", true, ""},
	} {
		came, err := judge([]byte(c.out), c.failed)
		if err == nil != (c.want != "") || err == nil && came.String() != c.want {
			t.Errorf("%q is %s, %v; want %q", c.out, came, err, c.want)
		}
	}
}
