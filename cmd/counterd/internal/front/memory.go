package front

import (
	"cmp"
	"slices"
	"sync/atomic"
)

// memory is what all connections hold together: beginnings of commands, replies that are not read, queues of MULTI,
// messages that are not read. Each may hold what its own limits allow, but 300 that do not read the values of 65,000
// keys would hold 600 MiB, which counters need. Above maxmemory-clients, those that hold most are closed, as in Redis,
// but for replicas and for CLIENT NO-EVICT.
//
// A session says what it holds when it goes to rest or has to wait (Session.Charge), so an idle one costs a comparison.
// The janitor closes.
type memory struct {
	limit atomic.Int64  // in bytes; 0: none
	held  atomic.Int64  // by all, but for messages in outlets: those are Host.Unread
	over  chan struct{} // tells the janitor that more is held than may be
}

// LimitMemory sets how many bytes all sessions may hold together; 0: as many as they like.
func (f *Front) LimitMemory(bytes int64) { f.memory.limit.Store(bytes) }

// Held is how many bytes all sessions hold, but for what outlets do.
func (f *Front) Held() int64 { return f.memory.held.Load() }

// Charge notes what the session holds now: what it was sent and what it is to send, and beside that so many bytes of
// its handler's.
func (s *Session) Charge(beside int) {
	s.beside = int64(beside)
	s.charge(s.holding())
}

// holding is what s holds. Only who owns s may call it.
func (s *Session) holding() int64 {
	n := int64(s.rd.Held()+s.out.Cap()) + s.beside
	if t := s.conn.secure; t != nil {
		n += int64(t.holds())
	}
	return n
}

// charge notes that s holds n bytes now. Only who owns s may call it.
func (s *Session) charge(n int64) {
	old := s.holds.Load()
	if n == old {
		return
	}
	s.holds.Store(n)
	m := &s.front.memory
	held := m.held.Add(n - old)
	if limit := m.limit.Load(); n > old && limit > 0 && held+s.front.host.Unread() > limit {
		select {
		case m.over <- struct{}{}:
		default: // the janitor will look anyway
		}
	}
}

// Evict closes those that hold most, until what the others hold is within the limit.
func (f *Front) Evict() {
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
		standing := s.handler.Standing()
		h := holder{s, s.holds.Load() + standing.Unread}
		if s.conn.closed() || h.bytes <= standing.Free { // gives back what it holds; see Standing
			continue
		}
		total += h.bytes
		if !standing.Keep && h.bytes > 0 {
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
