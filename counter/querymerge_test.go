// Scenario: queries over all groups of hash slots, with damage and in windows.

package counter

import (
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/counterd/counterd/counter/internal/query"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/schema"
)

// TestFindGroupDamaged: a query in the order of mids that comes to a page of one group that cannot be read gives what all
// groups have before it, and goes on behind it.
func TestFindGroupDamaged(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir, Options{Manual: true, SlotGroups: true, BlockItems: 2000}, seedScript)
	def := s.Schema().Counter("weibo")
	var mids []uint64
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		t.Fatal(err)
	}
	for i := range uint64(9000) {
		mid := slot.Least([]uint8{slot.Group(0), 3, 200}[i%3], (1<<20+i)*10_000)
		mids = append(mids, mid)
		for c := range int16(3) {
			b.Add(Op{Kind: OpSet, Counter: def, Column: c, Mid: mid, Arg: (i + uint64(c)) * 2654435761 % (1 << 24)})
		}
	}
	b.Run()
	b.End()
	blk := s.data.Spaces[def.ID][3].Dir.Load().Find(mids[1])
	if blk.Open() {
		t.Fatal("the first block of group 3 is open: nothing to demote")
	}
	if err := s.Admin().Demote("weibo", mids[1]); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "cold", "*.cold"))
	if err != nil || len(files) != 1 {
		t.Fatalf("got files %v, %v, want one", files, err)
	}
	file := s.data.Spaces[def.ID][3].Dir.Load().Find(mids[1]).Cold.File
	if file.Pages() < 2 {
		t.Fatal("the file has one page only")
	}
	flip(t, files[0], int64(file.Pages()-1)<<12+10) // the last page may have few bytes
	slices.Sort(mids)
	for _, desc := range []bool{false, true} {
		for _, limit := range []int{0, len(mids)} {
			var found []uint64
			q := query.Query{Counter: def, To: schema.MaxMid, Desc: desc, Limit: limit}
			err := s.Find(q, func(mid uint64, _ []uint64) bool { found = append(found, mid); return true })
			var damage *query.RangeError
			if !errors.As(err, &damage) {
				t.Fatalf("desc %v: got %v, want a range that cannot be read", desc, err)
			}
			want := slices.DeleteFunc(slices.Clone(mids), func(mid uint64) bool {
				return !desc && mid >= damage.Lo || desc && mid < damage.Hi
			})
			if desc {
				slices.Reverse(want)
			}
			if len(want) == 0 || !slices.Equal(found, want) {
				t.Fatalf("desc %v: got %d items before %d..%d, want %d", desc, len(found), damage.Lo, damage.Hi, len(want))
			}
			q.From, q.To, q.Limit = damage.Hi, schema.MaxMid, 0
			if desc {
				q.From, q.To = 0, damage.Lo-1
			}
			rest := 0
			err = s.Find(q, func(uint64, []uint64) bool { rest++; return true })
			left := 0
			for _, mid := range mids {
				if mid >= q.From && mid <= q.To {
					left++
				}
			}
			if err != nil || rest != left {
				t.Fatalf("desc %v: behind it: got %d items, %v, want %d", desc, rest, err, left)
			}
		}
	}
}

// TestFindWindow: the newest few posts of a store made of groups are found without those of all groups being copied, and
// all of them without more than some windows' rows in memory.
func TestFindWindow(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	s, err := Open("", Options{SlotGroups: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.AlterScript(seedScript); err != nil {
		t.Fatal(err)
	}
	mids := fillRows(t, s, 150_000, 1, (*stream).together)
	slices.Sort(mids)
	mids = slices.Compact(mids)
	for _, test := range []struct {
		limit int
		rows  int // copied at a time at most
	}{{10, 4096}, {1000, 16384}, {0, 5 * query.MergedFront / 4}} {
		for _, desc := range []bool{false, true} {
			runtime.GC() // the second time it takes the memory that queries before have left
			runtime.GC()
			f, err := query.NewFind(query.Query{Counter: s.Schema().Counter("weibo"), To: schema.MaxMid, Desc: desc, Limit: test.limit})
			if err != nil {
				t.Fatal(err)
			}
			if test.limit > 0 {
				f.Search.Most = test.limit / 2 // a query leaves its memory at its end
			}
			var found []uint64
			rows := 0
			stepping(t, s, viewing(f.Step), func() {
				rows = max(rows, query.Room(&f.Search.Front))
				for i := range f.Rows().Len() {
					mid, _ := f.Rows().At(i)
					found = append(found, mid)
				}
			})
			want := slices.Clone(mids)
			if desc {
				slices.Reverse(want)
			}
			if test.limit > 0 {
				want = want[:test.limit]
			}
			if !slices.Equal(found, want) {
				t.Errorf("limit %d, desc %v: got %d items that are not the %d wanted", test.limit, desc, len(found), len(want))
			}
			if rows == 0 || rows > test.rows {
				t.Errorf("limit %d, desc %v: %d rows in memory, want %d at most", test.limit, desc, rows, test.rows)
			}
		}
	}
}
