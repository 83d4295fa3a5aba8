package seed

import (
	"slices"
	"testing"
)

// recorder is a test that may fail.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Failed() bool          { return r.failed }
func (r *recorder) Errorf(string, ...any) { r.failed = true }

// TestRounds: there are as many rounds as were asked for, more until each kind was counted, and an end where one never is.
func TestRounds(t *testing.T) {
	for _, c := range []struct {
		never      bool
		rare, want int
		breaks     bool
	}{{rare: 1, want: 4}, {rare: 9, want: 10}, {never: true, want: 4 * most}, {never: true, want: 2, breaks: true}} {
		r, counts := &recorder{TB: t}, map[string]int{"other": 1}
		var rounds []int
		for round := range Rounds(r, 4, counts, "often", "rare") {
			rounds = append(rounds, round)
			counts["often"]++
			if round == c.rare && !c.never {
				counts["rare"]++
			}
			if c.breaks && round == 1 {
				break
			}
		}
		if len(rounds) != c.want || !slices.IsSorted(rounds) || r.failed != (c.never && !c.breaks) {
			t.Errorf("%+v: rounds %v, failed %v", c, rounds, r.failed)
		}
	}
	failing := &recorder{TB: t}
	n := 0
	for range Rounds(failing, 4, map[string]int{}, "never") {
		n++
		failing.failed = true
	}
	if n != 4 {
		t.Errorf("a test that has failed had %d rounds, want 4", n)
	}
}
