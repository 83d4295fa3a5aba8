package simulation

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
	"github.com/counterd/counterd/cmd/internal/topology"
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
	if c.Forward { // each link between nodes numbers its changes, as a producer
		c.Producers += c.Nodes
	}
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

// tired tells whether a numbered attempt is not sent any more. A command that is refused by mistake is refused for ever. Bytes that were sent may travel for as long as a link is cut.
func (c *client) tired(a *attempt) bool {
	idle := c.run.Config.MinIdle
	return c.run.ended() || len(c.run.Faults()) > 0 || idle > 0 && c.run.now()-a.from > idle/2
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

// shapeFeed has a consumer follow the feed, where nodes take full copies, groups move, a role is handed over, or the consumer falls behind.
func shapeFeed(c *Config, d *Dice) {
	Pick(d, []func(*Config, *Dice){shapeShard, shapeCopies, shapeMoves, shapeStandalone, shapeLate})(c, d)
	c.Feed = true
}

// shapeLate keeps so little log that nothing but a cursor keeps it for a consumer, and has no fault that makes a node begin its log anew.
func shapeLate(c *Config, d *Dice) {
	Pick(d, []func(*Config, *Dice){shapeShard, shapeStandalone})(c, d)
	c.Late, c.Cursor, c.Retain, c.Segment = true, true, uint64(d.N(2)), 512
	c.DiskFaults, c.DiskHangs, c.Decay, c.EtcdFaults = false, false, false, false
	c.Weights = [kinds]int{snapshotMade: 2, schemaChanged: 1, switched: 1}
}

// feedScene plays the scenes of a consumer that fit the run's shape.
func feedScene(n *nemesis, d *Dice) {
	conf := &n.run.Config
	switch {
	case conf.Late:
		fallBehind(n, d)
	case conf.Standalone:
		n.handOver(d)
	case conf.Shards > 1 && d.Chance(500):
		moveUnheard(n, d)
	case conf.Shards == 1 && d.Chance(400):
		n.copyAndLead(d)
	case d.Chance(500):
		showOnReplica(n, d)
	default:
		showAndDie(n, d)
	}
}

// healthyLeader is the machine that leads a shard of a whole cluster; nil: it is not whole within some seconds.
func healthyLeader(n *nemesis, of topology.ShardID) (p *Machine) {
	n.until(5*time.Second, func() bool { p = n.run.leader(of); return p != nil && n.run.whole() == "" })
	if n.run.whole() != "" {
		return nil
	}
	return p
}

// readAt has the consumer read on one machine, until stop is called.
func readAt(n *nemesis, m *Machine) (stop func()) {
	n.say("the consumer reads on %s", m.name)
	c := n.run.consumer
	c.wants.Store(m)
	time.Sleep(1200 * time.Millisecond) // a read elsewhere ends
	return func() { c.wants.Store(nil) }
}

// showAndDie cuts a primary off from its replicas, and not from its clients and the consumer of the feed, and ends it: the changes that it has shown
// until then must be on the next primary.
func showAndDie(n *nemesis, d *Dice) {
	r := n.run
	of := topology.ShardID(1 + d.N(r.Config.Shards))
	p := healthyLeader(n, of)
	if p == nil {
		return
	}
	stop := func() {}
	if d.Chance(500) {
		stop = readAt(n, p)
	}
	for _, o := range r.others(d, of, p) {
		n.apart(p, o)
	}
	time.Sleep(d.Between(100*time.Millisecond, r.Config.NodeTimeout))
	stop()
	n.end(d, p, 2*time.Second, 8*time.Second)
	r.Net.Heal()
	time.Sleep(d.Between(0, 4*time.Second))
}

// showOnReplica cuts a primary off from one replica. The consumer reads on another replica, which has changes that the first one does not have.
// Then that replica and the primary end, and the first replica leads.
func showOnReplica(n *nemesis, d *Dice) {
	r := n.run
	of := topology.ShardID(1 + d.N(r.Config.Shards))
	p := healthyLeader(n, of)
	if p == nil {
		return
	}
	rest := r.others(d, of, p)
	if len(rest) < 2 {
		return
	}
	defer readAt(n, rest[0])()
	n.apart(p, rest[1])
	time.Sleep(d.Between(50*time.Millisecond, r.Config.NodeTimeout/2))
	for _, m := range []*Machine{p, rest[0]} {
		n.end(d, m, 2*r.Config.NodeTimeout, 4*r.Config.NodeTimeout)
	}
	r.Net.Heal()
	time.Sleep(d.Between(0, 4*time.Second))
}

// moveUnheard moves groups to another shard while the consumer does not hear from the shard that has them. Clients change them there, and then at
// the destination, whose changes the consumer must not take before.
func moveUnheard(n *nemesis, d *Dice) {
	r := n.run
	if d.Chance(400) {
		n.moveAndDie(d)
		return
	}
	if !n.until(5*time.Second, func() bool { return r.whole() == "" }) {
		return
	}
	n.move(d, false)
	for _, v := range r.view().Moves {
		unheard(n, r.others(d, v.From, nil))
		break
	}
	n.until(5*time.Second, func() bool { return len(r.view().Moves) == 0 })
	time.Sleep(d.Between(100*time.Millisecond, 2*time.Second)) // changes at the destination
	r.Net.Heal()
	time.Sleep(d.Between(0, 2*time.Second))
}

// fallBehind cuts the consumer off until the log that it needs would be gone if its cursor did not keep it.
func fallBehind(n *nemesis, d *Dice) {
	r := n.run
	if !n.until(15*time.Second, r.consumer.keeps) {
		return
	}
	unheard(n, r.Machines)
	time.Sleep(d.Between(500*time.Millisecond, 4*time.Second)) // changes that it lacks
	n.snapshots(d)
	time.Sleep(d.Between(0, time.Second))
	r.Net.Heal()
	time.Sleep(d.Between(time.Second, 4*time.Second))
}

// unheard cuts the consumer off from machines.
func unheard(n *nemesis, list []*Machine) {
	n.say("the consumer hears nothing of %d machines", len(list))
	link := n.run.Net.Base()
	link.Cut = true
	for _, m := range list {
		n.run.Net.Set(m.host, feedHost, link)
		n.run.Net.Set(feedHost, m.host, link)
	}
}

// keepsLogs tells whether no node can have begun a log anew behind a cursor, by a full copy without that log or because its files decayed, or
// dropped log because its disk was full.
func (r *Run) keepsLogs() bool {
	met := r.Story.Met()
	if met[copied] > 0 && (met[repl.CopyWithoutCursors] > 0 || r.Config.Older > 0) {
		return false
	}
	return !r.Config.Decay && !r.Config.DiskFaults && !r.Config.DiskHangs && !r.Config.Sentinel
}
