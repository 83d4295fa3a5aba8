package registry

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/sleep"
)

// lease is a node's key and its renewals.
type lease struct {
	c     *client
	key   string
	id    int64
	ttl   time.Duration
	ctx   context.Context // of the renewals
	stop  context.CancelFunc
	order chan struct{} // held by the writer of the key
	known int64         // revision of the key as last heard; of the holder of order

	lost     chan struct{}
	mu       sync.Mutex
	deadline time.Time
	cause    error // why lost is closed
}

func (l *lease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline
}

func (l *lease) Lost() <-chan struct{} { return l.lost }

// lose closes lost, once.
func (l *lease) lose(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause == nil {
		l.cause = cause
		close(l.lost)
		l.stop()
	}
}

func (l *lease) why() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

func (l *lease) Update(ctx context.Context, live topology.Live) error {
	ctx, cancel := l.c.call(ctx)
	defer cancel()
	err := l.put(ctx, live, false)
	if errors.Is(err, ErrLost) || errors.Is(err, ErrTaken) {
		l.lose(err)
	}
	return l.c.closed(err)
}

// put writes the key. It compares the revision, so that an earlier write that was believed lost cannot arrive later and
// undo this one.
func (l *lease) put(ctx context.Context, live topology.Live, take bool) error {
	text, err := json.Marshal(live)
	if err != nil {
		return err
	}
	select {
	case l.order <- struct{}{}:
		defer func() { <-l.order }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		if err := l.why(); err != nil {
			return err
		}
		at, err := l.c.store.PutLeased(ctx, topology.KV{Key: l.key, Value: text, Revision: l.known}, l.id)
		if err != nil {
			return err
		}
		// Not written: its revision is another, as an earlier write has happened though its answer was lost, or as it is
		// another process's.
		if !at.Written && !take && at.Lease != l.id {
			if at.Revision == 0 {
				return ErrLost
			}
			return ErrTaken
		}
		if l.known = at.Revision; at.Written {
			return nil
		}
	}
}

// renew keeps the lease alive until it is closed or lost. A renewal is sent each third of its time to live, so that a
// lost renewal does no harm. The first third begins when the lease was asked for, and not when the key is written: an etcd that
// takes a second for each of the two would have the lease of two seconds end.
func (l *lease) renew() {
	for pause := time.Until(l.Deadline()) - 2*l.ttl/3; sleep.For(l.ctx, min(pause, time.Until(l.Deadline()))); {
		sent, deadline := time.Now(), l.Deadline()
		if !sent.Before(deadline) {
			l.lose(ErrLost)
			return
		}
		// A renewal without an answer may hang in a connection to a member that is gone.
		ctx, cancel := context.WithDeadline(l.ctx, sent.Add(min(l.ttl/3, deadline.Sub(sent))))
		ttl, err := l.c.store.Renew(ctx, l.id)
		cancel()
		switch {
		case err == nil:
			l.mu.Lock()
			l.deadline = sent.Add(ttl)
			l.mu.Unlock()
			pause = l.ttl / 3
		case errors.Is(err, ErrLost):
			l.lose(ErrLost)
			return
		default:
			pause = l.ttl / 30
		}
	}
}

func (l *lease) Close(ctx context.Context) error {
	l.lose(ErrClosed)
	return l.revoke(ctx)
}

func (l *lease) revoke(ctx context.Context) error {
	ctx, cancel := l.c.call(ctx)
	defer cancel()
	err := l.c.store.Revoke(ctx, l.id)
	if errors.Is(err, ErrLost) {
		return nil
	}
	return l.c.closed(err)
}
