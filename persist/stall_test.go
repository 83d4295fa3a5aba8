package persist

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// openHanging opens a log with its goroutines and timers, for a bubble of synctest. hang makes all calls of a kind hang
// until free is called.
func openHanging(t *testing.T, policy SyncPolicy) (l *Log, hang func(vfs.Op) (free func())) {
	faulty := vfs.NewFaulty(newFS(t))
	l, _, err := OpenLog(LogOptions{FS: faulty, Dir: testDir, History: testHistory, Create: true, Policy: policy}, 0, discard)
	must(t, err)
	return l, func(op vfs.Op) func() {
		until := make(chan struct{})
		faulty.Inject(vfs.Rule{Ops: op, Every: 1, Until: until})
		return func() { faulty.Clear(); close(until) }
	}
}

// TestHang: a write, or a sync, does not end. Whoever waits gets an error after MaxUnsyncedAge, changes are refused,
// nobody waits for the log's lock, and all goes on by itself when the call ends.
func TestHang(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy SyncPolicy
		op     vfs.Op
	}{
		{"write", SyncEverySec, vfs.OpWrite}, {"write, no", SyncNo, vfs.OpWrite}, {"write, always", SyncAlways, vfs.OpWrite},
		{"sync, always", SyncAlways, vfs.OpSync},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, hang := openHanging(t, c.policy)
				must(t, l.Commit(l.AppendSet(1, 1, 7, 1)))
				free := hang(c.op)
				safe, pos := l.Visible(), l.AppendSet(1, 1, 7, 2)
				writer := make(chan error, 1)
				go func() { writer <- l.Commit(pos) }()
				synctest.Wait()
				began := time.Now()
				for what, wait := range map[string]func() error{
					"Commit": func() error { return l.Commit(pos) }, "CommitRead": func() error { return l.CommitRead(pos) }, "Sync": l.Sync,
				} {
					go func() {
						if err := wait(); !errors.Is(err, ErrHang) || !errors.Is(err, format.ErrNotReady) {
							t.Errorf("%s: %v, want ErrHang", what, err)
						}
						if took := time.Since(began); took < defaultMaxUnsyncedAge || took > defaultMaxUnsyncedAge+3*stallSample {
							t.Errorf("%s took %v", what, took)
						}
					}()
				}
				time.Sleep(3 * stallSample)
				if !l.Doubtful() || l.Failed() || l.Hangs() || l.Ready() != nil || !l.Waits(pos, 0) {
					t.Errorf("stalled: doubtful %v, failed %v, hangs %v, ready %v, waits %v", l.Doubtful(), l.Failed(), l.Hangs(), l.Ready(), l.Waits(pos, 0))
				}
				if !l.Doubts(1, 7, safe, pos) || l.Doubts(1, 8, safe, pos) {
					t.Error("stalled: the changed item alone should be in doubt")
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if err := l.Ready(); !errors.Is(err, ErrHang) || !l.Failed() || !l.Hangs() {
					t.Errorf("hanging: ready %v, failed %v, hangs %v", err, l.Failed(), l.Hangs())
				}
				free()
				time.Sleep(2 * defaultSyncEvery) // what was late has to be synced too
				if err := <-writer; err != nil {
					t.Errorf("the writer: %v", err)
				}
				if l.Ready() != nil || l.Doubtful() || l.Hangs() {
					t.Errorf("well: ready %v, doubtful %v, hangs %v", l.Ready(), l.Doubtful(), l.Hangs())
				}
				must(t, l.Commit(l.AppendSet(1, 1, 7, 3)))
				must(t, l.Close())
			})
		})
	}
}

// TestSyncHangsBeside: under SyncEverySec a hanging sync lets writes go on, for as long as changes are taken.
func TestSyncHangsBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, hang := openHanging(t, SyncEverySec)
		free := hang(vfs.OpSync)
		for range 15 {
			must(t, l.Ready())
			must(t, l.Commit(l.AppendSet(1, 1, 7, 1)))
			time.Sleep(stallSample)
		}
		time.Sleep(time.Minute)
		if l.Ready() == nil || !l.Hangs() {
			t.Errorf("after a minute: ready %v, hangs %v", l.Ready(), l.Hangs())
		}
		free()
		time.Sleep(2 * defaultSyncEvery)
		must(t, l.Ready())
		must(t, l.Close())
	})
}

// TestDoubtsOffset: an item that was changed again and again is in doubt while its last change is, whatever was asked
// before.
func TestDoubtsOffset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, hang := openHanging(t, SyncEverySec)
		must(t, l.Commit(l.AppendSet(1, 1, 9, 1))) // written and not durable: it may be shown
		free := hang(vfs.OpWrite)
		safe, first := l.Visible(), l.AppendSet(1, 1, 7, 1)
		go func() { _ = l.Commit(first) }()
		time.Sleep(3 * stallSample)
		ask := func(mid uint64, safe uint64, want bool) {
			t.Helper()
			if got := l.Doubts(1, mid, safe, l.Position()); got != want {
				t.Errorf("item %d behind %d in doubt: %v", mid, safe, got)
			}
		}
		ask(7, safe, true)
		ask(8, safe, false)
		ask(9, safe, false)
		l.AppendSet(1, 1, 8, 1) // in the open frame, which was looked at
		ask(8, safe, true)
		ask(8, first, true)
		ask(7, first, false)
		l.AppendSet(1, 1, 7, 2)
		ask(7, first, true)
		free()
		synctest.Wait()
		must(t, l.Close())
	})
}
