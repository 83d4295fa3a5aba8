// Scenario: the newest few posts of a store made of groups of hash slots, by the lists of the groups.

package counter

import (
	"slices"
	"testing"

	"github.com/counterd/counterd/counter/internal/query"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/schema"
)

// newestMids are the mids of a query, and how many blocks were searched for them.
func newestMids(t *testing.T, s *Store, q query.Query) (found []uint64, into int) {
	t.Helper()
	f, err := query.NewFind(q)
	if err != nil {
		t.Fatal(err)
	}
	stepping(t, s, viewing(f.Step), func() {
		for i := range f.Rows().Len() {
			mid, _ := f.Rows().At(i)
			found = append(found, mid)
		}
	})
	return found, f.Search.Into
}

// TestFindNewest asks for the newest few posts, with conditions and without, page by page, while posts come late, are deleted and come
// again, ranges are sealed and demoted, and the store is opened again. The newest are found without a look at any table.
func TestFindNewest(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	rng := newRand(t)
	dir := t.TempDir()
	opts := Options{Manual: true, SlotGroups: true, BlockItems: 64, HashSeed: rng.Uint64()}
	s := openDir(t, dir, opts, seedScript)
	values := map[uint64]uint64{} // of the first column
	next := uint64(1 << 40)
	change := func(kind OpKind, mid, value uint64) {
		b := s.NewBatch()
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		b.Add(Op{Kind: kind, Counter: b.Schema().Counter("weibo"), Mid: mid, Arg: value})
		b.Run()
		b.End()
		if err := b.Op(0).Err; err != nil {
			t.Fatal(err)
		}
	}
	set := func(mid uint64) {
		values[mid] = rng.Uint64N(10)
		change(OpSet, mid, values[mid])
	}
	mids := func() (all []uint64) {
		for mid := range values {
			all = append(all, mid)
		}
		slices.Sort(all)
		return all
	}
	check := func() {
		t.Helper()
		q := query.Query{Counter: s.Schema().Counter("weibo"), To: schema.MaxMid, Desc: true, Limit: 1 + rng.IntN(40)}
		least := uint64(0)
		if rng.IntN(2) == 0 {
			least = rng.Uint64N(11)
			q.Where = []query.Condition{{Column: 0, Op: query.GreaterEqual, Value: least}}
		}
		all := mids()
		if rng.IntN(3) == 0 {
			q.To = all[len(all)-1-rng.IntN(min(len(all), 2000))]
		}
		if rng.IntN(3) == 0 {
			q.Offset = rng.IntN(50)
		}
		if rng.IntN(5) == 0 {
			q.From = all[len(all)-1-rng.IntN(min(len(all), 60))]
		}
		if rng.IntN(5) == 0 {
			q.NotMids = all[max(0, len(all)-20):]
		}
		var want []uint64
		for i := len(all) - 1; i >= 0; i-- {
			if mid := all[i]; mid >= q.From && mid <= q.To && values[mid] >= least && !slices.Contains(q.NotMids, mid) {
				want = append(want, mid)
			}
		}
		want = want[min(q.Offset, len(want)):]
		want = want[:min(q.Limit, len(want))]
		if got, _ := newestMids(t, s, q); !slices.Equal(got, want) {
			t.Fatalf("%d posts, %+v: got %d mids %v, want %d %v", len(all), q, len(got), got, len(want), want)
		}
	}
	for round := range 45 {
		for range 400 {
			next += 1 + rng.Uint64N(2000)
			switch mid := next; rng.IntN(10) {
			case 0:
				set(mid - rng.Uint64N(100_000))
			default:
				set(mid)
			}
		}
		all := mids()
		for range 20 {
			mid := all[len(all)-1-rng.IntN(min(len(all), 100))]
			delete(values, mid)
			change(OpDelete, mid, 0)
			if rng.IntN(4) == 0 {
				set(mid)
			}
		}
		switch round % 15 {
		case 7:
			for _, mid := range mids() {
				if rng.IntN(50) == 0 {
					_ = s.Admin().Demote("weibo", mid) // of an open range: it is refused
				}
			}
		case 12:
			if err := s.Snapshot(); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = openDir(t, dir, opts, "")
		}
		for range 10 {
			check()
		}
	}
}

// TestFindNewestLists: the newest posts are found page by page without a look at the table of any group, also behind a start.
func TestFindNewestLists(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	dir := t.TempDir()
	s := openDir(t, dir, Options{Manual: true, SlotGroups: true}, seedScript)
	mids := fillRows(t, s, 20_000, 1, (*stream).together)
	slices.Sort(mids)
	mids = slices.Compact(mids)
	slices.Reverse(mids)
	for range 2 {
		q := query.Query{Counter: s.Schema().Counter("weibo"), To: schema.MaxMid, Desc: true, Limit: 20}
		for page := range 100 {
			found, into := newestMids(t, s, q)
			if into != 0 || !slices.Equal(found, mids[20*page:][:20]) {
				t.Fatalf("page %d: %d blocks were searched, want none; got %d posts", page, into, len(found))
			}
			q.To = found[19] - 1
		}
		if err := s.Snapshot(); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openDir(t, dir, Options{Manual: true, SlotGroups: true}, "")
	}
}
