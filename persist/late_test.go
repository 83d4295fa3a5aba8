// Scenario: a sync is late because the process stood still

package persist

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// gatedFS is a file system whose syncs wait while gate is closed.
type gatedFS struct {
	vfs.FS
	gate *atomic.Pointer[chan struct{}]
}

type gatedFile struct {
	vfs.File
	gate *atomic.Pointer[chan struct{}]
}

func (g gatedFS) Create(name string) (vfs.File, error) {
	f, err := g.FS.Create(name)
	return gatedFile{f, g.gate}, err
}

func (f gatedFile) Sync() error {
	if gate := f.gate.Load(); gate != nil {
		<-*gate
	}
	return f.File.Sync()
}

// TestLateIsNotSlow: a process that was stopped finds bytes that are not durable after seconds, and is not the disk's
// fault: no change is refused. A disk that does not end a sync is slow.
func TestLateIsNotSlow(t *testing.T) {
	var now atomic.Int64
	gate := new(atomic.Pointer[chan struct{}])
	opts := LogOptions{FS: gatedFS{newFS(t), gate}, Dir: testDir, History: testHistory, Create: true, SyncEvery: time.Hour,
		Now: func() time.Time { return time.Unix(1_700_000_000+now.Load(), 0) }}
	l, _, err := OpenLog(opts, 0, discard)
	must(t, err)
	until := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(3 * time.Minute); !ok(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("never", what)
			}
		}
	}
	look := func() { // as the timer does
		l.mu.Lock()
		l.judge.age()
		l.mu.Unlock()
	}
	refused := func() bool { return errors.Is(l.Ready(), format.ErrNotReady) }
	for range 3 {
		pos := l.AppendSet(1, 1, 1, 1)
		must(t, l.Commit(pos))
		now.Add(20)
		look()
		if refused() {
			t.Fatal("refused after a stop:", l.Ready())
		}
		until("durable", func() bool { return l.Durable() >= pos })
		if refused() {
			t.Fatal("refused after a stop:", l.Ready())
		}
	}
	wait := make(chan struct{})
	gate.Store(&wait)
	must(t, l.Commit(l.AppendSet(1, 1, 1, 1)))
	now.Add(20)
	look()
	look() // as the end of another sync does, or an append
	if refused() {
		t.Fatal("refused before the disk had time to answer:", l.Ready())
	}
	until("slow", func() bool { now.Add(1); return refused() })
	gate.Store(nil)
	close(wait)
	until("taken again", func() bool { look(); return !refused() })
	must(t, l.Close())
}
