// Scenario: queries over hot, cold and changing blocks.

package counter

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/counterd/counterd/counter/internal/core"

	"github.com/counterd/counterd/counter/internal/query"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/vfs"
	"github.com/counterd/counterd/schema"
)

const blocksScript = `add counter a
add column a v hint=4 max=20 suffix=v
add column a w hint=8 max=64 default=9 suffix=w
add column a x hint=1 max=32 suffix=x
add counter b
add column b n hint=1 max=1 suffix=n`

// playedStore is a store with several blocks of several pages each, and what it holds.
func playedStore(t testing.TB, rng *rand.Rand, items int) (*Store, model, []uint64) {
	opts := Options{BlockItems: 5000, HashSeed: rng.Uint64(), FS: vfs.NewSim(), Manual: true}
	return playedStoreOf(t, rng, items, opts, func(mid uint64) uint64 { return mid })
}

func playedStoreOf(t testing.TB, rng *rand.Rand, items int, opts Options, place func(mid uint64) uint64) (*Store, model, []uint64) {
	s := openDir(t, "data", opts, blocksScript)
	m := model{"a": {}, "b": {}}
	var mids []uint64
	b := s.NewBatch()
	mid := uint64(1 << 40)
	for len(mids) < items {
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		b.Reset()
		def := b.Schema().Counter("a")
		for range 500 {
			mid += 1 + rng.Uint64N(5000)
			row := map[string]uint64{"v": 0, "w": 9, "x": 0}
			if rng.IntN(4) == 0 {
				row["v"] = rng.Uint64N(1 << rng.IntN(20))
			}
			if len(mids)/5000%3 == 1 { // some blocks without small ones
				row["v"] |= 1 << 12
			}
			if rng.IntN(2) == 0 {
				row["w"] = rng.Uint64() >> (1 + rng.IntN(62))
			}
			if rng.IntN(300) == 0 {
				row["x"] = rng.Uint64() >> (32 + rng.IntN(20))
			}
			mid := place(mid)
			mids = append(mids, mid)
			m["a"][mid] = row
			for i, c := range def.Columns {
				b.Add(Op{Kind: OpSet, Counter: def, Column: int16(i), Mid: mid, Arg: row[c.Name]})
			}
		}
		b.Run()
		b.End()
		for i := range b.Len() {
			if err := b.Op(i).Err; err != nil {
				t.Fatal(err)
			}
		}
	}
	return s, m, mids
}

// demoteBlocks makes all blocks cold but the last.
func demoteBlocks(t testing.TB, s *Store) {
	t.Helper()
	for _, blk := range s.data.Spaces[s.Schema().Counter("a").ID][0].Dir.Load().Blocks {
		if err := s.Admin().Demote("a", blk.Lo); err != nil && !errors.Is(err, ErrNoBlock) {
			t.Fatal(err)
		}
	}
}

// TestQueryBlocks runs random queries on blocks of many pages, hot, cold, and cold with overlays, with the schema
// changing, and compares with the model.
func TestQueryBlocks(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	rng := newRand(t)
	items, rounds := 12_000, 8
	if *long {
		items, rounds = 25_000, 30
	}
	for _, slotGroups := range []bool{false, true} {
		opts := Options{BlockItems: 5000, HashSeed: rng.Uint64(), FS: vfs.NewSim(), Manual: true}
		place := func(mid uint64) uint64 { return mid }
		if slotGroups {
			opts.BlockItems, opts.SlotGroups, place = 2000, true, fewGroups
		}
		s, m, mids := playedStoreOf(t, rng, items, opts, place)
		playQueries(t, rng, s, m, mids, rounds/2)
	}
}

func playQueries(t *testing.T, rng *rand.Rand, s *Store, m model, mids []uint64, rounds int) {
	added := 0
	for round := range rounds {
		if round%20 == 10 {
			playSchema(t, rng, s, m, &added)
		}
		for range rng.IntN(3) {
			playTiers(t, rng, s, mids[rng.IntN(len(mids))])
		}
		for range 20 {
			playBatch(t, rng, s, m, func() uint64 {
				if rng.IntN(4) == 0 {
					mids = append(mids, mids[rng.IntN(len(mids))]+rng.Uint64N(100))
					return mids[len(mids)-1]
				}
				return mids[rng.IntN(len(mids))]
			})
		}
		for range 3 {
			playQuery(t, rng, s, m, func() uint64 { return mids[rng.IntN(len(mids))] })
		}
	}
	checkStore(t, s, m)
}

// TestQuerySkips counts the pages that queries read: the bounds keep them from nearly all where few items are met.
func TestQuerySkips(t *testing.T) {
	racetest.Skip(t, "the test drives the store itself, call after call")
	rng := newRand(t)
	s, m, _ := playedStore(t, rng, 40_000)
	demoteBlocks(t, s)
	def := s.Schema().Counter("a")
	pages := 0
	for _, blk := range s.data.Spaces[def.ID][0].Dir.Load().Blocks {
		if blk.Cold != nil {
			pages += blk.Cold.File.Pages()
		}
	}
	first := func(q query.Query, n int) (found int, read int) {
		f, err := query.NewFind(q)
		if err != nil {
			t.Fatal(err)
		}
		stepping(t, s, viewing(f.Step), func() { found += f.Rows().Len() })
		return found, f.Search.Read
	}
	all := query.Query{Counter: def, To: schema.MaxMid}
	if found, read := first(all, 0); found != len(m["a"]) || read < pages || read > pages+pages/4 {
		t.Errorf("all items: got %d of %d, %d pages read of %d", found, len(m["a"]), read, pages)
	}
	for _, desc := range []bool{false, true} {
		for _, test := range []struct {
			what  string
			where []query.Condition
			most  float64 // share of the pages
		}{
			{"the largest x", []query.Condition{{Column: 2, Op: query.Greater, Value: 1 << 31}}, 0.3},
			{"not in all blocks", []query.Condition{{Column: 0, Op: query.Less, Value: 1 << 12}}, 0.8},
			{"no such x", []query.Condition{{Column: 2, Op: query.Greater, Value: 1<<32 - 1}}, 0},
			{"impossible", []query.Condition{{Column: 1, Op: query.GreaterEqual, Value: 1 << 63}}, 0},
		} {
			q := all
			q.Where, q.Desc = test.where, desc
			found, read := first(q, 0)
			if want := len(modelFind(q, m["a"])); found != want {
				t.Errorf("%s: got %d items, want %d", test.what, found, want)
			}
			if share := float64(read) / float64(pages); share > test.most {
				t.Errorf("%s: read %d of %d pages, want %.2f of them at most", test.what, read, pages, test.most)
			}
		}
	}
	top, err := query.NewTop(all, 2, 5)
	if err != nil {
		t.Fatal(err)
	}
	stepping(t, s, viewing(top.Step), func() {})
	if top.Search.Read > pages/2 {
		t.Errorf("the top 5 of x: read %d of %d pages, want half of them at most", top.Search.Read, pages)
	}
}

// TestQueryWhileReplaced has the block that a query is in replaced whenever it lets go of its lock, by one with
// other places or by a file. Nothing is skipped, nothing is doubled.
func TestQueryWhileReplaced(t *testing.T) {
	s, m, mids := playedStore(t, newRand(t), 12_000)
	def := s.Schema().Counter("a")
	ks := s.data.Spaces[def.ID][0]
	for _, desc := range []bool{false, true} {
		for _, replaced := range []int{1, 3} {
			f, err := query.NewFind(query.Query{Counter: def, To: schema.MaxMid, Desc: desc})
			if err != nil {
				t.Fatal(err)
			}
			var got []uint64
			pauses := 0
			f.Search.Pause = func() {
				if pauses++; pauses%2 == 0 || pauses > 2*replaced {
					return
				}
				blk := f.Search.Blk
				switch {
				case pauses == 3 && !blk.Open():
					if err := s.Admin().Demote("a", blk.Lo); err != nil {
						t.Error(err)
					}
				default:
					blk, err := ks.Repack(ks.Lock(blk.Lo), blk.Lo)
					if blk.Mu.Unlock(); err != nil {
						t.Error(err)
					}
				}
				b := s.NewBatch() // beside the query's, which is open
				if err := b.Begin(); err != nil {
					t.Error(err)
				}
				for _, mid := range mids {
					if mid >= blk.Lo && mid < blk.Hi {
						m["a"][mid]["x"] = uint64(100 + pauses)
						b.Add(Op{Kind: OpSet, Counter: def, Column: 2, Mid: mid, Arg: uint64(100 + pauses)})
					}
				}
				b.Run()
				b.End()
			}
			stepping(t, s, viewing(f.Step), func() {
				for i := range f.Rows().Len() {
					mid, vals := f.Rows().At(i)
					if got = append(got, mid); vals[2] != m["a"][mid]["x"] {
						t.Fatalf("desc %v: %d: got %d, as it was before its block was replaced, want %d", desc, mid, vals[2], m["a"][mid]["x"])
					}
				}
			})
			if want := modelFind(f.Search.Query, m["a"]); pauses == 0 || !slices.Equal(got, want) {
				t.Fatalf("desc %v: got %d items, want %d, after %d pauses", desc, len(got), len(want), pauses)
			}
		}
	}
}

// TestQueryConcurrent runs queries while others change, make and delete items, blocks change their tier, split and are
// re-packed, and columns come and go. Items that nobody touches must be found exactly once if they meet the query, what
// is found must meet it, and come in order.
func TestQueryConcurrent(t *testing.T) {
	rng := newRand(t)
	items, queries := 6_000, 20
	if *long {
		items, queries = 12_000, 60
	}
	s, m, mids := playedStore(t, rng, items)
	still := map[uint64]map[string]uint64{}
	var moving []uint64
	for i, mid := range mids {
		if i%3 == 0 {
			moving = append(moving, mid, mid+1)
		} else {
			still[mid] = m["a"][mid]
		}
	}
	for mid := range still { // the neighbours of others may be among them
		moving = slices.DeleteFunc(moving, func(m uint64) bool { return m == mid })
		break
	}
	moving = slices.DeleteFunc(moving, func(m uint64) bool { _, is := still[m]; return is })
	var stop atomic.Bool
	var wg sync.WaitGroup
	background := func(f func(rng *rand.Rand) error) {
		seed := rng.Uint64()
		wg.Add(1)
		go func() {
			defer wg.Done()
			rng := rand.New(rand.NewPCG(seed, 1))
			for !stop.Load() {
				if err := f(rng); err != nil {
					t.Error(err)
					return
				}
			}
		}()
	}
	background(func(rng *rand.Rand) error {
		b := s.NewBatch()
		if err := b.Begin(); err != nil {
			return err
		}
		defer b.End()
		def := b.Schema().Counter("a")
		for range 20 {
			op := Op{Kind: []OpKind{OpSet, OpAdd, OpDelete, OpReset}[rng.IntN(4)], Counter: def, Column: int16(rng.IntN(3)), Mid: moving[rng.IntN(len(moving))]}
			op.Arg = rng.Uint64() >> (44 + rng.IntN(20))
			b.Add(op)
		}
		b.Run()
		return nil
	})
	background(func(rng *rand.Rand) error {
		mid := mids[rng.IntN(len(mids))]
		var err error
		switch rng.IntN(5) {
		case 0:
			err = s.Admin().Promote("a", mid)
		case 1: // as if its table were full
			ks := s.data.Spaces[s.Schema().Counter("a").ID][0]
			b := s.NewBatch()
			if err := b.Begin(); err != nil {
				return err
			}
			blk := ks.Lock(mid)
			blk, err = ks.Repack(blk, mid)
			blk.Mu.Unlock()
			b.End()
		default:
			err = s.Admin().Demote("a", mid)
		}
		if errors.Is(err, ErrNoBlock) {
			err = nil
		}
		return err
	})
	columns := 0
	background(func(rng *rand.Rand) error {
		if columns++; columns > 40 { // ids of columns are not endless
			return nil
		}
		if err := s.AlterScript(fmt.Sprintf("add column a y%d hint=4 max=30 suffix=y%d", columns, columns)); err != nil {
			return err
		}
		return s.AlterScript(fmt.Sprintf("drop column a y%d", columns))
	})
	defer func() {
		stop.Store(true)
		wg.Wait()
	}()
	def := s.Schema().Counter("a")
	def = &schema.Counter{ID: def.ID, Name: def.Name, Columns: def.Columns[:3], Layout: def.Layout}
	for range queries {
		q := randomQuery(rng, def, func() uint64 { return mids[rng.IntN(len(mids))] })
		q.Limit, q.Offset, q.Columns = 0, 0, nil
		what := fmt.Sprintf("%+v", q)
		want := modelFind(q, still)
		f, err := query.NewFind(q)
		if err != nil {
			t.Fatal(err)
		}
		f.Search.Most = []int{10, 1000}[rng.IntN(2)]
		at, n, last := 0, 0, uint64(0)
		stepping(t, s, viewing(f.Step), func() {
			for i := range f.Rows().Len() {
				mid, vals := f.Rows().At(i)
				if n > 0 && (mid <= last) != q.Desc || mid < q.From || mid > q.To {
					t.Fatalf("%s: %d behind %d", what, mid, last)
				}
				last = mid
				n++
				for _, c := range q.Where {
					if !meets(c, vals[c.Column]) {
						t.Fatalf("%s: found %d %v", what, mid, vals)
					}
				}
				row, is := still[mid]
				if !is {
					continue
				}
				if at == len(want) || want[at] != mid {
					t.Fatalf("%s: found %d as number %d, want %v", what, mid, at, want[min(at, len(want)):][:min(1, len(want)-at)])
				}
				at++
				if vals[0] != row["v"] || vals[1] != row["w"] || vals[2] != row["x"] {
					t.Fatalf("%s: found %d %v, want %v", what, mid, vals, row)
				}
			}
		})
		if at != len(want) {
			t.Fatalf("%s: found %d of %d items that nobody touches", what, at, len(want))
		}
		k := 1 + rng.IntN(50)
		top, err := query.NewTop(q, 0, k)
		if err != nil {
			t.Fatal(err)
		}
		stepping(t, s, viewing(top.Step), func() {})
		got := map[uint64]bool{}
		worst := query.Ranked{}
		for i := range top.Rows().Len() {
			mid, vals := top.Rows().At(i)
			if row, is := still[mid]; got[mid] || is && row["v"] != vals[0] {
				t.Fatalf("%s: top %d: %d %v, want %v", what, i, mid, vals, row)
			}
			got[mid], worst = true, query.Ranked{Value: vals[0], Mid: mid}
		}
		for _, mid := range want {
			if r := (query.Ranked{Value: still[mid]["v"], Mid: mid}); !got[mid] && (len(got) < k || worst.Below(r)) {
				t.Fatalf("%s: the top %d lack %d with %d", what, k, mid, r.Value)
			}
		}
		hi, lo, _, err := s.Aggregate(q, query.Count, 0)
		if err != nil || hi != 0 || lo < uint64(len(want)) || lo > uint64(len(want)+2*len(moving)) {
			t.Fatalf("%s: counted %d, %v; %d that nobody touches", what, lo, err, len(want))
		}
	}
}

// TestQueryShowsCold: what a query sees of a cold block's overlay is not told before the log holds it, be it there when
// the query came to the block, or put there while it read the file.
func TestQueryShowsCold(t *testing.T) {
	s, m, mids := playedStore(t, newRand(t), 12_000)
	demoteBlocks(t, s)
	def := s.Schema().Counter("a")
	file := s.data.Spaces[def.ID][0].Dir.Load().Find(mids[0]).Cold.File
	if file.Pages() < 3 {
		t.Fatalf("%d pages", file.Pages())
	}
	fresh := uint64(77) // a value that no post has
	for slices.ContainsFunc(mids, func(mid uint64) bool { return m["a"][mid]["x"] == fresh }) {
		fresh++
	}
	change := func(page int) {
		unwritten(t, s, func(b *Batch) {
			b.Add(Op{Kind: OpSet, Counter: def, Column: 2, Mid: file.PageStart(page), Arg: fresh})
			b.Run()
		})
	}
	b := s.NewBatch()
	var ack Ack // of what the step has seen
	step := func(f *query.Find) (values []uint64) {
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		for done := false; !done && len(values) == 0; { // a step may end at once where others want the processor
			var err error
			if done, err = f.Step((*core.View)(b)); err != nil {
				t.Fatal(err)
			}
			for i := range f.Rows().Len() {
				if _, vals := f.Rows().At(i); vals[0] == fresh {
					values = append(values, vals[0])
				}
			}
		}
		b.End()
		b.Defer(&ack)
		return values
	}
	q := query.Query{Counter: def, From: file.PageStart(1), To: schema.MaxMid, Columns: []int16{2}, Where: []query.Condition{{Column: 2, Op: query.Equal, Value: fresh}}}
	only, err := query.NewFind(q)
	if err != nil {
		t.Fatal(err)
	}
	change(1)
	if seen := step(only); len(seen) != 1 || !ack.Pending() {
		t.Errorf("the overlay alone: seen %v, told before the log has it", seen)
	}
	if err := ack.Commit(); err != nil {
		t.Fatal(err)
	}
	q.Where = nil
	f, err := query.NewFind(q)
	if err != nil {
		t.Fatal(err)
	}
	f.Search.Most = 1 // a page a step
	change(1)
	if seen := step(f); len(seen) != 1 || !ack.Pending() {
		t.Errorf("what was there: seen %v, told before the log has it", seen)
	}
	if err := ack.Commit(); err != nil {
		t.Fatal(err)
	}
	change(2)
	if seen := step(f); len(seen) != 1 || !ack.Pending() {
		t.Errorf("what came meanwhile: seen %v, told before the log has it", seen)
	}
	if err := ack.Commit(); err != nil {
		t.Fatal(err)
	}
}
