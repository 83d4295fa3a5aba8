package server

import (
	"bytes"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/net/front"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/scatter"
)

// A client is the handler of its session. All methods of front.Handler are in this file. decide.go has which
// commands are executed, and call.go plans, executes and commits them.

var _ front.Handler = (*client)(nil)

// Attach lends the connection memory to work in.
func (c *client) Attach(memory any) { c.call.attach(memory) }

// Detach returns that memory.
func (c *client) Detach() any { return c.call.detach() }

// Locked tells whether the connection has a batch open, which others wait for.
func (c *client) Locked() bool { return c.call.locked() }

// Command plans, executes, queues, postpones or refuses one command: see decide.
func (c *client) Command(args [][]byte) {
	cmd := c.last
	if cmd == nil || !bytes.Equal(args[0], c.lastName) {
		cmd = c.srv.commands.Find(args[0])
		c.last = cmd
		if cmd != nil { // or the name of none, up to 1 MiB, would stay
			c.lastName = append(c.lastName[:0], args[0]...)
		}
	}
	cmd, d := c.decide(cmd, args)
	if d == toPlan {
		c.call.plan(cmd, args)
		return
	}
	c.carryOut(d, cmd, args)
}

// Flush executes what was planned. If other shards have a part in it, the session leaves its loop and waits for them.
func (c *client) Flush() {
	c.call.flush()
	if c.scatter != nil && !c.call.executing && !c.session.Leaving() {
		c.scatter.Finish()
	}
}

// Committed tells whether all changes that the replies report are committed.
func (c *client) Committed() bool { return c.call.committed() }

// Commit executes what was planned and commits it.
func (c *client) Commit() { c.catchUp() }

// catchUp turns everything that was planned into replies, and commits it. It returns false if the session has to leave
// its loop for that.
func (c *client) catchUp() bool {
	if c.scatter != nil {
		if c.Flush(); c.session.Leaving() {
			return false
		}
	}
	return c.call.catchUp()
}

// Malformed answers what is no command.
func (c *client) Malformed(err error) {
	c.srv.stats.ProtocolErrors.Add(1)
	c.fail(nil, "ERR "+err.Error())
}

// Notices appends the invalidations that wait for a client that tracks its keys.
func (c *client) Notices() {
	if t := c.tracker.client.Load(); t != nil {
		appendNotices(&c.call.items.Out, t, c.subs.Count() > 0)
	}
}

// Publish tells others how the connection is.
func (c *client) Publish() { c.publish(0) }

// End forgets the connection.
func (c *client) End() (reusable bool) {
	reusable = true
	if len(c.call.items.Owed) > 0 { // planned and not run: nobody will, nor write in that memory again
		if c.call.items.Batch.Opened() {
			c.call.items.Batch.End()
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
	c.tracker.end()
	return reusable
}

// replicaHolds is more than a replica holds, in bytes: what it says is short, and what it is sent comes from files. Any
// client can say that it is one.
const replicaHolds = 64 << 10

// Standing is what the limits of connections make a difference by.
func (c *client) Standing() (s front.Standing) {
	s.Unread = int64(c.subs.Unread())
	s.Quiet = c.subs.Count() > 0 || c.monitors.Load()
	if t := c.tracker.client.Load(); t != nil {
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

// newClient makes the client of a connection that came by a port.
func newClient(srv *shared, trusted bool, port front.Port) *front.Session {
	readonly := port == front.Readonly
	c := &client{readonly: readonly}
	c.login = login{authed: trusted, users: srv.users, guesses: srv.guesses, session: &c.session, info: &c.info, waited: &c.waited}
	c.login.user.Store(srv.users.Default())
	c.srv = srv
	c.call = call{srv: srv, session: &c.session, info: &c.info}
	if srv.shards != nil && !readonly {
		c.internal = port == front.Forward
		c.scatter = scatter.New(scatterConn{c}, &c.call.items, srv.shards, c.internal)
	}
	c.info.session = &c.session
	c.tracker.table, c.tracker.session = &srv.tracking, &c.session
	if srv.cluster != nil {
		c.call.items.Elsewhere = c.call.moved
	}
	if readonly {
		c.confined = confinedReader
	}
	c.session.Bind(c, &c.call.items.Out)
	c.call.begin()
	c.subs.SetProtocol(2)
	return &c.session
}
