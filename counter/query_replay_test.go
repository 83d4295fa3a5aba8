// Scenario: updates are replayed from the log.

package counter

import (
	"errors"
	"fmt"
	"testing"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/query"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/schema"
)

// TestUpdateReplayed: what random updates change, of one column and of several, in memory and in files, is the same
// when the log is read again.
func TestUpdateReplayed(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	rng := newRand(t)
	s, m, mids := playedStore(t, rng, 12_000)
	for round := range 6 {
		if round%2 == 1 {
			demoteBlocks(t, s)
		}
		for range 20 {
			q := randomQuery(rng, s.Schema().Counter("a"), func() uint64 { return mids[rng.IntN(len(mids))] })
			playUpdate(t, rng, s, q, 100, nil, m["a"], fmt.Sprintf("round %d: %+v", round, q))
		}
	}
	checkStore(t, s, m)
	fs := s.opts.FS
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open("data", Options{BlockItems: 5000, FS: fs, Manual: true})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	checkStore(t, again, m)
}

// TestUpdateDamaged: an update neither deletes what it cannot read nor, if it shall be one change, begins with what lies
// before it.
func TestUpdateDamaged(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	_, s, mids, cold := coldDir(t, 24_000)
	def := s.Schema().Counter("weibo")
	file := s.data.Spaces[def.ID][0].Dir.Load().Find(mids[0]).Cold.File
	const bad = 7
	flip(t, cold, bad<<12+100)
	lo, hi := file.PageStart(bad), file.PageStart(bad+1)
	remove := []Change{{Kind: OpDelete}}
	for _, q := range []query.Query{{Counter: def, From: lo, To: hi - 1}, {Counter: def, Mids: []uint64{lo}, To: schema.MaxMid}} {
		if n, err := s.Update(q, remove, ReturnNothing, nil); n != 0 || !errors.Is(err, block.ErrCold) {
			t.Errorf("a deletion of %d, %v: got %d, %v", q.From, q.Mids, n, err)
		}
	}
	u, err := NewUpdate(query.Query{Counter: def, From: file.PageStart(bad - 1), To: hi}, []Change{{Kind: OpAdd, Arg: 1}}, ReturnNothing)
	if err != nil {
		t.Fatal(err)
	}
	err = s.steps(u.Gather, func() bool { return true })
	if len(u.u.Pending) == 0 || u.Changed() != 0 || !errors.Is(err, block.ErrCold) {
		t.Errorf("one change: got %d items, %d changed, %v", len(u.u.Pending), u.Changed(), err)
	}
}

// TestUpdateWholeFull: an update that is one change begins with no item in memory if one in a file cannot be changed, as there may be no new
// rows. Items in memory alone can be changed.
func TestUpdateWholeFull(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	_, s, mids, _ := coldDir(t, 24_000)
	def := s.Schema().Counter("weibo")
	newest := mids[len(mids)-1]
	before, _, _ := s.Get(fmt.Sprintf("%d.cntcm", newest))
	s.data.Full.Store(true)
	b := s.NewBatch()
	for from, want := range map[uint64]error{mids[0]: ErrMaxMemory, mids[len(mids)-100]: nil} {
		q := query.Query{Counter: def, From: from, To: newest, Desc: true, Mids: []uint64{from, newest}}
		u, err := NewUpdate(q, []Change{{Kind: OpSet, Arg: before + 1}}, ReturnNew)
		if err != nil {
			t.Fatal(err)
		}
		s.data.Full.Store(false) // or Gather refuses it
		if err := s.steps(u.Gather, func() bool { return true }); err != nil {
			t.Fatal(err)
		}
		s.data.Full.Store(true)
		if err := b.BeginExclusive(); err != nil {
			t.Fatal(err)
		}
		err = u.Apply(b)
		b.End()
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
		got, _, _ := s.Get(fmt.Sprintf("%d.cntcm", newest))
		if changed := err == nil; !errors.Is(err, want) || changed != (u.Changed() == 2) || changed != (got == before+1) {
			t.Errorf("from %d: got %v, %d changed, newest %d; want %v", from, err, u.Changed(), got, want)
		}
		if err := s.Set(fmt.Sprintf("%d.cntcm", newest), before); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFoundRowsStay: the rows of a query's last step stay while other queries use the memory that it gave back.
func TestFoundRowsStay(t *testing.T) {
	t.Parallel()
	s := openDir(t, "", Options{Manual: true, BlockItems: 512}, seedScript)
	mids := fill(t, s, 10_000, 3)
	b := s.NewBatch()
	find := func(to uint64, column int16) (*Find, [][]uint64) {
		f, err := NewFind(query.Query{Counter: s.Schema().Counter("weibo"), To: to, Columns: []int16{column, column, column}})
		if err != nil {
			t.Fatal(err)
		}
		for done := false; !done; {
			if err := b.Begin(); err != nil {
				t.Fatal(err)
			}
			done, err = f.Step(b)
			b.End()
			if err != nil {
				t.Fatal(err)
			}
		}
		return f, rowsOf(f.Rows())
	}
	var found [2]*Find
	var rows [2][][]uint64
	for i := range found {
		found[i], rows[i] = find(mids[len(mids)-1-i*3000], int16(i))
	}
	for range 3 {
		find(schema.MaxMid, 2)
	}
	for i, f := range found {
		if got := rowsOf(f.Rows()); len(got) == 0 || !sameRows(got, rows[i]) {
			t.Errorf("query %d: its %d rows have changed", i, len(got))
		}
	}
}
