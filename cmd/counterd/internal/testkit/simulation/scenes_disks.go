package simulation

import (
	"fmt"
	"syscall"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// shapeFullDisk has clients send numbered changes again and again while the disk of the primary takes nothing. Most of these runs have no etcd: in a
// cluster, other nodes have the changes that this disk lacks. Posts are moved to cold files meanwhile.
func shapeFullDisk(c *Config, d *Dice) {
	if d.Chance(700) {
		shapeStandalone(c, d)
		c.Sync = Pick(d, []string{"everysec", "everysec", "always"})
	} else {
		shapeShard(c, d)
	}
	if d.Chance(700) {
		c.tiers(d)
	}
	c.DiskFaults = true
	c.Clients = max(c.Clients, 4)
}

// failAndDie has the disk of a primary take nothing, or no cold files, and often ends the node before the disk is well.
func (n *nemesis) failAndDie(d *Dice) {
	r := n.run
	m := taker(r)
	if m == nil {
		return
	}
	disk := m.Disk()
	if disk == nil {
		return
	}
	rule := vfs.Rule{Ops: Pick(d, []vfs.Op{vfs.OpWrite, vfs.OpWrite, vfs.OpSync, vfs.OpMutating}), Every: 1,
		Err: Pick(d, []error{syscall.EIO, syscall.ENOSPC}), Short: d.Chance(300)}
	if r.Config.Tiers && d.Chance(500) {
		rule.Glob, rule.Skip = format.ColdDir("data")+"/*", d.N(4)
	}
	n.say("the disk of %s fails: %+v", m.name, rule)
	disk.Inject(rule)
	if r.Config.Tiers {
		for range 1 + d.N(4) {
			n.ask(m, "COUNTER.DEMOTE", "c", fmt.Sprint(Pick(d, r.mids)))
		}
	}
	time.Sleep(d.Between(0, 3*time.Second))
	if d.Chance(700) {
		n.say("%s is killed", m.name)
		m.Kill()
		n.between(d, 0, 2*time.Second, m.On)
	} else {
		n.later(d, 5*time.Second, disk.Clear)
	}
	time.Sleep(d.Between(0, 3*time.Second))
}

// taker is a machine whose node takes changes of the first shard, or of a run without etcd; nil: none runs.
func taker(r *Run) *Machine {
	if !r.Config.Standalone {
		return r.leader(1)
	}
	for _, m := range r.Machines {
		if srv := m.server(); srv != nil && !srv.Store().Replica() {
			return m
		}
	}
	return nil
}

// shapeLastCopy makes it one shard whose changes two nodes must have.
func shapeLastCopy(c *Config, d *Dice) {
	shapeShard(c, d)
	c.Decay, c.EtcdFaults = false, false
	c.Clients = max(c.Clients, 4)
}

// loseLastCopy leaves the primary alone in sync, and takes its disk. The node that was in sync before shall lead, and must have all acknowledged
// changes, as two nodes acknowledge each change. Readers may have seen changes of the primary alone. The scene plays once in a run.
func (n *nemesis) loseLastCopy(d *Dice) {
	r := n.run
	if r.alone || !n.until(10*time.Second, func() bool { return r.whole() == "" }) {
		return
	}
	p := r.leader(1)
	if p == nil {
		return
	}
	rest := r.others(d, 1, p)
	away, last := rest[0], rest[1]
	n.say("%s is killed, and %s is the last other node in sync", away.name, last.name)
	away.Kill()
	inSync := func(many int) func() bool {
		return func() bool { return len(r.view().Shard(1).InSync) == many && r.leader(1) == p }
	}
	srv := last.server()
	if srv == nil {
		away.On()
		return
	}
	id := srv.Cluster().Now().Self
	if n.until(8*time.Second, inSync(2)) && r.view().Shard(1).Has(id) { // else its link was cut, and the other one is the last
		time.Sleep(d.Between(0, time.Second))
		n.say("%s is killed", last.name)
		last.Kill()
		if n.until(8*time.Second, inSync(1)) {
			time.Sleep(d.Between(0, 2*time.Second))
			if inSync(1)() {
				n.takeLastCopy(d, p, last)
			}
		}
	}
	away.On()
	last.On()
}

// takeLastCopy takes the disk of the only node in sync, and has the last other node lead.
func (n *nemesis) takeLastCopy(d *Dice, p, last *Machine) {
	r := n.run
	self := p.server().Cluster().Now().Self
	n.say("%s is lost with its disk; %s shall lead", p.name, last.name)
	r.Story.meet("simulation: the last copy in sync was lost with its machine")
	r.alone = true
	r.History.OmitReads()
	for _, page := range r.pages {
		page.history.OmitReads()
	}
	delete(n.images, p)
	p.PowerOff(d.Bits(), 0)
	p.SwapDisk(vfs.NewSim())
	last.On()
	r.await("the node that was in sync leads", func() string {
		if r.leader(1) == last {
			return ""
		}
		if last.server() == nil {
			return "it does not run"
		}
		if _, err := r.operator.say(last.host, "CLUSTER", "FAILOVER", "FORCE-UNCLEAN"); err != nil {
			return err.Error()
		}
		return "it does not lead yet"
	})
	p.On()
	r.lives.Go(func() { enroll(r, p, self, topology.ShardID(1)) })
}

// shapeBothInSync makes it one shard of two nodes that must both have each change, and that lose it if they lose power.
func shapeBothInSync(c *Config, d *Dice) {
	shapePower(c, d)
	c.Nodes, c.MinInSync, c.EtcdFaults = 2, 2, false
	c.decay(d)
}

// loseBoth ends both nodes of a shard: the primary loses power, and with it the last acknowledged changes, and the images of the posts of the
// other node decay. So none of them can lead without the other one. The log does not decay: it may be the last copy of these changes.
func (n *nemesis) loseBoth(d *Dice) {
	r := n.run
	if !n.until(10*time.Second, func() bool { return r.whole() == "" }) {
		return
	}
	p := r.leader(1)
	if p == nil || r.victim(p) {
		return
	}
	other := r.others(d, 1, p)[0]
	time.Sleep(d.Between(0, 2*time.Second))
	n.say("%s loses its power; %s is killed, and decays", p.name, other.name)
	p.PowerOff(d.Bits(), 0)
	other.Kill()
	for _, name := range other.disk.Files("data/" + format.ImageDirName) {
		n.say("%s decays: %s: %s", other.name, name, other.Damage(d, name))
	}
	first, second := p, other
	if d.Chance(500) {
		first, second = other, p
	}
	time.Sleep(d.Between(0, 2*time.Second))
	first.On()
	time.Sleep(d.Between(0, 20*time.Second))
	second.On()
}

// shapeAlone makes it one shard whose changes two nodes must have, and may have in memory only. While the primary is alone in sync, it takes none.
func shapeAlone(c *Config, d *Dice) {
	shapeLastCopy(c, d)
	c.Nodes, c.Sync = 2+d.N(2), Pick(d, []string{"no", "no", "everysec"})
}

// losePowerAlone leaves a primary alone in sync, often one to which the role was handed over just before, and takes its power. Changes that two nodes had
// acknowledged, and those that the feed has shown, must be on its disk. Readers may have seen changes of the primary alone.
func losePowerAlone(n *nemesis, d *Dice) {
	r := n.run
	if !n.until(10*time.Second, func() bool { return r.whole() == "" }) {
		return
	}
	p := r.leader(1)
	if p == nil {
		return
	}
	if d.Chance(500) {
		n.ask(Pick(d, r.others(d, 1, p)), "CLUSTER", "FAILOVER")
		time.Sleep(d.Between(0, 500*time.Millisecond))
		if p = n.awaitLeader(); p == nil {
			return
		}
	}
	rest := r.others(d, 1, p)
	for i, m := range rest {
		n.say("%s is killed, and %d others are left", m.name, len(rest)-i-1)
		m.Kill()
		n.until(8*time.Second, func() bool { return len(r.view().Shard(1).InSync) == len(rest)-i })
		time.Sleep(d.Between(0, 300*time.Millisecond))
	}
	if len(r.view().Shard(1).InSync) == 1 && r.leader(1) == p {
		n.say("%s loses its power, alone in sync", p.name)
		r.Story.meet("simulation: the only node in sync lost power")
		r.History.OmitReads()
		for _, page := range r.pages {
			page.history.OmitReads()
		}
		p.PowerOff(d.Bits(), 0)
		time.Sleep(d.Between(0, time.Second))
		p.On()
		time.Sleep(d.Between(0, 4*time.Second))
	}
	for _, m := range rest {
		m.On()
	}
}
