package counter

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/vfs"
	"github.com/counterd/counterd/schema"
)

const windowSchema = `add counter a
add column a v hint=2 max=20 suffix=v
add column a w hint=8 max=40 suffix=w
add counter b
add column b x hint=4 max=32 suffix=x
add column a v1h window=1h/5m of=v top=9
add column a v10s window=10s/1s of=v suffix=vs top=3
add column a wd window=1d/1h of=w
add column b x1h window=1h/1h of=x
add column a heat decay=10m of=v*3+w top=20
add column a cool decay=90d of=w
add column b xh decay=1h of=x*1000 top=5`

// windowModel is the content of a store with derived columns, as lists of additions.
type windowModel struct {
	posts map[string]map[uint64]*windowPost
	time  int64
}

type windowPost struct {
	def    *schema.Counter
	values [2]uint64
	added  [2][]windowAddition
	sums   []uint64 // of columns that decay, as they are stored
}

type windowAddition struct {
	at int64
	n  uint64
}

func (p *windowPost) add(c int, n int64, limit uint64, at int64) bool {
	next := int64(p.values[c]) + n
	if next < 0 || uint64(next) > limit {
		return false
	}
	if p.values[c] = uint64(next); n > 0 && at > 0 {
		p.added[c] = append(p.added[c], windowAddition{at, uint64(n)})
		p.decay(at, func(of *schema.Derived) uint64 { return of.Counts(c, uint64(n)) })
	}
	return true
}

// sum is a window at a moment.
func (p *windowPost) sum(c int, w schema.Window, now int64) (n uint64) {
	for _, a := range p.added[c] {
		if w.At(a.at) > w.At(now)-int64(w.Buckets()) {
			n += a.n
		}
	}
	return n
}

// row is all columns of a post, as an OpRead has them.
func (m *windowModel) row(def *schema.Counter, p *windowPost) (row []uint64) {
	row = append(row, p.values[:len(def.Columns)]...)
	for i := range def.Derived {
		if of := &def.Derived[i]; of.Decays() {
			row = append(row, of.Sum(p.sums[i:], m.time))
			continue
		}
		row = append(row, p.sum(def.Derived[i].Sources[0].At, def.Derived[i].Window, m.time))
	}
	return row
}

// windowPlay plays random changes on a store and on a model.
type windowPlay struct {
	t     *testing.T
	rng   *rand.Rand
	sim   *vfs.Sim
	opts  Options
	s     *Store
	m     *windowModel
	clock int64
	step  int64 // by which the clock moves on for a while
	seq   uint64
	mids  uint64
}

func (p *windowPlay) open() {
	p.t.Helper()
	p.opts.FS = p.sim
	s, err := Open("data", p.opts)
	if err != nil {
		p.t.Fatal(err)
	}
	p.s = s
}

func (p *windowPlay) post(name string, mid uint64) *windowPost {
	q := p.m.posts[name][mid]
	if q == nil {
		def := p.s.Schema().Counter(name)
		q = &windowPost{def: def, sums: make([]uint64, len(def.Derived))}
		p.m.posts[name][mid] = q
	}
	return q
}

// mid draws a post. Half of the draws are of a few, so that additions to one post come in many buckets of a window.
func (p *windowPlay) mid() uint64 {
	if p.rng.IntN(2) == 0 {
		return p.rng.Uint64N(8) * p.mids / 8
	}
	return p.rng.Uint64N(p.mids)
}

// batch runs some random operations, in change sets or not, numbered or not.
func (p *windowPlay) batch() {
	t, rng := p.t, p.rng
	t.Helper()
	b := p.s.NewBatch()
	begin, exclusive := b.Begin, false
	if rng.IntN(8) == 0 {
		begin, exclusive = b.BeginExclusive, true
	}
	if err := begin(); err != nil {
		t.Fatal(err)
	}
	type expected struct {
		name  string
		mid   uint64
		found bool
		row   []uint64
		value uint64
	}
	var want []expected
	note := func(name string, mid uint64, col int) {
		def, e := b.Schema().Counter(name), expected{name: name, mid: mid}
		if q := p.m.posts[name][mid]; q != nil {
			e.found, e.row = true, p.m.row(def, q)
			e.value = e.row[max(col, 0)]
		}
		want = append(want, e)
	}
	for range 1 + rng.IntN(12) {
		first, kind := b.Len(), rng.IntN(10)
		name := []string{"a", "a", "a", "b"}[rng.IntN(4)]
		def := b.Schema().Counter(name)
		n := 1
		if rng.IntN(3) == 0 {
			n = 1 + rng.IntN(6)
		}
		for range n {
			mid, col := p.mid(), rng.IntN(len(def.Columns))
			limit := def.Columns[col].Limit()
			switch {
			case kind < 5:
				arg := int64(rng.IntN(5)) - 1
				switch rng.IntN(10) {
				case 0:
					arg = rng.Int64N(1 << 19)
				case 1:
					arg = 1 << 50 // out of range
				}
				b.Add(Op{Kind: OpAdd, Counter: def, Mid: mid, Column: int16(col), Arg: uint64(arg)})
				was := p.m.posts[name][mid]
				if q := p.post(name, mid); !q.add(col, arg, limit, p.m.time) && was == nil {
					delete(p.m.posts[name], mid)
				}
				note(name, mid, -1)
			case kind == 5:
				arg, bounds := int64(rng.IntN(9))-4, Bounds{Lo: 3, Hi: 30, Saturate: rng.IntN(2) == 0}
				b.AddWithin(Op{Counter: def, Mid: mid, Column: int16(col), Arg: uint64(arg)}, bounds)
				was := p.m.posts[name][mid]
				q := p.post(name, mid)
				next := int64(q.values[col]) + arg
				if bounds.Saturate {
					next = min(max(next, 3), 30)
				}
				if next >= 3 && next <= 30 {
					q.add(col, next-int64(q.values[col]), limit, p.m.time)
				} else if was == nil {
					delete(p.m.posts[name], mid)
				}
				note(name, mid, -1)
			case kind == 6:
				b.Add(Op{Kind: OpDelete, Counter: def, Mid: mid})
				delete(p.m.posts[name], mid)
				note(name, mid, -1)
			case kind == 7:
				arg := rng.Uint64N(100)
				b.Add(Op{Kind: OpSet, Counter: def, Mid: mid, Column: int16(col), Arg: arg})
				p.post(name, mid).values[col] = arg
				note(name, mid, -1)
			case kind == 8:
				b.Add(Op{Kind: OpRead, Counter: def, Mid: mid, Column: -1})
				note(name, mid, -1)
			default:
				col = rng.IntN(def.Width())
				b.Add(Op{Kind: OpGet, Counter: def, Mid: mid, Column: int16(col)})
				note(name, mid, col)
			}
		}
		switch {
		case kind != 5 && rng.IntN(2) == 0:
			b.ChangeSet(first)
		case kind <= 6 && b.Len() == first+1 && rng.IntN(2) == 0 && !exclusive:
			o, _ := b.Once(first)
			p.seq++
			o.Producer, o.Seq, o.Hash = []byte("p"), p.seq, 1
			if kind == 6 {
				o.Make = func(*Batch, *Once, int, int) Result { return Result{Kind: ResultOK} }
			}
		}
	}
	b.Run()
	for i, e := range want {
		op := b.Op(i)
		if op.Err != nil && !errors.Is(op.Err, ErrOutOfRange) {
			t.Fatalf("operation %d on %s %d: %v", op.Kind, e.name, e.mid, op.Err)
		}
		switch op.Kind {
		case OpRead:
			if row := b.Row(op); op.Found != e.found || e.found && !slices.Equal(row, e.row) {
				t.Fatalf("%s %d: got %v, %v, want %v, %v", e.name, e.mid, row, op.Found, e.row, e.found)
			}
		case OpGet, OpGetDerived:
			if op.Found != e.found || op.Value != e.value {
				t.Fatalf("%s %d column %d: got %d, %v, want %d, %v", e.name, e.mid, op.Column, op.Value, op.Found, e.value, e.found)
			}
		}
	}
	b.End()
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
}

// update adds to, or deletes, the posts of a query.
func (p *windowPlay) update() {
	rng, from := p.rng, p.rng.Uint64N(p.mids)
	to := from + p.rng.Uint64N(p.mids/4)
	def := p.s.Schema().Counter("a")
	changes := []Change{{Kind: OpAdd, Column: 1, Arg: 2}, {Kind: OpAdd, Column: 0, Arg: 1}}
	if rng.IntN(3) == 0 {
		changes = []Change{{Kind: OpDelete}}
	}
	u, err := NewUpdate(Query{Counter: def, From: from, To: to}, changes, ReturnNothing)
	if err == nil {
		err = p.s.steps(u.Step, func() bool { return true })
	}
	if err != nil {
		p.t.Fatal(err)
	}
	for mid, q := range p.m.posts["a"] {
		switch {
		case mid < from || mid > to:
		case len(changes) == 1:
			delete(p.m.posts["a"], mid)
		case q.values[0] < def.Columns[0].Limit() && q.values[1]+2 <= def.Columns[1].Limit():
			sums := slices.Clone(q.sums)
			q.add(0, 1, def.Columns[0].Limit(), p.m.time)
			q.add(1, 2, def.Columns[1].Limit(), p.m.time)
			q.sums = sums // both are one addition
			q.decay(p.m.time, func(of *schema.Derived) uint64 { return of.Counts(0, 1) + of.Counts(1, 2) })
		}
	}
}

// tick moves the clock, mostly on, and the log's time with it.
func (p *windowPlay) tick() {
	if p.step == 0 || p.rng.IntN(8) == 0 { // a bucket of one of the windows
		p.step = []int64{1, 1, 300, 300, 3600}[p.rng.IntN(5)]
	}
	switch p.rng.IntN(20) {
	case 0:
		p.clock -= 5000
	case 1: // all windows become empty, or all but that of a day
		p.clock += []int64{90000, 20_000_000}[p.rng.IntN(2)]
	default:
		p.clock += p.step * p.rng.Int64N(9)
	}
	if err := p.s.Windows().Tick(time.Unix(p.clock, 0), nil); err != nil {
		p.t.Fatal(err)
	}
	p.m.time = max(p.m.time, p.clock)
}

// check compares everything with the model, also by queries.
func (p *windowPlay) check(s *Store) {
	t := p.t
	t.Helper()
	if s.Windows().Time() != p.m.time {
		t.Fatalf("time %d, want %d", s.Windows().Time(), p.m.time)
	}
	n := 0
	for _, def := range s.Schema().Counters() {
		want := map[uint64][]uint64{}
		for mid, q := range p.m.posts[def.Name] {
			want[mid] = p.m.row(def, q)
			p.nearly(def, mid, q, want[mid])
		}
		n += len(want)
		got := map[uint64][]uint64{}
		err := s.Find(Query{Counter: def, To: schema.MaxMid}, func(mid uint64, values []uint64) bool {
			got[mid] = slices.Clone(values)
			return true
		})
		for mid := range p.mids {
			if err != nil || !slices.Equal(got[mid], want[mid]) {
				t.Fatalf("%s %d: found %v, %v, want %v", def.Name, mid, got[mid], err, want[mid])
			}
		}
		p.queries(s, def, want)
		p.tops(s, def, want)
	}
	checkTops(t, s)
	if got, err := s.Len(); err != nil || got != uint64(n) {
		t.Fatalf("%d posts, %v, want %d", got, err, n)
	}
}

// queries asks for posts by their derived columns.
func (p *windowPlay) queries(s *Store, def *schema.Counter, rows map[uint64][]uint64) {
	t, rng := p.t, p.rng
	t.Helper()
	if len(def.Derived) == 0 {
		return
	}
	for range 4 {
		col := len(def.Columns) + rng.IntN(len(def.Derived))
		v := uint64(rng.IntN(4))
		where := []Condition{{Column: int16(col), Op: Compare(rng.IntN(6)), Value: v}, {Column: 0, Op: GreaterEqual, Value: uint64(rng.IntN(3))}}
		meets := func(row []uint64) bool {
			if row[0] < where[1].Value {
				return false
			}
			switch x := row[col]; where[0].Op {
			case Equal:
				return x == v
			case NotEqual:
				return x != v
			case Less:
				return x < v
			case LessEqual:
				return x <= v
			case Greater:
				return x > v
			default:
				return x >= v
			}
		}
		q := Query{Counter: def, From: rng.Uint64N(p.mids / 2), To: p.mids/2 + rng.Uint64N(p.mids/2), Where: where, Desc: rng.IntN(2) == 0, Limit: rng.IntN(20), Offset: rng.IntN(3),
			Columns: []int16{int16(col), 0}}
		var want, got []string
		sum, count := uint64(0), uint64(0)
		var best []string
		mids := slices.Sorted(maps.Keys(rows))
		if q.Desc {
			slices.Reverse(mids)
		}
		var top [][2]uint64
		for _, mid := range mids {
			if row := rows[mid]; mid >= q.From && mid <= q.To && meets(row) {
				want = append(want, fmt.Sprint(mid, row[col], row[0]))
				sum, count = sum+row[col], count+1
				top = append(top, [2]uint64{row[col], mid})
			}
		}
		want = want[min(q.Offset, len(want)):]
		if q.Limit > 0 {
			want = want[:min(q.Limit, len(want))]
		}
		of := &def.Derived[col-len(def.Columns)]
		slices.SortFunc(top, func(a, b [2]uint64) int {
			if of.Decays() && a[0] > 0 && b[0] > 0 { // the sums rank more finely
				i := col - len(def.Columns)
				return cmp.Or(cmp.Compare(p.m.posts[def.Name][b[1]].sums[i], p.m.posts[def.Name][a[1]].sums[i]), cmp.Compare(b[1], a[1]))
			}
			return slices.Compare(b[:], a[:])
		})
		k := 1 + rng.IntN(30)
		for _, r := range top[:min(k, len(top))] {
			best = append(best, fmt.Sprint(r[1], r[0]))
		}
		err := s.Find(q, func(mid uint64, values []uint64) bool {
			got = append(got, fmt.Sprint(mid, values[0], values[1]))
			return true
		})
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%s where %+v: got %v, %v, want %v", def.Name, q, got, err, want)
		}
		rowsOf, err := s.Top(q, int16(col), k)
		if err != nil {
			t.Fatal(err)
		}
		var ranked []string
		for i := range rowsOf.Len() {
			mid, values := rowsOf.At(i)
			ranked = append(ranked, fmt.Sprint(mid, values[0]))
		}
		if !slices.Equal(ranked, best) {
			t.Fatalf("%s where %+v: top %d: got %v, want %v", def.Name, where, k, ranked, best)
		}
		if _, lo, _, err := s.Aggregate(q, Sum, int16(col)); err != nil || lo != sum {
			t.Fatalf("%s where %+v: sum %d, %v, want %d", def.Name, where, lo, err, sum)
		}
		if _, lo, _, err := s.Aggregate(q, Count, 0); err != nil || lo != count {
			t.Fatalf("%s where %+v: count %d, %v, want %d", def.Name, where, lo, err, count)
		}
	}
}

// sweep removes what no window counts, and sees that nothing else is left in the spaces.
func (p *windowPlay) sweep() {
	for _, def := range p.s.Schema().Counters() {
		for i := range def.Derived {
			of := &def.Derived[i]
			if _, err := p.s.Windows().Sweep(of, nil); err != nil {
				p.t.Fatal(err)
			}
			want := 0
			for _, q := range p.m.posts[def.Name] {
				if of.Decays() {
					if q.sums[i] <= of.Faded(p.m.time) {
						q.sums[i] = 0
					} else {
						want++
					}
				} else if q.sum(of.Sources[0].At, of.Window, p.m.time) > 0 {
					want++
				}
			}
			if got := len(spaceRows(p.t, p.s, of)); got != want {
				p.t.Fatalf("%s has %d items behind a sweep, want %d", of.Space.Name, got, want)
			}
		}
	}
}

// TestWindows plays additions, deletions, jumps of the clock, crashes, snapshots and files on a store with derived columns. At each look it
// agrees with a list of all additions, and so does a replica that has the same log.
func TestWindows(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	rounds := 700
	if racetest.Enabled {
		rounds = 200
	}
	for _, groups := range []bool{false, true} {
		t.Run(fmt.Sprintf("groups=%v", groups), func(t *testing.T) {
			rng := newRand(t)
			p := &windowPlay{t: t, rng: rng, sim: vfs.NewSim(), clock: 1_795_000_000, mids: 400,
				m: &windowModel{posts: map[string]map[uint64]*windowPost{"a": {}, "b": {}}}}
			p.opts = Options{Manual: true, BlockItems: 16 + rng.IntN(60), HashSeed: 1 + rng.Uint64(), AppendFsync: SyncAlways, RetainBytes: 1 << 40, SlotGroups: groups,
				Now: func() time.Time { return time.Unix(p.clock, 0) }}
			p.open()
			if err := p.s.repl.AdmitCursors(); err != nil {
				t.Fatal(err)
			}
			if err := p.s.AlterScript(windowSchema); err != nil {
				t.Fatal(err)
			}
			p.m.time = p.clock
			follower, err := Open("data", Options{FS: vfs.NewSim(), Manual: true, BlockItems: 30, SlotGroups: groups})
			if err != nil {
				t.Fatal(err)
			}
			defer follower.Close()
			follow := func() {
				if _, err := follower.repl.Follow(p.s.repl.Lineage()); err != nil {
					t.Fatal(err)
				}
			}
			for range rounds {
				switch rng.IntN(40) {
				case 0:
					p.update()
				case 1, 2, 3, 4:
					p.tick()
				case 5:
					p.sweep()
				case 6:
					if err := p.s.Snapshot(); err != nil {
						t.Fatal(err)
					}
				case 7:
					name, from, to := []string{"a", "b"}[rng.IntN(2)], rng.Uint64N(p.mids), rng.Uint64N(p.mids)
					if from >= to {
						break
					}
					if _, err := dropRange(p.s, name, from, to); err != nil {
						t.Fatal(err)
					}
					maps.DeleteFunc(p.m.posts[name], func(mid uint64, _ *windowPost) bool { return mid >= from && mid < to })
				case 8:
					if err := p.s.Admin().Demote("a", rng.Uint64N(p.mids)); err != nil && !errors.Is(err, ErrNoBlock) {
						t.Fatal(err)
					}
				case 9:
					if err := p.s.data.Log.Commit(p.s.data.Log.Position()); err != nil {
						t.Fatal(err)
					}
					left := p.sim.Kill()
					if rng.IntN(2) == 0 {
						left = p.sim.Crash(rng.Uint64(), 50)
					}
					_ = p.s.Close()
					p.sim = left
					p.open()
					p.check(p.s)
				case 10:
					follow()
					ship(t, p.s, follower)
					p.check(follower)
					sameSpaces(t, p.s, follower)
				case 11:
					if rng.IntN(4) == 0 {
						b := p.s.NewBatch()
						if err := b.BeginExclusive(); err != nil {
							t.Fatal(err)
						}
						err := b.Whole().Clear()
						b.End()
						if err := errors.Join(err, b.Commit()); err != nil {
							t.Fatal(err)
						}
						clear(p.m.posts["a"])
						clear(p.m.posts["b"])
					}
				case 12, 13:
					p.check(p.s)
				default:
					p.batch()
				}
			}
			p.check(p.s)
			follow()
			ship(t, p.s, follower)
			p.check(follower)
			sameSpaces(t, p.s, follower)
			p.s.Close()
		})
	}
}
