// Scenario: top lists of columns, compared with a look at all posts.

package counter

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/counter/internal/query"
	"github.com/counterd/counterd/counter/internal/toplist"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/vfs"
	"github.com/counterd/counterd/schema"
)

// checkTops compares all top lists of a store, which nobody changes meanwhile, with all posts: as they are, and when those
// that are short were built again.
func checkTops(t testing.TB, s *Store) {
	t.Helper()
	compareTops(t, s, false)
	if s.opts.Manual {
		built := s.tops.All()
		compareTops(t, s, built)
	}
}

// compareTops is checkTops for the lists as they are. built: each must know its best.
func compareTops(t testing.TB, s *Store, built bool) {
	t.Helper()
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		t.Fatal(err)
	}
	defer b.End()
	for _, def := range b.Schema().All() {
		tops := s.data.Spaces[def.ID][0].Tops
		if tops == nil {
			continue
		}
		compareListed(t, b, def, slices.MinFunc(tops.All, func(a, b *toplist.List) int { return a.Want - b.Want }).Want, built)
		if l := tops.Sum; l != nil {
			compareSums(t, b, s.Windows().Time(), def, l, built)
			continue
		}
		for c, l := range tops.Of {
			if l == nil {
				continue
			}
			if col := &def.Columns[c]; l.Want != int(col.Top) || l.Column != col.ID || l.Default != col.Default {
				t.Fatalf("%s.%s has the list %+v", def.Name, col.Name, col)
			}
			scan, err := query.NewTop(query.Query{Counter: def, To: schema.MaxMid}, int16(c), 3*l.Want+1)
			if err != nil {
				t.Fatal(err)
			}
			scan.Scan()
			for done := false; !done; {
				if done, err = scan.Step((*core.View)(b)); err != nil {
					break
				}
			}
			if errors.Is(err, ErrCold) {
				continue // nobody knows all posts
			}
			if err != nil {
				t.Fatal(err)
			}
			var want []toplist.Entry
			for i := range scan.Rows().Len() {
				mid, values := scan.Rows().At(i)
				want = append(want, toplist.Entry{Value: values[0], Mid: mid})
			}
			for _, k := range []int{1, l.Want, 2 * l.Want, 3*l.Want + 1} {
				got, _, ok := l.Top(k)
				if !ok {
					if built && k <= l.Want {
						t.Fatalf("%s.%s: the list of the top %d does not know the top %d", def.Name, def.Columns[c].Name, l.Want, k)
					}
					continue
				}
				if want := want[:min(k, len(want))]; !slices.Equal(got, want) {
					t.Fatalf("%s.%s: the list has the top %d %v, want %v", def.Name, def.Columns[c].Name, k, got, want)
				}
			}
		}
	}
}

// compareListed compares finds that ask the top lists of a counter, or of the space of a derived column, with the same finds that do not. built: a find of
// the best post must ask them. want is how many posts the shortest list is for.
func compareListed(t testing.TB, b *Batch, def *schema.Counter, want int, built bool) {
	t.Helper()
	var columns []int16
	for c := range def.Columns {
		if def.Columns[c].Top > 0 {
			columns = append(columns, int16(c))
		}
	}
	if def.IsSpace() {
		columns = nil
		for _, of := range b.Schema().Counters() {
			for i := range of.Derived {
				if of.Derived[i].Space.ID == def.ID {
					def, columns = of, []int16{int16(len(of.Columns) + i)}
				}
			}
		}
	}
	for _, c := range columns {
		top, err := NewTop(Query{Counter: def, To: schema.MaxMid}, c, 3)
		if err == nil {
			_, err = stepped(b, top.q)
		}
		if errors.Is(err, ErrCold) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		second := uint64(math.MaxUint64)
		if top.Rows().Len() > 1 {
			_, values := top.Rows().At(1)
			second = values[0]
		}
		for i := range top.Rows().Len() {
			_, values := top.Rows().At(i)
			q := Query{Counter: def, To: schema.MaxMid, Desc: i == 0, Where: []Condition{{Column: c, Op: GreaterEqual, Value: values[0]}}}
			if i == 1 {
				q.From, q.Columns = 2, []int16{c}
			}
			plain, err := query.NewFind(q)
			if err != nil {
				t.Fatal(err)
			}
			listed, err := NewFind(q)
			if err != nil {
				t.Fatal(err)
			}
			rows, errPlain := stepped(b, plain)
			got, err := stepped(b, listed.q)
			if errors.Is(errPlain, ErrCold) {
				continue // a list may know better
			}
			if err != nil || errPlain != nil || !slices.Equal(got, rows) {
				t.Fatalf("%s: column %d from %d on: got %v, %v by a list, want %v, %v", def.Name, c, values[0], got, err, rows, errPlain)
			}
			if built && i == 0 && values[0] > second && want > 1 && !listed.q.Listed {
				t.Fatalf("%s: column %d from %d on: the list was not asked, although it has the next best, %d", def.Name, c, values[0], second)
			}
		}
	}
}

// stepped is all rows of a find, or of a top, one behind the other.
func stepped(b *Batch, f interface {
	Step(query.View) (bool, error)
	Rows() *query.Rows
}) (rows []uint64, err error) {
	for done := false; !done && err == nil; {
		done, err = f.Step((*core.View)(b))
		for i := range f.Rows().Len() {
			mid, values := f.Rows().At(i)
			rows = append(append(rows, mid), values...)
		}
	}
	return rows, err
}

// compareSums is compareTops for the list of a window, whose space is def. now is the time of the log. It reads by b, which does not commit, so it also works when the
// disk has failed.
func compareSums(t testing.TB, b *Batch, now int64, def *schema.Counter, l *toplist.List, built bool) {
	t.Helper()
	f, err := query.NewFind(Query{Counter: def, To: schema.MaxMid})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := stepped(b, f)
	if err != nil {
		t.Fatal(err)
	}
	var want []toplist.Entry
	for row := range slices.Chunk(rows, 1+len(def.Columns)) {
		if sum := def.WindowSum(row[1:], now); sum > 0 {
			want = append(want, toplist.Entry{Value: sum, Mid: row[0]})
		}
	}
	slices.SortFunc(want, func(a, b toplist.Entry) int {
		return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(b.Mid, a.Mid))
	})
	for _, k := range []int{1, l.Want, 2 * l.Want, 3*l.Want + 1} {
		got, _, ok := l.Top(k)
		if !ok && built && k <= l.Want {
			t.Fatalf("%s: the list of the top %d does not know the top %d", def.Name, l.Want, k)
		}
		if want := want[:min(k, len(want))]; ok && !slices.Equal(got, want) {
			t.Fatalf("%s: the list has the top %d %v, want %v", def.Name, k, got, want)
		}
	}
}

// TestTopListBesideWriters: writers change few posts in all ways while the background builds lists, posts are demoted, and readers ask. The rows
// of a reader are in order, and in the end the lists are right.
func TestTopListBesideWriters(t *testing.T) {
	rng := newRand(t)
	for _, groups := range []bool{false, true} {
		opts := Options{BlockItems: 64, FS: vfs.NewSim(), SlotGroups: groups, HashSeed: rng.Uint64()}
		s := openDir(t, "data", opts, "add counter a\nadd column a v hint=3 max=20 suffix=v top=5\nadd column a w hint=8 max=20 default=4 suffix=w top=3")
		var over atomic.Bool
		var writers, others sync.WaitGroup
		for n := range 3 {
			rng := rand.New(rand.NewPCG(rng.Uint64(), uint64(n)))
			writers.Go(func() {
				b := s.NewBatch()
				for range 400 {
					writeTops(t, b, rng)
				}
			})
		}
		others.Go(func() {
			for !over.Load() {
				readTops(t, s)
			}
		})
		rng := rand.New(rand.NewPCG(rng.Uint64(), 9))
		others.Go(func() {
			for !over.Load() {
				if err := s.Admin().Demote("a", rng.Uint64N(300)); err != nil && !errors.Is(err, ErrNoBlock) {
					t.Error(err)
				}
				if rng.IntN(8) == 0 {
					if err := s.AlterScript(fmt.Sprintf("alter column a w top=%d", 1+rng.IntN(4))); err != nil {
						t.Error(err)
					}
				}
			}
		})
		writers.Wait()
		over.Store(true)
		others.Wait()
		for !s.tops.All() {
		}
		compareTops(t, s, true)
	}
}

// writeTops makes some random changes.
func writeTops(t *testing.T, b *Batch, rng *rand.Rand) {
	if err := b.Begin(); err != nil {
		t.Error(err)
		return
	}
	def := b.Schema().Counters()[0]
	for range 1 + rng.IntN(6) {
		op := Op{Counter: def, Mid: rng.Uint64N(300), Column: int16(rng.IntN(2))}
		switch rng.IntN(8) {
		case 0:
			op.Kind = OpDelete
		case 1:
			op.Kind, op.Arg = OpSet, rng.Uint64N(50)
		case 2:
			op.Kind, op.Arg = OpAdd, ^uint64(0)
		default:
			op.Kind, op.Arg = OpAdd, 1+rng.Uint64N(8)
		}
		b.Add(op)
	}
	if rng.IntN(3) == 0 {
		at := b.Len()
		for range 3 {
			b.Add(Op{Kind: OpAdd, Counter: def, Mid: rng.Uint64N(300), Column: 1, Arg: rng.Uint64N(9)})
		}
		b.ChangeSet(at)
	}
	b.Run()
	b.End()
	b.Reset()
	if err := b.Commit(); err != nil {
		t.Error(err)
	}
}

// readTops asks for the best once: they must be in order.
func readTops(t *testing.T, s *Store) {
	rows, err := s.Top(Query{Counter: s.Schema().Counter("a"), To: schema.MaxMid}, 0, 5)
	if err != nil {
		t.Error(err)
		return
	}
	last := toplist.Entry{Value: schema.MaxValue, Mid: schema.MaxMid}
	for i := range rows.Len() {
		mid, values := rows.At(i)
		e := toplist.Entry{Value: values[0], Mid: mid}
		if !e.Below(last) {
			t.Errorf("got %v behind %v", e, last)
		}
		last = e
	}
}

// TestTopListSeen: a list that was built behind a deletion, or a FLUSHALL, says how far the log must be before its posts are told. It said where the
// posts that it has were changed: the post that is missing was missed by readers before its deletion was committed.
func TestTopListSeen(t *testing.T) {
	s := openDir(t, "data", Options{FS: vfs.NewSim(), Manual: true, AppendFsync: SyncAlways}, "add counter a\nadd column a v hint=8 suffix=v")
	for mid := range uint64(10) {
		if err := s.Set(fmt.Sprintf("%d.v", mid), mid); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.AlterScript("alter column a v top=2"); err != nil { // the list is not built yet
		t.Fatal(err)
	}
	change := func(f func(b *Batch)) {
		t.Helper()
		b := s.NewBatch()
		if err := b.BeginExclusive(); err != nil {
			t.Fatal(err)
		}
		f(b)
		b.End()
		s.tops.All()
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		defer b.End()
		_, seen, ok := s.TopLists()[0].kept.List.Top(2)
		if want := s.data.Log.Position(); !ok || seen < want {
			t.Errorf("the list is known, %v, from offset %d on, want %d", ok, seen, want)
		}
	}
	change(func(b *Batch) {
		b.Add(Op{Kind: OpDelete, Counter: b.Schema().Counter("a"), Mid: 9})
		b.Run()
	})
	change(func(b *Batch) {
		if err := b.Whole().Clear(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestTopListOfWindow: additions, deletions and buckets that end change the sums of a window. Its list is right after each step, on the primary and on a replica, and
// it seldom has to be built again.
func TestTopListOfWindow(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	rng := newRand(t)
	clock := int64(1_795_000_000)
	opts := Options{FS: vfs.NewSim(), Manual: true, BlockItems: 20, AppendFsync: SyncAlways, RetainBytes: 1 << 40, Now: func() time.Time { return time.Unix(clock, 0) }}
	s := openDir(t, "data", opts, "add counter a\nadd column a v hint=8 max=32 suffix=v\nadd column a v1h window=1h/5m of=v top=8\nadd column a w hint=8 max=32 suffix=w")
	defer s.Close()
	if err := s.Windows().Tick(time.Unix(clock, 0), nil); err != nil {
		t.Fatal(err)
	}
	follower, err := Open("data", Options{FS: vfs.NewSim(), Manual: true, BlockItems: 30})
	if err != nil {
		t.Fatal(err)
	}
	defer follower.Close()
	known := func(s *Store) int {
		lists := s.TopLists()
		if len(lists) == 0 {
			return 0
		}
		compareTops(t, s, false)
		_, ok, err := s.TopOf(lists[0])
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			s.tops.All()
			compareTops(t, s, true)
			return 0
		}
		return 1
	}
	ticks, kept, behind := 0, 0, 0
	for step := range 3000 {
		def := s.Schema().Counter("a")
		b := s.NewBatch()
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		for range rng.IntN(12) {
			mid := min(rng.Uint64N(150), rng.Uint64N(150))
			switch rng.IntN(12) {
			case 0:
				b.Add(Op{Kind: OpDelete, Counter: def, Mid: mid, Column: -1})
			case 1:
				b.Add(Op{Kind: OpSet, Counter: def, Mid: mid, Column: int16(rng.IntN(2)), Arg: rng.Uint64N(50)})
			default:
				b.Add(Op{Kind: OpAdd, Counter: def, Mid: mid, Column: int16(rng.IntN(4) / 3), Arg: 1 + rng.Uint64N(9)})
			}
		}
		b.Run()
		b.End()
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
		ticked := rng.IntN(3) == 0
		if ticked {
			clock += 300 * int64(1+rng.IntN(8)/7)
			if rng.IntN(200) == 0 {
				clock += 3000 // nearly all of the window
			}
			if err := s.Windows().Tick(time.Unix(clock, 0), nil); err != nil {
				t.Fatal(err)
			}
		}
		if rng.IntN(300) == 0 {
			from := rng.Uint64N(150)
			if _, err := dropRange(s, "a", from, from+rng.Uint64N(60)+1); err != nil {
				t.Fatal(err)
			}
		}
		if ok := known(s); ticked {
			ticks++
			kept += ok
		}
		if step%7 == 0 {
			if _, err := follower.repl.Follow(s.repl.Lineage()); err != nil {
				t.Fatal(err)
			}
			ship(t, s, follower)
			behind += known(follower)
		}
	}
	if kept < ticks/2 || behind < 200 {
		t.Errorf("the list was known behind %d of %d ticks, and at the replica %d times", kept, ticks, behind)
	}
}
