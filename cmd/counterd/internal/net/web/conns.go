package web

import (
	"context"
	"net"
	"sync"
)

// conns are the open connections, at most limit. When one more comes, the connection that has been without a complete
// request for longest gives up its place: a limit alone could be held by connections that say nothing. If all are
// being answered, it is the connection that has not taken written bytes for longest: 64 that ask again and again and
// read nothing held /healthz for 30 s, and then again.
type conns struct {
	limit int

	mu    sync.Mutex // guards the rest. No other lock is taken while it is held
	clock uint64     // counts changes, to find the connection that waits longest
	open  map[*conn]struct{}
}

// conn is a counted connection.
type conn struct {
	net.Conn
	conns  *conns
	since  uint64 // of conns.clock, when it began to wait
	active bool   // a handler answers it
	writes uint64 // of conns.clock, when the write under way began; 0: there is none
}

func newConns(limit int) *conns { return &conns{limit: limit, open: make(map[*conn]struct{})} }

// listener lets connections in as long as there are places.
type listener struct {
	net.Listener
	conns *conns
}

// Accept waits for the next connection that has a place.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if admitted := l.conns.admit(c); admitted != nil {
			return admitted, nil
		}
		c.Close()
	}
}

// admit counts a connection, or returns nil if handlers are at work for all that have places.
func (cs *conns) admit(nc net.Conn) net.Conn {
	c := &conn{Conn: nc, conns: cs}
	cs.mu.Lock()
	var oldest *conn
	if len(cs.open) >= cs.limit {
		var stuck *conn
		for other := range cs.open {
			switch {
			case !other.active && (oldest == nil || other.since < oldest.since):
				oldest = other
			case other.active && other.writes != 0 && (stuck == nil || other.writes < stuck.writes):
				stuck = other
			}
		}
		if oldest == nil {
			oldest = stuck
		}
		if oldest == nil {
			cs.mu.Unlock()
			return nil
		}
		delete(cs.open, oldest)
	}
	cs.clock++
	c.since = cs.clock
	cs.open[c] = struct{}{}
	cs.mu.Unlock()
	if oldest != nil {
		oldest.Conn.Close()
	}
	return c
}

// Close gives the place back.
func (c *conn) Close() error {
	c.conns.mu.Lock()
	delete(c.conns.open, c)
	c.conns.mu.Unlock()
	return c.Conn.Close()
}

// Write notes how long the other side takes.
func (c *conn) Write(p []byte) (int, error) {
	c.writing(true)
	defer c.writing(false)
	return c.Conn.Write(p)
}

func (c *conn) writing(yes bool) {
	cs := c.conns
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c.writes = 0; yes {
		cs.clock++
		c.writes = cs.clock
	}
}

type connKey struct{}

// context is http.Server's ConnContext: requests know their connection.
func (cs *conns) context(ctx context.Context, nc net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, plain(nc))
}

// plain is the connection below TLS, nil if it is none of ours.
func plain(nc net.Conn) *conn {
	if t, ok := nc.(interface{ NetConn() net.Conn }); ok {
		nc = t.NetConn()
	}
	c, _ := nc.(*conn)
	return c
}

// busy notes that a handler answers a request of a connection, waiting that it has ended.
func (cs *conns) busy(ctx context.Context)    { cs.set(ctx, true) }
func (cs *conns) waiting(ctx context.Context) { cs.set(ctx, false) }

func (cs *conns) set(ctx context.Context, active bool) {
	c, _ := ctx.Value(connKey{}).(*conn)
	if c == nil {
		return
	}
	cs.mu.Lock()
	cs.clock++
	c.active, c.since = active, cs.clock
	cs.mu.Unlock()
}

// count is the number of connections that have a place.
func (cs *conns) count() int {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return len(cs.open)
}
