package persist

import (
	"errors"
	"slices"
	"testing"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// TestRestore damages each segment of an open log in several ways, the last one as well. It gets its frames
// from another log back, and the log is read and opened as if nothing had happened. Frames of another log are not taken.
func TestRestore(t *testing.T) {
	m, disk, opts := sampleLog(t)
	l, _, err := OpenLog(opts, 0, discard)
	must(t, err)
	must(t, l.Commit(m.appendSome(t, l, 3)))
	must(t, l.Sync())
	past := format.Lineage{Terms: []format.Term{{ReplID: testHistory.ReplID, Epoch: testHistory.Epoch}}}
	var all []byte // the log of another node
	r, err := l.NewReader(0)
	must(t, err)
	for f, err := r.TryNext(); f != nil; f, err = r.TryNext() {
		must(t, err)
		all = append(all, f.Raw...)
	}
	must(t, r.Close())
	asked := uint64(0)
	fetch := func(from, end uint64) ([]byte, error) { // frame by frame
		n := format.RawFrameLen(all[from:])
		asked += uint64(n)
		return all[from:min(from+uint64(n), end)], nil
	}
	want, _, _, _ := logRecords(t, disk, testDir, 0)
	damages := []func(path string) error{
		func(path string) error { return flipAt(disk, path, 20) },
		func(path string) error { return flipAt(disk, path, 90) },
		func(path string) error { return flipAt(disk, path, 300) },
		func(path string) error { return vfs.TruncateTo(disk, path, 200) },
		func(path string) error { return vfs.TruncateTo(disk, path, 0) },
		func(path string) error { return disk.Remove(path) },
	}
	for k, damage := range damages {
		for i := 0; i < len(l.Segments().List()); i++ {
			seg := l.Segments().List()[i]
			if seg.Segment().Offset(seg.End) < 350 {
				continue
			}
			must(t, damage(seg.Path))
			bad, err := l.Segments().Verify(nil)
			must(t, err)
			if len(bad) != 1 || bad[0].Start != seg.Start {
				t.Fatalf("damage %d of segment %d: %v", k, i, bad)
			}
			if i == len(l.Segments().List())-1 {
				if err := l.Segments().Restore(seg.Start, &past, fetch); !errors.Is(err, ErrLastSegment) || !bad[0].Last {
					t.Fatalf("%v, last: %t", err, bad[0].Last)
				}
				if gone := l.Segments().LastGone(); gone != (k == len(damages)-1) {
					t.Errorf("damage %d: gone: %t", k, gone)
				}
				must(t, NewSegment(l))
				must(t, l.Ready())
			}
			wrong := func(from, end uint64) ([]byte, error) {
				raw := slices.Clone(all[from:end])
				for h := (format.Frame{}); from < end; from = h.End() {
					here := raw[len(raw)-int(end-from):]
					if fault := format.DecodeFrame(here, from, &h); fault != nil {
						return nil, errors.New(fault.Got)
					}
					format.PutFrameHeader(here[:len(h.Raw)], h.Whole, h.Start, h.Durable, h.TimeMS+1, h.Epoch)
				}
				return raw, nil
			}
			if err := l.Segments().Restore(seg.Start, &past, wrong); k != 0 && !errors.Is(err, format.ErrCorrupt) {
				t.Fatalf("damage %d of segment %d: frames of another log: %v", k, i, err)
			}
			asked = 0
			must(t, l.Segments().Restore(seg.Start, &past, fetch))
			if k == 0 && asked > 0 || k == 2 && asked >= seg.End-seg.Start {
				t.Errorf("damage %d: %d bytes of %d were asked for", k, asked, seg.End-seg.Start)
			}
			if bad, err := l.Segments().Verify(nil); len(bad) > 0 || err != nil {
				t.Fatalf("damage %d of segment %d: %v, %v", k, i, bad, err)
			}
			if got, _, _, _ := logRecords(t, disk, testDir, 0); !slices.Equal(got, want) {
				t.Fatalf("damage %d of segment %d: %d records, want %d", k, i, len(got), len(want))
			}
			if got, _, _, _ := logRecords(t, disk.CrashNames(), testDir, 0); !slices.Equal(got, want) {
				t.Fatalf("damage %d of segment %d: %d records behind a power failure, want %d", k, i, len(got), len(want))
			}
		}
	}
	must(t, l.Commit(m.appendSome(t, l, 4)))
	must(t, l.Close())
	l, _, err = OpenLog(opts, 0, discard)
	must(t, err)
	if got, _, _, _ := logRecords(t, disk, testDir, 0); len(got) <= len(want) || !slices.Equal(got[:len(want)], want) {
		t.Errorf("%d records, want more than %d", len(got), len(want))
	}
	must(t, l.Close())
}

// TestRestoreFromEachOther damages every second frame of a log, and has the others come from a node that lacks just those. It gets back
// what it lacks, though the node cannot give all frames behind the first bad place. Then it is the other way round.
func TestRestoreFromEachOther(t *testing.T) {
	m, disk, opts := sampleLog(t)
	l, _, err := OpenLog(opts, 0, discard)
	must(t, err)
	must(t, l.Commit(m.appendSome(t, l, 1)))
	must(t, l.Sync())
	past := format.Lineage{Terms: []format.Term{{ReplID: testHistory.ReplID, Epoch: testHistory.Epoch}}}
	list := l.Segments().List()
	seg := list[0]
	var frames []format.Frame
	r, err := l.NewReader(seg.Start)
	must(t, err)
	for f, err := r.TryNext(); f != nil && f.End() <= seg.End; f, err = r.TryNext() {
		must(t, err)
		f := *f
		f.Raw = slices.Clone(f.Raw)
		frames = append(frames, f)
	}
	must(t, r.Close())
	if len(frames) < 5 {
		t.Fatalf("%d frames, want at least 5", len(frames))
	}
	want, _, _, _ := logRecords(t, disk, testDir, 0)
	for odd := range 2 { // one log, and then the other
		for i := odd; i < len(frames); i += 2 {
			must(t, flipAt(disk, seg.Path, seg.Segment().Offset(frames[i].Start)+2))
		}
		fetch := func(from, end uint64) (raw []byte, err error) {
			for i, f := range frames {
				if f.Start < from {
					continue
				}
				if i%2 != odd {
					break
				}
				raw = append(raw, f.Raw...)
			}
			if len(raw) == 0 {
				return nil, format.ErrCorrupt
			}
			return raw, nil
		}
		must(t, l.Segments().Restore(seg.Start, &past, fetch))
		if got, _, _, _ := logRecords(t, disk, testDir, 0); !slices.Equal(got, want) {
			t.Fatalf("log %d: %d records, want %d", odd, len(got), len(want))
		}
	}
	must(t, l.Close())
}

// TestRestoreNeighbours damages a frame of a segment and the header of the next one. Both are made again, one behind the other. Each waited for the other one, for
// ever. Frames of another log are not taken.
func TestRestoreNeighbours(t *testing.T) {
	m, disk, opts := sampleLog(t)
	l, _, err := OpenLog(opts, 0, discard)
	must(t, err)
	must(t, l.Commit(m.appendSome(t, l, 3)))
	must(t, l.Sync())
	past := format.Lineage{Terms: []format.Term{{ReplID: testHistory.ReplID, Epoch: testHistory.Epoch}}}
	var frames []format.Frame
	r, err := l.NewReader(0)
	must(t, err)
	for f, err := r.TryNext(); f != nil; f, err = r.TryNext() {
		must(t, err)
		f := *f
		f.Raw = slices.Clone(f.Raw)
		frames = append(frames, f)
	}
	must(t, r.Close())
	another := false
	fetch := func(from, end uint64) ([]byte, error) {
		i := slices.IndexFunc(frames, func(f format.Frame) bool { return f.Start == from })
		if i < 0 || frames[i].End() > end {
			return nil, format.ErrGone
		}
		f, raw := frames[i], slices.Clone(frames[i].Raw)
		if another {
			format.PutFrameHeader(raw, f.Whole, f.Start, f.Durable, f.TimeMS+1, f.Epoch)
		}
		return raw, nil
	}
	want, _, _, _ := logRecords(t, disk, testDir, 0)
	list := l.Segments().List()
	pairs := 0
	for i, seg := range list[:len(list)-2] {
		var of []format.Frame
		for _, f := range frames {
			if f.Start >= seg.Start && f.Start < seg.End {
				of = append(of, f)
			}
		}
		if len(of) < 2 {
			continue
		}
		pairs++
		next := list[i+1]
		last := of[len(of)-1] // the header of the next segment has its checksum
		must(t, flipAt(disk, seg.Path, seg.Segment().Offset(last.Start)+40))
		must(t, flipAt(disk, next.Path, 20))
		another = true
		for _, seg := range []uint64{seg.Start, next.Start} {
			if err := l.Segments().Restore(seg, &past, fetch); !errors.Is(err, format.ErrCorrupt) {
				t.Fatalf("segment %d: frames of another log: %v", seg, err)
			}
		}
		another = false
		must(t, l.Segments().Restore(seg.Start, &past, fetch))
		must(t, l.Segments().Restore(next.Start, &past, fetch))
		if bad, err := l.Segments().Verify(nil); len(bad) > 0 || err != nil {
			t.Fatalf("segment %d: %v, %v", i, bad, err)
		}
		if got, _, _, _ := logRecords(t, disk, testDir, 0); !slices.Equal(got, want) {
			t.Fatalf("segment %d: %d records, want %d", i, len(got), len(want))
		}
	}
	if pairs == 0 {
		t.Error("no segment has two frames")
	}
	must(t, l.Close())
}

// flipAt flips a bit of a file.
func flipAt(disk vfs.FS, path string, at int64) error {
	f, err := disk.OpenRW(path)
	if err != nil {
		return err
	}
	b := make([]byte, 1)
	_, err = f.ReadAt(b, at)
	b[0] ^= 16
	if err == nil {
		_, err = f.WriteAt(b, at)
	}
	return errors.Join(err, f.Close())
}

// listFS calls a function behind the next List.
type listFS struct {
	vfs.FS
	listed func()
}

func (l *listFS) List(dir string) ([]string, error) {
	names, err := l.FS.List(dir)
	if f := l.listed; f != nil {
		l.listed = nil
		f()
	}
	return names, err
}

// TestLastBegunMeanwhile: a segment that is begun behind the listing of the directory is not missed there.
func TestLastBegunMeanwhile(t *testing.T) {
	disk := &listFS{FS: newFS(t)}
	l, _, err := OpenLog(smallLog(disk, newClock()), 0, discard)
	must(t, err)
	segments := l.Segments()
	more := func() {
		for n := len(segments.List()); len(segments.List()) == n; {
			must(t, l.Commit(l.AppendSet(1, 1, 1, 1)))
			must(t, l.Sync())
		}
	}
	more()
	disk.listed = more
	if segments.LastGone() {
		t.Error("the last segment is missed")
	}
	if disk.listed != nil {
		t.Error("the directory was not listed")
	}
	list := segments.List()
	must(t, disk.Remove(list[len(list)-1].Path))
	if !segments.LastGone() {
		t.Error("the last segment is not missed")
	}
	must(t, l.Close())
}
