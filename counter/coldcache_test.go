// Scenario: the cache of cold pages shares MaxMemory with the tables, and a store tells of the pages that it reads.

package counter

import (
	"errors"
	"fmt"
	"testing"

	"github.com/counterd/counterd/counter/internal/tier"

	"github.com/counterd/counterd/counter/internal/arena"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/vfs"
)

// TestCacheGivesWay: what reads of cold posts cache never takes MaxMemory away from changes. It has what the tables
// leave, and while it is full and misses pages, room is made for it, step by step.
func TestCacheGivesWay(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	const limit = 1 << 30
	s := openDir(t, "data", Options{FS: vfs.NewSim(), Manual: true, MaxMemory: limit, BlockItems: 64}, seedScript)
	defer s.Close()
	own, most := tier.CacheShares(limit)
	var spans []arena.Span
	leave := func(room int64) { // that the tables leave below the target; nobody touches the memory
		t.Helper()
		for _, span := range spans {
			s.data.Arena.Free(span)
		}
		spans = spans[:0]
		span, err := s.data.Arena.Alloc(int(s.tiers.Target()-s.tiers.Tables()-room), false)
		if err != nil {
			t.Fatal(err)
		}
		spans = append(spans, span)
	}
	for _, c := range []struct{ room, want int64 }{
		{most + 4096, most}, {most, most}, {most / 2, most / 2}, {tier.MinCache, tier.MinCache}, {0, tier.MinCache}, {-tier.Headroom, tier.MinCache},
		{own / 16, tier.MinCache}, {own / 4, own / 4}, {own / 3, own / 4}, {most + 4096, most},
	} {
		leave(c.room)
		s.tiers.FitCache()
		if got := s.data.Cache.Stats().Limit; got > c.want || got < c.want-8192 {
			t.Errorf("the tables leave %d: the cache may take %d, want %d", c.room, got, c.want)
		}
		if c.room >= tier.MinCache && s.tiers.Tables()+s.data.Cache.Stats().Limit > s.tiers.Target()+4096 {
			t.Errorf("the tables leave %d: together they pass the target", c.room)
		}
	}

	for i := range 20_000 { // one cold block and some hot ones
		if err := s.Set(fmt.Sprintf("%d.cntrn", i*1000), uint64(i)); err != nil {
			t.Fatal(err)
		}
	}
	leave(tier.MinCache / 2)
	for mid := uint64(0); mid < 1000*10_000; mid += 1000 * 20 {
		if err := s.Admin().Demote("weibo", mid); err != nil && !errors.Is(err, ErrNoBlock) {
			t.Fatal(err)
		}
	}
	s.data.Cache.SetLimit(256 << 10)
	read := func() {
		for i := range 10_000 {
			if n, _, err := s.Get(fmt.Sprintf("%d.cntrn", i*1000)); err != nil || n != uint64(i) {
				t.Fatalf("post %d: got %d, %v", i*1000, n, err)
			}
		}
	}
	if got, idle := s.tiers.CacheWants(); got != 0 || idle != 0 {
		t.Errorf("nothing was read: the cache wants %d and %d, want 0", got, idle)
	}
	read()
	full := s.data.Cache.Stats()
	want := full.Limit + own/tier.CacheGrowth
	if got, idle := s.tiers.CacheWants(); full.Evictions == 0 || got != want || idle != want {
		t.Errorf("full, with %d evictions, and missing pages: it wants %d and %d, want %d", full.Evictions, got, idle, want)
	}
	if got, idle := s.tiers.CacheWants(); got != full.Bytes || idle != full.Bytes {
		t.Errorf("nothing was read since: the cache wants %d and %d, want %d", got, idle, full.Bytes)
	}
	read()
	demoted := s.tiers.Demotions.Load()
	if !s.tiers.Shrink() || s.tiers.Demotions.Load() != demoted+1 {
		t.Error("no block was demoted to make room for the cache's own share")
	}
}

// TestCacheTakesIdle: beyond its own share the cache grows into what the tables leave, and hot ranges that nobody uses give
// way to it; those that are used do not.
func TestCacheTakesIdle(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	const limit, slack, posts, cold = 16 << 20, 64 << 10, 40_000, 30_000 // slack: the arena rounds
	s := openDir(t, "data", Options{FS: vfs.NewSim(), Manual: true, MaxMemory: limit, BlockItems: 64}, seedScript)
	defer s.Close()
	own, most := tier.CacheShares(limit)
	for i := range posts {
		if err := s.Set(fmt.Sprintf("%d.cntrn", i*1000), uint64(i)); err != nil {
			t.Fatal(err)
		}
	}
	for mid := uint64(0); mid < 1000*cold; mid += 1000 * 20 {
		if err := s.Admin().Demote("weibo", mid); err != nil {
			t.Fatal(err)
		}
	}
	read := func() {
		for i := range cold {
			if n, _, err := s.Get(fmt.Sprintf("%d.cntrn", i*1000)); err != nil || n != uint64(i) {
				t.Fatalf("post %d: got %d, %v", i*1000, n, err)
			}
		}
	}
	s.tiers.FitCache()
	if got := s.data.Cache.Stats().Limit; got < 4*own || got > most {
		t.Errorf("the tables take %d: the cache may take %d, want more than its share of %d", s.tiers.Tables(), got, own)
	}
	span, err := s.data.Arena.Alloc(int(s.tiers.Target()-s.tiers.Tables()-own-slack), false)
	if err != nil {
		t.Fatal(err)
	}
	s.tiers.FitCache()
	if got := s.data.Cache.Stats().Limit; got > own+slack || got < own-8192 {
		t.Errorf("the tables leave its share: the cache may take %d, want %d", got, own+slack)
	}
	read()
	demoted := s.tiers.Demotions.Load()
	if s.tiers.Shrink() || s.tiers.Demotions.Load() != demoted {
		t.Error("a block that is used was demoted for more than the cache's own share")
	}
	s.data.Clock.Add(tier.IdleSeconds + 1)
	if s.tiers.Shrink() {
		t.Error("a block was demoted though no page was missed since")
	}
	read()
	if !s.tiers.Shrink() || s.tiers.Demotions.Load() != demoted+1 {
		t.Error("no block that nobody uses was demoted to make room for the cache")
	}
	s.data.Arena.Free(span)
	for range 8 {
		s.tiers.FitCache()
		read()
	}
	if st := s.data.Cache.Stats(); st.Bytes < own*3/2 || s.tiers.Memory() > limit {
		t.Errorf("with room for all: %+v, %d of %d bytes in use", st, s.tiers.Memory(), limit)
	}
}

// TestColdTellsOfPages: a batch has to leave its loop for pages of cold files that are not in the cache, and for those only.
func TestColdTellsOfPages(t *testing.T) {
	s := openDir(t, "data", Options{FS: vfs.NewSim(), Manual: true, BlockItems: 64}, seedScript)
	defer s.Close()
	for i := range 1000 {
		if err := s.Set(fmt.Sprintf("%d.cntrn", i), uint64(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.Admin().Demote("weibo", 0), s.Admin().Demote("weibo", 100)); err != nil {
		t.Fatal(err)
	}
	b := s.NewBatch()
	cold := func(run bool, kind OpKind, mids ...uint64) bool {
		t.Helper()
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		defer b.End()
		b.Reset()
		for _, mid := range mids {
			b.Add(Op{Kind: kind, Counter: b.Schema().Counters()[0], Column: 1, Mid: mid, Arg: 1})
		}
		was := b.Cold()
		b.Truncate(0)
		for _, mid := range mids {
			b.Add(Op{Kind: kind, Counter: b.Schema().Counters()[0], Column: 1, Mid: mid, Arg: 1})
			Ahead(b, b.Len())
		}
		if got := b.Cold(); got != was {
			t.Errorf("posts %d, located ahead: got %v, want %v", mids, got, was)
		}
		if run {
			b.Run()
			for i := range mids {
				if op := b.Op(i); op.Err != nil || !op.Found {
					t.Fatalf("post %d: %v %v", mids[i], op.Found, op.Err)
				}
			}
		}
		return was
	}
	for _, c := range []struct {
		want, run bool
		kind      OpKind
		mids      []uint64
	}{
		{false, true, OpRead, []uint64{999}},
		{true, false, OpRead, []uint64{5}},
		{true, true, OpRead, []uint64{5, 999}},
		{false, true, OpRead, []uint64{7, 999, 8}},
		{true, true, OpRead, []uint64{7, 999, 100}},
		{false, true, OpAdd, []uint64{7, 101}},
		{false, true, OpGet, []uint64{7, 101}},
	} {
		if got := cold(c.run, c.kind, c.mids...); got != c.want {
			t.Errorf("%d of posts %v: Cold is %v, want %v", c.kind, c.mids, got, c.want)
		}
	}
	s.data.Cache.SetLimit(0)
	if !cold(true, OpRead, 8) {
		t.Error("nothing is in the cache, and Cold is false")
	}
}
