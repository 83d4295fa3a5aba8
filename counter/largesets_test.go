// Scenario: operations of large change sets and transactions are located before they are run, while the store changes.

package counter

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/vfs"
	"github.com/counterd/counterd/schema"
)

// TestLargeChangeSets compares large change sets and transactions with a model. Most are located before they are run (Batch.Locate). Meanwhile
// blocks are split, demoted and promoted, posts come and go, all posts are removed, and a counter is dropped and added again. At last the log is
// read again.
func TestLargeChangeSets(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	const script = "add counter a\nadd column a v hint=2 max=40 suffix=v\nadd column a w hint=4 max=20 default=3"
	const other = "add counter b\nadd column b x hint=2 max=30 top=3"
	rng := newRand(t)
	for _, groups := range []bool{false, true} {
		fs := vfs.NewSim()
		opts := Options{BlockItems: 48, FS: fs, Manual: true, SlotGroups: groups, SnapshotGrowth: -1}
		s := openDir(t, "data", opts, script+"\n"+other)
		m := model{"a": {}, "b": {}}
		mid := func() uint64 { return rng.Uint64N(1<<9) << 8 }
		beside := s.NewBatch()
		small := func(kind OpKind, n int) {
			must(t, beside.Begin())
			beside.Reset()
			for range n {
				def := s.Schema().Counter([]string{"a", "b"}[rng.IntN(2)])
				beside.Add(Op{Kind: kind, Counter: def, Mid: mid() + rng.Uint64N(2), Column: 0, Arg: rng.Uint64N(1 << 20)})
			}
			beside.Run()
			beside.End()
			must(t, beside.Commit())
			for i := range beside.Len() {
				checkOp(t, beside, beside.Op(i), m)
			}
		}
		disturb := func() {
			counter := []string{"a", "b"}[rng.IntN(2)]
			switch rng.IntN(24) {
			case 0, 1, 2:
				small(OpSet, 40)
			case 3, 4:
				small(OpDelete, 40)
			case 5, 6, 7, 8:
				change := s.Admin().Promote
				if rng.IntN(3) == 0 {
					change = s.Admin().Demote
				}
				if err := change(counter, mid()); err != nil && !errors.Is(err, ErrNoBlock) {
					t.Fatal(err)
				}
			case 9:
				must(t, beside.BeginExclusive())
				err := beside.Whole().Clear()
				beside.End()
				must(t, err)
				must(t, beside.Commit())
				m["a"], m["b"] = map[uint64]map[string]uint64{}, map[uint64]map[string]uint64{}
			case 10:
				must(t, s.AlterScript("drop counter b\n"+other))
				m["b"] = map[uint64]map[string]uint64{}
			}
		}
		b := s.NewBatch()
		deleted, anew := 0, 0
		for round := 0; round < 400 || (deleted < 50 || anew < 5) && round < 20_000; round++ {
			b.Reset()
			names := s.Schema()
			defs := []*schema.Counter{names.Counter("a"), names.Counter("b")}[:1+rng.IntN(2)]
			kind := []OpKind{OpDelete, OpDelete, OpSet, OpAdd, OpSetRow}[rng.IntN(5)]
			exclusive := rng.IntN(4) == 0
			present := map[string][]uint64{} // if not nil, posts that are there
			if kind != OpDelete && rng.IntN(2) == 0 {
				defs = defs[:1]
				present["a"] = slices.Sorted(maps.Keys(m["a"]))
				for _, mid := range present["a"] {
					if err := s.Admin().Promote("a", mid); err != nil && !errors.Is(err, ErrNoBlock) {
						t.Fatal(err)
					}
				}
			}
			for range 64 + rng.IntN(700) {
				op := Op{Kind: kind, Counter: defs[rng.IntN(len(defs))], Mid: mid() + rng.Uint64N(2), Arg: rng.Uint64N(100)}
				if there := present[op.Counter.Name]; len(there) > 0 {
					op.Mid = there[rng.IntN(len(there))]
				}
				if exclusive && rng.IntN(2) == 0 {
					op.Kind = []OpKind{OpDelete, OpSet, OpAdd, OpRead, OpReset}[rng.IntN(5)]
				}
				if op.Kind == OpSetRow {
					op = randomRow(rng, b, op.Counter, op.Mid)
					if !rowOf(&op).fits(op.Counter) {
						continue
					}
				}
				b.Add(op)
			}
			if !exclusive {
				b.ChangeSet(0)
			}
			if rng.IntN(4) > 0 {
				b.Locate(names, disturb)
				disturb()
			}
			begin := b.Begin
			if exclusive {
				begin = b.BeginExclusive
			}
			if must(t, begin()); b.Schema() != names { // the operations are of columns of the past
				b.End()
				anew++
				continue
			}
			b.Run()
			b.End()
			must(t, b.Commit())
			for i := range b.Len() {
				op := b.Op(i)
				if op.Kind == OpDelete && op.Done {
					deleted++
				}
				checkOp(t, b, op, m)
			}
			if round%20 == 0 {
				checkStore(t, s, m)
			}
		}
		checkStore(t, s, m)
		must(t, s.Close())
		s = openDir(t, "data", opts, "")
		checkStore(t, s, m)
		must(t, s.Close())
	}
}

// TestLargeSetRefused: one of many values that posts are given is too large for its column, or one of the posts is not there and there is no room for it. No
// post is changed.
func TestLargeSetRefused(t *testing.T) {
	s := open(t, Options{BlockItems: 128}, seedScript)
	def := s.Schema().Counter("weibo")
	b := s.NewBatch()
	set := func(posts int, arg func(i int) uint64) (errs int) {
		b.Reset()
		for i := range posts {
			b.Add(Op{Kind: OpSet, Counter: def, Mid: uint64(1000 + i), Arg: arg(i)})
		}
		b.ChangeSet(0)
		b.Locate(s.Schema(), func() {})
		must(t, b.Begin())
		b.Run()
		b.End()
		must(t, b.Commit())
		for i := range b.Len() {
			if op := b.Op(i); op.Err != nil {
				errs++
			}
		}
		return errs
	}
	const posts = 1000
	if n := set(posts, func(i int) uint64 { return uint64(i) }); n != 0 {
		t.Fatalf("%d errors", n)
	}
	for _, wrong := range []int{0, posts / 2, posts - 1} {
		if n := set(posts, func(i int) uint64 {
			if i == wrong {
				return 1 << 33
			}
			return 7
		}); n != 1 {
			t.Errorf("post %d: %d errors", wrong, n)
		}
	}
	s.data.Full.Store(true)
	if n := set(posts+1, func(int) uint64 { return 7 }); n != 1 {
		t.Errorf("a post more than there is room for: %d errors", n)
	}
	for i := range posts {
		if v, found, err := s.Get(fmt.Sprintf("%d.cntcm", 1000+i)); v != uint64(i) || !found || err != nil {
			t.Fatalf("post %d: got %d, %v, %v", i, v, found, err)
		}
	}
	if n := set(posts, func(i int) uint64 { return uint64(i + 1) }); n != 0 {
		t.Fatalf("%d errors", n)
	}
	if v, _, _ := s.Get("1001.cntcm"); v != 2 {
		t.Errorf("got %d, want 2", v)
	}
}
