package counter

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/racetest"
	testseed "github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/persist/format"
)

// TestDigestParts: stores with the same items and other blocks and tiers have the same sums in all parts of all ranges;
// one that differs in one column of one item is told apart by that part alone, down to the item.
func TestDigestParts(t *testing.T) {
	racetest.Skip(t, "the test drives the store itself, call after call")
	t.Logf("-seed=%d", *seed)
	rng := rand.New(rand.NewPCG(*seed, 5))
	const lo, end = uint64(0), uint64(1) << 63
	var stores [2]*Store
	mids := make([]uint64, 5000)
	for i, ids := 0, newStream(*seed); i < len(mids); i++ {
		mids[i] = ids.next()
	}
	mids[0], mids[1] = 0, end-1
	for i, items := range []int{64, 500} {
		s, err := Open(t.TempDir(), Options{BlockItems: items, Manual: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		stores[i] = s
		if err := s.AlterScript(seedScript); err != nil {
			t.Fatal(err)
		}
		for j, mid := range mids {
			if _, err := s.Incr(fmt.Sprintf("%d.cntcm", mid), int64(j%70_000)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 20 {
		if err := stores[i%2].Admin().Demote("weibo", mids[2+rng.IntN(2000)]); err != nil {
			t.Fatal(err)
		}
	}
	digests := func(s *Store, lo, hi uint64, parts int) []Digest {
		t.Helper()
		d, err := s.Admin().Digests("weibo", lo, hi, parts)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	differing := func(lo, hi uint64, parts int) (which []int) {
		t.Helper()
		a, b := digests(stores[0], lo, hi, parts), digests(stores[1], lo, hi, parts)
		for i := range a {
			if a[i] != b[i] {
				which = append(which, i)
			}
		}
		return which
	}
	for range 30 {
		parts := 1 + rng.IntN(MaxDigestParts)
		x, y := mids[2+rng.IntN(len(mids)-2)], mids[2+rng.IntN(len(mids)-2)]
		x, y = min(x, y), max(x, y)
		if d := differing(x, y, parts); d != nil {
			t.Errorf("[%d,%d) in %d parts: the same items differ in %v", x, y, parts, d)
		}
		var sum Digest
		at := x
		for i, d := range digests(stores[0], x, y, parts) {
			from, to := DigestPart(x, y, parts, i)
			if from != at || to < from {
				t.Fatalf("[%d,%d) part %d of %d is [%d,%d), want it to begin at %d", x, y, i, parts, from, to, at)
			}
			at = to
			if one := digests(stores[1], from, to, 1)[0]; i < 5 && one != d {
				t.Errorf("[%d,%d): %v as a part and %v alone", from, to, d, one)
			}
			sum.Items += d.Items
			sum.Sum += d.Sum
		}
		if whole := digests(stores[1], x, y, 1)[0]; at != y || whole != sum {
			t.Errorf("[%d,%d): the parts end at %d and are %v, the whole is %v", x, y, at, sum, whole)
		}
	}
	if whole := digests(stores[0], lo, end, 1)[0]; whole.Items != uint64(len(mids)) {
		t.Errorf("%d items, want %d", whole.Items, len(mids))
	}

	planted := mids[rng.IntN(len(mids))]
	if _, err := stores[1].Incr(fmt.Sprintf("%d.cntan", planted), 1); err != nil {
		t.Fatal(err)
	}
	from, to, rounds := lo, end, 0
	for to-from > 1 {
		d := differing(from, to, 256)
		if len(d) != 1 {
			t.Fatalf("[%d,%d): parts %v differ, want one", from, to, d)
		}
		from, to = DigestPart(from, to, 256, d[0])
		rounds++
	}
	if from != planted || rounds > 8 {
		t.Errorf("found %d in %d rounds, want %d in 8 at most", from, rounds, planted)
	}
}

// TestDigestKnowsNoIDs: items that are equal have equal sums, whatever was dropped before and in which order the
// columns came; values that change places, within an item or between two, do not.
func TestDigestKnowsNoIDs(t *testing.T) {
	open := func(script string, commands ...string) Digest {
		s, err := Open("", Options{Manual: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.AlterScript(script); err != nil {
			t.Fatal(err)
		}
		for _, key := range commands {
			if _, err := s.Incr(key, 5); err != nil {
				t.Fatal(err)
			}
		}
		d, err := s.Admin().Digests("c", 0, 1<<63, 1)
		if err != nil {
			t.Fatal(err)
		}
		return d[0]
	}
	const a, b = "add column c a hint=4 max=9\n", "add column c b hint=8 max=9\n"
	want := open("add counter c\n"+a+b, "7.a", "7.a", "8.b")
	for name, script := range map[string]string{
		"a column dropped":  "add counter c\nadd column c x hint=4\n" + a + "drop column c x\n" + b,
		"a counter dropped": "add counter x\nadd counter c\ndrop counter x\n" + a + b,
		"dropped and added": "add counter c\n" + a + b + "drop column c a\n" + a,
	} {
		if got := open(script, "7.a", "7.a", "8.b"); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	for name, keys := range map[string][]string{
		"the other column": {"7.b", "7.b", "8.b"}, "the other item": {"8.a", "8.a", "7.b"}, "within items": {"7.b", "7.b", "8.a"}, "one less": {"7.a", "8.b"},
	} {
		if got := open("add counter c\n"+a+b, keys...); got == want {
			t.Errorf("%s: got the same sum %v", name, got)
		}
	}
}

// BenchmarkDigest reads all items, in memory and in cold files, and copies of them, which take their blocks' locks for
// the time of the copy only.
func BenchmarkDigest(b *testing.B) {
	for _, tier := range []string{TierHot, TierCold} {
		b.Run(tier, func(b *testing.B) {
			s, err := Open(b.TempDir(), Options{Manual: true})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			if err := s.AlterScript(seedScript); err != nil {
				b.Fatal(err)
			}
			batch, ids := s.NewBatch(), newStream(1)
			def := s.Schema().Counter("weibo")
			for range *benchItems / 1000 {
				if err := batch.Begin(); err != nil {
					b.Fatal(err)
				}
				for range 1000 {
					batch.Add(Op{Kind: OpAdd, Counter: def, Mid: ids.next(), Arg: 3})
				}
				batch.Run()
				batch.End()
				batch.Reset()
			}
			if tier == TierCold {
				for _, blk := range s.data.Spaces[def.ID][0].Dir.Load().Blocks {
					if !blk.Open() {
						if err := s.Admin().Demote("weibo", blk.Lo); err != nil {
							b.Fatal(err)
						}
					}
				}
			}
			b.Run("locked", func(b *testing.B) {
				for b.Loop() {
					if _, err := s.Admin().Digests("weibo", 0, 1<<63, 256); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(*benchItems), "ns/item")
			})
			b.Run("copied", func(b *testing.B) {
				c, longest := NewRangeCopier(s), time.Duration(0)
				for b.Loop() {
					for at := (Cursor{}); ; {
						began := time.Now()
						_, more, err := c.Next(&at, func(PostRange, uint64) {})
						longest = max(longest, time.Since(began))
						if err != nil {
							b.Fatal(err)
						}
						if !more {
							break
						}
						if _, err := c.Digests(64, func() {}); err != nil {
							b.Fatal(err)
						}
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(*benchItems), "ns/item")
				b.ReportMetric(float64(longest.Microseconds()), "longest-us")
			})
		})
	}
}

// compared is what comparing a pair came to.
type compared struct{ ranges, elsewhere, mended, judged int }

// feed gives the replica the primary's log up to an offset, which a frame ends at.
func (p *pair) feed(t *testing.T, to uint64) {
	t.Helper()
	p.reach(t)
	primary, replica := p.nodes[p.lead], p.nodes[1-p.lead]
	if err := primary.s.data.Log.Commit(to); err != nil {
		t.Fatal(err)
	}
	if common := p.common(t); common < replica.s.data.Log.Position() {
		p.cut(t, replica, common)
	}
	if _, err := replica.s.repl.Follow(primary.s.repl.Lineage()); err != nil {
		t.Fatal(err)
	}
	for stream := logBytes(t, primary.s, replica.s.data.Log.Position()); replica.s.data.Log.Position() < to; {
		n := format.FrameHeaderLen + int(format.FramePayloadLen(stream))
		end, err := replica.s.repl.Replicate(stream[:n])
		if err != nil {
			t.Fatal(err)
		}
		replica.states[end] = primary.states[end]
		stream = stream[n:]
	}
	if at := replica.s.data.Log.Position(); at != to {
		t.Fatalf("no frame ends at %d, but at %d", to, at)
	}
}

// compare compares a range of the two at the offset where the primary copies it, while it goes on.
func (p *pair) compare(t *testing.T, of, at *RangeCopier, c *Cursor, all *compared) (r PostRange, more, same bool) {
	t.Helper()
	primary, replica := p.nodes[p.lead], p.nodes[1-p.lead]
	if primary.s.data.Log.Position() < replica.s.data.Log.Position() {
		p.link(t)
	}
	of.s, at.s = &primary.s.data, &replica.s.data
	var offset uint64
	r, more, err := of.Next(c, func(_ PostRange, at uint64) { offset = at })
	if err != nil || !more {
		if err != nil {
			t.Fatal(err)
		}
		return r, more, true
	}
	all.ranges++
	p.judge(t, of, r, all)
	for range p.rng.IntN(3) {
		p.write(t, primary)
	}
	if err := at.CopyAt(r, primary.s.data.Log.Position()+1); !errors.Is(err, ErrElsewhere) {
		t.Fatalf("copied at an offset that the log has not come to: %v", err)
	}
	p.feed(t, offset)
	at.s = &replica.s.data // it may be another by now
	if err := at.CopyAt(r, offset); err != nil {
		t.Fatal(err)
	}
	for range p.rng.IntN(3) {
		p.write(t, primary)
		playTiers(t, p.rng, p.nodes[p.rng.IntN(2)].s, p.mid())
	}
	if p.rng.IntN(2) == 0 {
		p.link(t)
	}
	x, errX := of.Digests(64, func() {})
	y, errY := at.Digests(64, func() {})
	if err := errors.Join(errX, errY); errors.Is(err, ErrElsewhere) {
		all.elsewhere++
		return r, more, true
	} else if err != nil {
		t.Fatal(err)
	}
	return r, more, slices.Equal(x, y)
}

// judge checks that the primary's log says nothing else of a range than what the primary has, and that it says what a value
// was that is changed behind its back.
func (p *pair) judge(t *testing.T, of *RangeCopier, r PostRange, all *compared) {
	t.Helper()
	s := p.nodes[p.lead].s
	judge, err := JudgeByLog(s, r)
	if err != nil {
		t.Fatal(err)
	}
	defer judge.Close()
	var at uint64
	var rows []PostRow
	read := func() {
		t.Helper()
		if err := of.Rows(r, 1<<20, func(_ PostRange, offset uint64, now []PostRow) { at, rows = offset, now }); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.Replication().CommitHere(at), judge.Read(at, func() {})); err != nil {
			t.Fatal(err)
		}
	}
	read()
	want, wrong := judge.Correct(s.Schema().CounterByID(r.Counter), r.Lo, r.Hi, rows)
	if wrong != 0 || len(want) != len(rows) {
		t.Fatalf("at %d: %d of %d posts of %+v contradict the log", at, wrong, len(rows), r)
	}
	if len(rows) == 0 || p.rng.IntN(3) > 0 {
		return
	}
	bad, good := slices.Clone(rows), rows
	if i := p.rng.IntN(len(bad)); p.rng.IntN(2) == 0 {
		bad = slices.Delete(bad, i, i+1)
	} else {
		bad[i].Values = slices.Clone(bad[i].Values)
		bad[i].Values[p.rng.IntN(len(bad[i].Values))] ^= 1
	}
	if _, err := MendRange(s, r, at, bad); err != nil {
		t.Fatal(err)
	}
	read()
	want, wrong = judge.Correct(s.Schema().CounterByID(r.Counter), r.Lo, r.Hi, rows)
	if wrong > 1 || wrong == 1 && !slices.EqualFunc(want, good, func(a, b PostRow) bool { return a.Mid == b.Mid && slices.Equal(a.Values, b.Values) }) {
		t.Fatalf("%d posts are wrong by the log, want them to be %v, not %v", wrong, good, want)
	}
	all.judged += wrong
	if _, err := MendRange(s, r, at, good); err != nil { // where the log does not go back to it
		t.Fatal(err)
	}
	p.nodes[p.lead].check(t)
}

// plant changes posts of the replica behind its log's back: their values, or whether they exist. It returns their mids.
func (p *pair) plant(t *testing.T, n int) map[uint64]bool {
	t.Helper()
	s, mids := p.nodes[1-p.lead].s, map[uint64]bool{}
	b := s.data.NewSilent(0)
	if err := b.BeginExclusive(); err != nil {
		t.Fatal(err)
	}
	defer b.End()
	for range n {
		def := b.Schema().Counters()[p.rng.IntN(2)]
		mid := p.mid()
		if mids[mid] {
			continue
		}
		b.Reset()
		b.Add(Op{Kind: OpRead, Counter: def, Mid: mid})
		b.Run()
		if row := b.Row(b.Op(0)); row != nil && p.rng.IntN(4) > 0 {
			c := int16(p.rng.IntN(len(def.Columns)))
			b.Add(Op{Kind: OpSet, Counter: def, Mid: mid, Column: c, Arg: row[c] ^ 1})
		} else if row != nil {
			b.Add(Op{Kind: OpDelete, Counter: def, Mid: mid})
		} else {
			b.Add(Op{Kind: OpSet, Counter: def, Mid: mid, Arg: 1})
		}
		b.Run()
		if err := b.Op(1).Err; err != nil {
			t.Fatal(err)
		}
		mids[mid] = true
	}
	return mids
}

// TestCompareModel compares a primary and its replica range by range, at offsets of the log while both go on, through
// schema changes, FLUSHALL, changes of tier, restarts, cut links and changes of role: nothing ever differs. Then posts of
// the replica are changed behind its log's back, some of them in cold files whose checksums are right: exactly these are
// found, they are mended, and a restart keeps that.
func TestCompareModel(t *testing.T) {
	racetest.Skip(t, "the test drives the store itself, call after call")
	newRand(t)
	runs, steps := 4, 150
	if *long {
		runs = 1000
	}
	var all compared
	counts := map[string]int{}
	for run := range testseed.Rounds(t, runs, counts, rareSteps...) {
		runSeed := *seed + uint64(run)
		t.Run(fmt.Sprintf("seed=%d", runSeed), func(t *testing.T) {
			p := newPair(t, rand.New(rand.NewPCG(runSeed, 9)))
			for p.nodes[0].opts.SlotGroups != p.nodes[1].opts.SlotGroups {
				p = newPair(t, p.rng)
			}
			of, at := new(RangeCopier), new(RangeCopier)
			var c Cursor
			for range steps {
				p.step(t)
				if p.nodes[0].opts.SlotGroups {
					c = Cursor{keyspace: 256 + p.rng.IntN(512)} // of the two counters; the others are empty
				}
				if r, _, same := p.compare(t, of, at, &c, &all); !same {
					t.Fatalf("%+v differs", r)
				}
			}
			primary, replica := p.nodes[p.lead], p.nodes[1-p.lead]
			p.feed(t, primary.s.data.Log.Position())
			planted := p.plant(t, 1+p.rng.IntN(6))
			for range 20 {
				playTiers(t, p.rng, replica.s, p.mid())
			}
			found := map[uint64]bool{}
			of.s, at.s, c = &primary.s.data, &replica.s.data, Cursor{}
			for {
				var offset uint64
				r, more, err := of.Next(&c, func(_ PostRange, at uint64) { offset = at })
				if err != nil {
					t.Fatal(err)
				}
				if !more {
					break
				}
				if err := at.CopyAt(r, offset); err != nil {
					t.Fatal(err)
				}
				x, errX := of.Digests(1, func() {})
				y, errY := at.Digests(1, func() {})
				if err := errors.Join(errX, errY); err != nil {
					t.Fatal(err)
				}
				for rest, lo := x[0] != y[0], r.Lo; rest; {
					part := PostRange{r.Counter, r.Group, lo, r.Hi}
					err := of.Rows(part, 5, func(part PostRange, offset uint64, rows []PostRow) {
						if _, err := MendRange(replica.s, part, offset+1, rows); !errors.Is(err, ErrElsewhere) {
							t.Fatal(err)
						}
						were, err := MendRange(replica.s, part, offset, rows)
						if err != nil {
							t.Fatal(err)
						}
						for _, post := range were {
							found[post.Mid] = true
						}
						lo, rest = part.Hi, part.Hi < r.Hi
					})
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			if !maps.Equal(found, planted) {
				t.Errorf("found %v, want %v", found, planted)
			}
			all.mended += len(found)
			p.tally(counts)
			if err := replica.s.Snapshot(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if x, y := digestOf(t, primary.s), digestOf(t, replica.s); x != y {
					t.Errorf("digests %s and %s", x, y)
				}
				replica.check(t)
				p.restart(t, replica)
				p.feed(t, primary.s.data.Log.Position())
			}
			for _, n := range p.nodes {
				if err := n.s.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	t.Logf("%+v %v", all, counts)
}

// TestCopyEndsFrame: a frame of the log ends where a range is copied, also in the middle of a larger write.
func TestCopyEndsFrame(t *testing.T) {
	s, err := Open(t.TempDir(), Options{Manual: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.AlterScript(seedScript); err != nil {
		t.Fatal(err)
	}
	def, b := s.Schema().Counter("weibo"), s.NewBatch()
	set := func(mid uint64) {
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		b.Reset()
		b.Add(Op{Kind: OpSet, Counter: def, Mid: mid, Arg: 1})
		b.Run()
		b.End()
	}
	from := s.Replication().Position()
	set(1)
	var at uint64
	if _, err := NewRangeCopier(s).First(PostRange{Counter: def.ID, Hi: 1 << 63}, func(_ PostRange, offset uint64) { at = offset }); err != nil {
		t.Fatal(err)
	}
	set(2)
	end := s.Replication().Position()
	if err := s.Replication().CommitHere(end); err != nil {
		t.Fatal(err)
	}
	r, err := s.Replication().NewReader(from)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for r.Pos() < at {
		if f, err := r.TryNext(); err != nil || f == nil {
			t.Fatalf("frame %v, %v", f, err)
		}
	}
	if r.Pos() != at || at <= from || at >= end {
		t.Errorf("copied at %d between %d and %d, a frame ends at %d", at, from, end, r.Pos())
	}
}
