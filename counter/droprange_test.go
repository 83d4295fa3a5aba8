// Scenario: all posts of a range of ids are dropped at once, by one record, whatever else goes on.

package counter

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/counterd/counterd/counter/datadir"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/vfs"
)

// dropRange drops a range as a server does it, without the commit.
func dropRange(s *Store, name string, from, to uint64) (posts int, err error) {
	if err := s.repl.AdmitCursors(); err != nil && !errors.Is(err, ErrInMemory) {
		return 0, err
	}
	b := s.NewBatch()
	if err := b.BeginExclusive(); err != nil {
		return 0, err
	}
	defer b.End()
	drop, err := b.Whole().DropRange(b.Schema().Counter(name), from, to, slot.AllGroups())
	if drop == nil {
		return 0, err
	}
	return drop.Posts, err
}

// randomRange returns a range, often of whole blocks, and now and then of everything.
func randomRange(rng *rand.Rand, mid func() uint64) (from, to uint64) {
	switch rng.IntN(8) {
	case 0:
		return 0, hot.EndMid
	case 1:
		return mid(), hot.EndMid
	case 2, 3:
		return 0, mid() + 1
	}
	a, b := mid(), mid()
	return min(a, b), max(a, b) + 1
}

// playDrop drops a random range of a counter, and has a model do the same.
func playDrop(t testing.TB, rng *rand.Rand, s *Store, m model, mid func() uint64) {
	t.Helper()
	names := slices.Sorted(maps.Keys(m))
	name := names[rng.IntN(len(names))]
	from, to := randomRange(rng, mid)
	posts, err := dropRange(s, name, from, to)
	if err != nil {
		t.Fatal(err)
	}
	before := len(m[name])
	maps.DeleteFunc(m[name], func(mid uint64, _ map[string]uint64) bool { return mid >= from && mid < to })
	if posts != before-len(m[name]) {
		t.Fatalf("%s from %d to %d: %d posts were dropped, want %d", name, from, to, posts, before-len(m[name]))
	}
}

// drop drops a random range.
func (p *player) drop(t testing.TB) error {
	counters := p.s.Schema().Counters()
	from, to := randomRange(p.rng, p.mid)
	_, err := dropRange(p.s, counters[p.rng.IntN(len(counters))].Name, from, to)
	p.states = append(p.states, dump(t, p.s))
	if err == nil {
		err = p.s.data.Log.Commit(p.s.data.Log.Position())
	}
	if err == nil {
		p.acknowledged()
	}
	return err
}

// drop drops a random range at one of the two stores: posts of the groups that it serves.
func (m *movers) drop(t *testing.T) {
	t.Helper()
	from, to := randomRange(m.rng, func() uint64 { return m.rng.Uint64N(500) })
	i := m.rng.IntN(2)
	if _, err := dropRange(m.nodes[i].s, "a", from, to); err != nil {
		t.Fatal(err)
	}
	if err := m.nodes[i].s.data.Log.Commit(m.nodes[i].s.data.Log.Position()); err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(m.posts, func(mid uint64, _ [2]uint64) bool {
		return mid >= from && mid < to && m.owner[slot.Group(mid)] == i && !m.held(mid)
	})
	m.counts["drop"]++
}

// TestDropRangeBlocks: blocks inside of the range go without a read, hot or cold, and one empty block takes their place, also over several
// drops. The blocks at the edges keep their other posts. Nothing is logged for a range without posts.
func TestDropRangeBlocks(t *testing.T) {
	sim := vfs.NewSim()
	s := openDir(t, "data", Options{FS: sim, Manual: true, BlockItems: 16, AppendFsync: SyncAlways}, playSchemaScript)
	const all, dropped = 4000, 3000
	for mid := range uint64(all) {
		feedIncr(t, s, fmt.Sprintf("%d.v", mid), 1)
	}
	for mid := uint64(0); mid < all/2; mid += 10 {
		if err := s.Admin().Demote("a", mid); err != nil && !errors.Is(err, ErrNoBlock) {
			t.Fatal(err)
		}
	}
	blocks := func() (list []BlockInfo) {
		b := s.NewBatch()
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		defer b.End()
		NewReader(b).Blocks(func(i BlockInfo) bool { list = append(list, i); return true })
		return list
	}
	before, memory := blocks(), s.data.Arena.Used()
	for to := uint64(dropped / 3); to <= dropped; to += dropped / 3 {
		at := s.data.Log.Position()
		if n, err := dropRange(s, "a", 0, to); err != nil || n != dropped/3 || s.data.Log.Position() == at {
			t.Errorf("up to %d: %d posts dropped, %v", to, n, err)
		}
		if now := blocks(); len(now) >= len(before) || now[0].Items != 0 || now[1].Items == 0 || now[0].Hi > to {
			t.Errorf("%d blocks, they were %d: %+v", len(now), len(before), now[:2])
		}
	}
	if got := s.data.Arena.Used(); got >= memory {
		t.Errorf("memory is %d, it was %d", got, memory)
	}
	at := s.data.Log.Position()
	if n, err := dropRange(s, "a", 0, dropped); n != 0 || err != nil || s.data.Log.Position() != at {
		t.Errorf("again: %d posts, %v, and %d bytes of log", n, err, s.data.Log.Position()-at)
	}
	if _, err := dropRange(s, "a", 7, 7); !errors.As(err, new(*DropRangeError)) {
		t.Errorf("an empty range: got %v", err)
	}
	if _, err := dropRange(s, "a", 7, hot.EndMid+1); !errors.As(err, new(*DropRangeError)) {
		t.Errorf("a range above all ids: got %v", err)
	}
	// All: the open block goes too, and takes new posts.
	if _, err := dropRange(s, "a", 0, hot.EndMid); err != nil {
		t.Fatal(err)
	}
	if now := blocks(); len(now) != 1 || now[0].Items != 0 || !now[0].Open {
		t.Errorf("left: %+v", now)
	}
	feedIncr(t, s, "7.v", 1)
	if s.data.Files.Some() {
		t.Error("a dropped file is said to be in use")
	}
	for range 2 {
		if err := s.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	if names, err := sim.List("data/cold"); err != nil || len(names) > 0 {
		t.Errorf("files that nothing needs: %v, %v", names, err)
	}
}

// TestDropRangeModel has random ranges dropped between all other operations.
func TestDropRangeModel(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	rng := newRand(t)
	for _, groups := range []bool{false, true} {
		for _, blockItems := range []int{16, 40} {
			t.Run(fmt.Sprintf("groups=%v/block=%d", groups, blockItems), func(t *testing.T) {
				opts := Options{BlockItems: blockItems, HashSeed: rng.Uint64(), FS: vfs.NewSim(), Manual: true, SlotGroups: groups}
				s := openDir(t, "data", opts, "add counter a\nadd column a v hint=3 max=20 suffix=v top=2\nadd counter b\nadd column b x hint=1 max=1 suffix=x")
				m := model{"a": {}, "b": {}}
				mid := func() uint64 {
					if rng.IntN(6) == 0 {
						return rng.Uint64() >> 1
					}
					return fewGroups(rng.Uint64N(300))
				}
				added := 0
				for i := range 600 {
					switch {
					case i%100 == 99:
						playSchema(t, rng, s, m, &added)
					case i%5 == 0:
						playTiers(t, rng, s, mid())
					case i%11 == 0:
						playDrop(t, rng, s, m, mid)
					case i%50 == 49:
						if err := s.Snapshot(); err != nil {
							t.Fatal(err)
						}
					}
					playBatch(t, rng, s, m, mid)
					if i%10 == 0 {
						playQuery(t, rng, s, m, mid)
					}
					if i%60 == 59 {
						checkStore(t, s, m)
					}
				}
				checkStore(t, s, m)
			})
		}
	}
}

// TestFindBesideDropRange drops ranges between the steps of queries: posts that stay are found once, in order, and others once at most. TOP has the
// largest of the posts that stay.
func TestFindBesideDropRange(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	rng := newRand(t)
	for round := range 12 {
		s := openDir(t, "data", Options{BlockItems: 16, FS: vfs.NewSim(), Manual: true, SlotGroups: round%3 == 0}, "add counter a\nadd column a v hint=8 max=20 suffix=v top=2")
		const posts = 1000
		stays := make(map[uint64]bool)
		for mid := range uint64(posts) {
			feedIncr(t, s, fmt.Sprintf("%d.v", mid), int64(1+mid%97))
			stays[mid] = true
		}
		for mid := uint64(0); mid < posts; mid += 7 {
			if rng.IntN(2) == 0 {
				if err := s.Admin().Demote("a", mid); err != nil && !errors.Is(err, ErrNoBlock) {
					t.Fatal(err)
				}
			}
		}
		q := Query{Counter: s.Schema().Counter("a"), To: hot.EndMid - 1, Desc: rng.IntN(2) == 0}
		find, err := NewFind(q)
		if err != nil {
			t.Fatal(err)
		}
		top, err := NewTop(Query{Counter: q.Counter, To: q.To}, 0, posts)
		if err != nil {
			t.Fatal(err)
		}
		find.q.Search.Most, top.q.Search.Most = 1+rng.IntN(100), 1+rng.IntN(100)
		var found []uint64
		b := s.NewBatch()
		for findDone, topDone := false, false; !findDone || !topDone; {
			if err := b.Begin(); err != nil {
				t.Fatal(err)
			}
			if !findDone {
				if findDone, err = find.Step(b); err != nil {
					t.Fatal(err)
				}
				for i := range find.Rows().Len() {
					mid, _ := find.Rows().At(i)
					found = append(found, mid)
				}
			}
			if !topDone {
				if topDone, err = top.Step(b); err != nil {
					t.Fatal(err)
				}
			}
			b.End()
			if rng.IntN(8) == 0 {
				from := rng.Uint64N(posts)
				to := from + 1 + rng.Uint64N(posts/8)
				if _, err := dropRange(s, "a", from, to); err != nil {
					t.Fatal(err)
				}
				maps.DeleteFunc(stays, func(mid uint64, _ bool) bool { return mid >= from && mid < to })
				if rng.IntN(2) == 0 {
					feedIncr(t, s, fmt.Sprintf("%d.v", from), 500)
				}
			}
		}
		if q.Desc {
			slices.Reverse(found)
		}
		for i, mid := range found {
			if i > 0 && found[i-1] >= mid {
				t.Fatalf("round %d: %d was found behind %d", round, mid, found[i-1])
			}
		}
		best := make(map[uint64]bool)
		for i := range top.Rows().Len() {
			mid, _ := top.Rows().At(i)
			if best[mid] {
				t.Fatalf("round %d: TOP has %d twice", round, mid)
			}
			best[mid] = true
		}
		for mid := range stays {
			if _, ok := slices.BinarySearch(found, mid); !ok || !best[mid] {
				t.Fatalf("round %d: %d stayed, and FIND has it: %t, TOP: %t", round, mid, ok, best[mid])
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDropRangeDuringSnapshot drops a range while a snapshot writes its files, at each of them. A start from it has the posts, and so have restores to the
// moments before and behind.
func TestDropRangeDuringSnapshot(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	rng := newRand(t)
	const script = "add counter a\nadd column a v hint=3 max=20 suffix=v top=2\nadd counter b\nadd column b x hint=1 max=1 suffix=x"
	mid := func() uint64 { return fewGroups(rng.Uint64N(300)) }
	for _, groups := range []bool{false, true} {
		for at := 0; ; at += 1 + rng.IntN(3) {
			fs := &hookFS{FS: vfs.NewSim()}
			s := openDir(t, "data", Options{FS: fs, Manual: true, BlockItems: 16, SlotGroups: groups}, script)
			m := model{"a": {}, "b": {}}
			for i := range 40 {
				playBatch(t, rng, s, m, mid)
				playTiers(t, rng, s, mid())
				if i%15 == 14 {
					if err := s.Snapshot(); err != nil {
						t.Fatal(err)
					}
				}
			}
			files := 0
			var before, behind uint64
			var was, is model
			fs.hook = func(string) {
				if files++; files != at+1 {
					return
				}
				fs.hook = nil
				playBatch(t, rng, s, m, mid)
				before, was = s.data.Log.Position(), m.clone()
				playDrop(t, rng, s, m, mid)
				behind, is = s.data.Log.Position(), m.clone()
				playBatch(t, rng, s, m, mid)
				playTiers(t, rng, s, mid())
			}
			if err := s.Snapshot(); err != nil {
				t.Fatal(err)
			}
			reached := fs.hook == nil
			fs.hook = nil
			checkStore(t, s, m)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = openDir(t, "data", Options{FS: fs, Manual: true, BlockItems: 16, SlotGroups: groups}, "")
			checkStore(t, s, m)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if !reached {
				if at == 0 {
					t.Fatal("the snapshot made no file")
				}
				break
			}
			for target, want := range map[uint64]model{before: was, behind: is} {
				out := vfs.NewSim()
				if _, err := datadir.Restore(fs.FS, "data", out, "out", datadir.Target{Offset: target}, datadir.RestoreOptions{}); err != nil {
					t.Fatalf("file %d: restore to %d of %d: %v", at, target, behind, err)
				}
				o, err := Open("out", Options{FS: out, Manual: true})
				if err != nil {
					t.Fatal(err)
				}
				checkStore(t, o, want)
				if err := o.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// TestDropRangeOfGroups: a drop of some groups of hash slots leaves the posts of all others, here and on a replay.
func TestDropRangeOfGroups(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	for _, split := range []bool{false, true} {
		sim := vfs.NewSim()
		opts := Options{FS: sim, Manual: true, BlockItems: 16, SlotGroups: split}
		s := openDir(t, "data", opts, "add counter a\nadd column a v hint=3 max=20 suffix=v top=2")
		var only slot.Set
		only.Add(slot.Group(7))
		want := model{"a": {}}
		for mid := range uint64(500) {
			feedIncr(t, s, fmt.Sprintf("%d.v", mid), 1)
			if mid >= 400 || !only.Has(slot.Group(mid)) {
				want["a"][mid] = map[string]uint64{"v": 1}
			}
		}
		if err := s.repl.AdmitCursors(); err != nil {
			t.Fatal(err)
		}
		b := s.NewBatch()
		if err := b.BeginExclusive(); err != nil {
			t.Fatal(err)
		}
		drop, err := b.Whole().DropRange(b.Schema().Counter("a"), 0, 400, only)
		b.End()
		if err != nil || drop.Posts != 500-len(want["a"]) || drop.Posts == 0 {
			t.Errorf("split %t: %+v, %v; want %d posts dropped", split, drop, err, 500-len(want["a"]))
		}
		checkStore(t, s, want)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		checkStore(t, openDir(t, "data", opts, ""), want)
	}
}
