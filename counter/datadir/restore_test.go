package datadir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/persisttest"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

// TestRestoreOffsets restores to every offset of a log with snapshots: the directory opens, its log is the log up to
// the last record that ends there, record for record, and a check of it finds nothing.
func TestRestoreOffsets(t *testing.T) {
	_, disk, _ := persisttest.SampleDir(t)
	manifests, _, err := snapfile.ReadManifests(disk, persisttest.Dir)
	persisttest.Must(t, err)
	records, positions, ends, _ := persisttest.LogRecords(t, disk, persisttest.Dir, 0)
	end := ends[len(ends)-1]
	step := uint64(7)
	if testing.Short() {
		step = 61
	}
	for at := uint64(0); at <= end; at += step {
		if at+step > end {
			at = end
		}
		to := persisttest.NewFS(t)
		got, err := Restore(disk, persisttest.Dir, to, "/data/out", Target{Offset: at}, RestoreOptions{})
		if err != nil {
			t.Fatalf("offset %d: %v", at, err)
		}
		n := 0 // records up to at
		for n < len(positions) && positions[n] <= at {
			n++
		}
		reached := uint64(0)
		if n > 0 {
			reached = positions[n-1]
		}
		// A frame's header behind the last record counts as reached when the frame before ends there.
		if got.Offset != reached {
			t.Fatalf("offset %d: restored to %d, want %d", at, got.Offset, reached)
		}
		var want *format.Manifest
		for _, m := range slices.Backward(manifests) {
			if m.Offset <= at {
				want = m
			}
		}
		if generation := uint64(0); want != nil && got.Snapshot != want.Generation || want == nil && got.Snapshot != generation {
			t.Fatalf("offset %d: snapshot %d, want %v", at, got.Snapshot, want)
		}
		from := 0
		for from < n && positions[from] <= got.Replay {
			from++
		}
		copied, _, _, _ := persisttest.LogRecords(t, to, "/data/out", got.Replay)
		if !slices.Equal(copied, records[from:n]) {
			t.Fatalf("offset %d: %d records, want %d", at, len(copied), n-from)
		}
		report, err := Check(to, "/data/out", CheckOptions{})
		persisttest.Must(t, err)
		if len(report.Problems) > 0 {
			t.Fatalf("offset %d: %v", at, report.Problems)
		}
		d, err := persist.OpenDir(to, "/data/out")
		persisttest.Must(t, err)
		l, rec, err := persist.OpenLog(persist.LogOptions{FS: to, Dir: "/data/out", Manual: true, KnownDurable: d.KnownDurable()}, got.Replay, persisttest.Discard)
		if err != nil {
			t.Fatalf("offset %d: open: %v", at, err)
		}
		if rec.End != max(got.Offset, got.Replay) || rec.History.ReplID != got.History {
			t.Fatalf("offset %d: opened at %d, history %v", at, rec.End, rec.History)
		}
		persisttest.Must(t, errors.Join(l.Close(), d.Close()))
		if at == end {
			break
		}
	}
}

// TestRestoreNamesTerms restores a log of two terms from its beginning. Each segment names the term of its frames, so that the log has all
// changes also where the node follows another one afterwards, and the restore's own term is taken back.
func TestRestoreNamesTerms(t *testing.T) {
	_, disk, _ := persisttest.SampleDir(t)
	_, _, ends, _ := persisttest.LogRecords(t, disk, persisttest.Dir, 0)
	lineage := format.Lineage{Terms: []format.Term{{ReplID: format.ReplID{5}, Epoch: 1}, {ReplID: persisttest.History.ReplID, Epoch: persisttest.History.Epoch, Start: ends[0]}}}
	persisttest.Must(t, logfile.WriteLineage(disk, persisttest.Dir, &lineage))
	manifests, _, err := snapfile.ReadManifests(disk, persisttest.Dir)
	persisttest.Must(t, err)
	at := manifests[len(manifests)-1].Offset - 1 // before all snapshots, within a frame
	to := persisttest.NewFS(t)
	got, err := Restore(disk, persisttest.Dir, to, "/data/out", Target{Offset: at}, RestoreOptions{})
	persisttest.Must(t, err)
	named := map[format.ReplID]int{}
	var id format.ReplID
	_, err = logfile.Walk(to, "/data/out", 0, 0, logfile.Visitor{
		Segment: func(h logfile.Header) error { id = h.History.ReplID; return nil },
		Frame: func(_ logfile.SegmentInfo, f *format.Frame) error {
			if named[id]++; id != lineage.At(f.Start).ReplID && (id != got.History || f.End() < got.Offset) {
				t.Errorf("a frame at %d is in a segment of %s", f.Start, id)
			}
			return nil
		},
	})
	persisttest.Must(t, err)
	if got.Snapshot != 0 || named[lineage.Terms[0].ReplID] == 0 || named[lineage.Terms[1].ReplID] == 0 {
		t.Fatalf("%+v; frames by term: %v", got, named)
	}
	followed := lineage.Cut(got.Offset)
	persisttest.Must(t, logfile.WriteLineage(to, "/data/out", &followed))
	if all, err := logfile.HasAll(to, "/data/out"); !all || err != nil {
		t.Errorf("the log has all changes: %t, %v", all, err)
	}
}

// TestRestoreTimes restores to moments between, at and around the times of frames.
func TestRestoreTimes(t *testing.T) {
	disk := persisttest.NewFS(t)
	clock := persisttest.NewClock()
	opts := persisttest.SmallLog(disk, clock)
	l, _, err := persist.OpenLog(opts, 0, persisttest.Discard)
	persisttest.Must(t, err)
	var m persisttest.Model
	for i := range 40 {
		clock.At = clock.At.Add(1500 * time.Millisecond)
		persisttest.Must(t, l.Commit(m.AppendSome(t, l, i)))
	}
	persisttest.Must(t, l.Close())
	_, _, ends, times := persisttest.LogRecords(t, disk, persisttest.Dir, 0)
	for i := range ends {
		for _, late := range []int64{0, 1, 1499} {
			got, err := Restore(disk, persisttest.Dir, persisttest.NewFS(t), "/data/out", Target{Time: time.UnixMilli(times[i] + late)}, RestoreOptions{})
			persisttest.Must(t, err)
			last := i // more than one frame may have one time
			for last+1 < len(times) && times[last+1] <= times[i]+late {
				last++
			}
			if got.Offset != ends[last] || got.TimeMS != times[last] {
				t.Errorf("%d ms behind frame %d: offset %d of time %d, want %d of %d", late, i, got.Offset, got.TimeMS, ends[last], times[last])
			}
		}
	}
	var window *WindowError
	_, err = Restore(disk, persisttest.Dir, persisttest.NewFS(t), "/data/out", Target{Time: time.UnixMilli(times[0] - 1)}, RestoreOptions{})
	if !errors.As(err, &window) || window.Window.From != 0 || window.Window.To != ends[len(ends)-1] || window.Window.FromMS != times[0] || window.Window.ToMS != times[len(times)-1] {
		t.Errorf("before the first frame: %v", err)
	}
}

// TestRestoreRefused asks for what is gone, or not there yet, or damaged: the answer names what can be reached, and
// nothing is left.
func TestRestoreRefused(t *testing.T) {
	_, disk, opts := persisttest.SampleDir(t)
	d, err := persist.OpenDir(disk, persisttest.Dir)
	persisttest.Must(t, err)
	manifests := d.Manifests()
	l, _, err := persist.OpenLog(opts, manifests[0].Replay, persisttest.Discard)
	persisttest.Must(t, err)
	persisttest.Must(t, l.Segments().DropBefore(manifests[1].Replay))
	end := l.Written()
	persisttest.Must(t, errors.Join(l.Close(), d.Close()))
	oldest := manifests[1]
	refused := func(name string, disk *vfs.Sim, target Target, to uint64) {
		t.Helper()
		out := persisttest.NewFS(t)
		_, err := Restore(disk, persisttest.Dir, out, "/data/out", target, RestoreOptions{})
		var window *WindowError
		if !errors.Is(err, ErrUnreachable) || !errors.As(err, &window) || window.Window == nil || window.Window.From != oldest.Offset || window.Window.To != to {
			t.Errorf("%s: %v, want the window %d to %d", name, err, oldest.Offset, to)
		}
		if names, err := out.List(persisttest.Dir); err != nil || len(names) > 0 {
			t.Errorf("%s: left %q, %v", name, names, err)
		}
	}
	refused("gone", disk, Target{Offset: oldest.Offset - 1}, end)
	_, err = Restore(disk, persisttest.Dir, persisttest.NewFS(t), "/data/out", Target{Offset: oldest.Offset - 1}, RestoreOptions{})
	if want := fmt.Sprintf("the oldest snapshot that is kept stands at %d", oldest.Offset); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want it to say %q", err, want)
	}
	refused("ahead", disk, Target{Offset: end + 1}, end)
	for _, at := range []uint64{oldest.Offset, manifests[0].Offset, end} {
		if _, err := Restore(disk, persisttest.Dir, persisttest.NewFS(t), "/data/out", Target{Offset: at}, RestoreOptions{}); err != nil {
			t.Errorf("offset %d: %v", at, err)
		}
	}

	// Damage: what stands before it can be had, what stands behind it cannot.
	_, _, ends, _ := persisttest.LogRecords(t, disk, persisttest.Dir, 0)
	i := slices.IndexFunc(ends, func(e uint64) bool { return e > manifests[0].Offset }) + 2
	bad := disk.Kill()
	segs, err := logfile.Segments(bad, persisttest.Dir)
	persisttest.Must(t, err)
	seg := segs[len(segs)-1]
	for _, s := range segs {
		if s.Start <= ends[i] {
			seg = s
		}
	}
	f, err := bad.OpenRW(seg.Path)
	persisttest.Must(t, err)
	b, off := make([]byte, 1), format.SegmentHeaderLen+int64(ends[i]-seg.Start)+40
	if _, err := f.ReadAt(b, off); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte{b[0] ^ 1}, off)
	persisttest.Must(t, errors.Join(err, f.Sync(), f.Close()))
	refused("behind persisttest.Damage", bad, Target{Offset: ends[i] + 50}, ends[i])
	if got, err := Restore(bad, persisttest.Dir, persisttest.NewFS(t), "/data/out", Target{Offset: ends[i]}, RestoreOptions{}); err != nil || got.Offset != ends[i] {
		t.Errorf("before persisttest.Damage: %v, %v", got, err)
	}

	// A bad image makes it start from the snapshot before.
	bad = disk.Kill()
	path := manifests[0].Counters[0].Blocks[1].Path(persisttest.Dir)
	persisttest.Must(t, bad.Remove(path))
	if got, err := Restore(bad, persisttest.Dir, persisttest.NewFS(t), "/data/out", Target{Offset: end}, RestoreOptions{}); err != nil || got.Snapshot != oldest.Generation {
		t.Errorf("with a missing image: %+v, %v", got, err)
	}

	to := persisttest.NewFS(t)
	persisttest.Must(t, to.MkdirAll("/data/out"))
	if _, err := Restore(disk, persisttest.Dir, to, "/data/out", Target{Offset: end}, RestoreOptions{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a directory: %v", err)
	}
	if names, err := to.List(filepath.Join(persisttest.Dir, "out")); err != nil || len(names) > 0 {
		t.Errorf("left %q, %v", names, err)
	}
}

// TestRestoreClockSetBack: a time stands for the last frame made at or before it, whatever the clock did and whichever
// snapshot is there to start from.
func TestRestoreClockSetBack(t *testing.T) {
	for _, snapshots := range [][]int{nil, {8}, {8, 16}, {12, 23}, {3, 30}} {
		disk := persisttest.NewFS(t)
		clock := persisttest.NewClock()
		d, err := persist.OpenDir(disk, persisttest.Dir)
		persisttest.Must(t, err)
		l, _, err := persist.OpenLog(persisttest.SmallLog(disk, clock), 0, persisttest.Discard)
		persisttest.Must(t, err)
		var m persisttest.Model
		for i := range 32 {
			switch i {
			case 10: // set back behind some frames
				clock.At = clock.At.Add(-5 * time.Second)
			case 20: // far ahead, in error
				clock.At = clock.At.Add(1000 * time.Hour)
			case 22:
				clock.At = clock.At.Add(-1000 * time.Hour)
			}
			clock.At = clock.At.Add(time.Second)
			persisttest.Must(t, l.Commit(m.AppendSome(t, l, i)))
			if slices.Contains(snapshots, i) {
				persisttest.Must(t, l.Sync())
				persisttest.Must(t, d.WriteManifest(&format.Manifest{History: l.History(), Replay: l.Position(), Offset: l.Position(), TimeMS: clock.At.UnixMilli(), NextBlock: 1, Schema: []string{"counterd schema 1"}}))
			}
		}
		persisttest.Must(t, errors.Join(l.Close(), d.Close()))
		_, _, ends, times := persisttest.LogRecords(t, disk, persisttest.Dir, 0)
		for ms := times[0]; ms < times[0]+40_000; ms += 250 {
			want, first, later, again := -1, -1, false, false
			for i := range times {
				if times[i] <= ms {
					want, again = i, again || later
				} else {
					later = true
				}
				if !later {
					first = i
				}
			}
			var said []string
			got, err := Restore(disk, persisttest.Dir, persisttest.NewFS(t), "/data/out", Target{Time: time.UnixMilli(ms)}, RestoreOptions{Say: func(s string) { said = append(said, s) }})
			if err != nil {
				t.Fatalf("snapshots at %d, %d ms: %v", snapshots, ms-times[0], err)
			}
			if got.Offset != ends[want] {
				t.Errorf("snapshots at %d, %d ms: offset %d, want %d", snapshots, ms-times[0], got.Offset, ends[want])
			}
			told := strings.Join(said, "\n")
			if strings.Contains(told, "set back") != again || again && !strings.Contains(told, fmt.Sprintf("the first is offset %d", ends[first])) {
				t.Errorf("%d ms: told %q, the first is at %d", ms-times[0], told, ends[first])
			}
		}
	}
}
