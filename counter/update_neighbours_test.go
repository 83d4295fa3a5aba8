// Scenario: an update that is one change goes over neighbouring posts of a block.

package counter

import (
	"fmt"
	"testing"

	"github.com/counterd/counterd/counter/internal/query"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/schema"
)

// TestUpdateNeighbours compares updates that are one change with a loop over all posts, in memory and when the log is read again.
func TestUpdateNeighbours(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	rng := newRand(t)
	for _, groups := range []bool{false, true} {
		s, rows := narrowStore(t, rng, 12_000, groups)
		def := s.Schema().Counter("a")
		b := s.NewBatch()
		changed, unfit := 0, 0
		for range 30 {
			from, least := rng.IntN(len(rows)), rng.Uint64N(3)
			to := min(from+rng.IntN(6000), len(rows)-1)
			q := query.Query{Counter: def, From: rows[from].mid, To: rows[to].mid, Where: []query.Condition{{Column: 0, Op: query.GreaterEqual, Value: least}}}
			add := int64(rng.IntN(1 << (rng.IntN(2) * 19)))
			changes := []Change{{Kind: OpAdd, Column: 0, Arg: uint64(add)}, {Kind: OpSet, Column: 1, Arg: rng.Uint64N(1 << 20)}}
			if rng.IntN(2) == 0 {
				changes = changes[:1]
			}
			ret := Returning(rng.IntN(3))
			u, err := NewUpdate(q, changes, ret)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.steps(u.Gather, func() bool { return true }); err != nil {
				t.Fatal(err)
			}
			if err := b.BeginExclusive(); err != nil {
				t.Fatal(err)
			}
			err = u.Apply(b)
			b.End()
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Commit(); err != nil {
				t.Fatal(err)
			}
			n := 0
			for i := from; i <= to; i++ {
				r := &rows[i]
				if r.v < least {
					continue
				}
				if r.v+uint64(add) >= 1<<20 {
					unfit++
					continue
				}
				old := *r
				if r.v += uint64(add); len(changes) > 1 {
					r.x = changes[1].Arg
				}
				if want := map[Returning]narrowRow{ReturnOld: old, ReturnNew: *r}[ret]; ret != ReturnNothing {
					if mid, vals := u.Rows().At(n); mid != r.mid || vals[0] != want.v || vals[1] != want.x {
						t.Fatalf("%+v: returned %d %v, want %v", q, mid, vals, want)
					}
				}
				n++
			}
			if changed += n; u.Changed() != n || len(u.Mids()) != n {
				t.Fatalf("%+v: changed %d posts, want %d", q, u.Changed(), n)
			}
			if _, err := s.do(fmt.Sprintf("%d.v", rows[from].mid), Op{Kind: OpSet, Arg: 3}); err != nil { // records in between
				t.Fatal(err)
			}
			rows[from].v = 3
		}
		if changed == 0 || unfit == 0 {
			t.Fatalf("%d posts were changed, %d were unfit", changed, unfit)
		}
		checkNarrow(t, s, rows)
		fs := s.opts.FS
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		again, err := Open("data", Options{BlockItems: 5000, FS: fs, Manual: true, SlotGroups: groups})
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		checkNarrow(t, again, rows)
	}
}

// checkNarrow compares a store with rows.
func checkNarrow(t *testing.T, s *Store, rows []narrowRow) {
	t.Helper()
	i := 0
	if err := s.Find(query.Query{Counter: s.Schema().Counter("a"), To: schema.MaxMid}, func(mid uint64, vals []uint64) bool {
		if r := rows[i]; r.mid != mid || r.v != vals[0] || r.x != vals[1] {
			t.Fatalf("post %d: got %d %v, want %v", i, mid, vals, r)
		}
		i++
		return true
	}); err != nil || i != len(rows) {
		t.Fatalf("found %d posts, %v, want %d", i, err, len(rows))
	}
}
