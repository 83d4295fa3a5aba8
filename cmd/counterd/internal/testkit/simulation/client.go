package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/internal/wire"
)

// client sends one command after another, and keeps a record of what it was answered. It finds the primary as clients of a
// cluster do: by MOVED, and by trying others.
type client struct {
	run       *Run
	name      string
	stack     *Stack
	dice      *Dice
	forms     *Dice // of the commands that add, and of drains
	series    *Dice // of pipelines whose numbers are the connection's
	forwarded bool  // it knows of no cluster, and uses forward ports
	numbered  bool  // all its increments carry numbers, and are sent until they are answered
	seq       uint64
	conn      *wire.Conn
	at        string            // address of conn
	homes     map[string]string // by key: where it was answered last
}

// clientBuffer is the size of a client's two buffers, which grow. With the default of 64 KiB each, making them for the many short connections
// took 3 to 4 % of a run's processor time.
const clientBuffer = 1 << 10

func newClient(r *Run, i int, numbered bool) *client {
	host := fmt.Sprintf("10.0.1.%d", i+1)
	return &client{run: r, name: clientName(i), stack: r.Net.Boot(host, versionNow), dice: NewDice(r.Seed, "client "+host), forms: NewDice(r.Seed, "forms "+host), series: NewDice(r.Seed, "series "+host), numbered: numbered,
		homes: make(map[string]string)}
}

func clientName(i int) string { return fmt.Sprintf("c%d", i+1) }

// work sends commands until the run's clients are to end.
func (c *client) work(ctx context.Context) {
	defer c.hangUp()
	for ctx.Err() == nil {
		time.Sleep(c.dice.Between(0, 2*c.run.Config.Think))
		if len(c.run.pages) > 0 && c.dice.Chance(500) {
			c.turnPage(Pick(c.dice, c.run.pages))
			continue
		}
		key := c.pick()
		if c.run.Config.Flushes && c.dice.Chance(15) {
			c.flush()
		} else if c.dice.Chance(300) {
			c.read(ctx, key)
		} else {
			c.increment(key)
		}
		if c.run.Config.Drains && c.forms.Chance(300) {
			c.addToDrained(key)
		}
		if c.forms.Chance(100) {
			c.pipeline()
		}
	}
}

// pick draws a key. Where additions leave a window soon, most keys rest for a second and a half: an addition then comes behind buckets
// without any.
func (c *client) pick() string { return c.pickBy(c.dice) }

func (c *client) pickBy(dice *Dice) string {
	r := c.run
	i := dice.N(len(r.keys))
	for range 3 {
		if moment := int(r.now() / (1500 * time.Millisecond)); r.Config.Window != shortWindow || (7*i+3*moment)%5 < 2 {
			break
		}
		i = dice.N(len(r.keys))
	}
	return r.keys[i]
}

func (c *client) hangUp() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// increment makes one attempt to add one; a numbered one goes on until it is answered.
func (c *client) increment(key string) {
	a := attempt{client: c.name, from: c.run.now(), numbered: c.numbered}
	a.value, a.outcome = c.insist(c.dice, key, c.addition(key, 1))
	a.till = c.run.now()
	a.confirmed = c.run.Config.Sentinel && a.outcome == acknowledged && c.confirm()
	if a.confirmed {
		c.run.Story.meet("simulation: WAIT confirmed a change")
	}
	c.run.History.Add(key, a)
}

// read makes one attempt to read.
func (c *client) read(_ context.Context, key string) {
	a := attempt{client: c.name, read: true, from: c.run.now()}
	a.value, a.outcome = c.ask(key, c.run.reading(key))
	a.till = c.run.now()
	if a.outcome == acknowledged {
		c.run.History.Add(key, a)
	}
	if c.run.Config.Top > 0 && c.dice.Chance(300) {
		c.readTop()
	}
	if c.run.Config.Window != "" && !c.run.Config.Decay && c.dice.Chance(300) {
		c.readWindow(key)
	}
}

// ask sends a command whose answer is a number, or a list that begins with one, to the node that should have the key.
func (c *client) ask(key string, words []string) (int64, outcome) {
	v, got := c.exchange(key, words)
	if got != acknowledged {
		return 0, got
	}
	return c.number(key, words, v)
}

// number is the number of an answer, or the outcome of the error that a list begins with.
func (c *client) number(key string, words []string, v wire.Value) (int64, outcome) {
	if len(v.Array) > 0 {
		v = v.Array[0]
	}
	if v.IsErr {
		got, _ := c.refusal(key, [][]string{words}, v.Str)
		return 0, got
	}
	n, err := strconv.ParseInt(v.Text(), 10, 64)
	if err != nil && !v.Null {
		c.run.Fault("%s: %v was answered %+v", c.name, words, v)
	}
	return n, acknowledged
}

// exchange sends commands, all at once, to the node that should have the key, and returns the answer to the last one, which alone has an
// effect. refused tells that it was not done for certain.
func (c *client) exchange(key string, commands ...[]string) (wire.Value, outcome) {
	for range 6 {
		if c.connectFor(key) == nil {
			return wire.Value{}, refused
		}
		_ = c.conn.SetDeadline(time.Now().Add(c.run.Config.Patience))
		v, err := exchanged(c.conn, commands)
		var failed *wire.ServerError
		switch {
		case err == nil:
			c.homes[key] = c.at
			return v, acknowledged
		case !errors.As(err, &failed):
			c.hangUp()
			delete(c.homes, key)
			return wire.Value{}, uncertain
		}
		if got, again := c.refusal(key, commands, failed.Text); !again {
			return wire.Value{}, got
		}
	}
	delete(c.homes, key)
	return wire.Value{}, refused
}

// refusal judges the error that commands were answered with. again: they are to be sent to another node, which homes has.
func (c *client) refusal(key string, commands [][]string, text string) (got outcome, again bool) {
	_, because, aborted := strings.Cut(text, "EXECABORT Transaction discarded because of: ")
	if !aborted {
		because = text
	}
	word, rest, _ := strings.Cut(because, " ")
	switch word {
	case "MOVED":
		_, to, _ := strings.Cut(rest, " ")
		_, _, err := net.SplitHostPort(to)
		if err == nil {
			c.homes[key] = to
		}
		return refused, err == nil
	case "READONLY", "MASTERDOWN": // a replica
		delete(c.homes, key)
		return refused, c.run.Config.Standalone
	case "UNCERTAIN":
		return uncertain, false
	case "CLUSTERDOWN", "LOADING", "MISCONF", "NOREPLICAS", "TRYAGAIN", "IDMPFULL":
		delete(c.homes, key)
	case "IOERR":
	default:
		c.run.Story.Say(c.name, "%v was answered -%s", commands, text)
		if commands[0][0] != "GET" && !strings.HasPrefix(because, "ERR no such key") {
			c.run.Fault("%s: %v was answered -%s", c.name, commands, text)
		}
	}
	return refused, false
}

// exchanged returns the answer to the last command, or the first error: that of a command in a transaction names the cause of the
// EXEC's.
func exchanged(conn *wire.Conn, commands [][]string) (v wire.Value, err error) {
	for _, words := range commands {
		conn.Out = wire.AppendCommand(conn.Out, words...)
	}
	if err := conn.Flush(); err != nil {
		return wire.Value{}, err
	}
	var first error
	for range commands {
		var failed *wire.ServerError
		if v, err = conn.ReadValue(); err != nil && !errors.As(err, &failed) {
			return wire.Value{}, err
		}
		first = cmp.Or(first, err)
	}
	return v, first
}

// port is that of the nodes that the client connects to.
func (c *client) port() string {
	if c.forwarded {
		return ":7001"
	}
	return ":7000"
}

// say sends a command of an operator to a machine.
func (c *client) say(host string, words ...string) (wire.Value, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := wire.Dial(ctx, host+":7000", wire.Options{Buffer: clientBuffer, Connect: c.stack.Connect, Timeout: 2 * time.Second, Answer: 30 * time.Second})
	if err != nil {
		return wire.Value{}, err
	}
	defer conn.Close()
	return conn.Do(words...)
}

// maxFlushDoubt is how many flushes without an answer a run has at most: each may come later, at any time, so the search for an order
// becomes longer with each.
const maxFlushDoubt = 10

// flush makes one attempt to empty the whole store, or all shards of a cluster. A cluster answers it on the forward port. Half of the attempts are drops of
// all ids of both counters, which a key sees as it sees FLUSHALL.
func (c *client) flush() {
	r := c.run
	if r.flushDoubt.Load() >= maxFlushDoubt {
		return
	}
	a := attempt{client: c.name, flush: true, from: r.now(), outcome: uncertain}
	words := []string{"FLUSHALL"}
	drops := r.Config.Older == 0 && !r.Config.Released && c.dice.Chance(500)
	if drops {
		words = dropAll("c")
	}
	twice := false
	if a.outcome, twice = c.flushBy(words); drops && a.outcome == acknowledged {
		if a.outcome, twice = c.flushBy(dropAll("p")); a.outcome == refused { // one of the two was made
			a.outcome = uncertain
		}
	}
	a.till = r.now()
	switch a.outcome {
	case uncertain:
		r.flushDoubt.Add(1)
	case acknowledged:
		if drops {
			r.Story.meet("simulation: COUNTER.DROPRANGE was acknowledged")
		} else {
			r.Story.meet("simulation: FLUSHALL was acknowledged")
		}
		r.Story.Say(c.name, "%s from %.3f", words[0], a.from.Seconds())
	}
	r.flushes.Add("", a)
	if twice {
		r.flushes.Add("", a)
	}
	if r.Config.Tiers { // there are posts for cold files again
		for _, mid := range r.mids {
			key := fmt.Sprintf("{%d}.m", mid)
			c.ask(key, []string{"INCRBY", key, "1"})
		}
	}
}

// dropAll drops all posts of a counter.
func dropAll(counter string) []string {
	return []string{"COUNTER.DROPRANGE", counter, "0", "9223372036854775808"}
}

// flushBy sends a command that empties a counter, or all of them. twice: the answer says that groups of hash slots moved meanwhile, so a post may
// have been dropped at the source and again at the target, with increments in between.
func (c *client) flushBy(words []string) (o outcome, twice bool) {
	r := c.run
	if r.Config.Standalone {
		_, o = c.exchange(Pick(c.dice, r.keys), words)
		return o, false
	}
	v, err := c.everywhere(Pick(c.dice, r.Machines).host, words...)
	if err != nil {
		r.Story.Say(c.name, "%s: %v", words[0], err)
		return uncertain, strings.Contains(err.Error(), "changed twice")
	}
	if words[0] == "FLUSHALL" && v.Text() != "OK" {
		return uncertain, false
	}
	return acknowledged, false
}

// everywhere sends a command for all shards to a machine's forward port.
func (c *client) everywhere(host string, words ...string) (wire.Value, error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.run.Config.Patience)
	defer cancel()
	conn, err := wire.Dial(ctx, host+":7001", wire.Options{Buffer: clientBuffer, Connect: c.stack.Connect, Timeout: 2 * time.Second, Answer: c.run.Config.Patience})
	if err != nil {
		return wire.Value{}, err
	}
	defer conn.Close()
	return conn.Do(words...)
}

// searches tells whether counters do not only rise, or owners of pages leave versions out. Where Sentinel decides, acknowledged changes may be
// lost, so no order explains all answers.
func (r *Run) searches() bool {
	return !r.lossy && !r.Config.Sentinel && (r.Config.Flushes || r.Config.MinIdle > 0)
}

// search compares the history of a key with its last value by a search for an order of its attempts and of all flushes.
func (r *Run) search(name string, list []attempt, final int64) []string {
	last := attempt{client: r.operator.name, read: true, value: final, from: r.now(), till: r.now()}
	faults, ok := searchOrder(name, searchable(append(list, last), r.flushes.of("")))
	if !ok {
		r.Story.meet("simulation: the search for an order was given up")
	}
	return faults
}

// versions is the history of a page for the search: an owner sets it, and its posts are gone where it is 0.
func (p *page) versions() (list []attempt) {
	for _, a := range p.history.of(p.name) {
		if a.set = p.owner != "" && !a.read; a.set && slices.Contains(p.deleted, a.value) || a.value == gone {
			a.value = 0
		}
		list = append(list, a)
	}
	return list
}
