package server

import "time"

// Time limits of connections. One goroutine looks at all connections each second: a deadline of the runtime's for each
// read and write would cost half a microsecond a command.
const (
	// partialTimeout is how long a command may take to arrive once it has begun: somebody who sends a byte a second
	// holds a connection, not more, and not for long.
	partialTimeout = 30
	// minArrival is the bytes a second at which a command may take longer: 16 MiB over a line of 60 KB/s need four
	// minutes.
	minArrival = 1 << 10
	// writeTimeout is how long a client may take nothing of its replies. Meanwhile the connection waits and reads no
	// more from it. However slowly one reads, it is left in peace: what such connections hold together is bounded by
	// maxmemory-clients.
	writeTimeout = 30
	// authTimeout is how long a connection may stay without its password.
	authTimeout = 60
)

// janitor advances the clock and closes connections whose time is up.
func (s *Server) janitor() {
	defer s.done.Done()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var memory releaser
	for {
		select {
		case <-s.quit:
			return
		case <-s.memoryHeld.over:
			s.evictClients()
			continue
		case <-tick.C:
		}
		now := int64(time.Since(s.started)/time.Second) + 1
		s.clock.Store(now)
		s.sample()
		memory.look(s.sampler.Rates().Commands)
		s.node.RoleChanged() // lags grow with time
		s.evictClients()
		idle := int64(s.config.Get().Timeout)
		s.mu.Lock()
		for _, c := range s.clients {
			if reason := c.overdue(now, idle); reason != "" {
				s.log.Info("closing connection", "client", c.id, "reason", reason)
				c.conn.Close()
			}
		}
		s.mu.Unlock()
	}
}

// sample lets the sampler look at the totals and at the memory used.
func (s *Server) sample() {
	s.sampler.Sample(time.Now(), s.commands.Calls(), &s.stats)
	s.memory()
}

// overdue tells why a connection's time is up, or nothing. REQUIRES Server.mu.
func (c *client) overdue(now, idle int64) string {
	since := func(t int64) int64 {
		if t == 0 {
			return 0
		}
		return now - t
	}
	if began := c.writingSince.Load(); began != 0 {
		before := c.delivered
		if c.delivered = c.conn.delivered(); c.delivered > before {
			c.writingSince.CompareAndSwap(began, now) // it may have ended just now
		}
	}
	switch {
	case since(c.writingSince.Load()) > writeTimeout:
		return "replies not read"
	case since(c.partialSince.Load()) > partialTimeout+c.arrived()/minArrival && !c.blocked.Load():
		return "command not finished"
	case c.writingSince.Load() != 0, c.blocked.Load():
		return ""
	case idle > 0 && c.peer.Load() == nil && c.subs.Count() == 0 && now-c.lastRead.Load() > idle:
		return "idle"
	case c.peer.Load() != nil && c.peer.Load().Lost():
		return "a replica is silent in a full copy"
	case !c.trusted.Load() && time.Since(c.created) > authTimeout*time.Second:
		return "not authenticated"
	}
	return ""
}

// arrived is how many bytes there are of a command that is not complete.
func (c *client) arrived() int64 {
	c.info.mu.Lock()
	defer c.info.mu.Unlock()
	return int64(c.info.state.queryBuf)
}
