package simulation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/counterd/counterd/internal/wire"
)

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
