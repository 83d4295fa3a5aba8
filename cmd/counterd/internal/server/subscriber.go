package server

import (
	"log/slog"
	"net"
	"sync/atomic"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/acl"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/net/front"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/pubsub"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/stats"
)

// subscriber is a connection as it is told of messages (SUBSCRIBE) and of the commands of others (MONITOR). The outbox has
// the data on their way to the connection. Only the goroutine that runs the session uses a subscriber, except for the
// outbox, which has a lock of its own, for monitors and for overhears.
type subscriber struct {
	registry *pubsub.Registry
	monitors *monitors // of the server
	stats    *stats.Totals
	log      *slog.Logger
	session  *front.Session
	out      *resp.Replies        // of the connection
	confined *command.Confinement // of the connection
	outbox   pubsub.Subscriber
	monitor  atomic.Bool // the connection monitors
}

// start makes everything that the connection is sent go through the outbox.
func (s *subscriber) start() {
	s.outbox.Start(s.registry, subscriberConn{s.session.Conn(), s})
	s.session.Divert(&s.outbox)
}

// setProtocol sets the version of the protocol of messages.
func (s *subscriber) setProtocol(proto int) { s.outbox.SetProtocol(proto) }

// subscribed tells whether the connection has a subscription. Any goroutine may call it.
func (s *subscriber) subscribed() bool { return s.outbox.Count() > 0 }

// confine notes whether the connection may only send what RESP2 allows a subscriber.
func (s *subscriber) confine() {
	*s.confined &^= command.ConfinedSubscriber
	if s.subscribed() && s.out.Protocol() == 2 {
		*s.confined |= command.ConfinedSubscriber
	}
}

// unsubscribeAll ends all subscriptions without a word.
func (s *subscriber) unsubscribeAll() {
	s.registry.UnsubscribeAll(&s.outbox)
	s.confine()
}

// overhears tells whether the connection has a subscription that a user has no right to. Any goroutine may call it.
func (s *subscriber) overhears(u *acl.User) bool {
	if !s.subscribed() || u.HearsAll() {
		return false
	}
	return s.registry.Any(&s.outbox, func(kind pubsub.Kind, name string) bool { return !u.Hears(name, kind == pubsub.Pattern) })
}

// startMonitor begins MONITOR, and stopMonitor ends it.
func (s *subscriber) startMonitor() {
	s.monitor.Store(true)
	s.monitors.add(&s.outbox)
}

func (s *subscriber) stopMonitor() {
	if s.monitor.Swap(false) {
		s.monitors.remove(&s.outbox)
	}
}

// subscriberConn is the part of a connection that an outbox uses.
type subscriberConn struct {
	net.Conn
	s *subscriber
}

func (s subscriberConn) Write(p []byte) (int, error) {
	n, err := s.Conn.Write(p)
	s.s.stats.OutBytes.Add(s.s.session.Lane(), int64(n))
	s.s.stats.Writes.Add(s.s.session.Lane(), 1)
	return n, err
}

func (s subscriberConn) Slow(unread int, reason error) {
	s.s.stats.SlowSubscribers.Add(1)
	s.s.log.Warn("closing connection", "client", s.s.session.ID(), "reason", reason, "unread", unread)
}
