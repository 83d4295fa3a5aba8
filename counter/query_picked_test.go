// Scenario: queries over blocks whose items are copied out as they are packed.

package counter

import (
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/counterd/counterd/counter/internal/query"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/vfs"
	"github.com/counterd/counterd/schema"
)

// narrowRow is a post of narrowStore.
type narrowRow struct{ mid, v, x uint64 }

// narrowStore is a store whose columns are narrow, with its posts in the order of their mids.
func narrowStore(t *testing.T, rng *rand.Rand, items int, groups bool) (*Store, []narrowRow) {
	return spreadStore(t, rng, items, groups, func() uint64 { return 1 + rng.Uint64N(5000) })
}

// spreadStore is narrowStore with other gaps between mids.
func spreadStore(t *testing.T, rng *rand.Rand, items int, groups bool, gap func() uint64) (*Store, []narrowRow) {
	s := openDir(t, "data", Options{BlockItems: 5000, HashSeed: rng.Uint64(), FS: vfs.NewSim(), Manual: true, SlotGroups: groups}, `add counter a
add column a v hint=4 max=20 suffix=v
add column a x hint=1 max=32 suffix=x`)
	var rows []narrowRow
	mid := uint64(1 << 40)
	for range items {
		mid += gap()
		row := narrowRow{mid: mid}
		if rng.IntN(4) == 0 {
			row.v = rng.Uint64N(1 << rng.IntN(20))
		}
		if rng.IntN(30) == 0 {
			row.x = rng.Uint64() >> (32 + rng.IntN(20))
		}
		rows = append(rows, row)
	}
	order := rng.Perm(items / 2) // late posts are in blocks that are closed
	for i := range items {
		if i < len(order) {
			i = order[i]
		}
		setNarrow(t, s, rows[i])
	}
	return s, rows
}

func setNarrow(t *testing.T, s *Store, rows ...narrowRow) {
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		t.Error(err)
	}
	def := b.Schema().Counter("a")
	for _, r := range rows {
		b.Add(Op{Kind: OpSet, Counter: def, Column: 0, Mid: r.mid, Arg: r.v})
		b.Add(Op{Kind: OpSet, Counter: def, Column: 1, Mid: r.mid, Arg: r.x})
	}
	b.Run()
	b.End()
}

// TestQueryPicked compares queries with a loop over all posts: of blocks that are closed, of the first one, whose range begins at 0, and of the open
// one, whose range has no end.
func TestQueryPicked(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	rng := newRand(t)
	s, rows := narrowStore(t, rng, 20_000, false)
	compareQueries(t, rng, s, rows)
}

// TestQueryPickedFar is TestQueryPicked where the first block and the open one have a few posts that are far from all others: their items are
// picked once more, in a form that has room for any mid.
func TestQueryPickedFar(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	rng := newRand(t)
	s, rows := narrowStore(t, rng, 18_000, false)
	for i := range 3 {
		first, last := narrowRow{mid: 5 + rng.Uint64N(1000) + 1000*uint64(i), v: 3}, narrowRow{mid: 1<<61 + rng.Uint64N(1<<58) + uint64(i)<<59, x: 1 << 20}
		setNarrow(t, s, first, last)
		rows = append(slices.Insert(rows, i, first), last)
	}
	compareQueries(t, rng, s, rows)
}

// TestQueryPickedSparse is TestQueryPicked with posts all over the range of mids, some of which are near each other.
func TestQueryPickedSparse(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	rng := newRand(t)
	s, rows := spreadStore(t, rng, 18_000, false, func() uint64 { return 1 + rng.Uint64N(100)<<(rng.IntN(3)*20) })
	compareQueries(t, rng, s, rows)
}

// compareQueries compares random queries with a loop over rows, which are all posts of s.
func compareQueries(t *testing.T, rng *rand.Rand, s *Store, rows []narrowRow) {
	def := s.Schema().Counter("a")
	for range 100 {
		q := query.Query{Counter: def, To: schema.MaxMid, Desc: rng.IntN(2) == 0}
		if rng.IntN(2) == 0 {
			q.From, q.To = rows[rng.IntN(len(rows))].mid, rows[rng.IntN(len(rows))].mid
		}
		if rng.IntN(2) == 0 {
			q.Limit, q.Offset = rng.IntN(1+rng.IntN(3000)), rng.IntN(3)*rng.IntN(1+rng.IntN(2000))
		}
		least := uint64(0)
		if rng.IntN(2) == 0 {
			least = rng.Uint64N(1 << rng.IntN(8))
			q.Where = []query.Condition{{Column: 0, Op: query.GreaterEqual, Value: least}}
		}
		var want []narrowRow
		for _, r := range rows {
			if r.mid >= q.From && r.mid <= q.To && r.v >= least {
				want = append(want, r)
			}
		}
		if q.Desc {
			slices.Reverse(want)
		}
		want = want[min(q.Offset, len(want)):]
		if q.Limit > 0 {
			want = want[:min(q.Limit, len(want))]
		}
		f, err := query.NewFind(q)
		if err != nil {
			t.Fatal(err)
		}
		var got []narrowRow
		stepping(t, s, viewing(f.Step), func() {
			for i := range f.Rows().Len() {
				mid, vals := f.Rows().At(i)
				got = append(got, narrowRow{mid, vals[0], vals[1]})
			}
		})
		if !slices.Equal(got, want) {
			t.Fatalf("%+v: got %d posts, want %d", q, len(got), len(want))
		}
	}
}

// TestQueryWhileMadeAgain has the posts of a block deleted and made again in another order while a query is in it, so that many are at
// other places then. Each is found once, in order.
func TestQueryWhileMadeAgain(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	rng := newRand(t)
	s, rows := narrowStore(t, rng, 20_000, false)
	def := s.Schema().Counter("a")
	for _, desc := range []bool{false, true} {
		f, err := query.NewFind(query.Query{Counter: def, To: schema.MaxMid, Desc: desc})
		if err != nil {
			t.Fatal(err)
		}
		again := 0
		f.Search.Pause = func() {
			if again++; again > 40 {
				return
			}
			blk := f.Search.Blk
			var of []narrowRow
			for _, r := range rows {
				if r.mid >= blk.Lo && r.mid < blk.Hi {
					of = append(of, r)
				}
			}
			b := s.NewBatch() // beside the query's, which is open
			if err := b.Begin(); err != nil {
				t.Error(err)
			}
			for _, r := range of {
				b.Add(Op{Kind: OpDelete, Counter: def, Mid: r.mid})
			}
			b.Run()
			b.End()
			rng.Shuffle(len(of), func(i, k int) { of[i], of[k] = of[k], of[i] })
			setNarrow(t, s, of...)
		}
		last, found := uint64(0), 0
		stepping(t, s, viewing(f.Step), func() {
			for i := range f.Rows().Len() {
				mid, _ := f.Rows().At(i)
				if found > 0 && (mid == last || mid < last != desc) {
					t.Fatalf("desc %v: %d was found behind %d", desc, mid, last)
				}
				last = mid
				found++
			}
		})
		if again == 0 || found == 0 {
			t.Fatalf("desc %v: posts were made again %d times, %d were found", desc, again, found)
		}
	}
}

// TestFindLeavesMemory: a query leaves its memory to later ones, also where its limit ends it within a block.
func TestFindLeavesMemory(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	s, _ := narrowStore(t, newRand(t), 20_000, false)
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // the collector frees memory that no query uses
	for _, desc := range []bool{false, true} {
		least := uint64(math.MaxUint64)
		for range 10 { // the runtime allocates memory of its own, and a pool may have none for another processor
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			found := 0
			q := query.Query{Counter: s.Schema().Counter("a"), To: schema.MaxMid, Desc: desc, Limit: 10}
			if err := s.Find(q, func(uint64, []uint64) bool { found++; return true }); err != nil || found != 10 {
				t.Fatalf("desc %v: found %d posts, %v, want 10", desc, found, err)
			}
			runtime.ReadMemStats(&after)
			least = min(least, after.TotalAlloc-before.TotalAlloc)
		}
		if least > 32<<10 {
			t.Errorf("desc %v: a query takes %d new bytes, want 32 KiB at most", desc, least)
		}
	}
}
