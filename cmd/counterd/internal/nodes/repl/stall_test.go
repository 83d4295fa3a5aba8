// Scenario: the disk of a replica fails at each operation of the stream.

package repl

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// waitFor waits for a condition.
func waitFor(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited three minutes for: %s", what)
		}
	}
}

// countedReader counts what was read, and gives little at a time, as a network does.
type countedReader struct {
	r    *bytes.Reader
	read atomic.Int64
}

func (c *countedReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p[:min(len(p), 100)])
	c.read.Add(int64(n))
	return n, err
}

// TestDiskFails lets the disk of a replica fail, at each operation of the stream from the first on: the replica stops
// to read, says why and acknowledges nothing, holds no more than what it had read, and goes on from there on the same
// connection when the disk is well.
func TestDiskFails(t *testing.T) {
	w := newWorld(t)
	said := append([]byte(hello), w.goesOn(t)...)
	end := w.ends[len(w.ends)-1]
	for skip := 0; ; skip++ {
		faulty := vfs.NewFaulty(w.replica.Kill())
		h := &testHost{t: t, fs: faulty}
		h.open()
		faulty.Inject(vfs.Rule{Ops: vfs.OpMutating, Skip: skip, Every: 1, Err: syscall.ENOSPC})
		l := newTestLink(t, h, false)
		l.node.link = l
		in := &countedReader{r: bytes.NewReader(said)}
		s := &session{Link: l, conn: wire.NewConn(&scripted{in: in}, linkBuffer)}
		done := make(chan error, 1)
		go func() { done <- s.run() }()
		waitFor(t, "the link to stand still, or to end", func() bool { return l.stalled.Load() || len(done) > 0 })
		if len(done) > 0 && faulty.Fired() == 0 {
			if err := <-done; !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			if skip < 6 {
				t.Errorf("the stream took %d operations of the disk only", skip)
			}
			break
		}
		if len(done) > 0 { // before the stream: HISTORY could not be written
			if err := <-done; !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("operation %d: %v", skip, err)
			}
			faulty.Clear()
			_ = h.Store().Close()
			continue
		}
		store := h.Store()
		log := store.Replication()
		read, at := in.read.Load(), log.Position()
		waitFor(t, "a reason", func() bool { info, _ := l.node.Link(); return strings.Contains(info.Error, "no space left") })
		if got := log.Position() - log.Durable(); got > uint64(read) {
			t.Errorf("operation %d: %d bytes are held, of %d read", skip, got, read)
		}
		if err := store.Ready(); err == nil {
			t.Errorf("operation %d: stands still, and the log takes changes", skip)
		}
		for _, f := range frames(t, w.primary.Store(), at) { // if there are more
			if _, err := h.Store().Replication().Replicate(f); !errors.Is(err, format.ErrNotReady) {
				t.Errorf("operation %d: a frame was taken: %v", skip, err)
			}
		}
		if log.Position() != at || in.read.Load() != read {
			t.Errorf("operation %d: reads on", skip)
		}
		faulty.Clear()
		waitFor(t, "the end of the stream", func() bool { store.Tick(); return len(done) > 0 })
		if err := <-done; !errors.Is(err, io.EOF) {
			t.Fatalf("operation %d: %v", skip, err)
		}
		if info, _ := l.node.Link(); info.Error != "" {
			t.Errorf("operation %d: still says %q", skip, info.Error)
		}
		if got := w.sound(t, h); got != end {
			t.Fatalf("operation %d: the log ends at %d, want %d", skip, got, end)
		}
	}
}
