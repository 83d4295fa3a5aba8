// Scenario: files that rotted are found by the background.

package counter

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// TestScrubAsked: files are verified when that is asked for, and what rotted since is found.
func TestScrubAsked(t *testing.T) {
	s := openDir(t, t.TempDir(), Options{SnapshotGrowth: -1, BlockItems: 4 << 10}, seedScript)
	mids := fill(t, s, 16_000, 3)
	if err := s.Admin().Demote("weibo", mids[0]); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		before := s.Admin().TierCounts()
		if st := scrubRound(t, s); st.Scrubs < before.Scrubs+1 || st.ScrubErrors != 0 {
			t.Fatalf("%d files verified, %d damaged; before %d", st.Scrubs, st.ScrubErrors, before.Scrubs)
		}
	}
	flip(t, s.scrubber.Files()[0].Name(), 5000)
	if st := scrubRound(t, s); st.ScrubErrors != 1 {
		t.Errorf("%d damaged files found, want 1", st.ScrubErrors)
	}
	if err := s.data.Log.Sync(); err != nil {
		t.Fatal(err)
	}
	flip(t, s.data.Log.Segments().List()[0].Path, 100)
	if st := scrubRound(t, s); st.ScrubErrors != 3 { // the cold file again, and the log
		t.Errorf("%d damaged files found, want 3", st.ScrubErrors)
	}
}

// scrubRound has all files verified, and returns the counts behind it.
func scrubRound(t *testing.T, s *Store) TierStats {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		err := s.Admin().Scrub()
		if err == nil {
			break
		}
		if !errors.Is(err, ErrScrubbing) || time.Now().After(end) { // ErrScrubbing: the round of the start
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(time.Minute); s.Admin().TierCounts().Scrubbing; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the round does not end")
		}
	}
	return s.Admin().TierCounts()
}

// TestScrubManifest: a manifest that is damaged while the store is open is found, and written again from memory.
func TestScrubManifest(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir, Options{SnapshotGrowth: -1}, seedScript)
	fill(t, s, 500, 3)
	if err := s.Snapshot(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, format.ManifestName(s.data.Dir.Manifests()[0].Generation))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	flip(t, path, int64(len(whole)/2))
	if st := scrubRound(t, s); st.ScrubErrors != 1 || st.ScrubMended != 1 {
		t.Errorf("%d damaged files were found and %d mended, want 1", st.ScrubErrors, st.ScrubMended)
	}
	if now, err := os.ReadFile(path); !bytes.Equal(now, whole) {
		t.Errorf("the manifest is %q, %v, want %q", now, err, whole)
	}
}

func TestScrubTwice(t *testing.T) {
	s := openDir(t, t.TempDir(), Options{Manual: true}, seedScript) // nobody takes what is asked for
	if err := s.Admin().Scrub(); err != nil {
		t.Error(err)
	}
	if err := s.Admin().Scrub(); !errors.Is(err, ErrScrubbing) {
		t.Errorf("%v, want ErrScrubbing", err)
	}
}

// TestReplaceRange: posts of another node take the place of a file that cannot be read, with all that this store knows of the
// range on top: what was set while the page was readable, and while it was not. Posts that may be older or newer than the
// log are refused.
func TestReplaceRange(t *testing.T) {
	s := openDir(t, t.TempDir(), Options{SnapshotGrowth: -1, BlockItems: 1 << 10}, seedScript)
	mids := fill(t, s, 4_000, 3)
	key := func(i int) string { return fmt.Sprintf("%d.cntcm", mids[i]) }
	set := func(i int, v uint64) {
		t.Helper()
		if err := s.Set(key(i), v); err != nil {
			t.Fatal(err)
		}
	}
	set(1, 11)
	if err := s.Admin().Demote("weibo", mids[0]); err != nil {
		t.Fatal(err)
	}
	since := s.data.Log.Position()
	r := PostRange{Counter: s.Schema().Counter("weibo").ID, Lo: 0, Hi: s.data.Spaces[s.Schema().Counter("weibo").ID][0].Dir.Load().Blocks[0].Hi}
	var rows []PostRow
	if err := NewRangeCopier(s).Rows(r, 1<<20, func(_ PostRange, _ uint64, theirs []PostRow) { rows = theirs }); err != nil {
		t.Fatal(err)
	}
	set(2, 22) // the other node did not have this yet
	if len(DamagedRanges(s)) != 0 {
		t.Fatal("damage before there is any")
	}
	file := s.scrubber.Files()[0]
	for i := range file.Pages() {
		flip(t, file.Name(), int64(i<<12+200))
	}
	if err := file.Verify(nil); err == nil {
		t.Fatal("the file is whole")
	}
	set(3, 33) // a partial row
	if found := DamagedRanges(s); len(found) != 1 || found[0] != r {
		t.Fatalf("damaged: %+v, want %+v", found, r)
	}
	at := s.data.Log.Position()
	if err := ReplaceRange(s, r, since, at+1, rows); !errors.Is(err, ErrElsewhere) {
		t.Errorf("posts that are newer than the log: %v", err)
	}
	s.data.Altered = since + 1
	if err := ReplaceRange(s, r, since, at, rows); !errors.Is(err, ErrElsewhere) {
		t.Errorf("posts of another schema: %v", err)
	}
	s.data.Altered = 0
	if err := ReplaceRange(s, PostRange{Counter: r.Counter, Lo: r.Lo, Hi: r.Hi - 1}, since, at, rows); !errors.Is(err, ErrNoBlock) {
		t.Errorf("another range: %v", err)
	}
	if err := ReplaceRange(s, r, since, at, rows); err != nil {
		t.Fatal(err)
	}
	if found := DamagedRanges(s); len(found) != 0 {
		t.Errorf("still damaged: %+v", found)
	}
	for i, want := range map[int]uint64{1: 11, 2: 22, 3: 33} {
		if got, _, err := s.Get(key(i)); got != want || err != nil {
			t.Errorf("post %d: %d, %v, want %d", i, got, err, want)
		}
	}
	after := make(map[uint64][]uint64)
	if err := NewRangeCopier(s).Rows(r, 1<<20, func(_ PostRange, _ uint64, mine []PostRow) {
		for _, row := range mine {
			after[row.Mid] = row.Values
		}
	}); err != nil || len(after) != len(rows) {
		t.Fatalf("%d posts, want %d, %v", len(after), len(rows), err)
	}
	for _, row := range rows {
		if row.Mid != mids[2] && row.Mid != mids[3] && fmt.Sprint(after[row.Mid]) != fmt.Sprint(row.Values) {
			t.Errorf("post %d: %v, want %v", row.Mid, after[row.Mid], row.Values)
		}
	}
}

// TestScrubLogSnapshot: a part of the log that goes bad while the store is open is needed by no start any more, as memory has
// what it said.
func TestScrubLogSnapshot(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir, Options{SnapshotGrowth: -1}, seedScript)
	mids := fill(t, s, 500, 3)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openDir(t, dir, Options{SnapshotGrowth: -1}, "") // its log goes on in another segment
	key := fmt.Sprintf("%d.cntcm", mids[7])
	if err := s.Set(key, 77); err != nil {
		t.Fatal(err)
	}
	flip(t, s.data.Log.Segments().List()[0].Path, 200)
	for end := time.Now().Add(time.Minute); len(s.data.Dir.Manifests()) == 0; time.Sleep(time.Millisecond) {
		if err := s.Admin().Scrub(); err != nil && !errors.Is(err, ErrScrubbing) {
			t.Fatal(err)
		}
		if time.Now().After(end) {
			t.Fatal("no snapshot was made")
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openDir(t, dir, Options{SnapshotGrowth: -1}, "")
	if got, _, err := s.Get(key); got != 77 || err != nil {
		t.Errorf("%d, %v, want 77", got, err)
	}
	if n, err := s.Len(); n != 500 || err != nil {
		t.Errorf("%d posts, %v, want 500", n, err)
	}
}

// TestScrubLastSegment: when the newest log segment is found damaged while the store is open, another one is begun, and a snapshot
// stands in it. So the next start does not read the damaged segment.
func TestScrubLastSegment(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir, Options{SnapshotGrowth: -1}, seedScript)
	mids := fill(t, s, 500, 3)
	key := fmt.Sprintf("%d.cntcm", mids[7])
	if err := errors.Join(s.Set(key, 77), s.data.Log.Sync()); err != nil {
		t.Fatal(err)
	}
	segments := s.data.Log.Segments().List()
	damaged := segments[len(segments)-1]
	flip(t, damaged.Path, 20)
	for end := time.Now().Add(time.Minute); len(s.data.Dir.Manifests()) == 0; time.Sleep(time.Millisecond) {
		if err := s.Admin().Scrub(); err != nil && !errors.Is(err, ErrScrubbing) {
			t.Fatal(err)
		}
		if time.Now().After(end) {
			t.Fatal("no snapshot was made")
		}
	}
	segments = s.data.Log.Segments().List()
	if last := segments[len(segments)-1]; last.Start <= damaged.Start || s.data.Dir.Manifests()[0].Replay < last.Start {
		t.Errorf("the snapshot is replayed from %d on, the last segment begins at %d, the damaged one at %d", s.data.Dir.Manifests()[0].Replay, last.Start, damaged.Start)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openDir(t, dir, Options{SnapshotGrowth: -1}, "")
	if got, _, err := s.Get(key); got != 77 || err != nil {
		t.Errorf("%d, %v, want 77", got, err)
	}
	if n, err := s.Len(); n != 500 || err != nil {
		t.Errorf("%d posts, %v, want 500", n, err)
	}
}

// openFS calls a function before it opens a file for reading.
type openFS struct {
	vfs.FS
	open func(name string)
}

func (o *openFS) Open(name string) (vfs.File, error) {
	o.open(name)
	return o.FS.Open(name)
}

// TestScrubBesideSnapshots makes snapshots while the images of an older one are read, as a busy store does in each round. Images that were removed
// meanwhile are no damage. An image that is damaged, and that newer snapshots name too, is written again.
func TestScrubBesideSnapshots(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		dir := t.TempDir()
		var s *Store
		var mids []uint64
		var first atomic.Value // the path of the image of the first block
		value := uint64(1000)
		fs := &openFS{FS: vfs.OS(), open: func(name string) {
			if name != first.Load() {
				return
			}
			for range 2 { // the last block has another image each time
				value++
				if err := errors.Join(s.Set(fmt.Sprintf("%d.cntcm", mids[len(mids)-1]), value), s.Snapshot()); err != nil && !errors.Is(err, ErrBusy) {
					t.Error(err)
				}
			}
		}}
		s = openDir(t, dir, Options{FS: fs, SnapshotGrowth: -1, BlockItems: 4 << 10}, seedScript)
		mids = fill(t, s, 16_000, 3)
		mustSnapshot(t, s)
		scrubRound(t, s)
		m := s.repl.Manifests()[0]
		var images []string
		_ = m.Files(func(_ *format.CounterFiles, b *format.BlockFile) error {
			images = append(images, b.Path(dir))
			return nil
		})
		if len(images) < 2 {
			t.Fatal("all posts are in one block")
		}
		want := int64(0)
		if damaged {
			flip(t, images[0], 100)
			want = 1
		}
		first.Store(images[0])
		if st := scrubRound(t, s); st.ScrubErrors != want {
			t.Errorf("damaged %t: %d damaged files found, want %d", damaged, st.ScrubErrors, want)
		}
		if slices.Contains(s.repl.Manifests(), m) {
			t.Error("the snapshot is still kept")
		}
		bad := func(m *format.Manifest) bool {
			return m.Files(func(c *format.CounterFiles, b *format.BlockFile) error { return CheckBlockFile(vfs.OS(), dir, c, b) }) != nil
		}
		for end := time.Now().Add(time.Minute); slices.ContainsFunc(s.repl.Manifests(), bad); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("damaged %t: a kept snapshot names a damaged image", damaged)
			}
		}
	}
}

// TestLastSegmentGone: a store whose last log segment is removed begins another one at once, and not when the next round of verification comes to the
// log. Without rounds it does too.
func TestLastSegmentGone(t *testing.T) {
	s := openDir(t, t.TempDir(), Options{SnapshotGrowth: -1}, seedScript)
	s.scrubber.Budget.Rate.Store(0)
	fill(t, s, 500, 3)
	if err := s.data.Log.Sync(); err != nil {
		t.Fatal(err)
	}
	segments := s.data.Log.Segments().List()
	if err := os.Remove(segments[len(segments)-1].Path); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); s.data.Log.Ready() == nil; time.Sleep(time.Millisecond) { // until it is noticed
		if len(s.data.Log.Segments().List()) > len(segments) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("nobody misses the segment")
		}
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		err := s.Set("5.cntcm", 7)
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// TestSuspectBesideImages: a damaged log that a reader has met is verified while a round reads images, and not behind all of them.
func TestSuspectBesideImages(t *testing.T) {
	dir := t.TempDir()
	var s *Store
	var images atomic.Pointer[[]string] // in the order in which a round reads them
	found := -1
	fs := &openFS{FS: vfs.OS(), open: func(name string) {
		list := images.Load()
		if list == nil {
			return
		}
		switch name {
		case (*list)[0]:
			flip(t, s.data.Log.Segments().List()[0].Path, 100)
			NoteBrokenLog(s, format.ErrCorrupt)
		case (*list)[1]:
			found = len(BrokenLogs(s))
		}
	}}
	s = openDir(t, dir, Options{FS: fs, SnapshotGrowth: -1, BlockItems: 4 << 10}, seedScript)
	fill(t, s, 16_000, 3)
	mustSnapshot(t, s)
	scrubRound(t, s)
	var list []string
	_ = s.repl.Manifests()[0].Files(func(_ *format.CounterFiles, b *format.BlockFile) error {
		list = append(list, b.Path(dir))
		return nil
	})
	images.Store(&list)
	scrubRound(t, s)
	if images.Store(nil); found != 1 {
		t.Errorf("%d damaged segments were known at the second image, want 1", found)
	}
}
