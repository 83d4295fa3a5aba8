// Scenario: operations of large change sets and transactions are located before they are run, while the store changes.

package counter

import (
	"errors"
	"testing"

	"github.com/counterd/counterd/persist/vfs"
	"github.com/counterd/counterd/schema"
)

// TestLargeChangeSets compares large change sets and transactions with a model. Most are located before they are run (Batch.Locate). Meanwhile
// blocks are split, demoted and promoted, posts come and go, all posts are removed, and a counter is dropped and added again. At last the log is
// read again.
func TestLargeChangeSets(t *testing.T) {
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
			for range 64 + rng.IntN(700) {
				op := Op{Kind: kind, Counter: defs[rng.IntN(len(defs))], Mid: mid() + rng.Uint64N(2), Arg: rng.Uint64N(100)}
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
