// Package watch knows which connections WATCH which items, and marks them when one changes.
package watch

import (
	"sync"
	"sync/atomic"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// Table is all that is watched. The zero Table is ready, and may be used by several goroutines at once. Writers, and a
// primary's stream, look at it only while there is any: one atomic load a batch otherwise.
//
// A write marks the watchers after it was applied and before its batch ends; EXEC looks at its mark with the store held
// exclusively. So no write between WATCH and EXEC is missed. A change that was applied before WATCH but marks after it
// aborts the transaction needlessly, which is allowed.
type Table struct {
	n  atomic.Int64                 // connections that watch: len(of)
	mu sync.Mutex                   // guards the rest
	by map[itemKey]map[*Mark]uint64 // the bits of the columns watched
	of map[*Mark][]itemKey
}

// Mark is that of one connection: whether something that it watches has changed. It may be looked at at any time.
type Mark struct {
	dirty atomic.Bool
	times []timed // watched columns that time changes; of the connection's own goroutine
}

// Dirty tells whether something has changed.
func (m *Mark) Dirty() bool { return m.dirty.Load() }

// Spoil marks a connection itself.
func (m *Mark) Spoil() { m.dirty.Store(true) }

type itemKey struct {
	counter uint32
	mid     uint64
}

// Add has m watch keys, and changes of the schema, which may give a meaning to one that is none of them. It answers
// false when that would be too much, for a watch takes 300 bytes: then nothing was added.
func (w *Table) Add(m *Mark, keys []schema.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	fresh, inAll := make(map[itemKey]struct{}), len(w.by)
	for _, k := range keys {
		key := itemKey{k.Counter.ID, k.Mid}
		if _, ok := fresh[key]; ok || w.by[key][m] != 0 {
			continue
		}
		fresh[key] = struct{}{}
		if w.by[key] == nil {
			inAll++
		}
		if len(w.of[m])+len(fresh) > maxWatched || inAll > maxWatchedInAll {
			return false
		}
	}
	w.join(m)
	for _, k := range keys {
		columns := ^uint64(0)
		if k.Col >= 0 {
			columns = 1 << k.Col
		}
		key := itemKey{k.Counter.ID, k.Mid}
		if w.by[key] == nil {
			w.by[key] = make(map[*Mark]uint64)
		}
		if w.by[key][m] == 0 {
			w.of[m] = append(w.of[m], key)
		}
		w.by[key][m] |= columns
	}
	return true
}

// join makes m one of those that watch. REQUIRES mu.
func (w *Table) join(m *Mark) {
	if w.by == nil {
		w.by = make(map[itemKey]map[*Mark]uint64)
		w.of = make(map[*Mark][]itemKey)
	}
	if _, ok := w.of[m]; !ok {
		w.of[m] = nil
		w.n.Add(1)
	}
}

const (
	maxWatched      = 4 << 10   // items by one connection
	maxWatchedInAll = 128 << 10 // items by all: 40 MB
)

// Remove ends all of m's watching and takes back its mark. Only the connection's own goroutine may call it.
func (w *Table) Remove(m *Mark) {
	defer m.dirty.Store(false)
	m.times = nil
	if w.n.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range w.of[m] {
		if delete(w.by[key], m); len(w.by[key]) == 0 {
			delete(w.by, key)
		}
	}
	if _, ok := w.of[m]; ok {
		delete(w.of, m)
		w.n.Add(-1)
	}
}

// Touch marks the watchers of keys that b changed. REQUIRES b run and not ended.
func (w *Table) Touch(b *counter.Batch) {
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
		def, changed := counter.ChangedBy(b, op)
		for m, columns := range w.by[itemKey{def.ID, op.Mid}] {
			if columns&changed != 0 {
				m.dirty.Store(true)
			}
		}
	}
}

// TouchItems marks the watchers of items that were changed, whatever of them. REQUIRES the batch that changed them not
// ended.
func (w *Table) TouchItems(def *schema.Counter, mids []uint64) {
	if len(mids) == 0 || w.n.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, mid := range mids {
		for m := range w.by[itemKey{def.ID, mid}] {
			m.dirty.Store(true)
		}
	}
}

// Replicated marks the watchers of keys that a primary changed, as counter.Store.Observe reports them.
func (w *Table) Replicated(b *counter.Batch) {
	if b == nil {
		w.TouchAll()
		return
	}
	w.Touch(b)
	if d := counter.DroppedBy(b); d != nil {
		w.TouchRange(d.Counter, d.From, d.To)
	}
}

// TouchRange marks the watchers of items with mids from from on and below to. REQUIRES the batch that removed them not ended.
func (w *Table) TouchRange(def *schema.Counter, from, to uint64) {
	if w.n.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, marks := range w.by {
		if key.counter == def.ID && key.mid >= from && key.mid < to {
			for m := range marks {
				m.dirty.Store(true)
			}
		}
	}
}

// TouchAll marks everybody: FLUSHALL, changes of the schema, other data.
func (w *Table) TouchAll() {
	if w.n.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for m := range w.of {
		m.dirty.Store(true)
	}
}

// Len is how many connections watch, and how many items.
func (w *Table) Len() (connections, items int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.of), len(w.by)
}
