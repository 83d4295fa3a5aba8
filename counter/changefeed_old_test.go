// Scenario: the feed has the values before each change, of counters whose log has them.

package counter

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/counter/internal/query"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/vfs"
	"github.com/counterd/counterd/schema"
)

// oldCheck compares the old values of a feed with the posts that a consumer has of the changes before.
type oldCheck struct {
	told, made, untold int  // parts with old values, those of posts that were not there, and those without, of counters with old=on
	damaged            bool // some may lack old values
}

// check looks at a part before r takes it.
func (o *oldCheck) check(t testing.TB, r *feedReader, c *FeedChange, p *FeedPart) {
	t.Helper()
	if f := &r.filter; p.Kind != FeedSet && p.Kind != FeedDel || !f.Old || f.Counters != nil || f.Columns != nil || f.From|f.To != 0 {
		return
	}
	def := r.sch.CounterByID(p.Counter.ID)
	if def == nil {
		return // the consumer began behind the schema
	}
	fail := func(want any) {
		t.Helper()
		t.Fatalf("%s: old %+v, want %v", changeText(c), p.Old, want)
	}
	shown := len(p.Values)
	if p.Kind == FeedDel {
		shown = len(p.Counter.Columns)
	}
	row, there := r.posts[def.Name][p.Mid]
	switch {
	case !p.Old.Told && !def.Old:
		return
	case !p.Old.Told:
		if o.untold++; !o.damaged && (shown > 0 || !there) {
			fail(row)
		}
		return
	case p.Old.There != there || (there && shown > 0) != (len(p.Old.Values) > 0): // of a set of columns that were dropped since none is shown
		fail(row)
	}
	o.told++
	if !there {
		o.made++
		return
	}
	seen := map[int]bool{}
	for _, v := range p.Old.Values {
		col := &p.Counter.Columns[v.Column]
		want := col.Default
		if i := def.Index(col.ID); i >= 0 { // else it was added since
			want = row[def.Columns[i].Name]
		}
		if seen[v.Column] || v.Value != want {
			fail(row)
		}
		seen[v.Column] = true
	}
	if p.Kind == FeedDel && len(seen) != shown {
		fail(row)
	}
	for _, v := range p.Values {
		if !seen[v.Column] {
			fail(row)
		}
	}
}

// TestOldModel does everything that changes posts, between restarts and changes of the schema that switch old values on and off, while a
// consumer of the feed compares all old values with its own posts.
func TestOldModel(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	newRand(t)
	runs, total := 4, oldCheck{}
	if *long {
		runs = 300
	}
	for run := range runs {
		seed := *seed + uint64(run)
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			p := &oldPlayer{player: player{rng: rand.New(rand.NewPCG(seed, 31)), sim: vfs.NewSim(), made: map[string]Once{}, seqs: map[string]uint64{}, epochs: map[string]uint64{}}, r: newFeedReader()}
			p.opts = Options{BlockItems: 16 + p.rng.IntN(40), HashSeed: 1 + p.rng.Uint64(), AppendFsync: SyncAlways, Manual: true, SlotGroups: p.rng.IntN(2) == 0,
				RetainBytes: 1 << 40, SnapshotGrowth: -1, SegmentBytes: 4096}
			if err := p.open(); err != nil {
				t.Fatal(err)
			}
			if err := p.s.AlterScript(playSchemaScript + "\nadd counter b old=on\nadd column b z hint=2 max=62 suffix=z"); err != nil {
				t.Fatal(err)
			}
			p.read(t)
			for range 300 {
				p.step(t)
			}
			if err := p.s.Close(); err != nil {
				t.Fatal(err)
			}
			total.told, total.made, total.untold = total.told+p.r.olds.told, total.made+p.r.olds.made, total.untold+p.r.olds.untold
		})
	}
	t.Logf("%d parts with old values, %d of new posts, %d without", total.told, total.made, total.untold)
	if total.made == 0 || total.told < 10*runs {
		t.Error("too few old values were compared")
	}
}

// oldPlayer is a player that knows the posts by the feed alone.
type oldPlayer struct {
	player
	r *feedReader
}

// read takes the feed to its end, and compares the posts with those of the store.
func (p *oldPlayer) read(t *testing.T) {
	t.Helper()
	if err := p.s.data.Log.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := p.r.read(t, p.s, p.s.data.Log.Durable()); err != nil {
		t.Fatal(err)
	}
	checkStore(t, p.s, p.r.posts)
	p.states = []map[string]string{dump(t, p.s)}
}

// step does one thing.
func (p *oldPlayer) step(t *testing.T) {
	t.Helper()
	var err error
	switch n := p.rng.IntN(100); {
	case n < 4:
		err = p.s.Snapshot()
	case n < 8:
		if p.rng.IntN(2) == 0 {
			left := p.sim.Kill()
			_ = p.s.Close()
			p.sim = left
		} else if err = p.s.Close(); err != nil {
			t.Fatal(err)
		}
		err = p.open()
	case n < 14:
		err = p.s.AlterScript(fmt.Sprintf("alter counter %s old=%s", []string{"a", "b"}[p.rng.IntN(2)], []string{"on", "on", "off"}[p.rng.IntN(3)]))
	case n < 17:
		playSchema(t, p.rng, p.s, p.r.posts.clone(), &p.added)
	case n < 27:
		err = p.tier(t)
	case n < 29:
		err = p.clear(t)
	case n < 45:
		err = p.numbered(t)
	case n < 52:
		err = p.series(t)
	case n < 60:
		err = p.batch(t)
	case n < 70:
		err = p.transaction(t)
	case n < 75:
		err = p.large()
	default:
		playBatch(t, p.rng, p.s, p.r.posts.clone(), p.mid)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.read(t)
}

// series makes numbered additions in a row.
func (p *oldPlayer) series(t *testing.T) error {
	b := p.s.NewBatch()
	if err := b.Begin(); err != nil {
		return err
	}
	def := b.Schema().Counters()[p.rng.IntN(2)]
	for range 1 + p.rng.IntN(10) {
		op := Op{Kind: OpAdd, Counter: def, Mid: p.mid(), Column: int16(p.rng.IntN(len(def.Columns))), Arg: p.rng.Uint64N(30) - 3}
		op.SetHash(p.rng.Uint32())
		b.Add(op)
	}
	p.seqs["series"] += uint64(b.Len())
	OnceSeries(b, 0, []byte("series"), 0, p.seqs["series"])
	p.seqs["series"] += uint64(b.Len())
	b.Run()
	b.End()
	return b.Commit()
}

// large makes a change set of so many sets, rows or deletions that posts in memory have a short way.
func (p *oldPlayer) large() error {
	b := p.s.NewBatch()
	if err := b.Begin(); err != nil {
		return err
	}
	def := b.Schema().Counters()[p.rng.IntN(2)]
	kind := []OpKind{OpSet, OpSetRow, OpDelete}[p.rng.IntN(3)]
	column := int16(p.rng.IntN(len(def.Columns)))
	mids := slices.Sorted(maps.Keys(p.r.posts[def.Name]))
	there := len(mids) > 0 && p.rng.IntN(3) > 0
	for range 64 + p.rng.IntN(20) {
		mid, arg := p.mid(), p.rng.Uint64N(2)
		if there {
			mid = mids[p.rng.IntN(len(mids))]
		}
		if kind == OpSetRow {
			b.SetRow(def, mid, b.Shape([]int16{column}, 1))[0] = arg
			continue
		}
		b.Add(Op{Kind: kind, Counter: def, Mid: mid, Column: column, Arg: arg})
	}
	b.ChangeSet(0)
	b.Run()
	b.End()
	return b.Commit()
}

// transaction makes changes of all kinds as one change, some of them with a number.
func (p *oldPlayer) transaction(t *testing.T) error {
	b := p.s.NewBatch()
	if err := b.BeginExclusive(); err != nil {
		return err
	}
	id := "transaction"
	p.seqs[id]++
	o := Once{Producer: []byte(id), Seq: p.seqs[id]}
	numbered := p.rng.IntN(2) == 0
	if numbered && !b.TryOnce(&o) {
		t.Fatalf("%+v was refused", o)
	}
	for range 1 + p.rng.IntN(5) {
		if p.rng.IntN(3) == 0 {
			addGroup(p.rng, b, p.mid)
		} else {
			b.Add(randomOp(p.rng, b, p.mid))
		}
	}
	b.Run()
	if numbered {
		b.KeepOnce(&o, Result{Kind: ResultOK})
	}
	b.End()
	return b.Commit()
}

// TestOldDamage: a post whose page cannot be read is set, and removed, as before. Its changes have no old values then, and others have.
func TestOldDamage(t *testing.T) {
	dir, s, mids, cold := coldDir(t, 20_000)
	defer func() { s.Close() }()
	if err := s.AlterScript("alter counter weibo old=on"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	flip(t, cold, 10_000)
	var err error
	if s, err = Open(dir, Options{Manual: true, RetainBytes: 1 << 40}); err != nil {
		t.Fatal(err)
	}
	r := newFeedReader()
	r.olds.damaged = true
	if r.at, err = s.Feeds().Now(s.data.Log.Durable()); err != nil {
		t.Fatal(err)
	}
	def := s.Schema().Counter("weibo")
	wants := map[uint64]uint64{} // the comments of posts that can be read
	lost := map[uint64]bool{}
	for i, mid := range mids[:6000] {
		key := fmt.Sprintf("%d.cntcm", mid)
		n, _, err := s.Get(key)
		if lost[mid] = errors.Is(err, ErrCold); err != nil && !lost[mid] {
			t.Fatal(err)
		}
		wants[mid] = n
		err = oldBlind(s, mid, []OpKind{OpSet, OpDelete, OpSetRow}[i%3], i/3%3)
		if err != nil {
			t.Fatalf("%d, lost: %v: %v", mid, lost[mid], err)
		}
	}
	if err := s.data.Log.Sync(); err != nil {
		t.Fatal(err)
	}
	f, err := s.Feeds().Open(r.at, FeedFilter{Old: true})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	known, unknown := 0, 0
	for {
		c, err := f.Next(s.data.Log.Durable(), 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		if c == nil {
			break
		}
		p := &c.Parts[0]
		switch {
		case p.Counter != def:
			t.Fatalf("got %s", changeText(c))
		case lost[p.Mid]:
			if unknown++; p.Old.Told {
				t.Fatalf("%s: old %+v of a post that cannot be read", changeText(c), p.Old)
			}
		case !p.Old.Told || !p.Old.There || p.Old.Values[0] != (FeedValue{Column: 0, Value: wants[p.Mid]}):
			t.Fatalf("%s, lost: %v: old %+v, want %d", changeText(c), lost[p.Mid], p.Old, wants[p.Mid])
		default:
			known++
		}
	}
	if known+unknown != 6000 || known == 0 || unknown == 0 {
		t.Errorf("%d changes with old values, %d without, want 6000 of both kinds", known, unknown)
	}
}

// oldBlind makes a change that needs nothing of the post before: alone, in a change set, or with a number.
func oldBlind(s *Store, mid uint64, kind OpKind, how int) error {
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		return err
	}
	def := b.Schema().Counter("weibo")
	if kind == OpSetRow {
		copy(b.SetRow(def, mid, b.Shape([]int16{0, 2}, 1)), []uint64{5, 6})
	} else {
		b.Add(Op{Kind: kind, Counter: def, Mid: mid, Arg: 7})
	}
	var once *Once
	switch how {
	case 1: // beside a post that is new
		if kind == OpSetRow {
			copy(b.SetRow(def, 1, b.Shape([]int16{0, 2}, 1)), []uint64{5, 6})
		} else {
			b.Add(Op{Kind: kind, Counter: def, Mid: 1, Arg: 7})
		}
		b.ChangeSet(0)
	case 2:
		once, _ = b.Once(0)
		once.Producer, once.Seq = []byte("blind"), mid
	}
	b.Run()
	b.End()
	if once != nil && once.Err != nil {
		return once.Err
	}
	return errors.Join(b.Op(0).Err, b.Commit())
}

// wideMid is the first post of a wideStore.
const wideMid = 1 << 50

// wideStore has a counter w with old=on and many columns, all of which posts from wideMid on have large values of.
func wideStore(t *testing.T, columns, posts int, more string) *Store {
	t.Helper()
	script := "add counter w old=on\n"
	for i := range columns {
		script += fmt.Sprintf("add column w c%d hint=8 max=60\n", i)
	}
	s := openDir(t, "data", Options{FS: vfs.NewSim(), Manual: true, RetainBytes: 1 << 40, SnapshotGrowth: -1, AppendFsync: SyncAlways}, script+more)
	b := s.NewBatch()
	for mid := 0; mid < posts; {
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		b.Reset()
		def := b.Schema().Counter("w")
		all := make([]int16, columns)
		for i := range all {
			all[i] = int16(i)
		}
		n := min(MaxRows(columns), posts-mid)
		shape := b.Shape(all, n)
		for range n {
			values := b.SetRow(def, wideMid+uint64(mid), shape)
			for i := range values {
				values[i] = 1<<59 | uint64(mid)
			}
			mid++
		}
		b.ChangeSet(0)
		b.Run()
		b.End()
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// TestOldTooLong: a change set whose records would not fit in one frame with all old values has some of them without. So a change set of
// any counter may have the same number of operations.
func TestOldTooLong(t *testing.T) {
	const posts = 30_000
	s := wideStore(t, 40, posts, "")
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		t.Fatal(err)
	}
	for mid := range posts {
		b.Add(Op{Kind: OpDelete, Counter: b.Schema().Counter("w"), Mid: wideMid + uint64(mid)})
	}
	b.ChangeSet(0)
	b.Run()
	b.End()
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	r := newFeedReader()
	r.olds.damaged = true
	if err := r.read(t, s, s.data.Log.Durable()); err != nil {
		t.Fatal(err)
	}
	if len(r.posts["w"]) > 0 || r.olds.untold == 0 || r.olds.told < 2*posts/3 || r.olds.made != posts {
		t.Errorf("%d posts are left; %d parts with old values, %d of new posts, %d without", len(r.posts["w"]), r.olds.told, r.olds.made, r.olds.untold)
	}
}

// TestOldTransaction: a transaction, with a number and without one, and a whole update stay in one frame of the log with old values,
// as without: behind a crash all of it is there or nothing.
func TestOldTransaction(t *testing.T) {
	const posts, adds = 10_000, 2000
	windows := ""
	for i := range 8 {
		windows += fmt.Sprintf("add column w h%d window=1h/5m of=c0\n", i)
	}
	for _, with := range []string{"transaction", "number", "number and windows", "update and windows"} {
		t.Run(with, func(t *testing.T) {
			more := ""
			if strings.HasSuffix(with, "windows") {
				more = windows
			}
			s := wideStore(t, 48, posts, more)
			if err := s.Windows().Tick(time.Unix(1_800_000_000, 0), nil); err != nil {
				t.Fatal(err)
			}
			b := s.NewBatch()
			deleteAndAdd(t, b, false, 0, posts) // so that windows count each post
			if err := b.Commit(); err != nil {
				t.Fatal(err)
			}
			r := newFeedReader()
			r.olds.damaged = true
			if err := r.read(t, s, s.data.Log.Durable()); err != nil {
				t.Fatal(err)
			}
			if with == "update and windows" {
				deleteWhole(t, b, s.Schema().Counter("w"))
			} else {
				deleteAndAdd(t, b, with != "transaction", posts, adds)
			}
			if err := b.Commit(); err != nil {
				t.Fatal(err)
			}
			f, err := s.Feeds().Open(r.at, FeedFilter{Old: true})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			c, err := f.Next(s.data.Log.Durable(), 1<<30)
			if err != nil {
				t.Fatal(err)
			}
			if end := s.data.Log.Durable(); c.Position.Offset() != end {
				t.Errorf("a change of %d parts ends at offset %d, and the log at %d, want one change", len(c.Parts), c.Position.Offset(), end)
			}
			told := 0
			for i := range c.Parts {
				if c.Parts[i].Old.Told {
					told++
				}
			}
			if least := map[bool]int{true: adds / 2, false: posts / 2}[more != ""]; told < least {
				t.Errorf("%d parts with old values, want %d at least", told, least)
			}
			if err := r.read(t, s, s.data.Log.Durable()); err != nil {
				t.Fatal(err)
			}
			checkStore(t, s, r.posts)
		})
	}
}

// deleteWhole removes all posts of a counter by a whole update.
func deleteWhole(t *testing.T, b *Batch, def *schema.Counter) {
	t.Helper()
	u, err := NewUpdate(query.Query{Counter: def, To: 1 << 60}, []Change{{Kind: OpDelete}}, ReturnNothing)
	if err != nil {
		t.Fatal(err)
	}
	for done := false; !done; b.End() {
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		if done, err = u.Gather(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.BeginExclusive(); err != nil {
		t.Fatal(err)
	}
	defer b.End()
	if err := u.Apply(b); err != nil {
		t.Fatal(err)
	}
}

// deleteAndAdd removes the first posts of counter w and adds to those behind them, as one transaction.
func deleteAndAdd(t *testing.T, b *Batch, numbered bool, posts, adds uint64) {
	t.Helper()
	if err := b.BeginExclusive(); err != nil {
		t.Fatal(err)
	}
	defer b.End()
	o := Once{Producer: []byte("transaction"), Seq: 1}
	if numbered && !b.TryOnce(&o) {
		t.Fatalf("%+v was refused", o)
	}
	b.Reset()
	Expect(b, int(posts+adds))
	def := b.Schema().Counter("w")
	for i := range posts + adds {
		op := Op{Kind: OpDelete, Counter: def, Mid: wideMid + i}
		if i >= posts {
			op.Kind, op.Arg = OpAdd, 1
		}
		b.Add(op)
	}
	b.Run()
	if numbered {
		b.KeepOnce(&o, Result{Kind: ResultOK})
	}
}
