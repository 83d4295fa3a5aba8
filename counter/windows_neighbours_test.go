// Scenario: many additions at a time to columns that windows, sums that decay and top lists follow.

package counter

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/vfs"
)

// TestWatchedNeighbours: pipelines of additions leave columns, windows, sums and lists as additions one by one do. New items, items whose buckets have ended, values out
// of range and decrements are neighbours in a block.
func TestWatchedNeighbours(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	for _, groups := range []bool{false, true} {
		t.Run(fmt.Sprintf("groups=%v", groups), func(t *testing.T) {
			rng := newRand(t)
			p := &windowPlay{t: t, rng: rng, sim: vfs.NewSim(), clock: 1_795_000_000, mids: 150,
				m: &windowModel{posts: map[string]map[uint64]*windowPost{"a": {}, "b": {}}}}
			p.opts = Options{Manual: true, BlockItems: 1 << 10, HashSeed: 1 + rng.Uint64(), SlotGroups: groups, Now: func() time.Time { return time.Unix(p.clock, 0) }}
			p.open()
			defer p.s.Close()
			if err := p.s.repl.AdmitCursors(); err != nil {
				t.Fatal(err)
			}
			if err := p.s.AlterScript(windowSchema); err != nil {
				t.Fatal(err)
			}
			p.m.time = p.clock
			b := p.s.NewBatch()
			for range 300 {
				p.additions(b)
				if rng.IntN(3) > 0 {
					p.tick()
				}
				if rng.IntN(10) == 0 {
					p.check(p.s)
				}
			}
			if err := b.Commit(); err != nil {
				t.Fatal(err)
			}
			p.check(p.s)
			_ = p.s.Close()
			p.open() // by the log
			p.check(p.s)
		})
	}
}

// additions runs up to 64 additions as one batch.
func (p *windowPlay) additions(b *Batch) {
	p.t.Helper()
	rng := p.rng
	b.Reset()
	if err := b.Begin(); err != nil {
		p.t.Fatal(err)
	}
	type expected struct {
		value uint64
		ok    bool
	}
	var want []expected
	name := []string{"a", "a", "a", "b"}[rng.IntN(4)]
	def := b.Schema().Counter(name)
	column := rng.IntN(len(def.Columns))
	for range 1 + rng.IntN(64) {
		if rng.IntN(20) == 0 {
			column = rng.IntN(len(def.Columns))
		}
		mid, arg, limit := p.mid(), int64(1+rng.IntN(2)), def.Columns[column].Limit()
		switch rng.IntN(40) {
		case 0:
			arg = -1
		case 1:
			arg = 1 << 50 // out of range
		case 2:
			arg = rng.Int64N(1 << 12)
		}
		b.Add(Op{Kind: OpAdd, Counter: def, Mid: mid, Column: int16(column), Arg: uint64(arg)})
		was := p.m.posts[name][mid]
		q := p.post(name, mid)
		ok := q.add(column, arg, limit, p.m.time)
		want = append(want, expected{q.values[column], ok})
		if !ok && was == nil {
			delete(p.m.posts[name], mid)
		}
	}
	b.Run()
	for i, e := range want {
		switch op := b.Op(i); {
		case e.ok && (op.Err != nil || !op.Done || op.Value != e.value):
			p.t.Fatalf("addition %d of %d to %s %d: got %d, %v, want %d", i, int64(op.Arg), name, op.Mid, op.Value, op.Err, e.value)
		case !e.ok && (!errors.Is(op.Err, ErrOutOfRange) || op.Done):
			p.t.Fatalf("addition %d of %d to %s %d: got %d, %v, want ErrOutOfRange", i, int64(op.Arg), name, op.Mid, op.Value, op.Err)
		}
	}
	b.End()
}

// TestWatchedNeighboursFull: where memory is full, an addition counts in a window whose item is there, and an addition without an item is refused.
func TestWatchedNeighboursFull(t *testing.T) {
	p := &windowPlay{t: t, sim: vfs.NewSim(), clock: 1_795_000_000}
	p.opts = Options{Manual: true, HashSeed: 1, Now: func() time.Time { return time.Unix(p.clock, 0) }}
	p.open()
	defer p.s.Close()
	if err := p.s.repl.AdmitCursors(); err != nil {
		t.Fatal(err)
	}
	if err := p.s.AlterScript("add counter a\nadd column a v hint=8 max=20\nadd column a v1h window=1h/5m of=v"); err != nil {
		t.Fatal(err)
	}
	run := func(kind OpKind, mids ...uint64) (errs []error) {
		b := p.s.NewBatch()
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		for _, mid := range mids {
			b.Add(Op{Kind: kind, Counter: b.Schema().Counter("a"), Mid: mid, Arg: 1})
		}
		b.Run()
		for i := range mids {
			errs = append(errs, b.Op(i).Err)
		}
		b.End()
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
		return errs
	}
	run(OpSet, 1, 2, 3)
	run(OpAdd, 1, 3)
	p.s.data.Full.Store(true)
	errs := run(OpAdd, 1, 2, 3)
	if errs[0] != nil || !errors.Is(errs[1], ErrMaxMemory) || errs[2] != nil {
		t.Fatalf("got %v, want ErrMaxMemory for the second addition alone", errs)
	}
}
