package past

import (
	"testing"

	"github.com/counterd/counterd/internal/testkit/persisttest"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// replicaLog makes a replica's log of the frames of a primary's, and closes it. end is where it ends.
func replicaLog(t testing.TB) (disk *vfs.Sim, opts persist.LogOptions, end uint64) {
	t.Helper()
	primary := persisttest.SampleLog(t)
	disk = persisttest.NewFS(t)
	opts = persisttest.SmallLog(disk, persisttest.NewClock())
	opts.History.Replica = true
	l, _, err := persist.OpenLog(opts, 0, persisttest.Discard)
	persisttest.Must(t, err)
	_, err = logfile.Walk(primary, persisttest.Dir, 0, 0, logfile.Visitor{Frame: func(_ logfile.SegmentInfo, f *format.Frame) error {
		pos, err := l.AppendFrame(f.Raw)
		if err != nil {
			return err
		}
		return l.Commit(pos)
	}})
	persisttest.Must(t, err)
	end = l.Position()
	persisttest.Must(t, l.Close())
	return disk, opts, end
}

// packedLog makes a log whose segments are packed but for the last, and returns one of them: the second, or the first one if it was
// begun by a restart, behind a process that ended before it synced. Its header claims the frames that were written again.
func packedLog(t testing.TB, restarted bool) (disk *vfs.Sim, opts persist.LogOptions, seg logfile.SegmentInfo) {
	t.Helper()
	disk = persisttest.NewFS(t)
	opts = persisttest.SmallLog(disk, persisttest.NewClock())
	opts.FirstSegmentBytes, opts.SegmentBytes = 4096, 4096
	l, _, err := persist.OpenLog(opts, 0, persisttest.Discard)
	persisttest.Must(t, err)
	var m persisttest.Model
	for i := range 600 {
		pos := m.AppendSome(t, l, i)
		if i%3 == 2 {
			persisttest.Must(t, l.Commit(pos))
		}
		if restarted && i == 50 {
			disk = disk.Kill()
			_ = l.Close()
			opts.FS = disk
			l, _, err = persist.OpenLog(opts, 0, persisttest.Discard)
			persisttest.Must(t, err)
		}
	}
	persisttest.Must(t, l.Sync())
	for packed := true; packed; {
		packed, err = l.Packer().Pack(l.Durable(), nil)
		persisttest.Must(t, err)
	}
	if seg = l.Segments().List()[1]; restarted {
		seg = l.Segments().List()[0]
	}
	persisttest.Must(t, l.Close())
	if !seg.Packed {
		t.Fatal("the segment is not packed")
	}
	return disk, opts, seg
}
