// Scenario: the counts of derived columns go from a backup to a store that has the posts.

package counter

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
	"github.com/counterd/counterd/schema"
)

const restoredSchema = "add counter a\nadd column a v hint=3 max=20 suffix=v\nadd column a w hint=8 max=40 default=2 suffix=w\n" +
	"add column a vw window=10m/1m of=v top=3\nadd column a wd window=60s/1s of=w\nadd column a heat decay=5m of=v*1000+w top=4\n"

// restoredBegin is the time of the log of a backup at first.
const restoredBegin = 1_795_000_000

// restored is a backup, and a store into which it is restored.
type restored struct {
	t        *testing.T
	rng      *rand.Rand
	from, to *Store
	opts     Options // of to
	clock    int64   // of both, in seconds since 1970
	mids     []uint64
}

// newRestored makes a backup with additions of the last minutes, and a store with other ids in its schema and with no post yet.
func newRestored(t *testing.T, rng *rand.Rand) *restored {
	t.Helper()
	r := &restored{t: t, rng: rng, clock: restoredBegin}
	open := func(script string) (*Store, Options) {
		opts := Options{FS: vfs.NewSim(), BlockItems: 16 + rng.IntN(100), HashSeed: 1 + rng.Uint64(), Manual: true, AppendFsync: SyncAlways, SlotGroups: rng.IntN(2) == 0,
			Now: func() time.Time { return time.Unix(r.clock, 0) }}
		s, err := Open("data", opts)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.AlterScript(script + restoredSchema); err != nil {
			t.Fatal(err)
		}
		return s, opts
	}
	r.from, _ = open("")
	r.to, r.opts = open("add counter b\nadd column b v hint=3 max=20 suffix=bv\nadd column b vw window=1d/1h of=v suffix=bw\ndrop column b vw\n")
	for range 300 {
		r.mids = append(r.mids, rng.Uint64N(1<<20)*rng.Uint64N(1<<20))
	}
	slices.Sort(r.mids)
	r.mids = slices.Compact(r.mids)
	now := int64(restoredBegin)
	for range 20 {
		now += rng.Int64N(70)
		r.tick(r.from, now)
		for range 50 {
			r.add(r.from, one(rng, r.mids))
		}
	}
	return r
}

func one(rng *rand.Rand, mids []uint64) uint64 { return mids[rng.IntN(len(mids))] }

func (r *restored) tick(s *Store, now int64) {
	r.t.Helper()
	if err := s.Windows().Tick(time.Unix(now, 0), nil); err != nil {
		r.t.Fatal(err)
	}
}

// run runs an operation on counter a.
func (r *restored) run(s *Store, op Op) Op {
	r.t.Helper()
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		r.t.Fatal(err)
	}
	defer b.End()
	op.Counter = b.Schema().Counter("a")
	b.Add(op)
	if b.Run(); b.Op(0).Err != nil {
		r.t.Fatal(b.Op(0).Err)
	}
	return *b.Op(0)
}

func (r *restored) add(s *Store, mid uint64) {
	r.run(s, Op{Kind: OpAdd, Mid: mid, Column: int16(r.rng.IntN(2)), Arg: 1 + r.rng.Uint64N(9)})
}

// values are the values of derived columns of posts, and their lists.
func (r *restored) values(s *Store) (list []string) {
	r.t.Helper()
	def := s.Schema().Counter("a")
	for i := range def.Derived {
		col := int16(len(def.Columns) + i)
		for _, mid := range r.mids {
			if op := r.run(s, Op{Kind: OpGet, Mid: mid, Column: col}); op.Value > 0 {
				list = append(list, fmt.Sprint(def.Derived[i].Name, mid, op.Value))
			}
		}
		top, err := s.Top(Query{Counter: def, To: schema.MaxMid}, col, 3)
		if err != nil {
			r.t.Fatal(err)
		}
		for n := range top.Len() {
			if mid, values := top.At(n); values[0] > 0 { // else they are any of those without additions
				list = append(list, fmt.Sprint("top", n, def.Derived[i].Name, mid, values[0]))
			}
		}
	}
	return list
}

// restore sets the pieces of all derived columns, until one of them is number last.
func (r *restored) restore(last int) (taken int) {
	r.t.Helper()
	def, all := r.from.Schema().Counter("a"), slot.AllGroups()
	for i := range def.Derived {
		err := r.from.Groups().Derived(all, def, &def.Derived[i], func(p *DerivedPiece) error {
			if last--; last < 0 {
				return nil
			}
			n, _, err := r.to.Groups().SetDerived(all, p)
			taken += n
			return err
		})
		if err != nil {
			r.t.Fatal(err)
		}
	}
	return taken
}

// TestSetDerived restores the counts of derived columns, a while later: each post counts as much as the backup's would at that time, and
// the lists of the largest say the same. The restore is ended in the middle and begun again, in a store that has counted other things meanwhile; neither doubles
// anything. A restart says the same.
func TestSetDerived(t *testing.T) {
	rng := newRand(t)
	for range 20 {
		r := newRestored(t, rng)
		for _, mid := range r.mids {
			r.run(r.to, Op{Kind: OpSet, Mid: mid, Arg: 1})
		}
		begun, later := r.from.Windows().Time(), int64(700)
		r.tick(r.to, begun+r.rng.Int64N(20))
		if r.rng.IntN(2) == 0 { // the restore takes the place of other counts
			mid := one(r.rng, r.mids)
			r.run(r.from, Op{Kind: OpAdd, Mid: mid, Arg: 1})
			r.run(r.from, Op{Kind: OpAdd, Mid: mid, Column: 1, Arg: 1})
			for range 5 {
				r.add(r.to, mid)
				r.tick(r.to, r.to.Windows().Time()+2)
			}
			later = 20
		}
		if from, to := r.from.Schema().Counter("a"), r.to.Schema().Counter("a"); from.Derived[0].Space.ID == to.Derived[0].Space.ID {
			t.Fatal("the ids are the same")
		}
		r.restore(r.rng.IntN(5))
		r.tick(r.to, r.to.Windows().Time()+r.rng.Int64N(later))
		if taken := r.restore(math.MaxInt); taken == 0 {
			t.Fatal("nothing was restored")
		}
		r.tick(r.from, r.to.Windows().Time())
		want := r.values(r.from)
		if got := r.values(r.to); !slices.Equal(got, want) {
			t.Fatalf("%d s later there is\n%v\nwant\n%v", r.to.Windows().Time()-begun, got, want)
		}
		close1(t, r.to)
		var err error
		if r.to, err = Open("data", r.opts); err != nil {
			t.Fatal(err)
		}
		if got := r.values(r.to); !slices.Equal(got, want) {
			t.Fatalf("after a restart there is\n%v\nwant\n%v", got, want)
		}
		close1(t, r.to)
		close1(t, r.from)
	}
}

// TestSetDerivedBehind restores into a store that was stopped before the backup was made. The store's own counts have gone when the time of its log moves on. The
// restored ones, which are newer than that time, count.
func TestSetDerivedBehind(t *testing.T) {
	r := newRestored(t, newRand(t))
	defer close1(t, r.from)
	defer close1(t, r.to)
	r.tick(r.to, restoredBegin)
	for _, mid := range r.mids {
		r.run(r.to, Op{Kind: OpSet, Mid: mid, Arg: 1})
		r.add(r.to, mid)
	}
	r.tick(r.from, r.from.Windows().Time()+3*60*60)
	for range 50 {
		r.add(r.from, one(r.rng, r.mids))
	}
	r.clock = r.from.Windows().Time() + 1
	r.restore(math.MaxInt)
	r.tick(r.to, r.clock)
	r.tick(r.from, r.clock)
	if got, want := r.values(r.to), r.values(r.from); !slices.Equal(got, want) {
		t.Fatalf("there is\n%v\nwant\n%v", got, want)
	}
}

// TestSetDerivedLater: posts that are not there get no counts, and nothing counts any more when all windows have gone, also where the kept bits of an old
// bucket's number stand for a new one.
func TestSetDerivedLater(t *testing.T) {
	r := newRestored(t, newRand(t))
	defer close1(t, r.from)
	defer func() { close1(t, r.to) }()
	r.tick(r.to, r.from.Windows().Time())
	if taken := r.restore(math.MaxInt); taken != 0 {
		t.Errorf("%d posts that are not there have counts", taken)
	}
	for _, mid := range r.mids {
		r.run(r.to, Op{Kind: OpSet, Mid: mid, Arg: 1})
	}
	r.tick(r.to, r.from.Windows().Time()+60<<16)
	if taken := r.restore(math.MaxInt); taken != 0 {
		t.Errorf("%d posts have counts, want none", taken)
	}
	if got := r.values(r.to); got != nil {
		t.Errorf("got %v, want nothing", got)
	}
}

// TestSetDerivedRefused: pieces of other groups, of columns that are not there, and damaged ones change nothing.
func TestSetDerivedRefused(t *testing.T) {
	r := newRestored(t, newRand(t))
	defer close1(t, r.from)
	defer close1(t, r.to)
	for _, mid := range r.mids {
		r.run(r.to, Op{Kind: OpSet, Mid: mid, Arg: 1})
	}
	r.tick(r.to, r.from.Windows().Time())
	def, all := r.from.Schema().Counter("a"), slot.AllGroups()
	var piece DerivedPiece
	err := r.from.Groups().Derived(all, def, &def.Derived[2], func(p *DerivedPiece) error {
		piece = *p
		piece.Rows = slices.Clone(p.Rows)
		return nil
	})
	if err != nil || piece.Posts == 0 {
		t.Fatal(piece.Posts, err)
	}
	var first slot.Set
	first[0] = 1
	for name, c := range map[string]struct {
		set    slot.Set
		change func(p *DerivedPiece)
		want   error
	}{
		"other groups":  {first, func(*DerivedPiece) {}, format.ErrCorrupt},
		"no counter":    {all, func(p *DerivedPiece) { p.Counter = "c" }, ErrBehind},
		"no column":     {all, func(p *DerivedPiece) { p.Column = "v" }, ErrBehind},
		"a window":      {all, func(p *DerivedPiece) { p.Column = "vw" }, ErrBehind},
		"a moment":      {all, func(p *DerivedPiece) { p.Time = -1 }, format.ErrCorrupt},
		"half a record": {all, func(p *DerivedPiece) { p.Rows = p.Rows[:len(p.Rows)-1] }, format.ErrCorrupt},
		"two records":   {all, func(p *DerivedPiece) { p.Rows = append(p.Rows[:len(p.Rows):len(p.Rows)], p.Rows...) }, format.ErrCorrupt},
		"no rows":       {all, func(p *DerivedPiece) { p.Rows = format.AppendFlush(nil) }, format.ErrCorrupt},
		"a large value": {all, func(p *DerivedPiece) {
			var enc coldstore.RowsEncoder
			page, _ := enc.Append(nil, r.mids[:1], [][]uint64{{1 << 63}}, 1)
			p.Rows = format.AppendRows(nil, 1, []uint16{1}, page)
		}, format.ErrCorrupt},
		"too many items": {all, func(p *DerivedPiece) {
			mids, sums := make([]uint64, 2049), make([]uint64, 2049)
			for i := range mids {
				mids[i] = uint64(i)
			}
			var enc coldstore.RowsEncoder
			page, _ := enc.Append(nil, mids, [][]uint64{sums}, len(mids))
			p.Rows = format.AppendRows(nil, 1, []uint16{1}, page)
		}, format.ErrCorrupt},
	} {
		p := piece
		c.change(&p)
		if taken, end, err := r.to.Groups().SetDerived(c.set, &p); taken != 0 || end != 0 || !errors.Is(err, c.want) {
			t.Errorf("%s: got %d, %d, %v, want %v", name, taken, end, err, c.want)
		}
	}
	r.to.Groups().Own(first)
	if taken, _, err := r.to.Groups().SetDerived(all, &piece); taken != 0 || err == nil {
		t.Errorf("groups of another store are set: %d, %v", taken, err)
	}
	r.to.Groups().Own(all)
	if got := r.values(r.to); got != nil {
		t.Errorf("got %v, want nothing", got)
	}
}
