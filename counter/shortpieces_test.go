// Scenario: commands on very many posts work in short pieces, between which others have their turn.

package counter

import (
	"runtime"
	"testing"

	"github.com/counterd/counterd/schema"
)

// storeOfMany is a store with so many posts of three columns.
func storeOfMany(t *testing.T, n int) (*Store, *schema.Counter, []uint64) {
	s := openDir(t, t.TempDir(), Options{SnapshotGrowth: -1}, seedScript)
	mids := fill(t, s, n, 3)
	return s, s.Schema().Counter("weibo"), mids
}

// TestQueryGivesWay: a query lets others have their turn for longer behind seven pauses at most, while it holds no lock.
func TestQueryGivesWay(t *testing.T) {
	s, def, mids := storeOfMany(t, 40_000)
	f, err := NewFind(Query{Counter: def, To: schema.MaxMid})
	if err != nil {
		t.Fatal(err)
	}
	pauses, most, ways, found := 0, 0, 0, 0
	f.q.Search.Pause = func() {
		pauses++
		most = max(most, pauses)
	}
	f.GiveWay(func() {
		ways++
		pauses = 0
		blk := f.q.Search.Blk
		if !blk.Mu.TryLock() {
			t.Fatal("the block is locked meanwhile")
		}
		blk.Mu.Unlock()
	})
	stepping(t, s, f.Step, func() { found += f.Rows().Len() })
	if found != len(mids) || ways == 0 || most > 7 {
		t.Errorf("%d of %d posts, %d longer pauses, and %d others behind each other, want at most seven", found, len(mids), ways, most)
	}
}

// TestGatherStaysShort: an update that is one change finds its posts, and looks at them, in steps of some hundred posts.
func TestGatherStaysShort(t *testing.T) {
	s, def, mids := storeOfMany(t, MaxGathered)
	u, err := NewUpdate(Query{Counter: def, To: schema.MaxMid}, []Change{{Kind: OpAdd, Column: 0, Arg: 1}}, ReturnNothing)
	if err != nil {
		t.Fatal(err)
	}
	steps := 0
	stepping(t, s, u.Gather, func() { steps++ })
	if least := len(mids)/1024 + len(mids)/512; steps < least {
		t.Errorf("%d posts were gathered in %d steps, want at least %d", len(mids), steps, least)
	}
	b := s.NewBatch()
	if err := b.BeginExclusive(); err != nil {
		t.Fatal(err)
	}
	err = u.Apply(b)
	if b.End(); err != nil || u.Changed() != len(mids) {
		t.Errorf("%d of %d posts were changed, %v", u.Changed(), len(mids), err)
	}
}

// TestLongReadTakesOldMemory: the rows of a long read are written to memory that an earlier one has left. The collector, and the race detector, may
// take it, so it is tried more than once.
func TestLongReadTakesOldMemory(t *testing.T) {
	const posts = 20_000
	s, def, mids := storeOfMany(t, posts)
	rows := uint64(8 * posts * def.Width())
	b, least := s.NewBatch(), ^uint64(0)
	for range 20 {
		if b.Reset(); b.Begin() != nil {
			t.Fatal("the store is closed")
		}
		b.Grow(posts)
		for _, mid := range mids {
			b.Add(Op{Kind: OpRead, Counter: def, Mid: mid})
		}
		b.ChangeSet(0)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		done, err := b.RunLong(func() {})
		runtime.ReadMemStats(&after)
		values, n := b.Rows(b.Ops(0, posts))
		if b.End(); !done || err != nil || n != posts || len(values) != posts*def.Width() {
			t.Fatalf("%d rows, %v, %v", n, done, err)
		}
		if least = min(least, after.TotalAlloc-before.TotalAlloc); least < rows/4 {
			return
		}
	}
	t.Errorf("each of twenty reads of %d bytes of rows took %d bytes of new memory or more", rows, least)
}
