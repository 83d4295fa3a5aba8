package repl

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// slowHost does not come back from Reopen until it is let go.
type slowHost struct {
	*testHost
	in, out chan struct{}
}

func (h *slowHost) Reopen(change func(dir string) error) error {
	close(h.in)
	<-h.out
	return h.testHost.Reopen(change)
}

// TestCloseWaitsNoLonger closes a node whose link is in the middle of what cannot be broken off: it returns when its context ends, and the link ends after that.
func TestCloseWaitsNoLonger(t *testing.T) {
	w := newWorld(t)
	h := &slowHost{testHost: &testHost{t: t, sim: w.replica.Kill()}, in: make(chan struct{}), out: make(chan struct{})}
	h.open()
	n := newTestNode(h.testHost)
	n.host = h
	ctx, cancel := context.WithCancel(t.Context())
	l := &Link{node: n, ctx: ctx, cancel: cancel, done: make(chan struct{}), downSince: time.Now()}
	n.link = l
	go func() {
		defer close(l.done)
		_ = l.hears(fmt.Appendf([]byte(hello), "-DIVERGED %d\r\n", w.ends[3]))
	}()
	<-h.in
	ended, end := context.WithCancel(t.Context())
	end()
	if err := n.Close(ended); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want that the context has ended", err)
	}
	close(h.out)
	<-l.done
	if err := n.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := n.Follow(Address{"127.0.0.1", 1}); err == nil {
		t.Error("a node that was closed follows")
	}
	if at := w.sound(t, h.testHost); at != w.ends[3] {
		t.Errorf("the log ends at %d, want %d", at, w.ends[3])
	}
}
