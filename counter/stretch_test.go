// Scenario: neighbouring changes are logged together, in the order of their effects, beside others in the same blocks.

package counter

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// TestStretchOrder: of several goroutines whose batches change the same posts in many small blocks, which are split and
// packed again meanwhile, the log has the changes of each post in the order in which they were made: the values of a
// column that is only added to come one by one, and what is set and deleted ends as it is in memory. A kill at any write
// leaves that for the beginning of the log, with all that was acknowledged.
func TestStretchOrder(t *testing.T) {
	const workers, posts = 4, 300
	sim := vfs.NewSim()
	opts := Options{FS: sim, HashSeed: 1, BlockItems: 16, SnapshotGrowth: -1}
	s := openDir(t, "data", opts, "add counter a\nadd column a sum hint=4 max=63 suffix=sum\nadd column a last hint=8 max=63 suffix=last")
	t.Logf("-seed=%d", *seed)
	var mu sync.Mutex
	acked := make(map[uint64]uint64) // the least that sum is, by post
	killed, least := []vfs.FS{}, []map[uint64]uint64{}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(*seed, uint64(w)))
			b := s.NewBatch()
			made := make(map[uint64]uint64)
			for n := range 300 {
				if err := b.Begin(); err != nil {
					t.Error(err)
					return
				}
				c := b.Schema().Counter("a")
				b.Reset()
				for range 1 + rng.IntN(80) {
					mid := 1000 * rng.Uint64N(posts)
					switch rng.IntN(20) {
					case 0: // by its own posts, so that sums are not deleted
						b.Add(Op{Kind: OpDelete, Counter: c, Mid: mid + 1})
					case 1, 2, 3:
						b.Add(Op{Kind: OpSet, Counter: c, Column: 1, Mid: mid + rng.Uint64N(2), Arg: rng.Uint64() >> (2 + rng.IntN(60))})
					case 4:
						op := b.Next()
						*op = Op{Kind: OpGet, Counter: c, Mid: mid}
					default:
						b.Add(Op{Kind: OpAdd, Counter: c, Mid: mid, Arg: 1})
					}
				}
				b.Run()
				for i := range b.Len() {
					op := b.Op(i)
					if op.Err != nil {
						t.Errorf("post %d: %v", op.Mid, op.Err)
					}
					if op.Kind == OpAdd {
						made[op.Mid] = max(made[op.Mid], op.Value)
					}
				}
				b.End()
				kill := w == 0 && n%30 == 0
				if rng.IntN(4) > 0 && !kill {
					continue
				}
				if err := b.Commit(); err != nil {
					t.Error(err)
				}
				mu.Lock()
				for mid, v := range made {
					acked[mid] = max(acked[mid], v)
				}
				if clear(made); kill {
					least, killed = append(least, maps.Clone(acked)), append(killed, sim.Kill())
				}
				mu.Unlock()
			}
			if err := b.Commit(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	want := dump(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if len(killed) == 0 {
		t.Fatal("nothing was killed")
	}
	check := func(what string, fsys vfs.FS, least map[uint64]uint64) {
		t.Helper()
		sums := make(map[uint64]uint64)
		_, err := logfile.Walk(fsys, "data", 0, 0, logfile.Visitor{Record: func(_ *format.Frame, pos uint64, rec *format.Record) error {
			if rec.Kind != format.KindSet || rec.Column != 1 {
				return nil
			}
			if sums[rec.Mid]++; rec.Value != sums[rec.Mid] {
				return fmt.Errorf("post %d at log offset %d: got %d, want %d", rec.Mid, pos, rec.Value, sums[rec.Mid])
			}
			return nil
		}})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for mid, v := range least {
			if sums[mid] < v {
				t.Errorf("%s: post %d has %d, and %d was acknowledged", what, mid, sums[mid], v)
			}
		}
	}
	check("the whole log", sim, acked)
	for i, fsys := range killed {
		check(fmt.Sprint("kill ", i), fsys, least[i])
	}
	opened := openDir(t, "data", opts, "")
	if got := dump(t, opened); !maps.Equal(got, want) {
		t.Errorf("replayed: got\n%v\nwant\n%v", got, want)
	}
}
