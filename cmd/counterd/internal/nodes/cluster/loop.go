package cluster

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/counterd/counterd/cmd/internal/registry"
	"github.com/counterd/counterd/cmd/internal/topology"
)

// loop is the state that the parts of an agent share: the map read last, and the way to propose a change to etcd. At most
// one change is under way at a time, and the next one is decided from the map behind it.
//
// Only the agent's goroutine uses a loop, except for ask, pause and the fields that are safe for concurrent use.
type loop struct {
	conf  Config // constant
	id    topology.NodeID
	host  Host
	stats stats // safe for concurrent use

	calls chan func() // functions that the agent's goroutine runs
	ctx   context.Context
	stop  context.CancelFunc
	wg    sync.WaitGroup

	now       time.Time
	m         *topology.Map        // the newest one; nil before the first
	log       LogState             // of the step
	next      time.Duration        // until the next step at the latest
	proposing bool                 // a transaction is under way
	proposeAt time.Time            // not before: the last one failed
	lastErr   map[string]time.Time // when an error was logged last

	// failing is the time of the first of the writes to etcd that failed in a row, and why the error of the last one. A
	// transaction that loses a conflict has not failed.
	failing time.Time
	why     error
}

var (
	errBusy   = errors.New("another change is under way")
	errClosed = errors.New("the node is shutting down")
)

func newLoop(conf Config) *loop {
	if conf.Log == nil {
		conf.Log = slog.New(slog.DiscardHandler)
	}
	if conf.SpareAfter == 0 {
		conf.SpareAfter = 5 * time.Minute
	}
	if conf.RenewStart == 0 {
		conf.RenewStart = 10 * time.Minute
	}
	l := &loop{conf: conf, id: conf.Home.Node(), host: conf.Host, calls: make(chan func(), 16), lastErr: map[string]time.Time{}}
	l.conf.Node.ID = l.id
	l.ctx, l.stop = context.WithCancel(context.Background())
	return l
}

// within makes the next step come after at most d.
func (l *loop) within(d time.Duration) { l.next = min(l.next, max(d, time.Millisecond)) }

// adopt takes a map that was read, unless a newer one is known.
func (l *loop) adopt(m *topology.Map) {
	if l.m == nil || m.Revision > l.m.Revision {
		l.m = m
	}
}

// beside runs f in a goroutine of its own, and the function that f returns in the loop.
func (l *loop) beside(f func(ctx context.Context) (then func())) {
	l.wg.Go(func() {
		then := f(l.ctx)
		select {
		case l.calls <- then:
		case <-l.ctx.Done():
		}
	})
}

// idle tells whether a change may be proposed now.
func (l *loop) idle() bool { return !l.proposing && !l.now.Before(l.proposeAt) }

// propose commits a change, one at a time, and reads the map after it. done gets the outcome in the loop: nil, or an error
// with definite, which is true if the change has not happened and will not. err is the error of making the change.
func (l *loop) propose(c topology.Change, err error, within time.Duration, done func(err error, definite bool)) {
	if err == nil && !l.idle() {
		err = errBusy
	}
	if err != nil {
		l.fault("a change is not proposed", err)
		done(err, true)
		return
	}
	l.proposing = true
	l.beside(func(ctx context.Context) func() {
		within, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		err := l.conf.Registry.Commit(within, c)
		// The next change is made from the map after this one: from the map before, it would conflict.
		var m *topology.Map
		if err == nil || errors.Is(err, registry.ErrConflict) {
			load, cancel := context.WithTimeout(ctx, commitTime)
			defer cancel()
			var loadErr error
			if m, loadErr = l.conf.Registry.Load(load); loadErr != nil {
				m = nil // the watch will bring it
			}
		}
		return func() {
			l.proposing = false
			if !errors.Is(err, registry.ErrConflict) {
				l.wrote(err)
			}
			switch {
			case err == nil:
				l.conf.Log.Info("cluster: committed", "change", c.What)
			case errors.Is(err, registry.ErrConflict):
				l.stats.conflicts.Add(1)
				l.proposeAt = time.Now().Add(10 * time.Millisecond)
			default:
				l.stats.failed.Add(1)
				l.proposeAt = time.Now().Add(100*time.Millisecond + rand.N(200*time.Millisecond))
				l.fault("a change is not committed", err)
			}
			done(err, !errors.Is(err, registry.ErrUnknown))
			if m != nil {
				l.adopt(m)
			}
		}
	})
}

// fault logs an error that repeats once in ten seconds.
func (l *loop) fault(what string, err error) {
	if at, ok := l.lastErr[what]; ok && time.Since(at) < 10*time.Second {
		return
	}
	l.lastErr[what] = time.Now()
	l.conf.Log.Warn("cluster: "+what, "error", err)
}

// ask runs f in the loop and waits for it.
func (l *loop) ask(ctx context.Context, f func()) error {
	done := make(chan struct{})
	select {
	case l.calls <- func() { f(); close(done) }:
	case <-ctx.Done():
		return ctx.Err()
	case <-l.ctx.Done():
		return errClosed
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.ctx.Done():
		return errClosed
	}
}

// shard is the node's shard in the newest map; nil: a free node.
func (l *loop) shard() *topology.Shard {
	if l.m == nil {
		return nil
	}
	if n := l.m.Nodes[l.id]; n != nil && n.Shard != 0 {
		return l.m.Shard(n.Shard)
	}
	return nil
}

// least is the number of nodes that must have a change before it is acknowledged.
func (l *loop) least() int { return max(l.m.Cluster.MinInSync, 1) }

// shardEpoch is the epoch of the node's shard; 0: a free node.
func (l *loop) shardEpoch() uint64 {
	if s := l.shard(); s != nil {
		return s.Epoch
	}
	return 0
}

// pause waits for d. It returns false if ctx or the agent ends before.
func (l *loop) pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	case <-l.ctx.Done():
		return false
	}
}

// wrote notes how a write to etcd ended.
func (l *loop) wrote(err error) {
	switch {
	case err == nil:
		l.failing, l.why = time.Time{}, nil
	case l.failing.IsZero():
		l.failing = time.Now()
		fallthrough
	default:
		l.why = err
	}
}
