// Scenario: whole clusters live through random faults, in virtual time.

//go:build noepoll || !linux

package simulation

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"sync/atomic"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	testseed "github.com/counterd/counterd/internal/testkit/seed"
)

var (
	runs      = flag.Int("runs", 0, "how many runs each test makes, each from the next seed; 0: two of TestWholeSystem, one of each other")
	again     = flag.Int("again", 1, "how often each seed is played: the order of goroutines differs")
	quieter   = flag.Int("quiet", 0, "how many of a thousand runs are quiet hours of a cluster in production")
	story     = flag.Bool("story", false, "print the story of each run as it happens")
	within    = flag.Duration("within", 0, "begin no run after this time; 0: make all of them")
	onlyScene = flag.String("scene", "", "the scenes of all runs, or none: scenes.go has the names")
	jobs      = flag.Int("jobs", 1, "processes that play beside each other, each a share of the runs")
	shrink    = flag.Bool("shrink", false, "look for the fewest faults that still make a run fail")
)

// stalled is how much real time a run may take for a simulated second, on a busy machine too. A goroutine that waits for a lock whose
// holder sleeps stops the virtual clock.
const stalled = 5 * time.Minute

// quiet tells whether a seed's run is a quiet one.
func quiet(seed uint64) bool { return NewDice(seed, "calm").Chance(*quieter) }

// result is the outcome of a run.
type result struct {
	simulated time.Duration
	steps     int // faults that were drawn
	acks      int
	faults    []string
	story     string
	met       map[string]int
}

// TestWholeSystem plays whole clusters through faults.
func TestWholeSystem(t *testing.T) { playAll(t, *onlyScene) }

// TestDecay plays clusters and primaries with replicas, of which one node each has files that decay, with cold files among them.
func TestDecay(t *testing.T) { playAll(t, "decay") }

// TestSentinelRoles plays primaries with replicas whose roles Sentinel decides about.
func TestSentinelRoles(t *testing.T) { playAll(t, "sentinel") }

// TestFollowedFeed plays systems whose feed of changes a consumer follows through failovers, moves, full copies and kills.
func TestFollowedFeed(t *testing.T) { playAll(t, "feed") }

// TestHangingDisks plays systems whose disks hang and are slow.
func TestHangingDisks(t *testing.T) { playAll(t, "hangs") }

// TestUpgrades plays systems whose nodes have older versions, and are upgraded one by one; some begin with the directory of a release.
func TestUpgrades(t *testing.T) { playAll(t, "upgrades") }

// playAll plays as many runs as it is told, from a seed on.
func playAll(t *testing.T, scene string) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // goroutines run in the same order more often
	// Servers that begin and end make much garbage and keep little, so memory is collected when 256 MiB are used.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(256 << 20))
	first := testseed.Of(t)
	many := *runs
	if many == 0 {
		many = 1
		if scene == *onlyScene {
			many = 2
		}
	}
	if *runs == 0 && scene == "feed" { // make proof-sim searches; this shows that the consumer and the server fit together
		first = 1 + first%8
	}
	began := time.Now()
	var p played
	if *jobs > 1 {
		p = playBeside(t, first, many)
	} else {
		p = playFrom(t, scene, first, many)
	}
	p.report(t, first, time.Since(began))
}

// playFrom plays runs until one of them fails.
func playFrom(t *testing.T, scene string, first uint64, many int) (p played) {
	p.Met = map[string]int{}
	began := time.Now()
	for i := range many * *again {
		if *within > 0 && time.Since(began) > *within {
			break
		}
		seed := first + uint64(i / *again)
		before := processor()
		r := play(t, seed, scene, nil)
		if quiet(seed) {
			p.Quiet.add(r, processor()-before)
		} else {
			p.Dense.add(r, processor()-before)
		}
		for message, n := range r.met {
			p.Met[message] += n
		}
		if len(r.faults) == 0 {
			continue
		}
		if *shrink {
			r = shrunk(t, seed, scene, r)
		}
		if !*story {
			fmt.Fprintln(os.Stderr, r.story)
		}
		for _, f := range r.faults {
			t.Errorf("seed %d, run %d: %s", seed, i+1, f)
		}
		break
	}
	return p
}

// play plays one seed without some of its faults.
func play(t *testing.T, seed uint64, scene string, skip map[int]bool) (got result) {
	var seconds atomic.Int64 // of virtual time
	seen := int64(-1)
	var watch *time.Timer
	watch = time.AfterFunc(stalled, func() {
		if now := seconds.Load(); now != seen {
			seen = now
			watch.Reset(stalled)
			return
		}
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2)
		panic(fmt.Sprintf("seed %d: the run does not go on", seed))
	})
	defer watch.Stop()
	runtime.GC() // empties the pools, in two steps: their zstd coders have channels of the bubble before
	runtime.GC()
	cryptotest.SetGlobalRandom(t, seed)
	synctest.Test(t, func(t *testing.T) {
		var live io.Writer
		if *story {
			live = os.Stderr
		}
		r, err := New(seed, scene, quiet(seed), live)
		if err != nil {
			t.Fatal(err)
		}
		if *runs == 0 && scene != "feed" { // a few runs: the consumer of the feed has a test of its own
			r.Config.Feed, r.Config.Cursor = false, false
		}
		over := make(chan struct{})
		defer close(over)
		go func() {
			for tick := time.NewTicker(time.Second); ; {
				select {
				case <-tick.C:
					seconds.Add(1)
				case <-over:
					return
				}
			}
		}()
		r.Play(skip)
		got = result{simulated: r.over, steps: r.steps, acks: r.History.Acks(), faults: r.Faults(), story: r.Story.String(), met: r.Story.Met()}
	})
	return got
}

// shrunk plays a run that failed again and again without parts of its faults, ever smaller ones, and keeps to what still fails.
func shrunk(t *testing.T, seed uint64, scene string, failed result) result {
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
				if r := play(t, seed, scene, without); len(r.faults) > 0 {
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
