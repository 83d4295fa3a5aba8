// Scenario: blocks are made again, sealed and written to files beside their readers and writers.

package counter

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterd/counterd/counter/internal/tier"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/persist/vfs"
)

// TestBeside has several goroutines increment, set and delete while blocks are re-packed, sealed and written to files
// beside them and the schema changes. What each item is must be exact, in memory and after a restart.
func TestBeside(t *testing.T) {
	newRand(t)
	sim := vfs.NewSim()
	opts := Options{BlockItems: 256, FS: sim, Manual: true}
	s := openDir(t, "data", opts, "add counter a\nadd column a v hint=2 max=40 suffix=v top=2\nadd column a w hint=8 max=8 suffix=w")
	const writers, keys = 3, 900
	ks := s.data.Spaces[s.Schema().Counter("a").ID][0]
	var reshaped atomic.Int64
	var done atomic.Bool
	var writing, moving sync.WaitGroup
	models := make([]map[string]uint64, writers) // of mids that are w modulo writers
	for w := range writers {
		rng := rand.New(rand.NewPCG(*seed, uint64(w)+1))
		model := map[string]uint64{}
		models[w] = model
		writing.Go(func() {
			for round := 0; round < 3000 || reshaped.Load() < 60; round++ {
				mid := rng.IntN(keys)*writers + w
				key := fmt.Sprintf("%d.v", mid)
				var err error
				switch rng.IntN(8) {
				case 0:
					model[key] = rng.Uint64N(1 << 40)
					err = s.Set(key, model[key])
				case 1:
					delete(model, key)
					_, err = s.do(key, Op{Kind: OpDelete})
				default:
					model[key]++
					_, err = s.Incr(key, 1)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	moving.Go(func() {
		rng := rand.New(rand.NewPCG(*seed, 99))
		for i := 0; !done.Load(); i++ {
			mid, err := rng.Uint64N(keys*writers), error(nil)
			switch rng.IntN(12) {
			case 0:
				err = s.AlterScript(fmt.Sprintf("add column a x%d hint=4 max=20 default=%d suffix=x%d", i, i%3, i))
				if err == nil && i > 50 {
					err = s.AlterScript(fmt.Sprintf("drop column a x%d", i))
				}
			case 1:
				err = s.Admin().Demote("a", mid)
			case 2:
				err = s.Admin().Promote("a", mid)
			case 3:
				err = sealNow(ks, s)
			default:
				plans := tier.RepackPlans
				if rng.IntN(2) == 0 {
					plans = ks.TightenPlans
				}
				if err = s.tiers.ReshapeBeside(ks, mid, plans); err == nil {
					reshaped.Add(1)
				}
			}
			if err != nil && !errors.Is(err, ErrNoBlock) && !errors.Is(err, tier.ErrReshaped) && !errors.Is(err, hot.ErrFull) {
				t.Error(err)
				reshaped.Add(60) // or the writers would wait
				return
			}
		}
	})
	writing.Wait()
	done.Store(true)
	moving.Wait()
	check := func(what string, s *Store) {
		t.Helper()
		for w, model := range models {
			for i := range keys {
				key := fmt.Sprintf("%d.v", i*writers+w)
				got, found, err := s.Get(key)
				want, there := model[key]
				if err != nil || got != want || found != there {
					t.Fatalf("%s: %s: got %d, %v, %v, want %d, %v", what, key, got, found, err, want, there)
				}
			}
		}
	}
	check("running", s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open("data", opts)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	check("restarted", again)
}

// sealNow is sealAhead however many items there are.
func sealNow(ks *block.Keyspace, s *Store) error {
	return s.tiers.ReshapeBeside(ks, hot.EndMid-1, func(cs *block.Columns, b *block.Block) []block.Plan {
		cut, ok := b.Tab.Quantile(1 - block.HeadShare)
		if !ok {
			return nil
		}
		return []block.Plan{cs.Plan(b, b.Lo, cut, 0, block.SealLoad), cs.Plan(b, cut, b.Hi, ks.BlockItems, block.GrowLoad)}
	})
}

// TestSealedAhead: the open block of rising ids is sealed before it is full, by nobody who inserts.
func TestSealedAhead(t *testing.T) {
	s := openDir(t, "", Options{BlockItems: block.AheadLeast}, seedScript)
	defer s.Close()
	ks := s.data.Spaces[s.Schema().Counter("weibo").ID][0]
	n := 0
	for end := time.Now().Add(3 * time.Minute); len(ks.Dir.Load().Blocks) < 3; n++ {
		if err := s.Set(fmt.Sprintf("%d.cntrn", n*1000), uint64(n)); err != nil {
			t.Fatal(err)
		}
		if b := ks.Lock(hot.EndMid - 1); b.Tab.Len() >= ks.AheadAt { // the rest is left for later
			for blocks := ks.Dir.Load(); ks.Dir.Load() == blocks; b = ks.Lock(hot.EndMid - 1) {
				b.Mu.Unlock()
				if time.Now().After(end) {
					t.Fatalf("a block of %d items is not sealed at %d", block.AheadLeast, ks.AheadAt)
				}
				time.Sleep(time.Millisecond)
			}
			b.Mu.Unlock()
		} else {
			b.Mu.Unlock()
		}
	}
	for i := range n {
		if got, found, err := s.Get(fmt.Sprintf("%d.cntrn", i*1000)); err != nil || !found || got != uint64(i) {
			t.Fatalf("post %d: got %d, %v, %v", i*1000, got, found, err)
		}
	}
	for _, b := range ks.Dir.Load().Blocks {
		if !b.Open() && b.Tab.Len() > block.AheadLeast*(block.AheadShare-1)/block.AheadShare {
			t.Errorf("got a sealed block of %d items", b.Tab.Len())
		}
	}
}

// TestReshapeRests: a block that is made again gives way to connections after every 512 items that are counted or copied, and
// after every 256 that changed meanwhile and are carried over, whatever the block's size.
func TestReshapeRests(t *testing.T) {
	const items, step = 16 << 10, 8 * hot.RestBuckets
	s := openDir(t, "data", Options{BlockItems: 2 * items, FS: vfs.NewSim(), Manual: true}, "add counter a\nadd column a v hint=2 max=40 suffix=v top=2")
	defer s.Close()
	for mid := range items {
		if err := s.Set(fmt.Sprintf("%d.v", mid), uint64(mid)); err != nil {
			t.Fatal(err)
		}
	}
	ks := s.data.Spaces[s.Schema().Counter("a").ID][0]
	block := ks.Dir.Load().Find(0)
	block.Packed = time.Time{} // or it would be made in a hurry: it may be full in no time
	const changed = 1000
	rests, carried, begun := 0, 0, false
	s.tiers.Rest = func() {
		block.Mu.Lock()
		left, copied := len(block.Moved), block.Moved != nil
		block.Mu.Unlock()
		if rests++; copied && !begun {
			begun = true
			for mid := range changed {
				if _, err := s.Incr(fmt.Sprintf("%d.v", mid), 1); err != nil {
					t.Error(err)
				}
			}
		} else if begun && left < changed {
			carried++
		}
	}
	if err := s.tiers.ReshapeBeside(ks, 0, tier.RepackPlans); err != nil {
		t.Fatal(err)
	}
	if carried < changed/256-1 {
		t.Errorf("%d rests while %d items were carried, want one behind each 256", carried, changed)
	}
	if want := items / step; rests-carried < want {
		t.Errorf("%d rests while %d items were copied, want %d at least", rests-carried, items, want)
	}
	for mid := range items {
		want := uint64(mid)
		if mid < changed {
			want++
		}
		if got, _, err := s.Get(fmt.Sprintf("%d.v", mid)); err != nil || got != want {
			t.Fatalf("%d: got %d, %v, want %d", mid, got, err, want)
		}
	}
}

// TestDemoteRests: a block that is written to a file gives way to connections while its posts are sorted, too, whatever the block's size.
func TestDemoteRests(t *testing.T) {
	const items, written = 32 << 10, 256 // posts that are written between two rests
	s := openDir(t, "data", Options{BlockItems: items, FS: vfs.NewSim(), Manual: true}, "add counter a\nadd column a v hint=2 max=40 suffix=v")
	defer s.Close()
	for mid := range items + items/8 {
		if err := s.Set(fmt.Sprintf("%d.v", mid*4000), uint64(mid)); err != nil {
			t.Fatal(err)
		}
	}
	ks := s.data.Spaces[s.Schema().Counter("a").ID][0]
	posts := ks.Dir.Load().Find(0).Tab.Len()
	rests := 0
	s.tiers.Rest = func() { rests++ }
	if err := s.Admin().Demote("a", 0); err != nil {
		t.Fatal(err)
	}
	// They are looked at once, and four bytes of their mids are counted and moved.
	if want := posts/written + posts/(8*hot.RestBuckets)/2 + 2*3*(posts/(8<<10)); rests < want {
		t.Errorf("%d rests while %d posts were moved to a file, want %d at least", rests, posts, want)
	}
	for mid := range posts {
		if got, _, err := s.Get(fmt.Sprintf("%d.v", mid*4000)); err != nil || got != uint64(mid) {
			t.Fatalf("%d: got %d, %v, want %d", mid*4000, got, err, mid)
		}
	}
}
