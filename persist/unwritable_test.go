// Scenario: a log is opened on a disk that takes no writes

package persist

import (
	"errors"
	"syscall"
	"testing"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// TestOpenUnwritable: a log opens on a disk that takes no writes, hands out every record, can be read, and refuses
// changes until the disk is well. What was not durable is then, whatever a power failure does at once.
func TestOpenUnwritable(t *testing.T) {
	for _, errno := range []error{syscall.ENOSPC, syscall.EROFS, syscall.EIO} {
		for _, unsynced := range []bool{false, true} {
			c := newClock()
			disk := newFS(t)
			l, _, err := OpenLog(smallLog(disk, c), 0, discard)
			must(t, err)
			n := uint64(0)
			for ; n < 200; n++ {
				must(t, l.Commit(l.AppendSet(1, 1, n, n)))
				if !unsynced || n < 150 {
					l.Tick()
				}
			}
			end := l.Position()

			killed := disk.Kill()
			faulty := vfs.NewFaulty(killed)
			faulty.Inject(vfs.Rule{Ops: vfs.OpMutating, Every: 1, Err: errno})
			opts := smallLog(faulty, c)
			if _, _, err := OpenLog(opts, 0, discard); !errors.Is(err, errno) {
				t.Fatalf("without Unwritable: got %v", err)
			}
			opts.Unwritable = true
			records := uint64(0)
			l, rec, err := OpenLog(opts, 0, func(_ uint64, r *format.Record) error {
				if r.Value != records {
					t.Fatalf("record %d has %d", records, r.Value)
				}
				records++
				return nil
			})
			must(t, err)
			if records != n || rec.End != end || l.Position() != end || l.Written() != end {
				t.Errorf("%d records to %d (position %d), want %d to %d", records, rec.End, l.Position(), n, end)
			}
			if err := l.Ready(); !errors.Is(err, format.ErrNotReady) || !errors.Is(err, errno) {
				t.Errorf("ready: got %v", err)
			}
			if l.Sync() == nil && unsynced {
				t.Error("synced")
			}
			must(t, l.Segments().DropBefore(0))
			r, err := l.NewReader(0)
			must(t, err)
			for r.Pos() < end {
				if f, err := r.TryNext(); err != nil || f == nil {
					t.Fatalf("reader at %d of %d: %v", r.Pos(), end, err)
				}
			}
			faulty.Clear()
			c.At = c.At.Add(maxHealDelay)
			l.Tick()
			must(t, l.Ready())
			if l.Durable() != end {
				t.Errorf("durable %d, want %d", l.Durable(), end)
			}
			must(t, l.Commit(l.AppendSet(1, 1, n, n)))
			if f, err := r.TryNext(); err != nil || f == nil {
				t.Errorf("reader: %v, %v", f, err)
			}
			must(t, r.Close())
			must(t, l.Sync())
			after := killed.Crash(1, 0)
			must(t, l.Close())
			records = 0
			l, _, err = OpenLog(smallLog(after, c), 0, func(uint64, *format.Record) error { records++; return nil })
			must(t, err)
			if records != n+1 {
				t.Errorf("%v: %d records after a power failure, want %d", errno, records, n+1)
			}
			must(t, l.Close())
		}
	}
}
