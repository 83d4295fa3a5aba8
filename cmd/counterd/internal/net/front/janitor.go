package front

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
	// WriteTimeout is for how many seconds a client may take nothing of its replies. Meanwhile the connection waits and
	// reads no more from it. A slow reader is not closed: maxmemory-clients bounds the memory of all such connections.
	WriteTimeout = 30
	// authTimeout is how long a connection may stay without its password.
	authTimeout = 60
)

// janitor advances the clock and closes connections whose time is up.
func (f *Front) janitor() {
	defer f.done.Done()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-f.quit:
			return
		case <-f.memory.over:
			f.Evict()
			continue
		case <-tick.C:
		}
		now := int64(time.Since(f.started)/time.Second) + 1
		f.clock.Store(now)
		f.host.EachSecond()
		f.Evict()
		idle := int64(f.config.Get().Timeout)
		f.mu.Lock()
		for _, s := range f.sessions {
			if reason := f.overdue(s, now, idle); reason != "" {
				f.log.Info("closing connection", "client", s.id, "reason", reason)
				s.conn.Close()
			}
		}
		f.mu.Unlock()
	}
}

// overdue tells why a connection's time is up, or nothing. REQUIRES Front.mu.
func (f *Front) overdue(s *Session, now, idle int64) string {
	since := func(t int64) int64 {
		if t == 0 {
			return 0
		}
		return now - t
	}
	if began := s.Activity.writingSince.Load(); began != 0 {
		before := s.Activity.delivered
		if s.Activity.delivered = s.conn.delivered(); s.Activity.delivered > before {
			s.Activity.writingSince.CompareAndSwap(began, now) // it may have ended just now
		}
	}
	if s.Activity.diskLooks.Load() != 0 && s.Activity.diskOverdue(s.front.host.DiskHangs()) {
		return "the disk does not respond"
	}
	if s.unread.passed(f.output.Load(), now) {
		f.totals.SlowSubscribers.Add(1)
		return errOutputLimit.Error()
	}
	switch {
	case since(s.Activity.writingSince.Load()) > WriteTimeout:
		return "replies not read"
	case since(s.Activity.partialSince.Load()) > partialTimeout+s.Activity.arrived.Load()/minArrival && !s.Activity.blocked.Load() && !s.Activity.busy.Load():
		return "command not finished"
	case s.Activity.writingSince.Load() != 0, s.Activity.blocked.Load(), s.Activity.busy.Load():
		return ""
	}
	exempt := s.handler.Exemptions()
	switch {
	case idle > 0 && !exempt.Quiet && now-s.Activity.lastRead.Load() > idle:
		return "idle"
	case exempt.Overdue != "":
		return exempt.Overdue
	case !s.trusted.Load() && time.Since(s.Activity.created) > authTimeout*time.Second:
		return "not authenticated"
	}
	return ""
}
