package simulation

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/counterd/counterd/internal/wire"
)

// piped is a command of a pipeline.
type piped struct {
	key   string
	words []string
	attempt
	done bool // it was answered, and is not sent again
}

// pipeline sends several additions, and some reads, before it reads an answer. A numbered client sends those that were not acknowledged again, with their
// numbers, until all are. Neighbouring additions of one form take ways of their own through the server, numbered and not, and a forward port sends each shard
// its part.
func (c *client) pipeline() {
	r := c.run
	list := make([]*piped, 2+c.forms.N(12))
	same := c.forms.Chance(700)
	for i := range list {
		key := c.pickBy(c.forms)
		p := &piped{key: key, attempt: attempt{client: c.name, from: r.now(), outcome: uncertain}}
		switch {
		case !same && c.forms.Chance(200):
			p.read, p.words = true, r.reading(key)
		case same:
			p.words = []string{"INCR", key}
		default:
			p.words = c.addition(key, 1)
		}
		if p.numbered = c.numbered && !p.read; p.numbered {
			c.seq++
			p.words = append(p.words, "IDMP", "p-"+c.name, strconv.FormatUint(c.seq, 10))
		}
		list[i] = p
	}
	for tries := 0; ; tries++ {
		c.sendPipeline(slices.DeleteFunc(slices.Clone(list), func(p *piped) bool { return p.done }))
		if !slices.ContainsFunc(list, func(p *piped) bool { return !p.done }) {
			break
		}
		if c.tired(&list[0].attempt) || len(r.Faults()) > 0 {
			break
		}
		time.Sleep(c.forms.Between(10*time.Millisecond, 300*time.Millisecond))
	}
	for _, p := range list {
		if !p.done {
			p.outcome, p.till = uncertain, r.now() // an earlier try may have been the one
		}
		if !p.read || p.outcome == acknowledged {
			r.History.Add(p.key, p.attempt)
		}
	}
	r.Story.meet("simulation: a pipeline was answered")
}

// sendPipeline sends commands to the node that should have the key of the first, and notes what is answered. Commands without numbers are done then, whatever
// became of them.
func (c *client) sendPipeline(list []*piped) {
	conn := c.connectFor(list[0].key)
	for _, p := range list {
		if p.done = !p.numbered; conn == nil {
			p.settle(c, 0, refused)
			continue
		}
		conn.Out = wire.AppendCommand(conn.Out, p.words...)
	}
	if conn == nil {
		return
	}
	_ = conn.SetDeadline(time.Now().Add(c.run.Config.Patience))
	err := conn.Flush()
	for _, p := range list {
		var v wire.Value
		var failed *wire.ServerError
		if err == nil {
			v, err = conn.ReadValue()
		}
		switch {
		case errors.As(err, &failed):
			got, _ := c.refusal(p.key, [][]string{p.words}, failed.Text)
			p.settle(c, 0, got)
			err = nil
		case err != nil:
			p.settle(c, 0, uncertain)
		default:
			n, got := c.number(p.words, v)
			p.settle(c, n, got)
		}
	}
	if err != nil {
		c.hangUp()
		delete(c.homes, list[0].key)
	}
}

// settle notes what became of one try.
func (p *piped) settle(c *client, value int64, got outcome) {
	p.value, p.outcome, p.till = value, got, c.run.now()
	p.done = p.done || got == acknowledged
}

// connectFor returns a connection to the node that should have the key; nil: there is none.
func (c *client) connectFor(key string) *wire.Conn {
	at := c.homes[key]
	if at == "" {
		at = Pick(c.dice, c.run.Machines).host + c.port()
	}
	if c.conn != nil && c.at != at {
		c.hangUp()
	}
	if c.conn == nil {
		conn, err := wire.Dial(context.Background(), at, wire.Options{Buffer: clientBuffer, Connect: c.stack.Connect, Timeout: 2 * time.Second})
		if err != nil {
			delete(c.homes, key)
			return nil
		}
		c.conn, c.at = conn, at
	}
	return c.conn
}
