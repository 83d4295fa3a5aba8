// Scenario: changes that a feed has shown survive a power failure at every operation of the file system.

package counter

import (
	"slices"
	"testing"

	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/vfs"
)

// TestFeedCrash reads the feed behind each step of random work, as far as the log is durable, and lets the power fail at every operation
// of the file system: the feed of the next start begins with all changes that were shown, at the same positions, and a reader that goes
// on from the last of them has the posts of the store.
func TestFeedCrash(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	newRand(t)
	runs, points, changes := 1, 0, 0
	if *long {
		runs = 200
	}
	for run := range runs {
		seed := *seed + uint64(run)
		for at := 0; ; at++ {
			sim := vfs.NewSim()
			sim.TornCrashAt(at, []int{0, 50, 100}[at%3])
			p, err := newPlayer(t, seed, sim)
			r := newFeedReader()
			if err == nil { // a log that is kept
				p.opts.RetainBytes = 1 << 30
				if err = p.s.Close(); err == nil {
					err = p.open()
				}
			}
			for i := 0; err == nil && i < 12; i++ {
				switch n := p.rng.IntN(100); {
				case n < 10:
					err = p.s.Snapshot()
				case n < 18:
					if err = p.s.Close(); err == nil {
						err = p.open()
					}
				case n < 24:
					err = p.tier(t)
				case n < 30:
					err = p.clear(t)
				case n < 60:
					err = p.numbered(t)
				default:
					err = p.batch(t)
				}
				if err == nil {
					err = r.read(t, p.s, p.s.data.Log.Durable())
				}
			}
			if !sim.Crashed() {
				if err != nil {
					t.Fatalf("seed %d: no crash, but %v", seed, err)
				}
				p.s.Close()
				changes += len(r.shown)
				break
			}
			for _, left := range []*vfs.Sim{sim.Crash(seed+uint64(at), []int{0, 30, 70, 100}[at%4]), sim.Kill()} {
				feedAfterCrash(t, p, r, left, seed, at)
				points++
			}
			if p.s != nil {
				p.s.Close()
			}
		}
	}
	t.Logf("%d crash points, %d changes", points, changes)
}

func feedAfterCrash(t *testing.T, p *player, r *feedReader, left *vfs.Sim, seed uint64, at int) {
	t.Helper()
	opts := p.opts
	opts.FS, opts.RetainBytes = left, 1<<30
	s, err := Open("data", opts)
	if err != nil {
		t.Fatalf("-seed=%d: crash at operation %d: %v", seed, at, err)
	}
	defer s.Close()
	whole := newFeedReader()
	if err := whole.read(t, s, s.data.Log.Durable()); err != nil {
		t.Fatalf("-seed=%d: crash at operation %d: %v", seed, at, err)
	}
	if n := len(r.shown); n > len(whole.shown) || !slices.Equal(whole.shown[:n], r.shown) {
		t.Fatalf("-seed=%d: crash at operation %d: the feed is %q, and %q was shown", seed, at, whole.shown, r.shown)
	}
	rest := newFeedReader()
	rest.at, rest.sch, rest.posts = r.at, r.sch, r.posts.clone()
	if err := rest.read(t, s, s.data.Log.Durable()); err != nil || !slices.Equal(rest.shown, whole.shown[len(r.shown):]) {
		t.Fatalf("-seed=%d: crash at operation %d: from %s on got %q, %v, want %q", seed, at, r.at, rest.shown, err, whole.shown[len(r.shown):])
	}
	for _, c := range []*feedReader{whole, rest} {
		checkStore(t, s, c.posts)
	}
}
