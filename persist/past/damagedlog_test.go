package past

import (
	"bytes"
	"errors"
	"testing"

	"github.com/counterd/counterd/internal/testkit/persisttest"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// TestDamagedLog: of a log that was set aside, the frames from an offset on are read, whatever happened to those before it.
// Those behind damage are not, and the log is known to have come further.
func TestDamagedLog(t *testing.T) {
	disk, _, end := replicaLog(t)
	var frames []format.Frame
	_, err := logfile.Walk(disk, persisttest.Dir, 0, 0, logfile.Visitor{Frame: func(_ logfile.SegmentInfo, f *format.Frame) error {
		frames = append(frames, format.Frame{FrameHeader: f.FrameHeader, Raw: bytes.Clone(f.Raw)})
		return nil
	}})
	persisttest.Must(t, err)
	k := len(frames) / 2
	for _, c := range []struct {
		name   string
		damage uint64 // log offset
		upTo   int    // frames
	}{
		{"whole", end, len(frames)},
		{"damaged before", frames[k-1].Start + 5, len(frames)},
		{"damaged at once", frames[k].Start + 5, k},
		{"damaged behind", frames[k+2].Start + 5, k + 2},
	} {
		disk := disk.Kill()
		if c.damage < end {
			flipAt(t, disk, c.damage)
		}
		persisttest.Must(t, GiveUp(disk, persisttest.Dir, format.Healing{Reason: "a bad page", Since: 7}))
		n := k
		known, err := DamagedLog(disk, persisttest.Dir, 1, frames[k].Start, func(raw []byte) error {
			if n >= len(frames) || !bytes.Equal(raw, frames[n].Raw) {
				t.Fatalf("%s: frame %d is another one", c.name, n)
			}
			n++
			return nil
		})
		if err != nil || n != c.upTo || known != end {
			t.Errorf("%s: frames %d to %d, known %d, %v; want up to %d, known %d", c.name, k, n, known, err, c.upTo, end)
		}
	}
}

// TestClosedFrames: a directory that is not open gives the frames of its log, up to an offset and a length, also behind damage. It gives none if
// its history does not have the term up to the end, does not admit the frames, or speaks of a change that is not finished. While it heals, it gives those of
// the log that was set aside first.
func TestClosedFrames(t *testing.T) {
	disk, _, end := replicaLog(t)
	var frames []format.Frame
	_, err := logfile.Walk(disk, persisttest.Dir, 0, 0, logfile.Visitor{Frame: func(_ logfile.SegmentInfo, f *format.Frame) error {
		frames = append(frames, format.Frame{FrameHeader: f.FrameHeader, Raw: bytes.Clone(f.Raw)})
		return nil
	}})
	persisttest.Must(t, err)
	k := len(frames) / 2
	from, rest := frames[k].Start, int(end-frames[k].Start)
	term := format.Term{ReplID: format.NewReplID(), Epoch: frames[k].Epoch}
	later := format.Term{ReplID: format.NewReplID(), Epoch: frames[k].Epoch + 1, Start: end - 1}
	wrong := term
	wrong.Epoch++
	wrong.Start = 1
	for _, c := range []struct {
		name   string
		terms  []format.Term
		change func(disk *vfs.Sim, l *format.Lineage)
		from   uint64
		end    uint64
		most   int
		want   int // bytes
	}{
		{name: "all", end: end, most: rest, want: rest},
		{name: "a part", end: end, most: rest - 1, want: rest - len(frames[len(frames)-1].Raw)},
		{name: "one frame at least", end: end, most: 1, want: len(frames[k].Raw)},
		{name: "up to the middle of a frame", end: frames[k+1].End() - 1, most: rest, want: len(frames[k].Raw)},
		{name: "behind damage", end: end, most: rest, want: rest, change: func(disk *vfs.Sim, _ *format.Lineage) { flipAt(t, disk, frames[k-1].Start+5) }},
		{name: "in front of damage", end: end, most: rest, want: len(frames[k].Raw), change: func(disk *vfs.Sim, _ *format.Lineage) { flipAt(t, disk, frames[k+1].Start+5) }},
		{name: "damaged", end: end, most: rest, change: func(disk *vfs.Sim, _ *format.Lineage) { flipAt(t, disk, from+5) }},
		{name: "the middle of a frame", from: from + 1, end: end, most: rest},
		{name: "behind the end", from: end, end: end + 1, most: rest},
		{name: "another term", terms: []format.Term{later}, end: end, most: rest},
		{name: "the term ended before", terms: []format.Term{term, later}, end: end, most: rest},
		{name: "the term ended there", terms: []format.Term{term, later}, end: end - 1, most: rest, want: rest - len(frames[len(frames)-1].Raw)},
		{name: "frames of an earlier branch", terms: []format.Term{{ReplID: format.NewReplID(), Epoch: term.Epoch}, wrong}, end: end, most: rest},
		{name: "a cut was begun", end: end, most: rest, change: func(_ *vfs.Sim, l *format.Lineage) { l.Cutting, l.CuttingAt = true, from }},
		{name: "set aside", end: end, most: rest, want: rest, change: func(disk *vfs.Sim, l *format.Lineage) {
			persisttest.Must(t, logfile.WriteLineage(disk, persisttest.Dir, l))
			persisttest.Must(t, disk.Damage(format.LineagePath(persisttest.Dir), func(b []byte) []byte { b[len(b)/2] ^= 1; return b })) // its copy counts
			for range 2 {
				persisttest.Must(t, GiveUp(disk, persisttest.Dir, format.Healing{Reason: "a bad page", Since: 7}))
			}
		}},
		{name: "set aside, of another log", end: end, most: rest, change: func(disk *vfs.Sim, _ *format.Lineage) {
			persisttest.Must(t, GiveUp(disk, persisttest.Dir, format.Healing{Reason: "a bad page", Since: 7}))
		}},
		{name: "set aside without its history", end: end, most: rest, change: func(disk *vfs.Sim, l *format.Lineage) {
			persisttest.Must(t, logfile.WriteLineage(disk, persisttest.Dir, l))
			persisttest.Must(t, errors.Join(disk.Remove(format.LineagePath(persisttest.Dir)), disk.Remove(format.LineagePath(persisttest.Dir)+vfs.CopySuffix)))
			persisttest.Must(t, GiveUp(disk, persisttest.Dir, format.Healing{Reason: "a bad page", Since: 7}))
		}},
	} {
		disk := disk.Kill()
		l := format.Lineage{Terms: c.terms, Replica: true}
		if c.terms == nil {
			l.Terms = []format.Term{term}
		}
		if c.change != nil {
			c.change(disk, &l)
		}
		persisttest.Must(t, logfile.WriteLineage(disk, persisttest.Dir, &l))
		if c.from == 0 {
			c.from = from
		}
		raw, err := ClosedFrames(disk, persisttest.Dir, term.ReplID, c.from, c.end, c.most)
		if len(raw) != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("%s: %d bytes, %v, want %d", c.name, len(raw), err, c.want)
		}
		if n := len(frames[k].Raw); len(raw) >= n && !bytes.Equal(raw[:n], frames[k].Raw) {
			t.Errorf("%s: another frame", c.name)
		}
	}
}

// flipAt damages the byte of the log at an offset.
func flipAt(t *testing.T, disk *vfs.Sim, at uint64) {
	t.Helper()
	segs, err := logfile.ListSegments(disk, persisttest.Dir)
	persisttest.Must(t, err)
	seg := segs[logfile.Below(segs, at+1)-1]
	persisttest.Must(t, disk.Damage(seg.Path, func(b []byte) []byte { b[seg.Offset(at)] ^= 1; return b }))
}
