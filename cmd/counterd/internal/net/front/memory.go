package front

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// memory is the memory of all connections together: beginnings of commands, replies that are not read, queues of MULTI,
// messages that are not read. Each may hold what its own limits allow, but 300 that do not read the values of 65,000 keys
// would hold 600 MiB, which counters need. Above maxmemory-clients, those that hold most are closed, as in Redis, but for
// replicas and for CLIENT NO-EVICT.
//
// A session says what it holds when it goes to rest or has to wait (Session.Charge), so an idle one costs a comparison.
// The janitor closes. Above the limit, a session that holds much takes no more before the janitor has looked: floods are
// faster than one goroutine.
type memory struct {
	limit atomic.Int64  // in bytes; 0: none
	held  atomic.Int64  // by all, but for messages in outlets: those are Host.Unread
	over  chan struct{} // tells the janitor that more is held than may be

	mu     sync.Mutex    // guards looked
	looked chan struct{} // closed when Evict has looked; nil: nobody waits for that
}

const (
	// much is the memory in bytes from which on a session waits before it takes more, while the limit is exceeded.
	much = 64 << 10
	// emptying is how long such a session waits for those that were closed to give back what they hold.
	emptying = 100 * time.Millisecond
)

// crowded tells whether more is held than may be.
func (f *Front) crowded() bool {
	limit := f.memory.limit.Load()
	return limit > 0 && f.memory.held.Load()+f.host.Unread() > limit
}

// tell has the janitor look.
func (m *memory) tell() {
	select {
	case m.over <- struct{}{}:
	default: // it will look anyway
	}
}

// Reserve notes that the session is about to hold so many bytes more. Where all together hold too much, it waits for the
// janitor. false: the session was closed, and must not take them. The next Charge replaces the bytes noted by Reserve.
// REQUIRES not InLoop.
func (s *Session) Reserve(bytes int) bool {
	s.account.set(s.holding() + int64(bytes))
	if bytes > much && s.front.crowded() {
		s.account.awaitRoom()
	}
	return !s.conn.closed()
}

// LimitMemory sets how many bytes all sessions may hold together; 0: as many as they like.
func (f *Front) LimitMemory(bytes int64) { f.memory.limit.Store(bytes) }

// Held is how many bytes all sessions hold, without outlets.
func (f *Front) Held() int64 { return f.memory.held.Load() }

// Charge notes the session's memory: the bytes received, the bytes to send, and so many bytes of its handler.
func (s *Session) Charge(beside int) {
	s.account.beside = int64(beside)
	s.account.set(s.holding())
}

// HoldsNothing tells whether s holds no memory, and Charge has noted none: Charge of 0 would change nothing. Only its owner may call it.
func HoldsNothing(s *Session) bool {
	return s.account.holds.Load() == 0 && s.account.beside == 0 && s.conn.secure == nil && s.out.Cap() == 0 && s.rd.Held() == 0
}

// holding is the memory of s. Only who owns s may call it.
func (s *Session) holding() int64 {
	n := int64(s.rd.Held()+s.out.Cap()) + s.account.beside
	if t := s.conn.secure; t != nil {
		n += int64(t.holds())
	}
	return n
}

// wake tells those that wait for a look that there was one.
func (m *memory) wake() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.looked != nil {
		close(m.looked)
		m.looked = nil
	}
}

// Evict closes those that hold most, until what the others hold is within the limit.
func (f *Front) Evict() {
	defer f.memory.wake()
	limit := f.memory.limit.Load()
	if limit == 0 || f.memory.held.Load()+f.host.Unread() <= limit {
		return
	}
	type holder struct {
		s     *Session
		bytes int64
	}
	var list []holder
	total := int64(0)
	for _, s := range f.Sessions() {
		exempt := s.handler.Exemptions()
		h := holder{s, s.account.holds.Load() + exempt.Unread}
		if s.conn.closed() || h.bytes <= exempt.Free { // gives back what it holds; see Exemptions
			continue
		}
		total += h.bytes
		if !exempt.Keep && h.bytes > 0 {
			list = append(list, h)
		}
	}
	slices.SortFunc(list, func(a, b holder) int { return cmp.Compare(b.bytes, a.bytes) })
	n, freed := 0, int64(0)
	for ; n < len(list) && total-freed > limit; n++ {
		freed += list[n].bytes
		list[n].s.conn.Close()
	}
	if n == 0 {
		return
	}
	f.totals.EvictedClients.Add(int64(n))
	f.log.Warn("closing connections", "reason", "maxmemory-clients", "number", n, "client", list[0].s.id, "held", total, "freed", freed, "limit", limit)
}
