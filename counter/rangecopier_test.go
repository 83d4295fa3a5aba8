package counter

import (
	"errors"
	"fmt"
	"testing"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/persist/vfs"
)

// rowsAt reads all posts of a range.
func rowsAt(t *testing.T, s *Store, r PostRange) (rows []PostRow) {
	t.Helper()
	if err := NewRangeCopier(s).Rows(r, 1<<20, func(_ PostRange, _ uint64, all []PostRow) { rows = all }); err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestRangeAtOffset: a replica copies and mends a range at the offset where its log ends, and at no other.
func TestRangeAtOffset(t *testing.T) {
	s := openElected(t, vfs.NewSim(), nil)
	defer close1(t, s)
	if _, err := s.Replication().LeadAt(1); err != nil {
		t.Fatal(err)
	}
	s.Replication().Confirm(Everywhere)
	if err := s.AlterScript(seedScript); err != nil {
		t.Fatal(err)
	}
	for mid := range 10 {
		if err := s.Set(fmt.Sprintf("%d.cntcm", mid), 7); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Replication().Yield(); err != nil {
		t.Fatal(err)
	}
	at := s.Replication().Position()
	r := PostRange{Counter: s.Schema().Counter("weibo").ID, Lo: 0, Hi: 5}
	rows := rowsAt(t, s, r)
	for _, off := range []uint64{at - 1, at + 1} {
		if err := NewRangeCopier(s).CopyAt(r, off); !errors.Is(err, ErrElsewhere) {
			t.Errorf("a copy at %d of a log that ends at %d: %v", off, at, err)
		}
		if were, err := MendRange(s, r, off, rows[1:]); !errors.Is(err, ErrElsewhere) || len(were) > 0 {
			t.Errorf("posts of offset %d for a log that ends at %d: %v, %v", off, at, were, err)
		}
	}
	if err := NewRangeCopier(s).CopyAt(r, at); err != nil {
		t.Error(err)
	}
	if were, err := MendRange(s, r, at, rows[1:]); err != nil || len(were) != 1 || were[0].Mid != 0 {
		t.Errorf("%v, %v, want post 0", were, err)
	}
}

// TestMendOwnRange: a primary gives its range values of its log only if nothing has changed there since: no post, not all posts by
// FLUSHALL, and no start that replayed the log.
func TestMendOwnRange(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir, Options{Manual: true, SnapshotGrowth: -1}, seedScript)
	set := func(mid int) {
		t.Helper()
		if err := s.Set(fmt.Sprintf("%d.cntcm", mid), 7); err != nil {
			t.Fatal(err)
		}
	}
	for mid := range 10 {
		set(mid)
	}
	r := PostRange{Counter: s.Schema().Counter("weibo").ID, Lo: 0, Hi: 5}
	rows := rowsAt(t, s, r)
	refused := func(why string, at uint64) {
		t.Helper()
		if were, err := MendRange(s, r, at, rows); !errors.Is(err, ErrElsewhere) || len(were) > 0 {
			t.Errorf("%s: %v, %v", why, were, err)
		}
	}
	at := s.Replication().Position()
	if were, err := MendRange(s, r, at, rows); err != nil || len(were) > 0 {
		t.Errorf("nothing has changed: %v, %v", were, err)
	}
	set(3)
	refused("a post was changed", at)
	before := s.Replication().Position() - 1
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var err error
	if s, err = Open(dir, Options{Manual: true, SnapshotGrowth: -1}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	refused("the log was replayed", before)

	at = s.Replication().Position()
	b := s.NewBatch()
	if err := b.BeginExclusive(); err != nil {
		t.Fatal(err)
	}
	err = b.Whole().Clear()
	b.End()
	if err != nil {
		t.Fatal(err)
	}
	refused("all posts were removed", at)
	if n, err := s.Len(); n != 0 || err != nil {
		t.Errorf("%d posts, %v", n, err)
	}
}

// TestReplacePartial: a range whose file is damaged gets the posts of another node. Changes of posts that this node could not read come
// on top, from its log.
func TestReplacePartial(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir, Options{Manual: true, SnapshotGrowth: -1, BlockItems: 1 << 10}, seedScript)
	mids := fill(t, s, 4_000, 3)
	key := fmt.Sprintf("%d.cntcm", mids[5])
	if err := errors.Join(s.Admin().Demote("weibo", mids[0]), s.Snapshot()); err != nil {
		t.Fatal(err)
	}
	ks := s.data.Spaces[s.Schema().Counter("weibo").ID][0]
	r := PostRange{Counter: ks.ID, Lo: 0, Hi: ks.Dir.Load().Blocks[0].Hi}
	since := s.Replication().Position()
	rows := rowsAt(t, s, r)
	file := ks.Dir.Load().Blocks[0].Cold.File
	name, pages := file.Name(), file.Pages()
	if err := errors.Join(s.Set(key, 4242), s.Close()); err != nil {
		t.Fatal(err)
	}
	for i := range pages {
		flip(t, name, int64(i<<12+200))
	}
	var err error
	if s, err = Open(dir, Options{Manual: true, SnapshotGrowth: -1, BlockItems: 1 << 10}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	blk := func() *block.Block { return s.data.Spaces[r.Counter][0].Dir.Load().Blocks[0] }
	if len(blk().Cold.Partial) == 0 {
		t.Fatal("the post is not known in a part")
	}
	if err := ReplaceRange(s, r, since, s.Replication().Position(), rows); err != nil {
		t.Fatal(err)
	}
	if got, found, err := s.Get(key); got != 4242 || !found || err != nil {
		t.Errorf("the post has %d, %v, %v, want what the log says", got, found, err)
	}
	if got := rowsAt(t, s, r); len(got) != len(rows) {
		t.Errorf("%d posts, want %d", len(got), len(rows))
	}
}
