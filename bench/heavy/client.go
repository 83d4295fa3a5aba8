package heavy

import (
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/counterd/counterd/internal/wire"
)

// Client sends the commands of a kind, one turn after the other.
type Client struct {
	conn        *wire.Conn
	turns       []Turn
	next        int
	subscribers []*wire.Conn
	reading     sync.WaitGroup
}

// NewClient connects with dial, as often as the kind needs connections.
func NewClient(name string, p *Posts, dial func() (*wire.Conn, error)) (c *Client, err error) {
	c = new(Client)
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	if c.turns, err = Turns(name, p); err != nil {
		return c, err
	}
	if c.conn, err = dial(); err != nil || name != "publish" {
		return c, err
	}
	for range Subscribers {
		s, err := dial()
		if err != nil {
			return c, fmt.Errorf("subscriber %d of %d: %w", len(c.subscribers)+1, Subscribers, err)
		}
		c.subscribers = append(c.subscribers, s)
		if _, err := s.Do("SUBSCRIBE", Channel); err != nil {
			return c, fmt.Errorf("SUBSCRIBE: %w", err)
		}
		c.reading.Go(func() { _, _ = io.Copy(io.Discard, s) }) // until it is closed
	}
	return c, nil
}

// Turn sends a turn and reads its replies.
func (c *Client) Turn() error {
	t := c.turns[c.next%len(c.turns)]
	c.next++
	sent := make(chan error, 1)
	go func() { sent <- c.conn.Send(t.Send) }() // the replies of a long pipeline come meanwhile
	for range t.Replies {
		if err := skip(&c.conn.Reader); err != nil {
			return err
		}
	}
	return <-sent
}

// Close ends the connections.
func (c *Client) Close() {
	if c.conn != nil {
		c.conn.Close()
	}
	for _, s := range c.subscribers {
		s.Close()
	}
	c.reading.Wait()
}

// skip reads a reply of any size and forgets it. The first error in it is returned.
func skip(r *wire.Reader) error {
	for left := 1; left > 0; left-- {
		line, err := r.ReadLine()
		if err != nil {
			return err
		}
		if line[0] != '*' && line[0] != '$' {
			continue
		}
		n, err := strconv.Atoi(line[1:])
		if err != nil {
			return fmt.Errorf("%w: length %q", wire.ErrProtocol, line[1:])
		}
		if line[0] == '*' {
			left += max(0, n)
		} else if n >= 0 {
			if _, err := io.CopyN(io.Discard, r, int64(n)+2); err != nil {
				return err
			}
		}
	}
	return nil
}
