package server

import (
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/net/front"
)

// A client as the handler of its session: see front.Handler. Command is in client.go, and what its call does in
// call.go.

// host is the server as its front sees it.
type host struct{ *Server }

// NewSession makes the client of a connection that came.
func (s host) NewSession(trusted bool, port front.Port) *front.Session {
	readonly := port == front.Readonly
	c := &client{authed: trusted, readonly: readonly}
	c.user.Store(s.users.Default())
	c.call = call{srv: s.Server, session: &c.Session, info: &c.info}
	if s.shards != nil && !readonly {
		c.internal = port == front.Forward
		c.far = newFar(s.shards, c.internal)
	}
	c.info.session = &c.Session
	if s.cluster != nil {
		c.Elsewhere = c.moved
	}
	if readonly {
		c.confined = confinedReader
	}
	c.Bind(c, &c.Out)
	c.begin()
	c.subs.SetProtocol(2)
	return &c.Session
}

// NeedsPassword tells whether the user that every connection is at first has a password, or is off.
func (s host) NeedsPassword() bool { return !s.users.Default().Open() }

// EachSecond is what the server does once a second.
func (s host) EachSecond() {
	s.sample()
	s.releaser.look(s.sampler.Rates().Commands)
	conf := s.config.Get()
	s.heap.look(heapUse{maxMemory: int64(conf.MaxMemory), posts: s.store().Admin().TierCounts().Memory, clients: conf.MaxMemoryClients.Of(conf.MaxMemory),
		held: s.front.Held() + s.pubsub.Unread()})
	s.pubsub.Look()
	s.unsaved.commands(s.Server)
	s.node.RoleChanged() // lags grow with time
}

// sample lets the sampler look at the totals and at the memory used.
func (s *Server) sample() {
	s.sampler.Sample(time.Now(), s.commands.Calls(), &s.stats)
	s.memory()
}

// Unread is what subscribers have not read.
func (s host) Unread() int64 { return s.pubsub.Unread() }

// Malformed answers what is no command.
func (c *client) Malformed(err error) {
	c.srv.stats.ProtocolErrors.Add(1)
	c.fail(nil, "ERR "+err.Error())
}

// Publish tells others how the connection is.
func (c *client) Publish() { c.publish(0) }

// End forgets the connection.
func (c *client) End() (reusable bool) {
	reusable = true
	if len(c.Owed) > 0 { // planned and not run: nobody will, nor write in that memory again
		if c.Batch.Opened() {
			c.Batch.End()
		}
		reusable = false
	}
	if p := c.peer.Load(); p != nil {
		p.Close()
	}
	c.stopMonitor()
	c.unsubscribeAll()
	c.subs.Close(front.WriteTimeout * time.Second)
	c.srv.watches.Remove(&c.watch)
	c.ended.Store(true) // before: see tracker
	if t := c.track.Load(); t != nil {
		c.srv.tracking.End(t)
	}
	return reusable
}

// replicaHolds is more than a replica holds, in bytes: what it says is short, and what it is sent comes from files. Any
// client can say that it is one.
const replicaHolds = 64 << 10

// Standing is what the limits of connections make a difference by.
func (c *client) Standing() (s front.Standing) {
	s.Unread = int64(c.subs.Unread())
	s.Quiet = c.subs.Count() > 0 || c.monitors.Load()
	if t := c.track.Load(); t != nil {
		s.Unread += int64(t.Pending())
	}
	if p := c.peer.Load(); p != nil {
		s.Quiet, s.Free = true, replicaHolds
		if p.Lost() {
			s.Overdue = "a replica is silent in a full copy"
		}
	}
	c.info.mu.Lock()
	s.Keep = c.info.state.noEvict
	c.info.mu.Unlock()
	return s
}
