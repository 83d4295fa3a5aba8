package server

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime/debug"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/resp"
)

// readSize is the least room for one read.
const readSize = 4 << 10

func (s *Server) newClient(conn net.Conn, config Config) *client {
	c := &client{
		srv: s, proto: 2, authed: config.RequirePass == "",
		id: s.lastID.Add(1), created: time.Now(),
	}
	c.conn.open(conn, c.space, c.rest)
	c.begin()
	c.pushProto.Store(2)
	c.trusted.Store(c.authed)
	c.lastRead.Store(s.clock.Load())
	limits := resp.DefaultLimits()
	if !c.authed {
		limits = resp.PreAuthLimits()
	}
	c.rd = resp.NewReader(limits)
	if tcp, ok := conn.(*net.TCPConn); ok && config.TCPKeepalive > 0 {
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: time.Duration(config.TCPKeepalive) * time.Second,
			Interval: time.Duration(config.TCPKeepalive) * time.Second / 3, Count: 3})
	}
	return c
}

// serve is the goroutine of a connection. A panic in it closes this connection alone and is logged and counted, unless it came with a lock
// of the store held: then the process must not go on with data it cannot trust.
func (c *client) serve() {
	defer c.srv.done.Done()
	defer func() {
		if p := recover(); p != nil {
			if c.batch != nil && c.batch.Opened() {
				panic(p)
			}
			c.srv.stats.panics.Add(1)
			c.srv.log.Error("panic in a connection", "client", c.id, "panic", p, "stack", string(debug.Stack()))
		}
		if p := c.peer.Load(); p != nil {
			p.Close()
		}
		c.unsubscribeAll()
		if c.subs.box != nil {
			c.subs.box.close()
		}
		c.conn.Close()
		c.srv.remove(c)
	}()
	err := c.loop()
	c.rest()
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.srv.log.Debug("connection ended", "client", c.id, "error", err)
	}
}

// loop reads, executes and answers until the connection ends.
func (c *client) loop() error {
	for !c.closed {
		n, err := c.conn.receive()
		if n > 0 {
			c.room = c.conn.free
			c.rd.Filled(n)
			c.srv.stats.inBytes.Add(int64(n))
			now := c.srv.clock.Load()
			c.lastRead.Store(now)
			if err := c.process(); err != nil {
				return err
			}
			switch partial := c.rd.Partial(); {
			case !partial:
				c.partialSince.Store(0)
			case c.partialSince.Load() == 0:
				c.partialSince.Store(now)
			}
			if n > resp.MaxRetained {
				c.rd.Shrink()
			}
			c.publish(0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
