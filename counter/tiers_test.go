package counter

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterd/counterd/counter/datadir"
	"github.com/counterd/counterd/counter/internal/arena"
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// TestConcurrentTiers increments from several goroutines while blocks are demoted, merged and promoted under their
// hands. Sums must be exact, in memory and after a crash.
func TestConcurrentTiers(t *testing.T) {
	newRand(t)
	sim := vfs.NewSim()
	opts := Options{BlockItems: 64, FS: sim, Manual: true}
	s := openDir(t, "data", opts, "add counter a\nadd column a v hint=2 max=40 suffix=v\nadd column a w hint=8 max=8 suffix=w")
	const writers, rounds, keys = 3, 6000, 1000
	for i := range keys {
		if err := s.Set(fmt.Sprintf("%d.w", i*10), uint64(i%256)); err != nil {
			t.Fatal(err)
		}
	}
	var writing sync.WaitGroup
	var written atomic.Uint64
	some := func() bool { // of each, which takes more rounds on a busy machine
		return s.tiers.demotions.Load() > 0 && s.tiers.rewrites.Load() > 0 && s.tiers.promotions.Load() > 0
	}
	for w := range writers {
		writing.Add(1)
		rng := rand.New(rand.NewPCG(*seed, uint64(w)+1))
		go func() {
			defer writing.Done()
			b := s.NewBatch()
			for round := 0; round < rounds || !some(); round++ {
				if err := b.Begin(); err != nil {
					t.Error(err)
					return
				}
				b.Reset()
				c := b.Schema().Counter("a")
				for range 3 {
					b.Add(Op{Kind: OpAdd, Counter: c, Mid: rng.Uint64N(keys * 10), Arg: 1}) // nine of ten are new at first
				}
				b.Run()
				for i := range b.Len() {
					if err := b.Op(i).Err; err != nil {
						t.Error(err)
					}
				}
				b.End()
				if err := b.Commit(); err != nil {
					t.Error(err)
				}
				written.Add(3)
				if t.Failed() {
					return
				}
			}
		}()
	}
	var done atomic.Bool
	var moving sync.WaitGroup
	moving.Add(2)
	go func() {
		defer moving.Done()
		rng := rand.New(rand.NewPCG(*seed, 99))
		for !done.Load() {
			change := s.Admin().Demote
			if rng.IntN(4) == 0 {
				change = s.Admin().Promote
			}
			if err := change("a", rng.Uint64N(keys*10)); err != nil && !errors.Is(err, ErrNoBlock) {
				t.Error(err)
				return
			}
		}
	}()
	go func() {
		defer moving.Done()
		for !done.Load() {
			if err := s.Snapshot(); err != nil {
				t.Error(err)
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	writing.Wait()
	done.Store(true)
	moving.Wait()
	check := func(s *Store, what string) {
		t.Helper()
		b := s.NewBatch()
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		defer b.End()
		c := b.Schema().Counter("a")
		for i := range uint64(keys * 10) {
			b.Add(Op{Kind: OpRead, Counter: c, Mid: i})
		}
		b.Run()
		total := uint64(0)
		for i := range keys * 10 {
			op := b.Op(i)
			if op.Err != nil {
				t.Fatal(op.Err)
			}
			row := b.Row(op)
			if row == nil {
				if i%10 == 0 {
					t.Fatalf("%s: mid %d is missing", what, i)
				}
				continue
			}
			total += row[0]
			if i%10 == 0 && row[1] != uint64(i/10%256) {
				t.Fatalf("%s: mid %d: got w %d, want %d", what, i, row[1], i/10%256)
			}
		}
		if want := written.Load(); total != want {
			t.Errorf("%s: sum: got %d, want %d", what, total, want)
		}
	}
	check(s, "in memory")
	t.Logf("%d demotions, %d rewrites, %d promotions", s.tiers.demotions.Load(), s.tiers.rewrites.Load(), s.tiers.promotions.Load())
	opts.FS = sim.Kill()
	again, err := Open("data", opts)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	check(again, "after a kill")
}

// TestMaxMemory loads several times more than MaxMemory on the real file system: memory stays within it, values are
// exact, before and after a restart.
func TestMaxMemory(t *testing.T) {
	racetest.Skip(t, "TestConcurrentTiers moves posts beside writers; this needs two million")
	n := 2_400_000
	if testing.Short() {
		n = 2_000_000
	}
	dir := t.TempDir()
	opts := Options{MaxMemory: MinMaxMemory, BlockItems: 16 << 10}
	s := openDir(t, dir, opts, seedScript)
	mids := fill(t, s, n, 11)
	for end := time.Now().Add(20 * time.Second); s.tiers.memory(s) > opts.MaxMemory && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	share := 1 // of the posts, one in so many is read
	if testing.Short() {
		share = 10
	}
	verify := func(what string) {
		t.Helper()
		b := s.NewBatch()
		st := newStream(11)
		for i := 0; i < n; i += 500 {
			if i/500%share != 0 {
				for range min(n, i+500) - i {
					st.next()
					st.row()
				}
				continue
			}
			if err := b.Begin(); err != nil {
				t.Fatal(err)
			}
			b.Reset()
			c := b.Schema().Counter("weibo")
			var rows [][3]uint64
			for j := i; j < min(n, i+500); j++ {
				b.Add(Op{Kind: OpRead, Counter: c, Mid: st.next()})
				rows = append(rows, st.row())
			}
			b.Run()
			for j, want := range rows {
				if row := b.Row(b.Op(j)); b.Op(j).Err != nil || row == nil || [3]uint64(row) != want {
					t.Fatalf("%s: mid %d: got %v, %v, want %v", what, b.Op(j).Mid, row, b.Op(j).Err, want)
				}
			}
			b.End()
		}
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		defer b.End()
		tiers := b.Tiers()
		if tiers.Memory > opts.MaxMemory+headroom || tiers.ColdItems == 0 || tiers.HotItems+tiers.ColdItems != int64(n) {
			t.Errorf("%s: got %+v", what, tiers)
		}
		t.Logf("%s: %d hot, %d cold items in %d blocks, %.2f B/item in files, memory %.1f MB", what, tiers.HotItems, tiers.ColdItems, tiers.ColdBlocks,
			float64(tiers.ColdBytes)/float64(tiers.ColdItems), float64(tiers.Memory)/(1<<20))
	}
	verify("loaded")
	if _, err := s.Incr(fmt.Sprintf("%d.cntrn", mids[0]), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Incr(fmt.Sprintf("%d.cntrn", mids[0]), -1); err != nil {
		t.Fatal(err)
	}
	if err := s.Snapshot(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	verify("restarted")
}

// TestAwaitRoom: who may wait is not refused where memory is full for a moment, and is where it stays full.
func TestAwaitRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 64 << 20
		s := openDir(t, "data", Options{FS: vfs.NewSim(), Manual: true, MaxMemory: limit}, seedScript)
		defer s.Close()
		if err := s.Set("1.cntrn", 1); err != nil {
			t.Fatal(err)
		}
		for _, free := range []time.Duration{100 * time.Millisecond, time.Hour} {
			span, err := s.arena.Alloc(limit+headroom+1, false)
			if err != nil {
				t.Fatal(err)
			}
			if s.tiers.updateFull(s); !s.Crowded() {
				t.Fatal("not crowded where memory is full")
			}
			began := time.Now()
			go func() {
				time.Sleep(free)
				s.arena.Free(span)
				s.tiers.updateFull(s)
			}()
			s.AwaitRoom()
			if waited, want := time.Since(began), min(free, fullWait); waited < want || waited > want+2*time.Millisecond {
				t.Errorf("room after %v: waited %v, want %v", free, waited, want)
			}
			err = s.Set("2.cntrn", 1)
			if full := free > fullWait; errors.Is(err, ErrMaxMemory) != full {
				t.Errorf("room after %v: a new post: got %v", free, err)
			}
			if s.Crowded() {
				t.Error("still crowded")
			}
			if err := s.Set("1.cntrn", 2); err != nil {
				t.Errorf("a post that is there: got %v", err)
			}
			if _, err := s.do("2.cntrn", Op{Kind: OpDelete}); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Until(began.Add(free + time.Millisecond)))
			synctest.Wait()
		}
	})
}

// TestCacheGivesWay: what reads of cold posts cache never takes MaxMemory away from changes. It has what the tables
// leave, and while it is full and misses pages, room is made for it, step by step.
func TestCacheGivesWay(t *testing.T) {
	const limit = 1 << 30
	s := openDir(t, "data", Options{FS: vfs.NewSim(), Manual: true, MaxMemory: limit, BlockItems: 64}, seedScript)
	defer s.Close()
	own, most := cacheShares(limit)
	var spans []arena.Span
	leave := func(room int64) { // that the tables leave below the target; nobody touches the memory
		t.Helper()
		for _, span := range spans {
			s.arena.Free(span)
		}
		spans = spans[:0]
		span, err := s.arena.Alloc(int(s.tiers.target()-s.tiers.tables(s)-room), false)
		if err != nil {
			t.Fatal(err)
		}
		spans = append(spans, span)
	}
	for _, c := range []struct{ room, want int64 }{
		{most + 4096, most}, {most, most}, {most / 2, most / 2}, {minCache, minCache}, {0, minCache}, {-headroom, minCache},
		{own / 16, minCache}, {own / 4, own / 4}, {own / 3, own / 4}, {most + 4096, most},
	} {
		leave(c.room)
		s.tiers.fitCache(s)
		if got := s.tiers.cache.Stats().Limit; got > c.want || got < c.want-8192 {
			t.Errorf("the tables leave %d: the cache may take %d, want %d", c.room, got, c.want)
		}
		if c.room >= minCache && s.tiers.tables(s)+s.tiers.cache.Stats().Limit > s.tiers.target()+4096 {
			t.Errorf("the tables leave %d: together they pass the target", c.room)
		}
	}

	for i := range 20_000 { // one cold block and some hot ones
		if err := s.Set(fmt.Sprintf("%d.cntrn", i*1000), uint64(i)); err != nil {
			t.Fatal(err)
		}
	}
	leave(minCache / 2)
	for mid := uint64(0); mid < 1000*10_000; mid += 1000 * 20 {
		if err := s.Admin().Demote("weibo", mid); err != nil && !errors.Is(err, ErrNoBlock) {
			t.Fatal(err)
		}
	}
	s.tiers.cache.SetLimit(256 << 10)
	read := func() {
		for i := range 10_000 {
			if n, _, err := s.Get(fmt.Sprintf("%d.cntrn", i*1000)); err != nil || n != uint64(i) {
				t.Fatalf("post %d: got %d, %v", i*1000, n, err)
			}
		}
	}
	if got, idle := s.tiers.cacheWants(); got != 0 || idle != 0 {
		t.Errorf("nothing was read: the cache wants %d and %d, want 0", got, idle)
	}
	read()
	full := s.tiers.cache.Stats()
	want := full.Limit + own/cacheGrowth
	if got, idle := s.tiers.cacheWants(); full.Evictions == 0 || got != want || idle != want {
		t.Errorf("full, with %d evictions, and missing pages: it wants %d and %d, want %d", full.Evictions, got, idle, want)
	}
	if got, idle := s.tiers.cacheWants(); got != full.Bytes || idle != full.Bytes {
		t.Errorf("nothing was read since: the cache wants %d and %d, want %d", got, idle, full.Bytes)
	}
	read()
	demoted := s.tiers.demotions.Load()
	if !s.tiers.shrink(s) || s.tiers.demotions.Load() != demoted+1 {
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
	own, most := cacheShares(limit)
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
	s.tiers.fitCache(s)
	if got := s.tiers.cache.Stats().Limit; got < 4*own || got > most {
		t.Errorf("the tables take %d: the cache may take %d, want more than its share of %d", s.tiers.tables(s), got, own)
	}
	span, err := s.arena.Alloc(int(s.tiers.target()-s.tiers.tables(s)-own-slack), false)
	if err != nil {
		t.Fatal(err)
	}
	s.tiers.fitCache(s)
	if got := s.tiers.cache.Stats().Limit; got > own+slack || got < own-8192 {
		t.Errorf("the tables leave its share: the cache may take %d, want %d", got, own+slack)
	}
	read()
	demoted := s.tiers.demotions.Load()
	if s.tiers.shrink(s) || s.tiers.demotions.Load() != demoted {
		t.Error("a block that is used was demoted for more than the cache's own share")
	}
	s.tiers.clock.Add(idleSeconds + 1)
	if s.tiers.shrink(s) {
		t.Error("a block was demoted though no page was missed since")
	}
	read()
	if !s.tiers.shrink(s) || s.tiers.demotions.Load() != demoted+1 {
		t.Error("no block that nobody uses was demoted to make room for the cache")
	}
	s.arena.Free(span)
	for range 8 {
		s.tiers.fitCache(s)
		read()
	}
	if st := s.tiers.cache.Stats(); st.Bytes < own*3/2 || s.tiers.memory(s) > limit {
		t.Errorf("with room for all: %+v, %d of %d bytes in use", st, s.tiers.memory(s), limit)
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
	s.tiers.cache.SetLimit(0)
	if !cold(true, OpRead, 8) {
		t.Error("nothing is in the cache, and Cold is false")
	}
}

// TestDamagedColdFile flips a byte of a page: the keys of that page answer ErrCold, all others are served, and the
// store goes on.
func TestDamagedColdFile(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	dir := t.TempDir()
	s := openDir(t, dir, Options{}, seedScript)
	mids := fill(t, s, 150_000, 3)
	if err := s.Admin().Demote("weibo", mids[0]); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "cold", "*.cold"))
	if len(files) != 1 {
		t.Fatalf("got files %v, want one", files)
	}
	f, err := os.OpenFile(files[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{0xff, 0xff, 0xff}, 10_000); err != nil {
		t.Fatal(err)
	}
	f.Close()
	bad := 0
	for _, mid := range mids[:60_000] {
		_, found, err := s.Get(fmt.Sprintf("%d.cntrn", mid))
		switch {
		case errors.Is(err, block.ErrCold):
			bad++
		case err != nil || !found:
			t.Fatalf("mid %d: got %v, %v", mid, found, err)
		}
	}
	if bad == 0 || bad > 5000 {
		t.Errorf("got %d items that cannot be read, want those of one page", bad)
	}
	if _, err := s.Incr(fmt.Sprintf("%d.cntrn", mids[100_000]), 1); err != nil {
		t.Errorf("Incr elsewhere: %v", err)
	}
	// The scrubber finds it after a restart, without anybody asking for the page.
	if err := s.Snapshot(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for end := time.Now().Add(20 * time.Second); s.tiers.scrubErrors.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the scrubber did not find the damaged page")
		}
	}
}

// TestNewerColdFile: a cold file of a newer program stops the start, is no damage for the tools, and is left alone.
func TestNewerColdFile(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir, Options{Manual: true}, seedScript)
	mids := fill(t, s, 100_000, 3)
	if err := s.Admin().Demote("weibo", mids[0]); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "cold", "*.cold"))
	if len(files) != 1 {
		t.Fatalf("got files %v, want one", files)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	header := b[:48+11*int(b[10])]
	header[8] = 9
	binary.LittleEndian.PutUint32(header[len(header)-4:], crc32.Checksum(header[:len(header)-4], crc32.MakeTable(crc32.Castagnoli)))
	if err := os.WriteFile(files[0], b, 0o640); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(dir, Options{Manual: true}); !errors.Is(err, format.ErrUnsupportedFormat) || errors.Is(err, format.ErrCorrupt) {
		t.Errorf("open: %v", err)
		if err == nil {
			s.Close()
		}
	}
	cold := ColdVerifier(vfs.OS())
	report, err := datadir.Check(vfs.OS(), dir, datadir.CheckOptions{Cold: cold})
	if err != nil || report.OK() || !errors.Is(report.Problems[0].Err, format.ErrUnsupportedFormat) {
		t.Errorf("check: %v %+v", err, report)
	}
	if err := datadir.Repair(vfs.OS(), dir, datadir.RepairOptions{Cold: cold}); !errors.Is(err, format.ErrUnsupportedFormat) {
		t.Errorf("repair: %v", err)
	}
	if now, err := os.ReadFile(files[0]); err != nil || !bytes.Equal(now, b) {
		t.Errorf("the file was changed: %v", err)
	}
}

// TestMissingColdFile removes a file that all snapshots name: its range answers ErrCold, everything else is served, and
// a snapshot later still names it, so that putting it back brings the posts back.
func TestMissingColdFile(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	dir := t.TempDir()
	s := openDir(t, dir, Options{}, seedScript)
	mids := fill(t, s, 150_000, 3)
	if err := s.Admin().Demote("weibo", mids[0]); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	want := dump(t, s)
	reopen := func() {
		t.Helper()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		var err error
		if s, err = Open(dir, Options{}); err != nil {
			t.Fatal(err)
		}
	}
	files, _ := filepath.Glob(filepath.Join(dir, "cold", "*.cold"))
	if len(files) != 1 {
		t.Fatalf("got files %v, want one", files)
	}
	if err := os.Rename(files[0], filepath.Join(dir, "away")); err != nil {
		t.Fatal(err)
	}
	reopen()
	if _, _, err := s.Get(fmt.Sprintf("%d.cntrn", mids[0])); !errors.Is(err, block.ErrCold) {
		t.Errorf("Get in the missing file: got %v, want ErrCold", err)
	}
	if _, err := s.Incr(fmt.Sprintf("%d.cntrn", mids[0]), 1); !errors.Is(err, block.ErrCold) {
		t.Errorf("Incr in the missing file: got %v, want ErrCold", err)
	}
	if _, err := s.Incr(fmt.Sprintf("%d.cntrn", mids[140_000]), 0); err != nil {
		t.Errorf("Incr elsewhere: %v", err)
	}
	if err := s.Snapshot(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "away"), files[0]); err != nil {
		t.Fatal(err)
	}
	reopen()
	defer s.Close()
	if got := dump(t, s); !maps.Equal(got, want) {
		t.Errorf("with the file back: got %d items, want %d", len(got), len(want))
	}
}

// TestEmptiedOverlayAfterSchemaChange: an overlay whose rows are all gone again still has the columns it was made with.
// The next row copied into it must find the present ones.
func TestEmptiedOverlayAfterSchemaChange(t *testing.T) {
	opts := Options{BlockItems: 16, FS: vfs.NewSim(), Manual: true}
	s := openDir(t, "data", opts, "add counter a\nadd column a v hint=8 max=20 suffix=v\nadd column a w hint=8 max=20 suffix=w")
	s.repacker.stop() // or it would re-pack the overlay before we come to it
	for i := range uint64(200) {
		for col, v := range map[string]uint64{"v": i, "w": 100 + i} {
			if err := s.Set(fmt.Sprintf("%d.%s", 2*i, col), v); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Admin().Demote("a", 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Set("1.v", 5); err != nil { // not in the file
		t.Fatal(err)
	}
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		t.Fatal(err)
	}
	b.Add(Op{Kind: OpDelete, Counter: b.Schema().Counter("a"), Mid: 1})
	b.Run()
	b.End()
	if err := s.AlterScript("drop column a v\nadd column a x hint=8 max=20 default=7 suffix=x"); err != nil {
		t.Fatal(err)
	}
	if err := s.Set("4.x", 9); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]uint64{"4.w": 102, "4.x": 9, "6.w": 103, "6.x": 7} {
		if v, found, err := s.Get(key); v != want || !found || err != nil {
			t.Errorf("%s: got %d, %v, %v, want %d", key, v, found, err, want)
		}
	}
}

// TestDamagedColdBlockRests: a cold block whose file cannot be read is due to be merged, and fails each time. Other
// blocks are demoted and merged meanwhile, at once, and memory comes down.
func TestDamagedColdBlockRests(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir, Options{Manual: true, BlockItems: 8 << 10}, seedScript)
	mids := fill(t, s, 100_000, 3)
	blocks := func() []*block.Block { return weiboSpace(s).Dir.Load().Blocks }
	sealed := blocks()[:len(blocks())-1]
	bad, good := sealed[0].Lo, sealed[1].Lo
	for _, lo := range []uint64{bad, good} {
		if err := s.Admin().Demote("weibo", lo); err != nil {
			t.Fatal(err)
		}
	}
	flip(t, weiboSpace(s).Dir.Load().Find(bad).Cold.File.Name(), 5_000)
	unreadable := 0
	for _, mid := range mids {
		if mid >= sealed[2].Lo {
			break
		}
		if err := s.Set(fmt.Sprintf("%d.cntrn", mid), 9); errors.Is(err, block.ErrCold) {
			unreadable++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	s.Admin().SetMaxMemory(1 << 10) // far below what is used
	failed := func() int64 { return s.tiers.failed.Load() }
	s.tiers.mergeAndPromote(s)
	if failed() != 1 || s.tiers.rewrites.Load() != 1 {
		t.Fatalf("%d failures and %d merges, want one of each: the overlays of one good and one bad block have grown", failed(), s.tiers.rewrites.Load())
	}
	s.tiers.mergeAndPromote(s)
	if failed() != 1 && time.Now().Before(weiboSpace(s).Dir.Load().Find(bad).Backoff.Until) {
		t.Error("the bad block was tried again at once")
	}
	for range 100 {
		if !s.tiers.shrink(s) {
			break
		}
	}
	for _, b := range blocks() {
		if b.Cold == nil && !b.Open() {
			t.Errorf("block [%d,%d) is still hot", b.Lo, b.Hi)
		}
	}
	// The rest grows, and ends with a success: what the file has can be read again.
	b := weiboSpace(s).Dir.Load().Find(bad)
	for range 3 {
		b.Backoff.Until = time.Time{}
		s.tiers.mergeAndPromote(s)
	}
	if b.Backoff.Pause < 4*time.Second {
		t.Errorf("the bad block rests %v after 4 failures", b.Backoff.Pause)
	}
	flip(t, b.Cold.File.Name(), 5_000)
	b.Backoff.Until = time.Time{}
	if s.tiers.mergeAndPromote(s); weiboSpace(s).Dir.Load().Find(bad) == b {
		t.Error("the block was not merged though its file can be read again")
	}
	if _, _, err := s.Get(fmt.Sprintf("%d.cntrn", mids[0])); err != nil {
		t.Error(err)
	}
}

// TestFullDiskRestsAll: a failure that is not a block's own makes all rest, but not for longer because of that block.
func TestFullDiskRestsAll(t *testing.T) {
	faulty := vfs.NewFaulty(vfs.NewSim())
	s := openDir(t, "data", Options{FS: faulty, Manual: true, BlockItems: 64}, "add counter a\nadd column a v hint=8 max=32 suffix=v")
	for i := range 400 {
		if err := s.Set(fmt.Sprintf("%d.v", i), uint64(i)); err != nil {
			t.Fatal(err)
		}
	}
	s.Admin().SetMaxMemory(1)
	faulty.Inject(vfs.Rule{Ops: vfs.OpCreate, Every: 1, Err: errNoSpace})
	if s.tiers.shrink(s) || s.tiers.failed.Load() != 1 || s.tiers.backoff.Over() {
		t.Fatalf("%d failures, rest until %v: want one, and a rest", s.tiers.failed.Load(), s.tiers.backoff.Until)
	}
	faulty.Clear()
	s.tiers.backoff.Until = time.Time{}
	for range 100 {
		if !s.tiers.shrink(s) {
			break
		}
	}
	if s.tiers.backoff.Pause != 0 {
		t.Errorf("all rest %v after a success", s.tiers.backoff.Pause)
	}
	hotSealed := 0
	for _, b := range s.spaces[s.Schema().Counter("a").ID][0].Dir.Load().Blocks {
		if b.Cold == nil && !b.Open() {
			hotSealed++
		}
	}
	if hotSealed > 1 {
		t.Errorf("%d sealed blocks are hot, want at most the one that failed and rests", hotSealed)
	}
}

// hookFS calls hook before it creates a file.
type hookFS struct {
	vfs.FS
	hook func(name string)
}

func (h *hookFS) Create(name string) (vfs.File, error) {
	if h.hook != nil {
		h.hook(name)
	}
	return h.FS.Create(name)
}

func clearAll(t *testing.T, s *Store) {
	t.Helper()
	b := s.NewBatch()
	if err := b.BeginExclusive(); err != nil {
		t.Fatal(err)
	}
	err := b.Clear()
	b.End()
	if err := errors.Join(err, b.Commit()); err != nil {
		t.Fatal(err)
	}
}

// TestUnusedColdFilesGo: a cold file that no block uses any more, whatever became of its block, is removed as soon as
// two snapshots do not name it.
func TestUnusedColdFilesGo(t *testing.T) {
	ends := map[string]func(t *testing.T, s *Store, fs *hookFS){
		"flushed": func(t *testing.T, s *Store, _ *hookFS) { clearAll(t, s) },
		"dropped": func(t *testing.T, s *Store, _ *hookFS) {
			if err := s.AlterScript("drop counter a"); err != nil {
				t.Fatal(err)
			}
		},
		"promoted": func(t *testing.T, s *Store, _ *hookFS) {
			for _, mid := range []uint64{0, 100} {
				if err := s.Admin().Promote("a", mid); err != nil {
					t.Fatal(err)
				}
			}
		},
		"flushed while they are merged": func(t *testing.T, s *Store, fs *hookFS) {
			if err := s.Set("3.v", 5); err != nil {
				t.Fatal(err)
			}
			fs.hook = func(string) {
				fs.hook = nil
				clearAll(t, s)
			}
			if err := s.Admin().Demote("a", 3); !errors.Is(err, ErrNoBlock) {
				t.Errorf("merging a block that was cleared meanwhile: got %v, want %v", err, ErrNoBlock)
			}
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			fs := &hookFS{FS: vfs.NewSim()}
			s := openDir(t, "data", Options{FS: fs, Manual: true, BlockItems: 64}, "add counter a\nadd column a v hint=8 max=32 suffix=v\nadd counter b\nadd column b w hint=8 max=32 suffix=w")
			for i := range 400 {
				if err := s.Set(fmt.Sprintf("%d.v", i), uint64(i)); err != nil {
					t.Fatal(err)
				}
			}
			for _, mid := range []uint64{0, 100} {
				if err := s.Admin().Demote("a", mid); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Snapshot(); err != nil {
				t.Fatal(err)
			}
			end(t, s, fs)
			for i := range 2 {
				if err := s.Set("7.w", uint64(i)); err != nil {
					t.Fatal(err)
				}
				if err := s.Snapshot(); err != nil {
					t.Fatal(err)
				}
			}
			files, err := fs.List(format.ColdDir("data"))
			if err != nil || len(files) > 0 {
				t.Errorf("got files %v, %v, want none", files, err)
			}
			if s.tiers.failed.Load() > 0 {
				t.Errorf("%d failures", s.tiers.failed.Load())
			}
		})
	}
}

// TestCloseWaitsForTiers: a change of tier that was asked for by hand goes on while the store closes. It must have
// ended when Close returns: another store in the same directory gives its files the same names.
func TestCloseWaitsForTiers(t *testing.T) {
	for name, change := range map[string]func(s *Store) error{
		"demote": func(s *Store) error { return s.Admin().Demote("a", 3) },
		"merge":  func(s *Store) error { return s.Admin().Demote("a", 100) },
	} {
		t.Run(name, func(t *testing.T) {
			fs := &hookFS{FS: vfs.NewSim()}
			opts := Options{FS: fs, Manual: true, BlockItems: 64}
			s := openDir(t, "data", opts, "add counter a\nadd column a v hint=8 max=32 suffix=v")
			for i := range 400 {
				if err := s.Set(fmt.Sprintf("%d.v", i), uint64(i)); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Admin().Demote("a", 100); err != nil {
				t.Fatal(err)
			}
			if err := s.Set("100.v", 7); err != nil {
				t.Fatal(err)
			}
			var closed chan error
			fs.hook = func(string) {
				fs.hook = nil
				closed = make(chan error, 1)
				go func() { closed <- s.Close() }()
				for _, err := s.Len(); !errors.Is(err, ErrClosed); _, err = s.Len() {
					time.Sleep(time.Millisecond)
				}
				select {
				case err := <-closed:
					closed <- err
					t.Error("the store is closed while a block is being written to a file")
				case <-time.After(50 * time.Millisecond): // long enough to see it as a rule, if it were so
				}
			}
			if err := change(s); !errors.Is(err, ErrNoBlock) && !errors.Is(err, ErrClosed) {
				t.Errorf("got %v, want %v or %v", err, ErrNoBlock, ErrClosed)
			}
			if err := <-closed; err != nil {
				t.Fatal(err)
			}
			again, err := Open("data", opts)
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			for i := range 400 {
				if v, _, err := again.Get(fmt.Sprintf("%d.v", i)); err != nil || v != uint64(i) && !(i == 100 && v == 7) {
					t.Errorf("%d: got %d, %v", i, v, err)
				}
			}
		})
	}
}
