package server

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime/debug"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/resp"
)

// readSize is the least room for one read.
const readSize = 4 << 10

// newClient takes conn over.
func (s *Server) newClient(conn net.Conn, conf config.Config, readonly bool) (*client, error) {
	c := &client{
		readonly: readonly,
		srv:      s, authed: conf.RequirePass == "",
		id: s.lastID.Add(1), created: time.Now(),
	}
	if tcp, ok := conn.(*net.TCPConn); ok && conf.TCPKeepalive > 0 {
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: time.Duration(conf.TCPKeepalive) * time.Second,
			Interval: time.Duration(conf.TCPKeepalive) * time.Second / 3, Count: 3})
	}
	if err := c.conn.open(conn); err != nil {
		return nil, err
	}
	if readonly {
		c.confined = confinedReader
	}
	c.loop = s.loops[int(c.id)%len(s.loops)]
	c.begin()
	c.subs.SetProtocol(2)
	c.trusted.Store(c.authed)
	c.lastRead.Store(s.clock.Load())
	limits := resp.DefaultLimits()
	if !c.authed {
		limits = resp.PreAuthLimits()
	}
	c.rd = resp.NewReader(limits)
	return c, nil
}

// Where a client is: who may touch it.
const (
	inLoop = iota // its loop, which never waits
	away          // a goroutine of its own
	ended
)

// errWaits says that a client cannot go on in its loop, as that might have to wait.
var errWaits = errors.New("the connection has to wait")

func (c *client) inLoop() bool { return c.where.Load() == inLoop }

// received executes the n bytes that were read. Their replies are in c.Out when it returns, unless it fails.
func (c *client) received(n, free int) error {
	c.read, c.room = n, free
	c.rd.Filled(n)
	c.srv.stats.InBytes.Add(int64(n))
	c.lastRead.Store(c.srv.clock.Load())
	if err := c.process(); err != nil {
		return err
	}
	c.processed()
	return nil
}

// processed notes what is left of what was read: the beginning of a command, or nothing.
func (c *client) processed() {
	switch partial := c.rd.Partial(); {
	case !partial:
		c.partialSince.Store(0)
	case c.moved || c.partialSince.Load() == 0: // a pipeline that goes on for long always ends within a command, each time another
		c.partialSince.Store(c.srv.clock.Load())
	}
	c.moved = false
	if c.read > resp.MaxRetained {
		c.rd.Shrink()
	}
}

// panicked logs and counts a panic, which closes this connection alone, unless it came with a lock of the store held:
// then the process must not go on with data it cannot trust.
func (c *client) panicked(p any) {
	if c.Batch != nil && c.Batch.Opened() {
		panic(p)
	}
	c.work = nil // whatever state it is in
	c.srv.stats.Panics.Add(1)
	c.srv.log.Error("panic in a connection", "client", c.id, "panic", p, "stack", string(debug.Stack()))
}

// lastReplies is how long a connection is kept for replies that a client is slow to take when the server ends.
const lastReplies = time.Second

// ending tells whether Shutdown has begun.
func (s *Server) ending() bool {
	select {
	case <-s.quit:
		return true
	default:
		return false
	}
}

// end closes the connection, when everything that is to be answered was sent.
func (c *client) end(err error) {
	defer c.srv.done.Done()
	if len(c.Owed) > 0 { // planned and not run: nobody will, nor write in that memory again
		if c.Batch.Opened() {
			c.Batch.End()
		}
		c.work = nil
	}
	if p := c.peer.Load(); p != nil {
		p.Close()
	}
	c.unsubscribeAll()
	c.subs.Close(writeTimeout * time.Second)
	if c.srv.ending() {
		c.conn.settle(lastReplies)
	}
	c.conn.free()
	c.srv.remove(c)
	c.rest()
	c.charge(0)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.srv.log.Debug("connection ended", "client", c.id, "error", err)
	}
}
