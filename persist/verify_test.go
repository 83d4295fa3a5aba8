package persist

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// TestVerify flips bits in the segments of a log that is open: each is found, in the segment and at the frame where it
// is, and the segments behind are read too. Segments that are dropped meanwhile are no damage.
func TestVerify(t *testing.T) {
	m, disk, opts := sampleLog(t)
	l, _, err := OpenLog(opts, 0, discard)
	must(t, err)
	must(t, l.Commit(m.appendSome(t, l, 3)))
	must(t, l.Sync())
	read := 0
	bad, err := l.Segments().Verify(func(n int) error { read += n; return nil })
	if len(bad) > 0 || err != nil || read != int(l.Durable()) {
		t.Fatalf("%v, %v, %d bytes of %d", bad, err, read, l.Durable())
	}
	stop := errors.New("stop")
	if _, err := l.Segments().Verify(func(int) error { return stop }); err != stop {
		t.Errorf("got %v", err)
	}
	flip := func(path string, at int64) {
		t.Helper()
		f, err := disk.OpenRW(path)
		must(t, err)
		b := make([]byte, 1)
		_, err = f.ReadAt(b, at)
		must(t, err)
		b[0] ^= 16
		_, err = f.WriteAt(b, at)
		must(t, errors.Join(err, f.Close()))
	}
	segs := l.Segments().List()
	if len(segs) < 3 {
		t.Fatalf("%d segments", len(segs))
	}
	for i, s := range segs {
		for at := int64(0); at < s.Segment().Offset(s.End); at += 7 {
			flip(s.Path, at)
			bad, err := l.Segments().Verify(nil)
			must(t, err)
			var corrupt *format.CorruptError
			if len(bad) != 1 || !errors.As(bad[0].Err, &corrupt) || corrupt.File != s.Path || corrupt.Offset > at {
				// The chain of a header is that of the frame before: both may be said to be wrong, never another.
				t.Fatalf("segment %d byte %d: %v", i, at, bad)
			}
			flip(s.Path, at)
		}
	}
	flip(segs[0].Path, 80)
	flip(segs[2].Path, 80)
	if bad, err := l.Segments().Verify(nil); len(bad) != 2 || err != nil {
		t.Errorf("%v, %v", bad, err)
	}
	must(t, disk.Remove(segs[1].Path))
	if bad, err := l.Segments().Verify(nil); len(bad) != 3 || err != nil {
		t.Errorf("%v, %v", bad, err)
	}
	flip(segs[0].Path, 80) // back: it is read to its end now
	dropped := false
	bad, err = l.Segments().Verify(func(int) error {
		if !dropped {
			dropped = true
			must(t, l.Segments().DropBefore(segs[2].Start))
		}
		return nil
	})
	if err != nil || len(bad) != 1 {
		t.Errorf("%v, %v", bad, err)
	}
	must(t, l.Close())
}

// TestVerifyChain: a segment of another log, whole in itself, does not follow the one before it.
func TestVerifyChain(t *testing.T) {
	m, disk, opts := sampleLog(t)
	l, _, err := OpenLog(opts, 0, discard)
	must(t, err)
	defer l.Close()
	must(t, l.Commit(m.appendSome(t, l, 3)))
	must(t, l.Sync())
	seg := l.Segments().List()[1]
	file, err := disk.OpenRW(seg.Path)
	must(t, err)
	h, fault, err := logfile.ReadSegmentHeader(file, seg.Segment())
	if err != nil || fault != nil {
		t.Fatal(fault, err)
	}
	for change, want := range map[uint32]int{1: 1, 0: 0} {
		other := h
		other.Chain ^= change
		_, err := file.WriteAt(other.AppendTo(nil), 0)
		must(t, err)
		if bad, err := l.Segments().Verify(nil); len(bad) != want || err != nil || want == 1 && !strings.Contains(bad[0].Err.Error(), "chain") {
			t.Errorf("a chain changed by %d: %v, %v", change, bad, err)
		}
	}
	must(t, file.Close())
}

// TestVerifyPackedIndex damages index and footer of packed segments of an open log. Each is found, though all frames can be read, and the file is made again
// without another node: a second damage, of the header of a chunk, would cost all chunks behind it.
func TestVerifyPackedIndex(t *testing.T) {
	disk := newFS(t)
	_, l := packSample(t, disk, 600)
	defer l.Close()
	packAll(t, l)
	want, _, _, _ := logRecords(t, disk, testDir, 0)
	past := format.Lineage{Terms: []format.Term{{ReplID: testHistory.ReplID, Epoch: testHistory.Epoch}}}
	fetch := func(from, end uint64) ([]byte, error) { return nil, errors.New("there is no other node") }
	tried := 0
	for _, seg := range l.Segments().List() {
		if !seg.Packed {
			continue
		}
		whole, err := vfs.ReadFile(disk, seg.Path, 1<<20)
		must(t, err)
		for at := len(whole) - format.PackedFooterLen - 2*format.PackedEntryLen; at < len(whole); at += 5 {
			put(t, disk, seg.Path, whole)
			must(t, flipAt(disk, seg.Path, int64(at)))
			bad, err := l.Segments().Verify(nil)
			must(t, err)
			if len(bad) != 1 || bad[0].Start != seg.Start || !errors.Is(bad[0].Err, format.ErrCorrupt) || !errors.Is(bad[0].Err, logfile.ErrIndex) {
				t.Fatalf("segment %d, byte %d: %v", seg.Start, at, bad)
			}
			must(t, l.Segments().Restore(seg.Start, &past, fetch))
			if bad, err := l.Segments().Verify(nil); err != nil || len(bad) > 0 {
				t.Fatalf("segment %d, byte %d: %v, %v after it was made again", seg.Start, at, bad, err)
			}
			tried++
		}
	}
	if got, _, _, _ := logRecords(t, disk, testDir, 0); !slices.Equal(got, want) || tried < 10 {
		t.Errorf("%d records of %d, %d damages", len(got), len(want), tried)
	}
}
