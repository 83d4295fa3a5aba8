package server

import (
	"sync"
	"sync/atomic"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// watches knows which connections WATCH which items. Writers, and a primary's stream, look at it only while there is any: one atomic load
// a batch otherwise.
//
// A write marks the watchers after it was applied and before its batch ends; EXEC looks at its mark with the store held exclusively. So
// no write between WATCH and EXEC is missed. One that was applied before WATCH but marks after it aborts the
// transaction needlessly, which is allowed.
type watches struct {
	n  atomic.Int64                    // connections that watch: len(of)
	mu sync.Mutex                      // guards the rest
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
	w.join(c)
	if len(w.of[c]) >= maxWatched || len(w.by) >= maxWatchedInAll {
		return false
	}
	columns := ^uint64(0)
	if k.Col >= 0 {
		columns = 1 << k.Col
	}
	key := watchKey{k.Counter.ID, k.Mid}
	if w.by[key] == nil {
		w.by[key] = make(map[*client]uint64)
	}
	if w.by[key][c] == 0 {
		w.of[c] = append(w.of[c], key)
	}
	w.by[key][c] |= columns
	return true
}

// addUnknown has c watch a key that names nothing: a change of the schema may give it a meaning.
func (w *watches) addUnknown(c *client) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.join(c)
}

// join makes c one of those that watch. REQUIRES mu.
func (w *watches) join(c *client) {
	if w.by == nil {
		w.by = make(map[watchKey]map[*client]uint64)
		w.of = make(map[*client][]watchKey)
	}
	if _, ok := w.of[c]; !ok {
		w.of[c] = nil
		w.n.Add(1)
	}
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
		}
	}
	if _, ok := w.of[c]; ok {
		delete(w.of, c)
		w.n.Add(-1)
	}
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
			if op.Kind == counter.OpDelete || op.Column < 0 || !op.Found || columns&(1<<op.Column) != 0 {
				c.dirty.Store(true)
			}
		}
	}
}

// replicated marks the watchers of what a primary changed, as counter.Store.Observe tells it.
func (w *watches) replicated(b *counter.Batch) {
	if b == nil {
		w.touchAll()
	} else {
		w.touch(b)
	}
}

// touchAll marks everybody: FLUSHALL, changes of the schema, other data.
func (w *watches) touchAll() {
	if w.n.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.of {
		c.dirty.Store(true)
	}
}
