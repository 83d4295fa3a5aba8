//go:build !linux || noepoll

package server

// loop serves each connection by a goroutine of its own, where there is no epoll: no client is ever in it.
type loop struct{}

func newLoop(*Server) (*loop, error) { return &loop{}, nil }

func (l *loop) stop() {}

// add starts the goroutine of c.
func (l *loop) add(c *client) error {
	c.where.Store(away)
	go l.serve(c)
	return nil
}

func (l *loop) end(c *client, err error) {
	c.where.Store(ended)
	c.end(err)
}

// serve reads, executes and answers until the connection ends.
func (l *loop) serve(c *client) {
	defer func() {
		if p := recover(); p != nil {
			c.panicked(p)
			l.end(c, nil)
		}
	}()
	space, idle := c.space, c.rest
	for !c.closed {
		n, free, err := c.conn.receive(space, idle)
		if err == nil {
			err = c.received(n, free)
		}
		if err == nil {
			err = c.sendAll()
		}
		if err != nil {
			l.end(c, err)
			return
		}
		c.publish(0)
	}
	l.end(c, nil)
}
