// Package pubsub carries messages from publishers to subscribers. Messages reach who is subscribed at that moment and
// are kept nowhere; Sentinel finds its fellows by them.
//
//	Registry     who is subscribed to what; Publish
//	Subscriber   the part of one connection: what it is subscribed to
//	delivery     one message on its way to all whom it reaches
//	outbox       what a subscriber has not read yet, and the goroutine that writes it
//	wakes        wakes these goroutines a few at a time
//	news.go      messages about a state: a new subscriber gets the whole of it
//
// A message is pushed to the outbox of every subscriber under Registry.mu, and so are the answers to SUBSCRIBE and
// UNSUBSCRIBE: a subscriber sees the confirmation before the first message and no message after the last. Nobody waits
// for a reader: who leaves too much unread is closed.
//
// A message to more than Slice subscribers is pushed in slices. The lock is free in between, or a SUBSCRIBE would wait until all
// have the message, and every PUBLISH behind it: 5,000 subscribers take 1 ms of work and 20 pauses. Those whose subscription has
// ended meanwhile are passed over.
//
// Lock order: Registry.mu or Registry.boxesMu, then an outbox's, or that of wakes. Under an outbox's the connection is closed.
package pubsub

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/glob"
)

const (
	// MaxName is the longest name of a channel, in bytes: all patterns are matched with it while others wait. Patterns
	// have the same limit. Callers refuse longer ones.
	MaxName = glob.MaxPattern

	// Limits on the subscriptions of one connection.
	maxSubscriptions     = 64 << 10
	maxSubscriptionBytes = 32 << 20

	// subscriptionSize is the assumed memory of a subscription besides its name, in bytes: its places in two maps.
	subscriptionSize = 200
)

// Cost is about what a subscription to a name of so many bytes takes, with its confirmation on the way.
func Cost(name int) int { return subscriptionSize + 2*name }

// ErrTooMany refuses a subscription beyond what one connection may have.
var ErrTooMany = errors.New("too many subscriptions")

// Kind is the kind of a subscription: a channel, all whose names match a pattern, or a shard channel, which is a channel
// in a room of its own: patterns do not see it.
type Kind uint8

// The kinds.
const (
	Channel Kind = iota
	Pattern
	Shard
	kinds
)

// words are those of the confirmations.
func (k Kind) words() (subscribe, unsubscribe string) {
	switch k {
	case Pattern:
		return "psubscribe", "punsubscribe"
	case Shard:
		return "ssubscribe", "sunsubscribe"
	}
	return "subscribe", "unsubscribe"
}

// table has the subscribers by name, and the number of each subscription. No entry is empty.
type table map[string]map[*Subscriber]uint64

// Registry are the subscriptions of all connections. The zero Registry is ready, and may be used by several goroutines
// at once.
type Registry struct {
	mu     sync.RWMutex // guards tables, and the names of all subscribers; an outbox's lock is taken inside
	tables [kinds]table // by Kind
	begun  uint64       // subscriptions so far: each has the number of its beginning

	// Pause lets event loops have their turn while many outboxes are woken; nil: runtime.Gosched. Set before the first Publish.
	Pause func()
	wakes wakes

	limit  atomic.Pointer[Limit] // nil: none
	unread atomic.Int64          // bytes that all of them have not read

	boxesMu sync.Mutex // guards boxes; an outbox's lock is taken inside
	boxes   map[*outbox]struct{}
}

// SetLimit changes what each subscriber may leave unread, from its next message or the next Look on.
func (r *Registry) SetLimit(l Limit) { r.limit.Store(&l) }

// Look closes subscribers that have left more unread than the limits allow, also those that are sent nothing more. The
// server calls it once a second. It waits for nobody.
func (r *Registry) Look() {
	r.boxesMu.Lock()
	defer r.boxesMu.Unlock()
	for b := range r.boxes {
		b.look()
	}
}

// Unread is how many bytes all subscribers together have not read.
func (r *Registry) Unread() int64 { return r.unread.Load() }

// Subscribe adds subscriptions and confirms each by a push of its own; at ErrTooMany none was made. Start must have
// been called. Only s's own goroutine may call it.
func (r *Registry) Subscribe(s *Subscriber, kind Kind, names [][]byte) error {
	word, _ := kind.words()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tables[kind] == nil {
		r.tables[kind] = make(table)
	}
	t, mine := r.tables[kind], s.names[kind]
	fresh, bytes := make(map[string]struct{}), s.bytes.Load()
	for _, name := range names {
		if _, ok := mine[string(name)]; ok {
			continue
		}
		if _, ok := fresh[string(name)]; ok {
			continue
		}
		fresh[string(name)] = struct{}{}
		bytes += int64(len(name) + subscriptionSize)
		if s.Count()+len(fresh) > maxSubscriptions || bytes > maxSubscriptionBytes {
			return ErrTooMany
		}
	}
	for _, name := range names {
		if _, ok := mine[string(name)]; !ok {
			size := int64(len(name) + subscriptionSize)
			key := string(name)
			mine[key] = struct{}{}
			if t[key] == nil {
				t[key] = make(map[*Subscriber]uint64)
			}
			r.begun++
			t[key][s] = r.begun
			s.counts[kind].Add(1)
			s.bytes.Add(size)
		}
		_ = s.box.push(s.confirmation(kind, word, name)) // an error closes the subscriber
	}
	return nil
}

// Unsubscribe ends subscriptions, all of the kind if no name is given, and confirms each by a push of its own. If the
// subscriber has not started, the reply is returned. Only s's own goroutine may call it.
func (r *Registry) Unsubscribe(s *Subscriber, kind Kind, names [][]byte) (answer []byte) {
	_, word := kind.words()
	r.mu.Lock()
	defer r.mu.Unlock()
	mine := s.names[kind]
	if len(names) == 0 {
		for _, name := range slices.Sorted(maps.Keys(mine)) {
			names = append(names, []byte(name))
		}
		if len(names) == 0 {
			names = [][]byte{nil} // answered by a null in the place of the name
		}
	}
	for _, name := range names {
		if _, ok := mine[string(name)]; ok {
			r.drop(kind, string(name), s)
			delete(mine, string(name))
			s.counts[kind].Add(-1)
			s.bytes.Add(-int64(len(name) + subscriptionSize))
		}
		if b := s.confirmation(kind, word, name); s.box != nil {
			_ = s.box.push(b)
		} else {
			answer = append(answer, b...)
		}
	}
	return answer
}

// drop takes a subscriber from a table. REQUIRES mu.
func (r *Registry) drop(kind Kind, name string, s *Subscriber) {
	t := r.tables[kind]
	delete(t[name], s)
	if len(t[name]) == 0 {
		delete(t, name)
	}
}

// UnsubscribeAll ends all subscriptions without a word. Only s's own goroutine may call it.
func (r *Registry) UnsubscribeAll(s *Subscriber) {
	if s.box == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for kind := range s.names {
		for name := range s.names[kind] {
			r.drop(Kind(kind), name, s)
		}
		clear(s.names[kind])
		s.counts[kind].Store(0)
	}
	s.bytes.Store(0)
}

// EndShard ends the subscriptions to shard channels that gone tells of, and says so to each subscriber. gone must not use
// the registry. Anybody may call it.
func (r *Registry) EndShard(gone func(channel string) bool) {
	_, word := Shard.words()
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, subscribers := range r.tables[Shard] {
		if !gone(name) {
			continue
		}
		for s := range subscribers {
			delete(s.names[Shard], name)
			s.counts[Shard].Add(-1)
			s.bytes.Add(-int64(len(name) + subscriptionSize))
			_ = s.box.push(s.confirmation(Shard, word, []byte(name)))
		}
		delete(r.tables[Shard], name)
	}
}

// Any tells whether f is true for one of the subscriptions of s. f must not use the registry. Anybody may call it.
func (r *Registry) Any(s *Subscriber, f func(kind Kind, name string) bool) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for kind := range s.names {
		for name := range s.names[kind] {
			if f(Kind(kind), name) {
				return true
			}
		}
	}
	return false
}

// Publish sends a message to a channel and returns how many got it. If they may be more than Slice, pause is called after each Slice of
// them, and subscriptions may change meanwhile; nil: the caller must not wait, as in an event loop.
func (r *Registry) Publish(channel string, message []byte, pause func()) (receivers int) {
	return r.publish(Channel, channel, message, pause)
}

// PublishShard is Publish to a shard channel.
func (r *Registry) PublishShard(channel string, message []byte, pause func()) (receivers int) {
	return r.publish(Shard, channel, message, pause)
}

func (r *Registry) publish(kind Kind, channel string, message []byte, pause func()) (receivers int) {
	d := delivery{r: r, channel: channel, message: message}
	defer d.wake()
	if pause != nil && r.Large(kind, channel) {
		d.inSlices(kind, pause)
		return d.receivers
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	r.each(kind, channel, func(to receiver) { d.send(to) })
	return d.receivers
}

// receiver is a subscription that a message fits.
type receiver struct {
	s      *Subscriber
	kind   Kind
	name   string // of the channel, or the pattern
	number uint64 // of the subscription
}

// each calls f for all whom a message to a channel reaches. REQUIRES mu.
func (r *Registry) each(kind Kind, channel string, f func(to receiver)) {
	for s, number := range r.tables[kind][channel] {
		f(receiver{s, kind, channel, number})
	}
	if kind != Channel {
		return
	}
	for pattern, subscribers := range r.tables[Pattern] {
		if !glob.Match(pattern, channel) {
			continue
		}
		for s, number := range subscribers {
			f(receiver{s, Pattern, pattern, number})
		}
	}
}

// has tells whether a subscription has not ended. REQUIRES mu.
func (r *Registry) has(to receiver) bool {
	number, ok := r.tables[to.kind][to.name][to.s]
	return ok && number == to.number
}

// Channels returns the names of the channels with subscribers, or of the shard channels, in order; those that match
// tells of, unless it is nil.
func (r *Registry) Channels(kind Kind, match func(name string) bool) []string {
	r.mu.RLock()
	var names []string
	for name := range r.tables[kind] {
		if match == nil || match(name) {
			names = append(names, name)
		}
	}
	r.mu.RUnlock()
	slices.Sort(names)
	return names
}

// Subscribers returns how many each of the channels has, or of the shard channels.
func (r *Registry) Subscribers(kind Kind, channels [][]byte) []int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	counts := make([]int, len(channels))
	for i, name := range channels {
		counts[i] = len(r.tables[kind][string(name)])
	}
	return counts
}

// Len returns how many of a kind have subscribers.
func (r *Registry) Len(kind Kind) int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.tables[kind])
}
