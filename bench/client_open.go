package bench

import "time"

// An open run starts operations at given times whether or not the earlier ones were answered, as independent users of a
// site do. A closed run measures less than those users see when the server stalls: its clients wait with it, and the
// operations that they would have sent meanwhile are never counted ("coordinated omission").
//
// At most depth operations are in flight on a connection. An operation that finds no room waits, and so do those due
// after it; their latency counts from the time they were due. It counts from the time of sending where it was the
// generator that was late, by a timer that fired late (about 60 us) or for want of processor time: that is not the
// server's.

// late is how long a write may take until it counts as held up by the server.
const late = time.Millisecond

// runOpen plays the stream with an operation every interval until the end.
func (c *client) runOpen(interval time.Duration, end *finish) error {
	sent := make(chan flight, c.depth)
	received := make(chan error, 1)
	go func() { received <- c.receiveAll(sent) }()
	err := c.sendDue(sent, interval, end)
	close(sent)
	if failed := <-received; failed != nil {
		return failed
	}
	return err
}

// sendDue sends the operations as they are due.
func (c *client) sendDue(sent chan<- flight, interval time.Duration, end *finish) error {
	held := time.Duration(0) // until when the server kept operations from being sent
	if now := clock(); c.due < now-interval {
		// Time passed between two runs. Whole intervals are left out, or all clients would start together from here on.
		c.due += (now - c.due) / interval * interval
	}
	for end.before(c.due) && !c.ended {
		now := clock()
		if c.due > now {
			time.Sleep(c.due - now)
			now = clock()
		}
		for ; c.due <= now && end.before(c.due); c.due += interval {
			start := now
			if c.due < held {
				start = c.due
			}
			f, ok := c.append(start)
			if !ok {
				break
			}
			select {
			case sent <- f:
				continue
			default:
			}
			if err := c.conn.Flush(); err != nil {
				return err
			}
			sent <- f
			held = clock()
		}
		began := clock()
		if err := c.conn.Flush(); err != nil {
			return err
		}
		if now := clock(); now-began > late {
			held = now
		}
	}
	return nil
}

// receiveAll receives the replies to the operations sent. After an error it takes the rest from the channel, so that
// the sender does not wait for ever, and closes the connection, so that it ends.
func (c *client) receiveAll(sent <-chan flight) error {
	for f := range sent {
		if err := c.receive(f); err != nil {
			c.conn.Close()
			for range sent {
			}
			return err
		}
	}
	c.flushLatency()
	return nil
}
