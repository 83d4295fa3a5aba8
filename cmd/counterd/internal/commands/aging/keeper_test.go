package aging

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/persist/vfs"
	"github.com/counterd/counterd/schema"
)

// server is a Host with a store whose clock is set by the test.
type server struct {
	store   *counter.Store
	now     time.Time
	held    bool
	touched uint64 // the end of the last range
}

func (s *server) Store() *counter.Store                      { return s.store }
func (s *server) MayChange() bool                            { return !s.held }
func (s *server) TouchRange(_ *schema.Counter, _, to uint64) { s.touched = to }
func (s *server) open(t testing.TB, fs vfs.FS, o counter.Options) {
	t.Helper()
	o.FS, o.Manual, o.Now = fs, true, func() time.Time { return s.now }
	store, err := counter.Open("data", o)
	if err != nil {
		t.Fatal(err)
	}
	s.store = store
}

// newServer makes a server with the schema of a script.
func newServer(t testing.TB, script string, o counter.Options) (*server, *Keeper) {
	t.Helper()
	start := time.UnixMilli(1_700_000_000_000)
	s := &server{now: start.Add(-time.Hour)}
	s.open(t, vfs.NewSim(), o)
	t.Cleanup(func() { _ = s.store.Close() })
	s.alter(t, script)
	k := NewKeeper(s, slog.New(slog.DiscardHandler))
	t.Cleanup(func() { k.Close(context.Background()) })
	look(k)
	s.now = start
	return s, k
}

func (s *server) alter(t testing.TB, script string) {
	t.Helper()
	b := s.store.NewBatch()
	if err := b.BeginExclusive(); err != nil {
		t.Fatal(err)
	}
	defer b.End()
	for line := range strings.Lines(script) {
		st, err := schema.ParseStatement(strings.Fields(line))
		if err == nil {
			err = b.Whole().Alter(st)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// add makes posts.
func (s *server) add(t testing.TB, mids ...uint64) {
	t.Helper()
	b := s.store.NewBatch()
	if err := b.Begin(); err != nil {
		t.Fatal(err)
	}
	defer b.End()
	for _, mid := range mids {
		b.Add(counter.Op{Kind: counter.OpAdd, Counter: b.Schema().Counter("c"), Mid: mid, Arg: 1})
	}
	b.Run()
}

// has tells whether there are posts.
func (s *server) has(t testing.TB, mids ...uint64) (found []bool) {
	t.Helper()
	b := s.store.NewBatch()
	if err := b.Begin(); err != nil {
		t.Fatal(err)
	}
	defer b.End()
	for _, mid := range mids {
		b.Add(counter.Op{Kind: counter.OpGet, Counter: b.Schema().Counter("c"), Mid: mid})
	}
	b.Run()
	for i := range mids {
		found = append(found, b.Op(i).Found)
	}
	return found
}

// look looks once, and waits until the cuts that are due are made.
func look(k *Keeper) {
	k.Look()
	if done := k.underway(); done != nil {
		<-done
	}
}

const ms16 = "add counter c ids=mastodon retain=100h\nadd column c v hint=8"

// at is a mid of a moment.
func at(moment time.Time, low uint64) uint64 { return uint64(moment.UnixMilli())<<16 | low }

// TestKeeper: posts older than retain go, and no others, whatever the clock does.
func TestKeeper(t *testing.T) {
	for _, groups := range []bool{false, true} {
		s, k := newServer(t, ms16, counter.Options{SlotGroups: groups, BlockItems: 16})
		start := s.now
		for i := range uint64(400) { // one each hour, to now
			s.add(t, at(start.Add(-time.Duration(i)*time.Hour), i))
		}
		per := period(100 * time.Hour)
		check := func(what string, now time.Time) {
			t.Helper()
			var mids []uint64
			for i := range uint64(400) {
				mids = append(mids, at(start.Add(-time.Duration(i)*time.Hour), i))
			}
			for i, has := range s.has(t, mids...) {
				age := now.Sub(start.Add(-time.Duration(i) * time.Hour))
				if age < 100*time.Hour && !has || age > 100*time.Hour+2*per && has {
					t.Fatalf("groups=%v: %s: a post that is %v old is there: %v", groups, what, age, has)
				}
			}
		}
		look(k)
		newest := start.Add(-(newestRank - 1) * time.Hour) // which tells time
		check("at the start", newest)
		pos := s.store.Replication().Position()
		if look(k); s.store.Replication().Position() != pos {
			t.Error("the same cut was logged twice")
		}
		s.now = start.Add(10 * 365 * 24 * time.Hour)
		if look(k); s.store.Replication().Position() != pos {
			t.Error("a clock that jumped ahead dropped posts")
		}
		s.add(t, schema.MaxMid, at(s.now, 0)) // ids of the future
		s.now = s.now.Add(per)
		look(k)
		check("with two ids of the future", newest.Add(2*time.Hour))
		s.now = start.Add(-10 * 365 * 24 * time.Hour)
		pos = s.store.Replication().Position()
		if look(k); s.store.Replication().Position() != pos {
			t.Error("a clock that was set back dropped posts")
		}
		check("with a clock set back", newest.Add(2*time.Hour))

		// A post below the cut is taken, and goes with the next.
		s.now = start
		look(k)
		old := at(start.Add(-1000*time.Hour), 7)
		s.add(t, old)
		if look(k); !s.has(t, old)[0] {
			t.Error("a post below the cut is gone before the next")
		}
		for i := range uint64(newestRank) {
			s.add(t, at(start.Add(per), i))
		}
		s.now = start.Add(per)
		if look(k); s.has(t, old)[0] {
			t.Error("a post below the cut did not go with the next")
		}
		check("a period later", s.now)
		if st := k.States(); len(st) != 1 || !st[0].Known || st[0].Posts < 200 || st[0].Mid != s.touched || st[0].Next <= s.now.UnixMilli() || st[0].Next > s.now.Add(per).UnixMilli() {
			t.Errorf("states: %+v, touched up to %d", st, s.touched)
		}

		// Held back, and off.
		s.now, s.held = start.Add(1000*time.Hour), true
		for i := range uint64(newestRank) {
			s.add(t, at(s.now, i))
		}
		pos = s.store.Replication().Position()
		if look(k); s.store.Replication().Position() != pos {
			t.Error("posts were dropped while changes are held back")
		}
		s.held = false
		s.alter(t, "alter counter c retain=off")
		pos = s.store.Replication().Position()
		if look(k); s.store.Replication().Position() != pos || len(k.States()) != 0 {
			t.Error("posts were dropped with retain off")
		}
		s.alter(t, "alter counter c retain=100h")
		look(k)
		s.now = s.now.Add(time.Hour)
		look(k)
		check("on again", s.now)
	}
}

// TestKeeperFutureMids: many mids of the future do not stand for the newest posts when the clock jumps ahead.
func TestKeeperFutureMids(t *testing.T) {
	for _, groups := range []bool{false, true} {
		s, k := newServer(t, ms16, counter.Options{SlotGroups: groups, BlockItems: 16})
		var mids []uint64
		for i := range uint64(200) {
			mids = append(mids, at(s.now.Add(-time.Duration(i)*time.Minute), i))
			s.add(t, mids[i], schema.MaxMid-i)
		}
		for _, jump := range []time.Duration{0, 200 * time.Hour, 10 * 365 * 24 * time.Hour} {
			s.now = s.now.Add(jump)
			look(k)
			if slices.Contains(s.has(t, mids...), false) {
				t.Fatalf("groups=%v: a clock that jumped ahead by %v, and mids of the future, dropped posts", groups, jump)
			}
		}
	}
}

// TestKeeperGrace: for an hour behind a change of retain or ids, and behind a start, nothing is dropped.
func TestKeeperGrace(t *testing.T) {
	s, k := newServer(t, ms16, counter.Options{BlockItems: 16})
	start := s.now
	var mids []uint64
	for i := range uint64(90) {
		mids = append(mids, at(start.Add(-time.Duration(i)*time.Hour), i))
	}
	s.add(t, mids...)
	all := func(what string) {
		t.Helper()
		if look(k); slices.Contains(s.has(t, mids...), false) {
			t.Fatalf("%s: posts were dropped", what)
		}
	}
	all("all younger")
	s.alter(t, "alter counter c retain=12h")
	all("a shorter retain")
	s.now = start.Add(59 * time.Minute)
	all("59 minutes later")
	s.alter(t, "alter counter c retain=100h")
	all("the longer one again")
	s.alter(t, "alter counter c retain=12h")
	s.now = start.Add(118 * time.Minute)
	all("the shorter one again")
	k = NewKeeper(s, slog.New(slog.DiscardHandler))
	t.Cleanup(func() { k.Close(context.Background()) })
	all("another start")
	s.now = s.now.Add(time.Hour)
	if look(k); s.has(t, mids[89])[0] || !s.has(t, mids[0])[0] {
		t.Error("an hour later no post was dropped, or all")
	}
	if got := grace(time.Minute); got != time.Minute {
		t.Errorf("the grace of a minute is %v", got)
	}
}

// TestKeeperModel: a clock that jumps at random, and posts of the true time and some of other times. No post goes that is younger
// than retain by the true time.
func TestKeeperModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed.Of(t), 0))
	for _, groups := range []bool{false, true} {
		s, k := newServer(t, ms16, counter.Options{SlotGroups: groups, BlockItems: 16})
		truth, jump := s.now, time.Duration(0)
		posts := map[uint64]time.Time{}
		lost := 0
		for step := range 150 {
			truth = truth.Add(time.Duration(rng.IntN(240)) * time.Minute)
			switch rng.IntN(10) {
			case 0:
				jump = time.Duration(rng.Int64N(int64(4000*time.Hour))) - 2000*time.Hour
			case 1, 2, 3:
				jump = 0
			case 4:
				if lost < newestRank-1 { // fewer posts of the future than are needed
					s.add(t, at(truth.Add(time.Duration(1+rng.IntN(100000))*time.Hour), rng.Uint64N(1<<16)))
					lost++
				}
			}
			for range 1 + rng.IntN(4) {
				made := truth.Add(-time.Duration(rng.IntN(60)) * time.Minute)
				mid := at(made, rng.Uint64N(1<<16))
				s.add(t, mid)
				posts[mid] = made
			}
			s.now = truth.Add(jump)
			look(k)
			maps.DeleteFunc(posts, func(_ uint64, made time.Time) bool { return truth.Sub(made) >= 100*time.Hour })
			mids := slices.Collect(maps.Keys(posts))
			for i, has := range s.has(t, mids...) {
				if !has {
					t.Fatalf("groups=%v, step %d: a post that is %v old is gone, with a clock that is %v ahead", groups, step, truth.Sub(posts[mids[i]]), jump)
				}
			}
		}
		if st := k.States(); len(st) != 1 || st[0].Posts == 0 {
			t.Errorf("groups=%v: nothing was dropped: %+v", groups, st)
		}
	}
}

// TestKeeperConcurrent: looks at the states and the schema beside drops.
func TestKeeperConcurrent(t *testing.T) {
	s, k := newServer(t, ms16, counter.Options{SlotGroups: true, BlockItems: 16})
	for i := range uint64(400) {
		s.add(t, at(s.now.Add(-time.Duration(i)*time.Hour), i))
	}
	k.Look()
	s.alter(t, "alter counter c retain=50h")
	for range 100 {
		k.States()
	}
	look(k)
	s.now = s.now.Add(time.Hour)
	look(k)
	if st := k.States(); len(st) != 1 || !st[0].Known || st[0].Retain != 50*time.Hour {
		t.Errorf("states: %+v", st)
	}
	k.Close(t.Context())
	k.Look()
	if k.underway() != nil {
		t.Error("it runs after Close")
	}
}
