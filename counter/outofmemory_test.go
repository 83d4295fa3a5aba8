// Scenario: memory runs out in the middle of random work.

package counter

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/counterd/counterd/counter/internal/arena"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/vfs"
)

// TestOutOfMemory lets the arena run out of memory in the middle of random work, on hot and cold blocks, of every kind
// of change: one operation, a group, a schema change, a FLUSHALL, a change of tier. What is refused has changed
// nothing, in memory and on disk, and keeps no memory.
func TestOutOfMemory(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	rng := newRand(t)
	runs := 10
	if testing.Short() {
		runs = 3
	}
	refused := map[string]int{}
	for run := range runs {
		sim := vfs.NewSim()
		opts := Options{FS: sim, BlockItems: 16 + rng.IntN(60), HashSeed: rng.Uint64(), Manual: true, SnapshotGrowth: -1, AppendFsync: SyncAlways}
		if run%3 == 0 {
			opts.probes = 2
		}
		s := openDir(t, "data", opts, playSchemaScript)
		added := 0
		for i := range 250 {
			before := dump(t, s)
			if rng.IntN(2) == 0 {
				s.data.Arena.SetLimit(s.data.Arena.Used() + rng.Int64N(6000)*rng.Int64N(2) + 1)
			}
			what, err := "", error(nil)
			mid := func() uint64 { return uint64(max(0, i*3-rng.IntN(300))) }
			switch rng.IntN(12) {
			case 0:
				what, err = "demote", s.Admin().Demote("a", mid())
			case 1:
				what, err = "promote", s.Admin().Promote("a", mid())
			case 2:
				script := ""
				for range min(1+rng.IntN(3), 60-added) {
					script += fmt.Sprintf("add column a x%d hint=4 max=20 default=%d suffix=x%d\nadd counter c%d\nadd column c%d n hint=60 max=64 suffix=c%d\n", added, added%3, added, added, added, added)
					added++
				}
				what, err = "schema", s.AlterScript(script)
			case 3:
				if rng.IntN(4) == 0 {
					b := s.NewBatch()
					if err := b.BeginExclusive(); err != nil {
						t.Fatal(err)
					}
					what, err = "flush", b.Whole().Clear()
					b.End()
					if err := b.Commit(); err != nil { // else a kill may take it back
						t.Fatal(err)
					}
				}
			default:
				b := s.NewBatch()
				if err := b.Begin(); err != nil {
					t.Fatal(err)
				}
				defs := b.Schema().Counters()
				kind := []OpKind{OpSet, OpSet, OpSet, OpDelete}[rng.IntN(4)]
				for range 1 + rng.IntN(12)*rng.IntN(2) {
					def := defs[rng.IntN(len(defs))*rng.IntN(2)]
					b.Add(Op{Kind: kind, Counter: def, Mid: mid(), Column: int16(rng.IntN(len(def.Columns))), Arg: rng.Uint64N(200)})
				}
				b.ChangeSet(0)
				b.Run()
				for i := range b.Len() {
					err = errors.Join(err, b.Op(i).Err)
				}
				b.End()
				what = "group"
				if b.Len() == 1 {
					what = "change"
				}
				if err := b.Commit(); err != nil {
					t.Fatal(err)
				}
			}
			s.data.Arena.SetLimit(0)
			switch {
			case err == nil || errors.Is(err, ErrNoBlock):
			case errors.Is(err, arena.ErrNoMemory):
				refused[what]++
				if after := dump(t, s); !maps.Equal(before, after) {
					t.Fatalf("run %d, step %d: %s was refused, %v, but\n%v\nbecame\n%v", run, i, what, err, before, after)
				}
			default:
				t.Fatalf("run %d, step %d: %s: %v", run, i, what, err)
			}
			checkUsed(t, s, fmt.Sprintf("run %d, step %d: %s, %v", run, i, what, err))
			if i%50 == 0 {
				if err := s.Snapshot(); err != nil {
					t.Fatal(err)
				}
			}
		}
		want := dump(t, s)
		opts.FS = sim.Kill()
		again, err := Open("data", opts)
		if err != nil {
			t.Fatal(err)
		}
		if got := dump(t, again); !maps.Equal(got, want) {
			t.Fatalf("run %d: after a restart %v became %v", run, want, got)
		}
		again.Close()
		s.Close()
	}
	t.Logf("refused: %v", refused)
	if refused["schema"] == 0 || refused["flush"]+refused["group"]+refused["change"] == 0 {
		t.Error("want some of each")
	}
}

// TestNewColumnWithoutMemory sets a column that the block of an absent post does not have yet, without memory to give
// it one: there must be no post then, not one with defaults, which the log would not know of. In one batch that keeps
// the repacker out.
func TestNewColumnWithoutMemory(t *testing.T) {
	for _, tier := range []string{TierHot, TierCold} {
		t.Run(tier, func(t *testing.T) {
			s := openDir(t, "data", Options{FS: vfs.NewSim(), BlockItems: 64, Manual: true}, playSchemaScript)
			for i := range 200 {
				if err := s.Set(fmt.Sprintf("%d.v", i*2), uint64(i)); err != nil {
					t.Fatal(err)
				}
			}
			b := s.NewBatch()
			run := func(op Op) *Op {
				b.Reset()
				op.Counter = b.Schema().Counter("a")
				b.Add(op)
				b.Run()
				return b.Op(0)
			}
			absent := uint64(3)
			if tier == TierCold { // with an overlay, and a post in it that was deleted
				if err := s.Admin().Demote("a", 0); err != nil {
					t.Fatal(err)
				}
				absent = 4
			}
			if err := b.BeginExclusive(); err != nil {
				t.Fatal(err)
			}
			defer b.End()
			if op := run(Op{Kind: OpDelete, Mid: absent}); op.Err != nil {
				t.Fatal(op.Err)
			}
			if err := b.Whole().AlterScript("add column a x hint=8 max=8 default=3 suffix=x"); err != nil {
				t.Fatal(err)
			}
			before := b.Items()
			s.data.Arena.SetLimit(s.data.Arena.Used())
			for _, kind := range []OpKind{OpSet, OpAdd} {
				if op := run(Op{Kind: kind, Mid: absent, Column: 2, Arg: 1}); !errors.Is(op.Err, arena.ErrNoMemory) || op.Done {
					t.Errorf("got %v, done %v, want %v", op.Err, op.Done, arena.ErrNoMemory)
				}
				if op := run(Op{Kind: OpRead, Mid: absent}); op.Found || op.Err != nil || b.Items() != before {
					t.Errorf("the post is there, %v, %v, and %d items, want %d", b.Row(op), op.Err, b.Items(), before)
				}
			}
			s.data.Arena.SetLimit(0)
			if op := run(Op{Kind: OpAdd, Mid: absent, Column: 2, Arg: 1}); op.Err != nil || op.Value != 4 {
				t.Errorf("with memory: got %d, %v, want 4", op.Value, op.Err)
			}
		})
	}
}

// checkUsed verifies all tables, and that the memory in use is that of the blocks. The repacker may be between the two
// for a moment.
func checkUsed(t *testing.T, s *Store, what string) {
	t.Helper()
	var used int64
	var total int
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		b := s.NewBatch()
		if err := b.BeginExclusive(); err != nil {
			t.Fatal(err)
		}
		total = 0
		for ks := range s.data.Keyspaces {
			checkTables(t, ks)
			total += spans(ks)
		}
		used = s.data.Arena.Used()
		b.End()
		if used == int64(total) {
			return
		}
	}
	t.Fatalf("%s: %d bytes in use, the blocks have %d", what, used, total)
}

// TestChangeSetLostRowsNoMemory: a change set deletes posts, some of them on an unreadable page, and memory is short. All posts are deleted or none is,
// however full the overlay becomes. The readable posts took the room that was reserved for the unreadable ones, and these stayed.
func TestChangeSetLostRowsNoMemory(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	dir, s, mids, cold := coldDir(t, 20_000)
	flip(t, cold, 10_000)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openDir(t, dir, Options{Manual: true}, "")
	defer s.Close()
	var lost, good []uint64
	for _, mid := range mids[:10_000] {
		switch _, ok, err := s.Get(fmt.Sprintf("%d.cntrn", mid)); {
		case err != nil:
			lost = append(lost, mid)
		case ok:
			good = append(good, mid)
		}
	}
	if len(lost) < 40 || len(good) < 2000 {
		t.Fatalf("%d posts cannot be read, %d can", len(lost), len(good))
	}
	rng, b := newRand(t), s.NewBatch()
	remove := func(mids ...uint64) (done int, err error) {
		b.Reset()
		must(t, b.Begin())
		for _, mid := range mids {
			b.Add(Op{Kind: OpDelete, Counter: s.Schema().Counter("weibo"), Mid: mid})
		}
		b.ChangeSet(0)
		b.Run()
		for i := range b.Len() {
			if b.Op(i).Done {
				done++
			}
			err = errors.Join(err, b.Op(i).Err)
		}
		b.End()
		return done, errors.Join(err, b.Commit())
	}
	if done, err := remove(good[0]); done != 1 || err != nil {
		t.Fatal(done, err)
	}
	good = good[1:]
	for slots := 0; slots < 200; {
		tab := &s.data.Spaces[s.Schema().Counter("weibo").ID][0].Dir.Load().Find(lost[0]).Tab
		slots = tab.Slots()
		bad := 1 + rng.IntN(2)
		n := int(0.96*float64(slots)) - tab.Len() - rng.IntN(bad) // the overlay has too little room for all
		set := slices.Concat(lost[:bad], good[:n])
		s.data.Arena.SetLimit(s.data.Arena.Used())
		done, err := remove(set...)
		s.data.Arena.SetLimit(0)
		if done > 0 || !errors.Is(err, ErrNoMemory) {
			t.Fatalf("%d unreadable posts and %d others, in an overlay of %d places: %d were deleted, %v", bad, n, slots, done, err)
		}
		if done, err = remove(set...); err != nil || done != len(set) {
			t.Fatalf("with memory, %d of %d were deleted, %v", done, len(set), err)
		}
		lost, good = lost[bad:], good[n:]
	}
}
