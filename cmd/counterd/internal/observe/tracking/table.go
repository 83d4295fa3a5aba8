package tracking

import (
	"sync"
	"sync/atomic"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// Table has the keys that each client may hold. The zero Table is ready, has no limit, and may be used by several
// goroutines at once.
type Table struct {
	n      atomic.Int64 // clients that track
	keys   atomic.Int64 // in all shards
	limit  atomic.Int64 // of keys; 0: none
	shards [shards]shard
	bcast  prefixes

	mu      sync.Mutex // guards the rest
	clients map[*Client]struct{}
}

// shards is how many parts the table has: loops, which are as many as processors, seldom meet in one.
const shards = 64

// shard is who may hold what of some items.
type shard struct {
	clears atomic.Uint64 // how often everything was dropped; changed under mu

	mu    sync.Mutex // guards the rest
	items map[item][]*held
	keys  int
}

// item names one.
type item struct {
	counter uint32
	mid     uint64
}

// held is one key that a client may hold. Invariant: it is in its shard's items at index at, and in its client's held,
// or neither, but that what is of other clears is in no shard.
type held struct {
	client  *Client
	key     string
	item    item
	columns uint64 // bits of those that its value depends on; guarded by the shard's mu, written under both
	at      int
	clears  uint64
}

// allColumns are those of a whole item.
const allColumns = ^uint64(0)

// maxKey is the longest key that is kept: leading zeros make keys of any length. Longer ones are told at once.
const maxKey = 256

func (t *Table) shardOf(i item) *shard {
	return &t.shards[(i.mid+uint64(i.counter))*0x9e3779b97f4a7c15>>(64-6)]
}

// SetLimit changes how many keys are held at most, 0 for no limit, and drops keys above the limit.
func (t *Table) SetLimit(keys int) {
	t.limit.Store(int64(keys))
	for i := range t.shards {
		t.shrink(&t.shards[i])
	}
}

// over tells whether there are more keys than may be.
func (t *Table) over() bool {
	limit := t.limit.Load()
	return limit > 0 && t.keys.Load() > limit
}

// shrink drops items by chance while there are too many keys.
func (t *Table) shrink(s *shard) {
	if !t.over() {
		return
	}
	var w wakes
	s.mu.Lock()
	for i := range s.items {
		if !t.over() {
			break
		}
		t.drop(s, i, allColumns, nil, &w)
	}
	s.mu.Unlock()
	w.wake()
}

// Remember notes that a client is about to read a key: some columns of an item, all of them or whether it exists for
// schema.WholeItem. key is copied. Only the client's own goroutine may call it, with the batch open that is to read.
func (t *Table) Remember(c *Client, k schema.Key, key []byte) {
	columns := allColumns
	if k.Col >= 0 {
		columns = 1 << k.Col
	}
	if len(key) > maxKey {
		var w wakes
		c.tell(string(key), &w)
		w.wake()
		return
	}
	i := item{k.Counter.ID, k.Mid}
	s := t.shardOf(i)
	if c.holds(key, i, columns, s.clears.Load()) {
		return
	}
	s.mu.Lock()
	t.add(s, c, i, columns, key)
	s.mu.Unlock()
	t.shrink(s)
}

// add notes that a client may hold a key. REQUIRES the shard's mu.
func (t *Table) add(s *shard, c *Client, i item, columns uint64, key []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.held[string(key)]; h != nil {
		if h.clears == s.clears.Load() && h.item == i {
			h.columns |= columns
			return
		}
		// Of other clears: it is in no shard. A key means another item only after these.
	}
	if s.items == nil {
		s.items = make(map[item][]*held)
	}
	if c.held == nil {
		c.held = make(map[string]*held)
	}
	h := &held{client: c, key: string(key), item: i, columns: columns, at: len(s.items[i]), clears: s.clears.Load()}
	c.held[h.key] = h
	s.items[i] = append(s.items[i], h)
	s.keys++
	t.keys.Add(1)
}

// drop tells the clients that may hold something of some columns of an item, and forgets that they do. A client that made
// the change itself and wants no message about it stays as it is: of the commands of a batch it may have read behind its
// own change, and all reads of a batch are in the table before its changes are told. REQUIRES the shard's mu.
func (t *Table) drop(s *shard, i item, columns uint64, self *Client, w *wakes) {
	list := s.items[i]
	if len(list) == 0 {
		return
	}
	if self != nil && !self.noLoop() {
		self = nil
	}
	for n := len(list) - 1; n >= 0; n-- {
		h := list[n]
		if h.columns&columns == 0 || h.client == self {
			continue
		}
		list = t.cut(s, list, n)
		h.client.lose(h)
		h.client.tell(h.key, w)
	}
	s.put(i, list)
}

// cut takes element n out of a list of held. REQUIRES the shard's mu.
func (t *Table) cut(s *shard, list []*held, n int) []*held {
	last := len(list) - 1
	list[n] = list[last]
	list[n].at = n
	list[last] = nil
	s.keys--
	t.keys.Add(-1)
	return list[:last]
}

// put makes list that of an item. REQUIRES mu.
func (s *shard) put(i item, list []*held) {
	if len(list) == 0 {
		delete(s.items, i)
	} else {
		s.items[i] = list
	}
}

// manyKeys is how many keys of a client may be forgotten while a caller waits. A million keys take a fifth of a second,
// and the caller that ends a connection may be an event loop.
const manyKeys = 1000

// forget takes everything that c holds out of the table, in the background if it is much.
func (t *Table) forget(c *Client) {
	c.mu.Lock()
	all := c.held
	c.held = nil
	c.mu.Unlock()
	if len(all) > manyKeys {
		go t.remove(all)
	} else {
		t.remove(all)
	}
}

// remove takes keys of one client out of the table.
func (t *Table) remove(all map[string]*held) {
	for _, h := range all {
		s := t.shardOf(h.item)
		s.mu.Lock()
		if list := s.items[h.item]; h.clears == s.clears.Load() && h.at < len(list) && list[h.at] == h {
			s.put(h.item, t.cut(s, list, h.at))
		}
		s.mu.Unlock()
	}
}

// Touch sends messages to the clients that may hold keys changed by b. self is the client that made the changes, nil if
// it does not track. REQUIRES b run and not ended.
func (t *Table) Touch(b *counter.Batch, self *Client) {
	if t.n.Load() == 0 {
		return
	}
	var w wakes
	var told broadcast
	for n := range b.Len() {
		op := b.Op(n)
		if !op.Done {
			continue
		}
		def, columns := counter.ChangedBy(b, op)
		t.changed(def, op.Mid, columns, self, &w, &told)
	}
	t.bcast.tell(&told, self, &w)
	w.wake()
}

// TouchItems sends messages to the clients that may hold any key of the changed items. REQUIRES the batch that changed
// them not ended.
func (t *Table) TouchItems(def *schema.Counter, mids []uint64, self *Client) {
	if len(mids) == 0 || t.n.Load() == 0 {
		return
	}
	var w wakes
	var told broadcast
	for _, mid := range mids {
		t.changed(def, mid, allColumns, self, &w, &told)
	}
	t.bcast.tell(&told, self, &w)
	w.wake()
}

// changed tells of one item.
func (t *Table) changed(def *schema.Counter, mid, columns uint64, self *Client, w *wakes, told *broadcast) {
	i := item{def.ID, mid}
	s := t.shardOf(i)
	s.mu.Lock()
	t.drop(s, i, columns, self, w)
	s.mu.Unlock()
	t.bcast.collect(told, def, mid, columns)
}

// Replicated sends messages about changes of a primary, as counter.Store.Observe reports them.
func (t *Table) Replicated(b *counter.Batch) {
	if b == nil {
		t.TouchAll()
		return
	}
	t.Touch(b, nil)
	if d := counter.DroppedBy(b); d != nil {
		t.TouchRange(d.Counter, d.From, d.To)
	}
}

// TouchRange sends messages to the clients that may hold keys of items with mids from from on and below to. Those that asked for prefixes may
// hold a key that nobody knows of: each of them is told that any key may have changed. REQUIRES the batch that removed the items not ended.
func (t *Table) TouchRange(def *schema.Counter, from, to uint64) {
	if t.n.Load() == 0 {
		return
	}
	var w wakes
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for key := range s.items {
			if key.counter == def.ID && key.mid >= from && key.mid < to {
				t.drop(s, key, allColumns, nil, &w)
			}
		}
		s.mu.Unlock()
	}
	t.mu.Lock()
	for c := range t.clients {
		if c.broadcasts() {
			c.post(&w, func(b *inbox) { b.all() })
		}
	}
	t.mu.Unlock()
	w.wake()
}

// TouchAll tells everybody that any key may have changed: FLUSHALL, changes of the schema, other data.
func (t *Table) TouchAll() {
	if t.n.Load() == 0 {
		return
	}
	t.mu.Lock()
	for c := range t.clients { // first: a key read meanwhile must not stay in a shard alone, for good
		c.loseAll()
	}
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.clears.Add(1)
		t.keys.Add(-int64(s.keys))
		s.items, s.keys = nil, 0
		s.mu.Unlock()
	}
	var w wakes
	for c := range t.clients {
		c.post(&w, func(b *inbox) { b.all() })
	}
	t.mu.Unlock()
	w.wake()
}

// Doubt tells a client that any key may have changed. Only its own goroutine may call it.
func (t *Table) Doubt(c *Client) {
	var w wakes
	c.post(&w, func(b *inbox) { b.all() })
	w.wake()
}

// Sizes are the numbers for INFO.
type Sizes struct {
	Clients  int // that track
	Items    int // of which some client may hold something
	Keys     int // that clients may hold, one held by two counted twice
	Prefixes int // of BCAST
}

// Sizes counts.
func (t *Table) Sizes() (f Sizes) {
	f.Clients, f.Keys = int(t.n.Load()), int(t.keys.Load())
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		f.Items += len(s.items)
		s.mu.Unlock()
	}
	f.Prefixes = t.bcast.len()
	return f
}
