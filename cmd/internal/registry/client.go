package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/sleep"
)

// client is a Registry over any store.
type client struct {
	store Store

	ctx   context.Context // ends when it is closed
	close context.CancelFunc

	mu  sync.Mutex
	wg  sync.WaitGroup // watches and renewals; added to under mu before it is closed
	err error          // the reason why watches may lack new changes
}

// New is a registry over a store, which it closes.
func New(store Store) Registry {
	c := &client{store: store}
	c.ctx, c.close = context.WithCancel(context.Background())
	return c
}

// call bounds a call by its context, Timeout and Close.
func (c *client) call(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	stop := context.AfterFunc(c.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

func (c *client) Load(ctx context.Context) (*topology.Map, error) {
	m, _, err := c.load(ctx)
	return m, err
}

// load also returns the keys that the map was made of.
func (c *client) load(ctx context.Context) (*topology.Map, []topology.KV, error) {
	if err := c.ended(ctx); err != nil {
		return nil, nil, err
	}
	ctx, cancel := c.call(ctx)
	defer cancel()
	revision, kvs, err := c.store.Get(ctx)
	if err != nil {
		return nil, nil, c.closed(err)
	}
	m, err := topology.NewMap(revision, kvs)
	return m, kvs, err
}

func (c *client) Commit(ctx context.Context, change topology.Change) error {
	if err := c.ended(ctx); err != nil {
		return err
	}
	ctx, cancel := c.call(ctx)
	defer cancel()
	if err := c.store.Txn(ctx, change); err != nil {
		return fmt.Errorf("%s: %w", change.What, err)
	}
	return nil
}

func (c *client) Alarms(ctx context.Context) ([]string, error) {
	if err := c.ended(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := c.call(ctx)
	defer cancel()
	list, err := c.store.Alarms(ctx)
	return list, c.closed(err)
}

// ended tells why nothing is sent any more.
func (c *client) ended(ctx context.Context) error {
	if c.ctx.Err() != nil {
		return ErrClosed
	}
	return ctx.Err()
}

// closed is ErrClosed in place of the result of a call during which the registry was closed.
func (c *client) closed(err error) error {
	if c.ctx.Err() != nil {
		return ErrClosed
	}
	return err
}

func (c *client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *client) setErr(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

func (c *client) Close() error {
	c.mu.Lock()
	c.close()
	c.mu.Unlock()
	c.wg.Wait()
	return c.store.Close()
}

// run starts what Close waits for. false: it is closed.
func (c *client) run(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return false
	}
	c.wg.Go(f)
	return true
}

// RevisionError says that etcd is older than it was: it was restored from a backup without raising its revisions, and
// may not have the decisions made since. Nothing is taken from it until its revision is higher. If Got and Want are
// equal, etcd has reached that revision again, with other keys.
type RevisionError struct{ Got, Want int64 }

func (e *RevisionError) Error() string {
	if e.Got == e.Want {
		return fmt.Sprintf("etcd has other keys at revision %d than it had: it lost what it was told before", e.Got)
	}
	return fmt.Sprintf("etcd's revision is %d, and was %d: it lost what it was told since", e.Got, e.Want)
}

// How long to wait before all is read again: the first time at once but for the jitter, as a member of etcd that goes
// away sends all its clients to the others.
const (
	reloadJitter = 100 * time.Millisecond
	reloadMax    = 2 * time.Second
)

func (c *client) Watch(ctx context.Context) <-chan *topology.Map {
	out := make(chan *topology.Map, 1)
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.ctx, cancel)
	if !c.run(func() {
		defer close(out)
		defer cancel()
		defer stop()
		c.watch(ctx, out)
	}) {
		cancel()
		close(out)
	}
	return out
}

func (c *client) watch(ctx context.Context, out chan *topology.Map) {
	var m *topology.Map
	var keys map[string]int64 // those of m, with the revision at which each was written
	whole := func() error {
		next, kvs, err := c.load(ctx)
		if err != nil {
			return err
		}
		now := make(map[string]int64, len(kvs))
		for _, kv := range kvs {
			now[kv.Key] = kv.Revision
		}
		// Changes of a restored etcd must not be applied to a map that it does not have.
		if m != nil && (next.Revision < m.Revision || next.Revision == m.Revision && !maps.Equal(now, keys)) {
			return &RevisionError{next.Revision, m.Revision}
		}
		c.setErr(nil)
		if m != nil && next.Revision == m.Revision {
			return nil
		}
		m, keys = next, now
		give(out, m)
		return nil
	}
	changed := func(revision int64, kvs []topology.KV) error {
		next, err := m.With(revision, kvs)
		if err != nil {
			return err
		}
		if next.Revision < m.Revision {
			return &RevisionError{next.Revision, m.Revision}
		}
		c.setErr(nil)
		if next.Revision == m.Revision {
			return nil
		}
		for _, kv := range kvs {
			if kv.Value == nil {
				delete(keys, kv.Key)
			} else {
				keys[kv.Key] = kv.Revision
			}
		}
		m = next
		give(out, m)
		return nil
	}
	for pause := reloadJitter; ; {
		err := whole()
		if err == nil {
			pause = reloadJitter
			err = c.store.Watch(ctx, m.Revision+1, changed)
		}
		if ctx.Err() != nil {
			return
		}
		c.setErr(err)
		if !sleep.For(ctx, rand.N(pause)) {
			return
		}
		pause = min(2*pause, reloadMax)
	}
}

// give replaces a map that its reader did not take in time. Nobody else sends.
func give(out chan *topology.Map, m *topology.Map) {
	select {
	case <-out:
	default:
	}
	out <- m
}

func (c *client) Register(ctx context.Context, id topology.NodeID, ttl time.Duration, live topology.Live) (Lease, error) {
	if ttl < 2*time.Second || ttl%time.Second != 0 {
		return nil, fmt.Errorf("got a lease of %s, want whole seconds, 2 at least", ttl)
	}
	if err := c.ended(ctx); err != nil {
		return nil, err
	}
	call, cancel := c.call(ctx)
	defer cancel()
	sent := time.Now()
	granted, err := c.store.Grant(call, ttl)
	if err != nil {
		return nil, c.closed(err)
	}
	l := &lease{c: c, key: topology.LiveKey(id), id: granted.Lease, ttl: granted.TTL, lost: make(chan struct{}), order: make(chan struct{}, 1)}
	l.deadline = sent.Add(granted.TTL)
	l.ctx, l.stop = context.WithCancel(c.ctx)
	if !c.run(l.renew) {
		l.stop()
		return nil, ErrClosed
	}
	if err := l.put(call, live, true); err != nil {
		l.lose(err)
		return nil, errors.Join(c.closed(err), l.revoke(ctx))
	}
	return l, nil
}
