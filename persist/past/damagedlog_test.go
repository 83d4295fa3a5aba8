package past

import (
	"bytes"
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
	flip := func(disk *vfs.Sim, at uint64) {
		segs, err := logfile.ListSegments(disk, persisttest.Dir)
		persisttest.Must(t, err)
		seg := segs[logfile.Below(segs, at+1)-1]
		text, err := vfs.ReadFile(disk, seg.Path, 64<<20)
		persisttest.Must(t, err)
		text[seg.Offset(at)] ^= 1
		persisttest.Must(t, vfs.WriteFileAtomic(disk, seg.Path, text))
	}
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
			flip(disk, c.damage)
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
