// Scenario: cold files that are damaged, missing or newer than what names them, and disks that are full.

package counter

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/counter/datadir"
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// TestDamagedColdFile flips a byte of a page: the keys of that page answer ErrCold, all others are served, and the
// store goes on.
func TestDamagedColdFile(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	dir := t.TempDir()
	opts := Options{BlockItems: 16_000}
	s := openDir(t, dir, opts, seedScript)
	mids := fill(t, s, 20_000, 3)
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
	for _, mid := range mids[:10_000] {
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
	if _, err := s.Incr(fmt.Sprintf("%d.cntrn", mids[15_000]), 1); err != nil {
		t.Errorf("Incr elsewhere: %v", err)
	}
	// The scrubber finds it after a restart, without anybody asking for the page.
	if err := s.Snapshot(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(dir, opts); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for end := time.Now().Add(3 * time.Minute); s.scrubber.Errors.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the scrubber did not find the damaged page")
		}
	}
}

// TestNewerColdFile: a cold file of a newer program stops the start, is no damage for the tools, and is left alone.
func TestNewerColdFile(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	dir := t.TempDir()
	s := openDir(t, dir, Options{Manual: true, BlockItems: 4_000}, seedScript)
	mids := fill(t, s, 6_000, 3)
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
	opts := Options{BlockItems: 4_000}
	s := openDir(t, dir, opts, seedScript)
	mids := fill(t, s, 6_000, 3)
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
		if s, err = Open(dir, opts); err != nil {
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
	if _, err := s.Incr(fmt.Sprintf("%d.cntrn", mids[5_500]), 0); err != nil {
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
	s := openDir(t, "data", opts, "add counter a\nadd column a v hint=8 max=20 suffix=v top=2\nadd column a w hint=8 max=20 suffix=w")
	s.repacker.Stop() // or it would re-pack the overlay before we come to it
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
	racetest.Skip(t, "it starts no goroutine")
	dir := t.TempDir()
	s := openDir(t, dir, Options{Manual: true, BlockItems: 4 << 10}, seedScript)
	mids := fill(t, s, 24_000, 3)
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
	failed := func() int64 { return s.tiers.Failed.Load() }
	s.tiers.MergeAndPromote()
	if failed() != 1 || s.tiers.Rewrites.Load() != 1 {
		t.Fatalf("%d failures and %d merges, want one of each: the overlays of one good and one bad block have grown", failed(), s.tiers.Rewrites.Load())
	}
	s.tiers.MergeAndPromote()
	if failed() != 1 && time.Now().Before(weiboSpace(s).Dir.Load().Find(bad).Backoff.Until) {
		t.Error("the bad block was tried again at once")
	}
	for range 100 {
		if !s.tiers.Shrink() {
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
		s.tiers.MergeAndPromote()
	}
	if b.Backoff.Pause < 4*time.Second {
		t.Errorf("the bad block rests %v after 4 failures", b.Backoff.Pause)
	}
	flip(t, b.Cold.File.Name(), 5_000)
	b.Backoff.Until = time.Time{}
	if s.tiers.MergeAndPromote(); weiboSpace(s).Dir.Load().Find(bad) == b {
		t.Error("the block was not merged though its file can be read again")
	}
	if _, _, err := s.Get(fmt.Sprintf("%d.cntrn", mids[0])); err != nil {
		t.Error(err)
	}
}

// TestFullDiskRestsAll: a failure that is not a block's own makes all rest, but not for longer because of that block.
func TestFullDiskRestsAll(t *testing.T) {
	faulty := vfs.NewFaulty(vfs.NewSim())
	s := openDir(t, "data", Options{FS: faulty, Manual: true, BlockItems: 64}, "add counter a\nadd column a v hint=8 max=32 suffix=v top=2")
	for i := range 400 {
		if err := s.Set(fmt.Sprintf("%d.v", i), uint64(i)); err != nil {
			t.Fatal(err)
		}
	}
	s.Admin().SetMaxMemory(1)
	faulty.Inject(vfs.Rule{Ops: vfs.OpCreate, Every: 1, Err: errNoSpace})
	if s.tiers.Shrink() || s.tiers.Failed.Load() != 1 || s.tiers.Backoff.Over() {
		t.Fatalf("%d failures, rest until %v: want one, and a rest", s.tiers.Failed.Load(), s.tiers.Backoff.Until)
	}
	faulty.Clear()
	s.tiers.Backoff.Until = time.Time{}
	for range 100 {
		if !s.tiers.Shrink() {
			break
		}
	}
	if s.tiers.Backoff.Pause != 0 {
		t.Errorf("all rest %v after a success", s.tiers.Backoff.Pause)
	}
	hotSealed := 0
	for _, b := range s.data.Spaces[s.Schema().Counter("a").ID][0].Dir.Load().Blocks {
		if b.Cold == nil && !b.Open() {
			hotSealed++
		}
	}
	if hotSealed > 1 {
		t.Errorf("%d sealed blocks are hot, want at most the one that failed and rests", hotSealed)
	}
}

// TestUnfinishedColdFileIsClosed: a cold file that the disk does not take is closed and removed: an open file would keep its room on a full disk.
func TestUnfinishedColdFileIsClosed(t *testing.T) {
	sim := vfs.NewSim()
	faulty := vfs.NewFaulty(sim)
	s := openDir(t, "data", Options{FS: faulty, Manual: true, BlockItems: 64}, "add counter a\nadd column a v hint=8 max=32 suffix=v")
	for i := range 400 {
		if err := s.Set(fmt.Sprintf("%d.v", i), uint64(i)); err != nil {
			t.Fatal(err)
		}
	}
	s.Admin().SetMaxMemory(1)
	for i, op := range []vfs.Op{vfs.OpWrite, vfs.OpSync} {
		s.tiers.Backoff.Until = time.Time{}
		faulty.Inject(vfs.Rule{Ops: op, Glob: "*.cold.tmp", Every: 1, Err: errNoSpace})
		if s.tiers.Shrink() || s.tiers.Failed.Load() != int64(i+1) {
			t.Fatalf("%s: %d failures, want %d", op, s.tiers.Failed.Load(), i+1)
		}
		faulty.Clear()
		for _, open := range sim.Leaks() {
			if strings.Contains(open, ".cold") {
				t.Errorf("%s fails: %s is open", op, open)
			}
		}
		for _, name := range sim.Files("data/cold") {
			t.Errorf("%s fails: %s is there", op, name)
		}
	}
}
