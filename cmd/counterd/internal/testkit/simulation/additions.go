package simulation

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/counterd/counterd/internal/wire"
)

// Column d of counter c is drained: clients add to it, and a collector sends COUNTER.DRAIN, as a program does that writes counters back
// to a database. Each drain has a number and is sent until it is answered. So each addition is in an answer or in the column, once.

// drained counts the additions to column d of one post, and the values that were drained.
type drained struct {
	mu           sync.Mutex
	added, doubt int64 // additions that were acknowledged, and those whose outcome is not known
	taken        int64 // by the collector
	open         bool  // the answer to a drain is not known
}

// drains tells whether a run of this configuration can have drains: where a weaker promise lets changes be lost or count twice, sums say nothing.
func (c *Config) drains() bool { return !c.Sentinel && !c.Flushes && c.MinIdle == 0 && !c.Quiet }

// drainedLines are the statements that add column d.
func drainedLines(r *Run) []string {
	if !r.Config.Drains {
		return nil
	}
	return []string{"ADD COLUMN c d hint=4 max=32 suffix=d"}
}

// drainedKey is column d of the post of a key.
func drainedKey(key string) string { return strings.TrimSuffix(key, ".n") + ".d" }

// addToDrained makes one attempt to add to column d of the post of a key; a numbered one goes on until it is answered.
func (c *client) addToDrained(key string) {
	n := 1 + int64(c.forms.N(9))
	_, got := c.insist(c.forms, key, c.addition(drainedKey(key), n))
	d := c.run.drained[key]
	d.mu.Lock()
	defer d.mu.Unlock()
	switch got {
	case acknowledged:
		d.added += n
	case uncertain:
		d.doubt += n
	}
}

// collect drains one post after another until the clients are to end.
func (c *client) collect(ctx context.Context) {
	defer c.hangUp()
	for ctx.Err() == nil {
		time.Sleep(c.forms.Between(0, 4*c.run.Config.Think))
		key := Pick(c.forms, c.run.keys)
		n, got := c.insist(c.forms, key, []string{"COUNTER.DRAIN", drainedKey(key)})
		d := c.run.drained[key]
		d.mu.Lock()
		if d.taken += n; got != acknowledged {
			d.open = true
		}
		d.mu.Unlock()
		if n > 0 {
			c.run.Story.meet("simulation: a column was drained")
		}
	}
}

// insist sends a change whose answer is a number or a list that begins with one; a numbered client sends it until it is answered, with pauses that dice draw.
func (c *client) insist(dice *Dice, key string, words []string) (int64, outcome) {
	a := attempt{from: c.run.now()}
	words = c.withNumber(words)
	for {
		n, got := c.ask(key, words)
		if !c.numbered || got == acknowledged {
			return n, got
		}
		if c.tired(&a) {
			return 0, uncertain // an earlier try may have been the one
		}
		c.rest(dice)
	}
}

// withNumber gives a change of a numbered client its number.
func (c *client) withNumber(words []string) []string {
	if !c.numbered {
		return words
	}
	c.seq++
	return append(slices.Clone(words), "IDMP", "p-"+c.name, strconv.FormatUint(c.seq, 10))
}

// rest is the pause in front of another try.
func (c *client) rest(dice *Dice) {
	time.Sleep(dice.Between(10*time.Millisecond, 300*time.Millisecond))
}

// addition is a command that adds n to the column of a key: one of those whose answer begins with the new value.
func (c *client) addition(key string, n int64) []string {
	by := strconv.FormatInt(n, 10)
	post, column, _ := strings.Cut(key, ".")
	switch c.forms.N(6) {
	case 0:
		return []string{"HINCRBY", "c:" + post, column, by}
	case 1:
		return []string{"COUNTER.MINCRBY", key, by}
	case 2:
		return []string{"INCREX", key, "BYINT", by}
	case 3:
		if n == 1 {
			return []string{"INCR", key}
		}
	}
	return []string{"INCRBY", key, by}
}

// verifyDrained compares the additions with the drained values and the value that is left.
func verifyDrained(r *Run) {
	if !r.Config.Drains || r.lossy || r.alone {
		return
	}
	for _, key := range r.keys {
		left := lastValue(r, drainedKey(key))
		d := r.drained[key]
		d.mu.Lock()
		if sum := d.taken + left; sum > d.added+d.doubt || sum < d.added && !d.open {
			r.Fault("%s: %d were drained and %d are left, want %d to %d: so many were added, and may have been", drainedKey(key), d.taken, left, d.added, d.added+d.doubt)
		}
		d.mu.Unlock()
	}
}

// piped is a command of a pipeline.
type piped struct {
	key   string
	words []string
	attempt
	seq  uint64 // its number, which words ends with; 0: none
	done bool   // it was answered, and is not sent again
}

// pipeline sends several additions, and some reads, before it reads an answer. A numbered client sends those that were not acknowledged again, with their
// numbers, until all are. Neighbouring additions of one form take ways of their own through the server, numbered and not, and a forward port sends each shard
// its part.
func (c *client) pipeline() {
	r := c.run
	most := 12
	if r.searches() { // the search for an order becomes longer with each attempt beside others
		most = 3
	}
	list := make([]*piped, 2+c.forms.N(most))
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
			p.words, p.seq = c.withNumber(p.words), c.seq
		}
		list[i] = p
	}
	for {
		c.sendPipeline(slices.DeleteFunc(slices.Clone(list), func(p *piped) bool { return p.done }))
		if !slices.ContainsFunc(list, func(p *piped) bool { return !p.done }) {
			break
		}
		if c.tired(&list[0].attempt) {
			break
		}
		c.rest(c.forms)
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

// sendPipeline sends commands to the node that should have the key of the first, and notes their answers. A command without a number is not sent again, also if
// it has no answer.
func (c *client) sendPipeline(list []*piped) {
	conn := c.connectFor(list[0].key)
	for _, p := range list {
		if p.done = !p.numbered; conn == nil {
			p.settle(c, 0, refused)
		}
	}
	if conn == nil {
		return
	}
	sent := c.numberByConnection(conn, list)
	_ = conn.SetDeadline(time.Now().Add(c.run.Config.Patience))
	err := conn.Flush()
	for _, p := range sent {
		var v wire.Value
		var failed *wire.ServerError
		if err == nil {
			v, err = conn.ReadValue()
		}
		switch {
		case p == nil: // CLIENT IDMP
			if errors.As(err, &failed) {
				c.run.Fault("%s: CLIENT IDMP was answered -%s", c.name, failed.Text)
			}
		case errors.As(err, &failed):
			got, _ := c.refusal(p.key, [][]string{p.words}, failed.Text)
			p.settle(c, 0, got)
			err = nil
		case err != nil:
			p.settle(c, 0, uncertain)
		default:
			n, got := c.number(p.key, p.words, v)
			p.settle(c, n, got)
		}
	}
	if err != nil {
		c.hangUp()
		delete(c.homes, list[0].key)
	}
}

// numberByConnection appends the commands of a pipeline to the output of conn. Some pipelines have their numbers by CLIENT IDMP, which comes again in front of a
// number that does not follow, instead of in each command. sent has nil for each CLIENT IDMP.
func (c *client) numberByConnection(conn *wire.Conn, list []*piped) (sent []*piped) {
	reads := slices.ContainsFunc(list, func(p *piped) bool { return !p.numbered }) // by INCRBY 0 in some runs, which takes a number too
	by, next := c.series.Chance(500) && !reads, uint64(0)
	number := func(words ...string) {
		conn.Out = wire.AppendCommand(conn.Out, append([]string{"CLIENT", "IDMP"}, words...)...)
		sent = append(sent, nil)
	}
	for _, p := range list {
		words := p.words
		if by {
			if p.seq != next {
				number("p-"+c.name, strconv.FormatUint(p.seq, 10))
			}
			words, next = words[:len(words)-3], p.seq+1
		}
		conn.Out = wire.AppendCommand(conn.Out, words...)
		sent = append(sent, p)
	}
	if next > 0 {
		number("OFF")
		c.run.Story.meet("simulation: a connection numbered changes")
	}
	return sent
}

// settle notes the outcome of one try.
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
