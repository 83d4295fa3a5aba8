package server

import (
	"cmp"
	"slices"
	"sync/atomic"
)

// clientMemory is what all connections hold together: beginnings of commands, replies that are not read, queues of
// MULTI, messages that are not read. Each may hold what its own limits allow, but 300 that do not read the values of
// 65,000 keys would hold 600 MiB, which counters need. Above maxmemory-clients, those that hold most are closed, as in
// Redis, but for replicas and for CLIENT NO-EVICT.
//
// A connection says what it holds when it goes to rest or has to wait (client.publish), so an idle one costs a
// comparison. The janitor closes.
type clientMemory struct {
	limit atomic.Int64  // in bytes; 0: none
	held  atomic.Int64  // by all, but for the messages in outboxes: those are pubsub.Unread
	over  chan struct{} // tells the janitor that more is held than may be
}

// replicaHolds is more than a replica holds, in bytes: what it says is short, and what it is sent comes from files. Any
// client can say that it is one.
const replicaHolds = 64 << 10

// holding is what c holds. Only who owns c may call it.
func (c *client) holding() int64 {
	return int64(c.rd.Held() + c.Out.Cap() + c.multi.bytes + c.subs.Bytes())
}

// charge notes what c holds now. Only who owns c may call it.
func (c *client) charge(n int64) {
	old := c.holds.Load()
	if n == old {
		return
	}
	c.holds.Store(n)
	m := &c.srv.memoryHeld
	held := m.held.Add(n - old)
	if limit := m.limit.Load(); n > old && limit > 0 && held+c.srv.pubsub.Unread() > limit {
		select {
		case m.over <- struct{}{}:
		default: // the janitor will look anyway
		}
	}
}

// evictClients closes those that hold most, until what the others hold is within the limit.
func (s *Server) evictClients() {
	limit := s.memoryHeld.limit.Load()
	if limit == 0 || s.memoryHeld.held.Load()+s.pubsub.Unread() <= limit {
		return
	}
	type holder struct {
		c     *client
		bytes int64
	}
	var list []holder
	total := int64(0)
	for _, c := range s.connected() {
		h := holder{c, c.holds.Load() + int64(c.subs.Unread())}
		if c.conn.closed() || c.peer.Load() != nil && h.bytes <= replicaHolds { // gives back what it holds; sends the log's files
			continue
		}
		total += h.bytes
		c.info.mu.Lock()
		keep := c.info.state.noEvict
		c.info.mu.Unlock()
		if !keep && h.bytes > 0 {
			list = append(list, h)
		}
	}
	slices.SortFunc(list, func(a, b holder) int { return cmp.Compare(b.bytes, a.bytes) })
	n, freed := 0, int64(0)
	for ; n < len(list) && total-freed > limit; n++ {
		freed += list[n].bytes
		list[n].c.conn.Close()
	}
	if n == 0 {
		return
	}
	s.stats.EvictedClients.Add(int64(n))
	s.log.Warn("closing connections", "reason", "maxmemory-clients", "number", n, "first", list[0].c.id, "held", total, "freed", freed, "limit", limit)
}
