// Scenario: queries over damaged cold files.

package counter

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/query"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/schema"
)

// TestQueryDamaged: a query stops before a page that cannot be read, with an error that names its mids, and goes on
// behind it; one that the bounds of the page keep from it needs it not, and sees what was set there since.
func TestQueryDamaged(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	_, s, mids, cold := coldDir(t, 24_000)
	def := s.Schema().Counter("weibo")
	file := s.data.Spaces[def.ID][0].Dir.Load().Find(mids[0]).Cold.File
	slices.Sort(mids)
	mids = slices.Compact(mids)
	const bad = 7
	flip(t, cold, bad<<12+100)
	lo, hi := file.PageStart(bad), file.PageStart(bad+1)
	collect := func(q query.Query) (found []uint64, err error) {
		err = s.Find(q, func(mid uint64, _ []uint64) bool { found = append(found, mid); return true })
		return found, err
	}
	all := query.Query{Counter: def, To: schema.MaxMid}
	readable := slices.DeleteFunc(slices.Clone(mids), func(mid uint64) bool { return mid >= lo && mid < hi })
	for _, desc := range []bool{false, true} {
		q := all
		q.Desc = desc
		want := slices.Clone(readable)
		first, err := collect(q)
		var damage *query.RangeError
		if !errors.As(err, &damage) || !errors.Is(err, block.ErrCold) || damage.MidRange != (snapfile.MidRange{Lo: lo, Hi: hi}) {
			t.Fatalf("desc %v: got %v, want the range %d..%d", desc, err, lo, hi)
		}
		if q.From = damage.Hi; desc {
			q.From, q.To = 0, damage.Lo-1
			slices.Reverse(want)
		}
		rest, err := collect(q)
		if got := append(first, rest...); err != nil || !slices.Equal(got, want) {
			t.Fatalf("desc %v: got %d and %d items, %v, want %d", desc, len(first), len(rest), err, len(want))
		}
		if _, _, _, err := s.Aggregate(all, query.Count, 0); !errors.Is(err, block.ErrCold) {
			t.Errorf("count: got %v", err)
		}
		if _, err := s.Top(all, 0, 1_000); err != nil && !errors.Is(err, block.ErrCold) {
			t.Errorf("top: got %v", err)
		}
	}
	// What was set there since is known where only that matters.
	_, most := file.PageBounds(bad, 0)
	large := most + 1
	i, _ := slices.BinarySearch(mids, lo)
	set := mids[i+3]
	if err := s.Set(fmt.Sprintf("%d.cntcm", set), large); err != nil {
		t.Fatal(err)
	}
	q := query.Query{Counter: def, From: lo, To: hi - 1, Where: []query.Condition{{Column: 0, Op: query.GreaterEqual, Value: large}}, Columns: []int16{0}}
	for range 2 {
		if found, err := collect(q); err != nil || !slices.Equal(found, []uint64{set}) {
			t.Errorf("what was set on the damaged page: got %v, %v, want %d", found, err, set)
		}
		q.Desc = true
	}
	q.Columns = nil // one that nobody knows is wanted
	var damage *query.RangeError
	if found, err := collect(q); !errors.As(err, &damage) || len(found) > 0 || damage.MidRange != (snapfile.MidRange{Lo: set, Hi: set + 1}) {
		t.Errorf("with all columns: got %v, %v, want a range of %d alone", found, err, set)
	}
	q.Mids = []uint64{set - 1, set}
	if _, err := collect(q); !errors.Is(err, block.ErrCold) {
		t.Errorf("a list: got %v", err)
	}
	q.Mids, q.Where = nil, []query.Condition{{Column: 0, Op: query.GreaterEqual, Value: math.MaxUint32}}
	if found, err := collect(q); err != nil || len(found) > 0 {
		t.Errorf("what nothing meets: got %v, %v", found, err)
	}
	// An update does not guess either, and changes nothing.
	q.Where = []query.Condition{{Column: 0, Op: query.LessEqual, Value: most}}
	if n, err := s.Update(q, []Change{{Kind: OpAdd, Column: 1, Arg: 1}}, ReturnNothing, nil); n != 0 || !errors.Is(err, block.ErrCold) {
		t.Errorf("an update there: got %d, %v", n, err)
	}
	if err := os.Remove(cold); err != nil {
		t.Fatal(err)
	}
}
