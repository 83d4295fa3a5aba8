package simulation

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// minIdle is idmp-min-idle where producers have few places: longer than any cut lasts, so no client that waits for an answer loses
// its place while the servers serve.
const minIdle = 2 * time.Minute

// shapeProducers gives the numbered clients all places for producers.
func shapeProducers(c *Config, d *Dice) {
	shapeStandalone(c, d)
	c.Clients = 4
	c.Producers = c.Clients / 2
	c.Lasts = d.Between(3*minIdle, 6*minIdle)
}

// stayAway ends all machines while numbered clients wait for answers, for longer than a producer keeps its place at rest. A new producer
// comes before they ask again.
func (n *nemesis) stayAway(d *Dice) {
	r := n.run
	if !n.until(20*time.Second, func() bool { return r.whole() == "" }) {
		return
	}
	n.deafen(d)
	n.say("all machines end")
	for _, m := range r.Machines {
		m.Kill()
	}
	r.Net.Heal()
	time.Sleep(d.Between(minIdle, 2*minIdle))
	c := newClient(r, 100+n.step, true)
	c.name = fmt.Sprint("new", n.step)
	r.lives.Go(c.squeeze)
	for _, m := range r.Machines {
		m.On()
	}
	time.Sleep(d.Between(0, 10*time.Second))
}

// squeeze tries one numbered increment again and again for some seconds, as a producer that no server knows.
func (c *client) squeeze() {
	defer c.hangUp()
	key := Pick(c.dice, c.run.keys)
	a := attempt{client: c.name, from: c.run.now(), numbered: true, outcome: refused}
	words := []string{"INCRBY", key, "1", "IDMP", "p-" + c.name, strconv.Itoa(1)}
	for end := c.run.now() + 3*time.Second; c.run.now() < end && a.outcome != acknowledged; time.Sleep(2 * time.Millisecond) {
		value, outcome := c.ask(key, words)
		if outcome != refused { // an uncertain try stays uncertain if the next one is refused
			a.value, a.outcome = value, outcome
		}
	}
	a.till = c.run.now()
	c.run.History.Add(key, a)
}

// evictions lets new producers come all the time, and gives the server few places: one gives its place to another when it was idle for
// minIdle. A client that waits for its answer gives up long before, as the promise for its number ends then.
func (c *Config) evictions(d *Dice) {
	c.Strangers, c.Clients = 1+d.N(2), max(2, c.Clients)
	c.MinIdle = time.Minute
	c.Producers = c.Clients/2 + 2 + d.N(4)
	c.Lasts = d.Between(2*c.MinIdle, 5*c.MinIdle)
	c.DiskHangs, c.Weights[diskHangs] = false, 0
}

// shapeEvictions makes it one shard, so that all new producers of a scene come to one table.
func shapeEvictions(c *Config, d *Dice) {
	Pick(d, []func(*Config, *Dice){shapeShard, shapeStandalone})(c, d)
	if c.evictions(d); d.Chance(600) {
		c.clocks(d)
	}
}

// tired tells whether a numbered attempt is not sent any more. Bytes that were sent may travel for as long as a link is cut.
func (c *client) tired(a *attempt) bool {
	idle := c.run.Config.MinIdle
	return c.run.ended() || idle > 0 && c.run.now()-a.from > idle/2
}

// comeAndGo makes each increment as another producer, until all faults end: a move of groups needs places for all of their producers at once, and
// would wait for as long as each place that becomes free is taken by a new one.
func (c *client) comeAndGo(ctx context.Context) {
	defer c.hangUp()
	for i := 1; ctx.Err() == nil && !c.run.healing.Load(); i++ {
		time.Sleep(c.dice.Between(0, 4*time.Second))
		key := Pick(c.dice, c.run.keys)
		a := attempt{client: c.name, from: c.run.now(), numbered: true, outcome: refused}
		words := []string{"INCRBY", key, "1", "IDMP", fmt.Sprint("p-", c.name, "-", i), "1"}
		for {
			value, got := c.ask(key, words)
			if got != refused {
				a.value, a.outcome = value, got
			}
			if got == acknowledged || c.tired(&a) || ctx.Err() != nil {
				break
			}
			time.Sleep(c.dice.Between(10*time.Millisecond, time.Second))
		}
		a.till = c.run.now()
		c.run.History.Add(key, a)
	}
}

// evicted counts the producers that gave their places away, on the processes of now.
func evicted(r *Run) {
	for _, m := range r.Machines {
		if srv := m.server(); srv != nil {
			for range srv.Store().Admin().ProducerStats().Taken {
				r.Story.meet("simulation: a producer gave its place away")
			}
		}
	}
}

// deafen cuts the answers to numbered clients off, for long enough that some of them wait for one.
func (n *nemesis) deafen(d *Dice) {
	r := n.run
	link := r.Net.Base()
	link.Cut = true
	for i := 1; i < r.Config.Clients; i += 2 {
		for _, m := range r.Machines {
			r.Net.Set(m.host, fmt.Sprintf("10.0.1.%d", i+1), link)
		}
	}
	n.say("numbered clients get no answers")
	time.Sleep(d.Between(100*time.Millisecond, time.Second))
}

// outrun cuts the answers to numbered clients off and sets all clocks ahead, while as many new producers come as there are places: each
// has its place for longer than that by the clock that nobody sets. Then all machines end. When a primary serves again, all clocks
// are set ahead once more, so that the new producers are idle by them, too, and the clients ask again.
func (n *nemesis) outrun(d *Dice) {
	r := n.run
	n.deafen(d)
	n.setAhead()
	for i := range r.Config.Producers {
		c := newClient(r, 100+i, true)
		c.name = fmt.Sprint("new", n.step, "-", i)
		r.lives.Go(c.squeeze)
	}
	time.Sleep(d.Between(2*time.Second, 4*time.Second))
	for _, m := range r.Machines { // or the answers arrive behind the cut
		m.Kill()
	}
	r.Net.Heal()
	for _, m := range r.Machines {
		n.between(d, 0, time.Second, m.On)
	}
	if n.until(20*time.Second, func() bool { _, got := r.operator.ask(r.keys[0], r.reading(r.keys[0])); return got == acknowledged }) {
		n.setAhead() // a primary that begins to serve leaves out the time before: not so this hour
	}
	time.Sleep(d.Between(5*time.Second, 15*time.Second))
}

// setAhead sets all clocks ahead by more than a producer may be idle.
func (n *nemesis) setAhead() {
	n.say("all clocks are set ahead")
	for _, m := range n.run.Machines {
		m.clock.set(time.Hour)
	}
}
