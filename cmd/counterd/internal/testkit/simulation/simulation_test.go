// Scenario: whole clusters live through random faults, in virtual time.

//go:build noepoll || !linux

package simulation

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	testseed "github.com/counterd/counterd/internal/testkit/seed"
)

var (
	runs   = flag.Int("runs", 2, "how many runs TestWholeSystem makes, each from the next seed")
	again  = flag.Int("again", 1, "how often each seed is played: the order of goroutines differs")
	story  = flag.Bool("story", false, "print the story of each run as it happens")
	shrink = flag.Bool("shrink", false, "look for the fewest faults that still make a run fail")
)

// stalled is how long one run may take of real time. A goroutine that waits for a lock whose holder sleeps stops the virtual clock.
const stalled = 5 * time.Minute

// result is what came of a run.
type result struct {
	simulated time.Duration
	steps     int // faults that were drawn
	acks      int
	faults    []string
	story     string
	met       map[string]int
}

// TestWholeSystem plays whole clusters through faults.
func TestWholeSystem(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // goroutines run in the same order more often
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	first := testseed.Of(t)
	var simulated time.Duration
	played, steps, acks := 0, 0, 0
	met := map[string]int{}
	began := time.Now()
	for i := range *runs * *again {
		seed := first + uint64(i / *again)
		r := play(t, seed, nil)
		played++
		simulated += r.simulated
		steps += r.steps
		acks += r.acks
		for message, n := range r.met {
			met[message] += n
		}
		if len(r.faults) == 0 {
			continue
		}
		if *shrink {
			r = shrunk(t, seed, r)
		}
		if !*story {
			fmt.Fprintln(os.Stderr, r.story)
		}
		for _, f := range r.faults {
			t.Errorf("seed %d, run %d: %s", seed, played, f)
		}
		break
	}
	if testing.Verbose() {
		for _, message := range slices.Sorted(maps.Keys(met)) {
			t.Logf("%6d %s", met[message], message)
		}
	}
	took := time.Since(began)
	t.Logf("%d runs from seed %d, %d faults, %d answers, %.2f simulated hours in %s: %.4f hours a second",
		played, first, steps, acks, simulated.Hours(), took.Round(time.Millisecond), simulated.Hours()/took.Seconds())
}

// play plays one seed without some of its faults.
func play(t *testing.T, seed uint64, skip map[int]bool) (got result) {
	watch := time.AfterFunc(stalled, func() {
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2)
		panic(fmt.Sprintf("seed %d: the run does not go on", seed))
	})
	defer watch.Stop()
	cryptotest.SetGlobalRandom(t, seed)
	synctest.Test(t, func(t *testing.T) {
		var live io.Writer
		if *story {
			live = os.Stderr
		}
		r := New(seed, live)
		r.Play(skip)
		got = result{simulated: r.now(), steps: r.steps, acks: r.History.Acks(), faults: r.Faults(), story: r.Story.String(), met: r.Story.Met()}
	})
	return got
}

// shrunk plays a run that failed again and again without parts of its faults, ever smaller ones, and keeps to what still fails.
func shrunk(t *testing.T, seed uint64, failed result) result {
	const tries = 3 // of each part: a run is not the same each time
	skip := map[int]bool{}
	for part := max(1, failed.steps/2); ; part /= 2 {
		for from := 1; from <= failed.steps; from += part {
			without := map[int]bool{}
			for n := range skip {
				without[n] = true
			}
			for n := from; n < from+part; n++ {
				without[n] = true
			}
			if len(without) == len(skip) {
				continue
			}
			for range tries {
				if r := play(t, seed, without); len(r.faults) > 0 {
					r.steps = failed.steps // all runs of a seed draw the same faults
					skip, failed = without, r
					break
				}
			}
		}
		if part == 1 {
			break
		}
	}
	t.Logf("%d of %d faults are enough", failed.steps-len(skip), failed.steps)
	return failed
}
