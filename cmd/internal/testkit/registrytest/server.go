// Package registrytest is etcd for tests, in memory: keys with revisions, transactions, watches, compaction and leases by
// the same rules, between clients whose network fails as it is told. Package registry's own code runs over it. In a
// bubble of testing/synctest its times are those of the fake clock.
//
//	server := registrytest.NewServer()
//	link := registrytest.NewLink(seed)
//	r := server.Open(link)                       // one process's registry.Registry
//	link.Cut(true, false)                        // its requests are lost, as packets of one way would
//	link.SetFaults(registrytest.Faults{...})     // some answers are lost, or come late
//	server.Compact(); server.SetDown(true)       // for all clients
package registrytest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/counterd/counterd/cmd/internal/registry"
	"github.com/counterd/counterd/cmd/internal/topology"
)

// Server is one etcd, which all clients agree on. It is safe for concurrent use.
type Server struct {
	mu        sync.Mutex
	revision  int64
	keys      map[string]entry
	compacted int64
	log       []batch // of revisions behind compacted, rising
	leases    map[int64]*lease
	lastLease int64
	down      bool
	changed   chan struct{} // closed at each change, of a key or of down
	observe   func(revision int64, kvs []topology.KV)
	read      *topology.Map // of its revision, see Map; nil: none was read
	full      bool          // the alarm NOSPACE: reads and renewals alone
}

type entry struct {
	value    []byte
	revision int64
	lease    int64
}

type batch struct {
	revision int64
	kvs      []topology.KV
}

type lease struct {
	ttl    time.Duration
	expiry *time.Timer
}

// NewServer is an empty etcd.
func NewServer() *Server {
	return &Server{revision: 1, keys: map[string]entry{}, leases: map[int64]*lease{}, changed: make(chan struct{})}
}

// Open is a registry of one process behind its link; nil: a perfect one.
func (s *Server) Open(link *Link) registry.Registry { return registry.New(s.Store(link)) }

// Store is what Open's registry works on.
func (s *Server) Store(link *Link) registry.Store {
	if link == nil {
		link = NewLink(0)
	}
	return &store{s, link}
}

// Map is what the server holds, read without a link.
func (s *Server) Map() (*topology.Map, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.read != nil && s.read.Revision == s.revision {
		return s.read, nil
	}
	m, err := topology.NewMap(s.revision, s.all())
	s.read = m
	return m, err
}

// Compact forgets the changes up to now: a watch that has not seen them ends with an error.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compacted, s.log = s.revision, nil
	s.notify()
}

// SetDown takes the server away from all clients, or brings it back. Leases do not run out meanwhile, and live on for
// their whole time to live behind it, as with etcd's elections.
func (s *Server) SetDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
	for _, l := range s.leases {
		if l.expiry.Stop(); !down {
			l.expiry.Reset(l.ttl)
		}
	}
	s.notify()
}

// SetFull raises etcd's alarm NOSPACE, or ends it: reads are answered, leases are renewed and end, and all else that would
// write is refused.
func (s *Server) SetFull(full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full = full
}

// errNoSpace is what is refused then.
var errNoSpace = errors.New("etcdserver: mvcc: database space exceeded")

// Put writes a key without asking for its revision, as a hand does; nil removes it.
func (s *Server) Put(key string, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(0, topology.KV{Key: key, Value: value})
}

// Observe calls for every revision that is made from now on, in order, before anybody can read it. It must not call the
// server.
func (s *Server) Observe(see func(revision int64, kvs []topology.KV)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observe = see
}

func (s *Server) isDown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down
}

// notify wakes who watches. s.mu is held.
func (s *Server) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// write makes one revision of some keys. s.mu is held.
func (s *Server) write(lease int64, kvs ...topology.KV) {
	b := batch{revision: s.revision + 1}
	for _, kv := range kvs {
		kv.Revision = b.revision
		if _, ok := s.keys[kv.Key]; kv.Value == nil && !ok {
			continue
		}
		if kv.Value == nil {
			delete(s.keys, kv.Key)
		} else {
			kv.Value = slices.Clone(kv.Value)
			s.keys[kv.Key] = entry{kv.Value, b.revision, lease}
		}
		b.kvs = append(b.kvs, kv)
	}
	if len(b.kvs) > 0 {
		s.revision, s.log = b.revision, append(s.log, b)
		if s.observe != nil {
			s.observe(b.revision, b.kvs)
		}
		s.notify()
	}
}

// all lists the keys. s.mu is held.
func (s *Server) all() (kvs []topology.KV) {
	for _, key := range slices.Sorted(maps.Keys(s.keys)) {
		kvs = append(kvs, topology.KV{Key: key, Value: s.keys[key].value, Revision: s.keys[key].revision})
	}
	return kvs
}

func (s *Server) txn(c topology.Change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full && len(c.Put) > 0 {
		return errNoSpace
	}
	for _, want := range c.Compare {
		if got := s.keys[want.Key].revision; got != want.Revision {
			return fmt.Errorf("key %s has revision %d, want %d: %w", want.Key, got, want.Revision, registry.ErrConflict)
		}
	}
	kvs := slices.Clone(c.Put)
	for _, key := range c.Delete {
		kvs = append(kvs, topology.KV{Key: key})
	}
	s.write(0, kvs...)
	return nil
}

func (s *Server) grant(ttl time.Duration) (registry.Granted, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full {
		return registry.Granted{}, errNoSpace
	}
	s.lastLease++
	id := s.lastLease
	s.leases[id] = &lease{ttl, time.AfterFunc(ttl, func() { s.expire(id) })}
	return registry.Granted{Lease: id, TTL: ttl}, nil
}

func (s *Server) renew(id int64) (time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.leases[id]
	if l == nil {
		return 0, registry.ErrLost
	}
	l.expiry.Reset(l.ttl)
	return l.ttl, nil
}

func (s *Server) putLeased(kv topology.KV, id int64) (registry.Leased, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full {
		return registry.Leased{}, errNoSpace
	}
	if s.leases[id] == nil {
		return registry.Leased{}, registry.ErrLost
	}
	if at := s.keys[kv.Key]; at.revision != kv.Revision {
		return registry.Leased{Revision: at.revision, Lease: at.lease}, nil
	}
	s.write(id, kv)
	return registry.Leased{Written: true, Revision: s.revision, Lease: id}, nil
}

// expire is the timer's.
func (s *Server) expire(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.down {
		s.end(id)
	}
}

func (s *Server) revoke(id int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leases[id] == nil {
		return registry.ErrLost
	}
	s.end(id)
	return nil
}

// end removes a lease and its keys. s.mu is held.
func (s *Server) end(id int64) {
	l := s.leases[id]
	if l == nil {
		return
	}
	l.expiry.Stop()
	delete(s.leases, id)
	var kvs []topology.KV
	for key, at := range s.keys {
		if at.lease == id {
			kvs = append(kvs, topology.KV{Key: key})
		}
	}
	s.write(0, kvs...)
}

var errCompacted = errors.New("the changes wanted are compacted")

// next gives the changes from a revision on, and what is closed when there are more.
func (s *Server) next(from int64) (batches []batch, more <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if from <= s.compacted {
		return nil, nil, errCompacted
	}
	if from > s.revision+1 {
		return nil, nil, &registry.RevisionError{Got: s.revision, Want: from - 1}
	}
	i, _ := slices.BinarySearchFunc(s.log, from, func(b batch, from int64) int { return int(b.revision - from) })
	return slices.Clone(s.log[i:]), s.changed, nil
}

// store is a Server as one client reaches it.
type store struct {
	server *Server
	link   *Link
}

// do sends a request and waits for its answer. What the request does may happen behind the end of ctx.
func do[T any](ctx context.Context, st *store, op func() (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	answers := make(chan answer, 1)
	fate := st.link.roll()
	go func() {
		time.Sleep(fate.there)
		if fate.requestLost || st.link.isCut(true) || st.server.isDown() {
			return
		}
		v, err := op()
		time.Sleep(fate.back)
		if !fate.answerLost && !st.link.isCut(false) {
			answers <- answer{v, err}
		}
	}()
	select {
	case a := <-answers:
		return a.v, a.err
	case <-ctx.Done():
		var none T
		return none, &noAnswer{ctx.Err()}
	}
}

// noAnswer is the error of a request whose answer did not come.
type noAnswer struct{ err error }

func (e *noAnswer) Error() string { return "no answer: " + e.err.Error() }
func (e *noAnswer) Unwrap() error { return e.err }

func (st *store) Get(ctx context.Context) (int64, []topology.KV, error) {
	b, err := do(ctx, st, func() (batch, error) {
		st.server.mu.Lock()
		defer st.server.mu.Unlock()
		return batch{st.server.revision, st.server.all()}, nil
	})
	return b.revision, b.kvs, err
}

func (st *store) Txn(ctx context.Context, c topology.Change) error {
	_, err := do(ctx, st, func() (struct{}, error) { return struct{}{}, st.server.txn(c) })
	var lost *noAnswer
	if errors.As(err, &lost) {
		return fmt.Errorf("%w: %w", registry.ErrUnknown, err)
	}
	return err
}

func (st *store) Grant(ctx context.Context, ttl time.Duration) (registry.Granted, error) {
	return do(ctx, st, func() (registry.Granted, error) { return st.server.grant(ttl) })
}

func (st *store) Renew(ctx context.Context, id int64) (time.Duration, error) {
	return do(ctx, st, func() (time.Duration, error) { return st.server.renew(id) })
}

func (st *store) PutLeased(ctx context.Context, kv topology.KV, id int64) (registry.Leased, error) {
	return do(ctx, st, func() (registry.Leased, error) { return st.server.putLeased(kv, id) })
}

func (st *store) Revoke(ctx context.Context, id int64) error {
	_, err := do(ctx, st, func() (struct{}, error) { return struct{}{}, st.server.revoke(id) })
	return err
}

func (st *store) Alarms(ctx context.Context) ([]string, error) {
	return do(ctx, st, func() ([]string, error) {
		st.server.mu.Lock()
		defer st.server.mu.Unlock()
		if st.server.full {
			return []string{registry.NoSpaceText}, nil
		}
		return nil, nil
	})
}

// silence is for how long a watch hears nothing, not even that there is nothing, before it counts as lost.
const silence = 3 * time.Second

func (st *store) Watch(ctx context.Context, from int64, changed func(int64, []topology.KV) error) error {
	for {
		cut := st.link.changes()
		if st.link.isCut(true) || st.link.isCut(false) || st.server.isDown() {
			if !st.reachable(ctx) {
				return errors.Join(errors.New("the watch is lost"), ctx.Err())
			}
			continue
		}
		batches, more, err := st.server.next(from)
		if err != nil {
			return err
		}
		if len(batches) == 0 {
			select {
			case <-more:
			case <-cut:
			case <-ctx.Done():
				return ctx.Err()
			}
			continue
		}
		for _, b := range batches {
			fate := st.link.roll()
			if time.Sleep(fate.back); fate.watchLost {
				return errors.New("the watch is lost")
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if st.link.isCut(false) || st.server.isDown() {
				break
			}
			if err := changed(b.revision, b.kvs); err != nil {
				return err
			}
			from = b.revision + 1
		}
	}
}

// reachable waits until the client reaches the server both ways; false: it did not in time.
func (st *store) reachable(ctx context.Context) bool {
	timeout := time.NewTimer(silence)
	defer timeout.Stop()
	for {
		cut := st.link.changes()
		st.server.mu.Lock()
		down, changed := st.server.down, st.server.changed
		st.server.mu.Unlock()
		if !down && !st.link.isCut(true) && !st.link.isCut(false) {
			return true
		}
		select {
		case <-cut:
		case <-changed:
		case <-timeout.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

func (st *store) Close() error { return nil }
