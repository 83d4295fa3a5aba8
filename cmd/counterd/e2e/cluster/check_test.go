package cluster

import (
	"path/filepath"
	"reflect"
	"testing"
)

// TestClusterCheck plants a lost increment and a doubled one: the check must see them, and must not see what is in doubt.
func TestClusterCheck(t *testing.T) {
	const base, fresh = 1 << 20, 1 << 40
	for name, c := range map[string]struct {
		value func(w *plainWriter) map[uint64]int64 // what differs from what was acknowledged
		want  found
		bad   bool
	}{
		"all there":         {func(*plainWriter) map[uint64]int64 { return nil }, found{Checked: 20}, false},
		"in doubt and made": {func(w *plainWriter) map[uint64]int64 { return map[uint64]int64{w.post(2): 6, w.fresh(2): 1} }, found{Checked: 20}, false},
		"one lost":          {func(w *plainWriter) map[uint64]int64 { return map[uint64]int64{w.post(1): 4} }, found{Checked: 2, Lost: 1}, true},
		"two doubled":       {func(w *plainWriter) map[uint64]int64 { return map[uint64]int64{w.post(2): 8} }, found{Checked: 3, Doubled: 2}, true},
		"a new post gone":   {func(w *plainWriter) map[uint64]int64 { return map[uint64]int64{w.fresh(0): 0} }, found{Checked: 17, Lost: 1}, true},
		"a refused one":     {func(w *plainWriter) map[uint64]int64 { return map[uint64]int64{w.fresh(1): 1} }, found{Checked: 18, Doubled: 1}, true},
	} {
		w := &plainWriter{base: base, first: fresh, fates: []outcome{outMade, outRefused, outInDoubt, outMade}}
		holds := map[uint64]int64{w.fresh(0): 1, w.fresh(3): 1}
		for i := range w.posts {
			w.posts[i].acked = 5
			holds[w.post(i)] = 5
		}
		w.posts[2].doubt = 1
		for mid, n := range c.value(w) {
			holds[mid] = n
		}
		got, err := w.check(func(mid uint64) (int64, error) { return holds[mid], nil })
		if got != c.want || (err != nil) != c.bad {
			t.Errorf("%s: got %+v, %v, want %+v, an error: %t", name, got, err, c.want, c.bad)
		}
		if !c.bad && (len(w.fates) != 0 || w.first != fresh+4) {
			t.Errorf("%s: new posts are checked again", name)
		}
	}
}

// TestStruckLog reads what was written, so that a run goes on where it was ended.
func TestStruckLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if got := readStruck(t, path); got != nil {
		t.Fatalf("got %v of a file that is not there", got)
	}
	want := []struck{{N: 0, Fault: "a", FirstAck: 1.5, found: found{Checked: 3}}, {N: 1, Fault: "b", Problem: "c\nd", found: found{Lost: 1}}}
	for _, s := range want {
		if err := appendStruck(path, s); err != nil {
			t.Fatal(err)
		}
	}
	if got := readStruck(t, path); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
