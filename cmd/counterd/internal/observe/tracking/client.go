package tracking

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
)

// Mode is how a client tracks.
type Mode struct {
	Broadcast bool // it is told of all keys with its prefixes, and its reads are not recorded
	OptIn     bool // its reads are recorded only after CLIENT CACHING YES
	OptOut    bool // and not behind CLIENT CACHING NO
	NoLoop    bool // it is not told of its own changes
}

// Client is one connection: its mode, the keys that it may hold, and the messages for it. These are about keys that it
// tracks itself, or that clients track which name it by REDIRECT.
type Client struct {
	id   int64
	wake func() // makes its goroutine call Take soon; anybody may call it

	prefixBytes atomic.Int64 // that prefixes take

	mu       sync.Mutex // guards the rest
	on       bool
	mode     Mode
	prefixes []string // of Broadcast, in order; replaced, never changed
	target   *Client  // the receiver of its messages; nil: itself
	broken   bool     // target has ended
	aimed    bool     // it is the target of others
	ended    bool
	held     map[string]*held
	inbox    inbox
}

// NewClient makes the client of a connection. wake is called when there is something to be told, by anybody; it must not
// wait, nor call this package.
func NewClient(id int64, wake func()) *Client { return &Client{id: id, wake: wake} }

const (
	// MaxPrefixes and maxPrefix bound what a connection may ask for: each takes memory, and each length of theirs
	// a look-up for each name of each change.
	MaxPrefixes = 1024
	maxPrefix   = 256
)

// Errors of Enable that others do not check.
var (
	ErrTooManyPrefixes = errors.New("a connection has at most 1024 prefixes")
	ErrLongPrefix      = errors.New("a prefix has at most 256 bytes")
)

// Enable makes a client track, or track in another way. Prefixes are added to those it has. On error nothing is changed.
// Only its own goroutine may call it.
func (t *Table) Enable(c *Client, mode Mode, target *Client, prefixes []string) error {
	if mode.Broadcast {
		if len(prefixes) == 0 {
			prefixes = []string{""}
		}
		if err := t.broadcast(c, prefixes); err != nil {
			return err
		}
	}
	if target != nil {
		target.mu.Lock()
		target.aimed = true
		target.mu.Unlock()
	}
	c.mu.Lock()
	fresh := !c.on
	c.on, c.mode, c.target, c.broken = true, mode, target, false
	c.mu.Unlock()
	if fresh {
		t.mu.Lock()
		if t.clients == nil {
			t.clients = make(map[*Client]struct{})
		}
		t.clients[c] = struct{}{}
		t.mu.Unlock()
		t.n.Add(1)
	}
	return nil
}

// broadcast has c told of prefixes.
func (t *Table) broadcast(c *Client, prefixes []string) error {
	for _, p := range prefixes {
		if len(p) > maxPrefix {
			return ErrLongPrefix
		}
	}
	c.mu.Lock()
	have := c.prefixes
	c.mu.Unlock()
	added := slices.Sorted(slices.Values(prefixes))
	added = slices.DeleteFunc(slices.Compact(added), func(p string) bool {
		_, known := slices.BinarySearch(have, p)
		return known
	})
	if len(have)+len(added) > MaxPrefixes {
		return ErrTooManyPrefixes
	}
	all := slices.Concat(have, added)
	slices.Sort(all)
	bytes := int64(0)
	for _, p := range added {
		bytes += int64(len(p)) + prefixSize
	}
	c.prefixBytes.Add(bytes)
	c.mu.Lock()
	c.prefixes = all
	c.mu.Unlock()
	t.bcast.add(c, added)
	return nil
}

// Disable ends a client's tracking: it gets no more messages about keys that it read. Only its own goroutine may call
// it.
func (t *Table) Disable(c *Client) { t.disable(c, t.bcast.remove) }

// disable is Disable. remove takes the client from its prefixes.
func (t *Table) disable(c *Client, remove func(c *Client, list []string)) {
	c.mu.Lock()
	on, prefixes := c.on, c.prefixes
	c.on, c.mode, c.prefixes, c.target, c.broken = false, Mode{}, nil, nil, false
	c.mu.Unlock()
	if !on {
		return
	}
	t.mu.Lock()
	delete(t.clients, c)
	t.mu.Unlock()
	remove(c, prefixes)
	c.prefixBytes.Store(0)
	t.forget(c)
	t.n.Add(-1)
}

// End is Disable as the connection ends: whose target it is learns that with the next thing to be told.
func (t *Table) End(c *Client) {
	c.mu.Lock()
	c.ended = true
	c.inbox = inbox{}
	c.mu.Unlock()
	t.disable(c, t.bcast.leave)
}

// State is how a client tracks.
type State struct {
	On bool
	Mode
	Redirect int64 // the number of the connection that is told in its place, 0 for none
	Broken   bool  // that is gone
	Prefixes []string
}

// State tells. Anybody may call it.
func (c *Client) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := State{On: c.on, Mode: c.mode, Broken: c.broken, Prefixes: c.prefixes}
	if c.target != nil {
		s.Redirect = c.target.id
	}
	return s
}

// PrefixBytes is the memory of its prefixes.
func (c *Client) PrefixBytes() int { return int(c.prefixBytes.Load()) }

// prefixSize is the assumed memory of a prefix besides its bytes: its places in two maps and a list.
const prefixSize = 200

// holds tells whether the table has it that the client may hold a key.
func (c *Client) holds(key []byte, i item, columns, clears uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.held[string(key)]
	return h != nil && h.clears == clears && h.item == i && h.columns&columns == columns
}

// noLoop tells whether it wants to hear nothing of its own changes.
func (c *Client) noLoop() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mode.NoLoop
}

// lose forgets a key that the client may hold. REQUIRES the shard's mu.
func (c *Client) lose(h *held) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held[h.key] == h {
		delete(c.held, h.key)
	}
}

// loseAll forgets all keys.
func (c *Client) loseAll() {
	c.mu.Lock()
	c.held = nil
	c.mu.Unlock()
}

// tell says that a key may have changed.
func (c *Client) tell(key string, w *wakes) { c.post(w, func(b *inbox) { b.key(key) }) }

// post puts a message into the inbox of its receiver, and notes the receiver to be woken.
func (c *Client) post(w *wakes, put func(*inbox)) {
	c.mu.Lock()
	to := c.target
	if to == nil || to == c {
		defer c.mu.Unlock()
		c.put(w, put)
		return
	}
	c.mu.Unlock() // clients may be each other's target
	to.mu.Lock()
	if !to.ended {
		to.put(w, put)
		to.mu.Unlock()
		return
	}
	to.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.target == to {
		c.broken = true
		c.put(w, func(b *inbox) { b.broken = to.id })
	}
}

// put is post into the client's own inbox. REQUIRES mu.
func (c *Client) put(w *wakes, put func(*inbox)) {
	if c.ended {
		return
	}
	if c.inbox.empty() {
		w.add(c)
	}
	put(&c.inbox)
}

// Take empties the inbox. Only the client's own goroutine may call it, after all replies to its reads.
func (c *Client) Take() (told Told, redirected bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inbox.take(), c.aimed
}

// Pending is the memory of the inbox, in bytes.
func (c *Client) Pending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inbox.bytes
}

// wakes are clients to be woken when no lock is held any more.
type wakes struct {
	few  [8]*Client
	n    int
	more []*Client
}

func (w *wakes) add(c *Client) {
	if w.n < len(w.few) {
		w.few[w.n] = c
		w.n++
		return
	}
	w.more = append(w.more, c)
}

func (w *wakes) wake() {
	for _, c := range w.few[:w.n] {
		c.wake()
	}
	for _, c := range w.more {
		c.wake()
	}
}

// broadcasts tells whether the client asked for keys by prefixes.
func (c *Client) broadcasts() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mode.Broadcast
}
