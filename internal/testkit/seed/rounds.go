package seed

import (
	"iter"
	"slices"
	"testing"
)

// most is the number of times its rounds that a test plays before it fails. A kind of event that one round in five has is then missing
// in one run of 10^15 with eight rounds, and in one of 10^7 with four.
const most = 20

// Rounds yields the numbers of a random test's rounds: count of them, and then more, while counts lacks one of the kinds. Chance
// decides what a round has, so a fixed number of rounds would lack something now and then. The test fails if some
// kind is missing after 20 times as many rounds.
func Rounds(t testing.TB, count int, counts map[string]int, kinds ...string) iter.Seq[int] {
	return func(yield func(int) bool) {
		t.Helper()
		missing := func() []string {
			return slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool { return counts[kind] > 0 })
		}
		for round := 0; round < count || round < most*count && !t.Failed() && len(missing()) > 0; round++ {
			if !yield(round) {
				return
			}
		}
		if none := missing(); len(none) > 0 {
			t.Errorf("there was no %q: %v", none, counts)
		}
	}
}
