package simulation

import (
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
)

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
