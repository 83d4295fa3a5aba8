// Scenario: the pages of a pipeline are read where posts are kept by groups of hash slots.

package counter

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/vfs"
)

// TestPagesByGroup compares pages of random posts with a model: of many groups and of few, hot and cold, of posts that are absent, beside other
// operations, and after changes of the schema. Some operations are located ahead. A few of
// these operations are taken back, and a few blocks become cold before the operations run. Now and then some groups are not owned. A batch of pages alone, of
// one counter, is located group by group.
func TestPagesByGroup(t *testing.T) {
	rng := newRand(t)
	for round := range 12 {
		opts := Options{BlockItems: []int{16, 64, 1000}[round%3], HashSeed: rng.Uint64(), FS: vfs.NewSim(), Manual: true, SlotGroups: round%5 != 0}
		s := openDir(t, "data", opts, "add counter a\nadd column a v hint=2 max=40\nadd column a w hint=1 max=63\nadd counter b\nadd column b x hint=8 max=40")
		if round%4 == 3 {
			if err := s.AlterScript("add column b heat window=1h/5m of=x"); err != nil {
				t.Fatal(err)
			}
		}
		mid := func() uint64 {
			if round%2 == 0 {
				return fewGroups(rng.Uint64N(2000)) // several blocks each
			}
			return 7919 * rng.Uint64N(400)
		}
		posts := map[string]map[uint64][]uint64{"a": {}, "b": {}}
		checkExactRoom(t, s)
		b := s.NewBatch()
		defer b.End() // or a failed test waits for the batch
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		for range 1500 {
			def, n := b.Schema().Counters()[rng.IntN(2)], mid()
			posts[def.Name][n] = make([]uint64, len(def.Columns))
			posts[def.Name][n][0] = n
			b.Add(Op{Kind: OpSet, Counter: def, Mid: n, Column: 0, Arg: n})
		}
		b.Run()
		b.End()
		for step := range 60 {
			owned := slot.AllGroups()
			if rng.IntN(4) == 0 { // mostly groups that no post of the batch is of
				for range rng.IntN(3) {
					owned.Remove([]uint8{3, uint8(rng.IntN(slot.Groups))}[rng.IntN(2)])
				}
			}
			s.Groups().Own(owned)
			if err := b.Begin(); err != nil {
				t.Fatal(err)
			}
			b.Reset()
			type page struct{ from, to int }
			var pages []page
			alone := rng.IntN(2) == 0
			of := b.Schema().Counters()[rng.IntN(2)]
			number, size := 1+rng.IntN(12), 0 // 0: of all sizes
			if rng.IntN(2) == 0 {
				number, size = 5, 20
			}
			for range number {
				def := of
				if !alone && rng.IntN(8) == 0 {
					def = b.Schema().Counters()[rng.IntN(2)]
				}
				from := b.Len()
				known := rng.IntN(2) == 0
				n := size
				if n == 0 {
					n = 1 + rng.IntN(40)
				}
				for range n {
					if mid := mid(); !known {
						b.Add(Op{Kind: OpRead, Counter: def, Mid: mid})
					} else {
						ReadPosts(b, def, []uint64{mid}, []uint8{slot.Group(mid)})
					}
				}
				ReadSet(b, from)
				pages = append(pages, page{from, b.Len()})
				if alone {
					continue
				}
				if rng.IntN(3) != 0 {
					Ahead(b, b.Len())
				}
				if rng.IntN(4) == 0 { // a command that is refused takes back what it has planned
					b.Add(Op{Kind: OpRead, Counter: def, Mid: mid()})
					Ahead(b, b.Len())
					b.Truncate(b.Len() - 1)
				}
				if rng.IntN(4) == 0 { // a change between pages: the next page shows it
					b.Add(Op{Kind: OpAdd, Counter: def, Mid: mid(), Column: 0, Arg: 1 + rng.Uint64N(1000)})
				}
			}
			if rng.IntN(8) == 0 {
				_ = s.Admin().Demote("a", mid())
			}
			if rng.IntN(8) != 0 {
				b.Cold()
			}
			b.Run()
			next := 0
			for i := range b.Len() {
				op := b.Op(i)
				of := posts[op.Counter.Name]
				in := page{i, i + 1}
				for _, p := range pages {
					if i >= p.from && i < p.to {
						in = p
					}
				}
				foreign := func(op Op) bool { return !owned.Has(slot.Group(op.Mid)) }
				if refused := slices.ContainsFunc(b.Ops(in.from, in.to-in.from), foreign); refused != errors.Is(op.Err, ErrNotOwned) || refused && op.Found {
					t.Fatalf("round %d, step %d, operation %d: got %v, want it refused as not owned: %v", round, step, i, op.Err, refused)
				} else if refused {
					continue
				}
				if op.Err != nil {
					t.Fatal(op.Err)
				}
				if op.Kind == OpAdd {
					if of[op.Mid] == nil {
						of[op.Mid] = make([]uint64, len(op.Counter.Columns))
					}
					of[op.Mid][0] += op.Arg
					continue
				}
				want := of[op.Mid]
				row := b.Row(op)
				if (row != nil) != (want != nil) || want != nil && (row[0] != want[0] || len(row) != op.Counter.Width()) {
					t.Fatalf("round %d, step %d, operation %d of %s: got %v, want %v", round, step, i, op.Counter.Name, row, want)
				}
				for next < len(pages) && pages[next].from < i { // it was refused
					next++
				}
				if next < len(pages) && i == pages[next].from {
					p := pages[next]
					next++
					if values, n := b.Rows(b.Ops(p.from, p.to-p.from)); n > 0 && values[0] != row[0] {
						t.Fatalf("the rows of a page begin with %v, want %v", values, row)
					}
				}
			}
			b.End()
			if err := b.Commit(); err != nil {
				t.Fatal(err)
			}
			switch rng.IntN(8) {
			case 0:
				_ = s.Admin().Demote("a", mid()) // there may be no block to demote
			case 1:
				_ = s.Admin().Promote("a", mid())
			case 2:
				for _, line := range []string{"drop column a w", "add column a w hint=1 max=63"} {
					if err := s.AlterScript(line); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
}

// checkExactRoom reads a page in a new batch, which takes no byte too much for its rows: 64 of two columns are 1 KiB.
func checkExactRoom(t *testing.T, s *Store) {
	t.Helper()
	for _, kind := range []OpKind{OpSet, OpRead, OpDelete} {
		b := s.NewBatch()
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		defer b.End() // or a failed test waits for the batch
		for mid := range uint64(64) {
			b.Add(Op{Kind: kind, Counter: b.Schema().Counters()[0], Mid: mid, Arg: 1 + mid})
		}
		b.ChangeSet(0)
		b.Run()
		for i := range b.Len() {
			if op := b.Op(i); op.Err != nil || kind == OpRead && (!op.Found || b.Row(op)[0] != 1+op.Mid) {
				t.Fatalf("operation %d: %+v, row %v", i, op, b.Row(op))
			}
		}
		b.End()
	}
}

// TestPagesByGroupAtomic has change sets give all posts one value while pipelines of pages read them: each page shows one value, and none an older one than
// the page before it.
func TestPagesByGroupAtomic(t *testing.T) {
	rng := newRand(t)
	s := open(t, Options{BlockItems: 16, SlotGroups: true}, "add counter a\nadd column a v hint=2 max=40\nadd column a w hint=1 max=40")
	def := s.Schema().Counter("a")
	mids := make([]uint64, 40)
	for i := range mids {
		mids[i] = rng.Uint64N(1 << 20)
	}
	var done atomic.Bool
	var writing, reading sync.WaitGroup
	write := func(b *Batch, value uint64, order []int) {
		if err := b.Begin(); err != nil {
			t.Error(err)
			return
		}
		defer b.End()
		b.Reset()
		for _, i := range order {
			b.Add(Op{Kind: OpSet, Counter: def, Mid: mids[i], Arg: value})
		}
		b.ChangeSet(0)
		b.Run()
	}
	first := s.NewBatch()
	write(first, 1, rng.Perm(len(mids)))
	writing.Go(func() {
		rng := rand.New(rand.NewPCG(*seed, 1))
		for value := range uint64(3000) {
			write(first, value+2, rng.Perm(len(mids)))
		}
	})
	for who := range uint64(2) {
		reading.Go(func() {
			rng := rand.New(rand.NewPCG(*seed, 2+who))
			b := s.NewBatch()
			for last := uint64(0); !done.Load(); {
				if err := b.Begin(); err != nil {
					t.Error(err)
					return
				}
				b.Reset()
				for range 4 {
					from := b.Len()
					for _, i := range rng.Perm(len(mids)) {
						b.Add(Op{Kind: OpRead, Counter: def, Mid: mids[i]})
					}
					ReadSet(b, from)
				}
				b.Run()
				for i := range b.Len() {
					row := b.Row(b.Op(i))
					if row == nil || row[0] < last || i%len(mids) > 0 && row[0] != last {
						t.Errorf("operation %d: got %v behind %d", i, row, last)
						done.Store(true)
						break
					}
					last = row[0]
				}
				b.End()
			}
		})
	}
	writing.Wait()
	done.Store(true)
	reading.Wait()
}
