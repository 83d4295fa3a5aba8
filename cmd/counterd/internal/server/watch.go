package server

import (
	"sync"
	"sync/atomic"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// watches knows which connections WATCH which items. Writers look at it only while there is any: one atomic load
// a batch otherwise.
//
// A write marks the watchers after it was applied and before its batch ends; EXEC looks at its mark with the store held exclusively. So
// no write between WATCH and EXEC is missed. One that was applied before WATCH but marks after it aborts the
// transaction needlessly, which is allowed.
type watches struct {
	n  atomic.Int64 // items watched
	mu sync.Mutex
	by map[watchKey]map[*client]uint64 // the bits of the columns watched
	of map[*client][]watchKey
}

type watchKey struct {
	counter uint32
	mid     uint64
}

// add answers false when too much is watched already: a watch takes 300 bytes.
func (w *watches) add(c *client, k schema.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.of[c]) >= maxWatched || w.n.Load() >= maxWatchedInAll {
		return false
	}
	if w.by == nil {
		w.by = make(map[watchKey]map[*client]uint64)
		w.of = make(map[*client][]watchKey)
	}
	columns := ^uint64(0)
	if k.Col >= 0 {
		columns = 1 << k.Col
	}
	key := watchKey{k.Counter.ID, k.Mid}
	if w.by[key] == nil {
		w.by[key] = make(map[*client]uint64)
		w.n.Add(1)
	}
	if w.by[key][c] == 0 {
		w.of[c] = append(w.of[c], key)
	}
	w.by[key][c] |= columns
	return true
}

const (
	maxWatched      = 4 << 10   // items by one connection
	maxWatchedInAll = 128 << 10 // items by all: 40 MB
)

// remove ends all of c's watching and takes back its mark.
func (w *watches) remove(c *client) {
	defer c.dirty.Store(false)
	if w.n.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range w.of[c] {
		if delete(w.by[key], c); len(w.by[key]) == 0 {
			delete(w.by, key)
			w.n.Add(-1)
		}
	}
	delete(w.of, c)
}

// touch marks the watchers of what b changed. REQUIRES b run and not ended.
func (w *watches) touch(b *counter.Batch) {
	if w.n.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range b.Len() {
		op := b.Op(i)
		if !op.Done {
			continue
		}
		for c, columns := range w.by[watchKey{op.Counter.ID, op.Mid}] {
			if op.Column < 0 || !op.Found || columns&(1<<op.Column) != 0 {
				c.dirty.Store(true)
			}
		}
	}
}

// touchAll marks everybody: FLUSHALL and changes of the schema.
func (w *watches) touchAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.of {
		c.dirty.Store(true)
	}
}
