package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
)

// A scene is several faults in an order that a rule of the product guards against, with random pauses. Other rules stand beside each
// rule, so a mistake in one shows itself only when several things happen within a moment: single faults, drawn one by one, meet such
// an order once in many thousand runs. A run has scenes of one kind or none, and single faults between them.
type scene struct {
	name  string
	shape func(c *Config, d *Dice)  // makes the configuration one in which the scene means something
	play  func(n *nemesis, d *Dice) // nil: single faults alone
}

var scenes = []scene{
	{"moves", shapeMoves, (*nemesis).moveAndDie},
	{"copies", shapeCopies, (*nemesis).copyAndLead},
	{"joins", shapeJoins, (*nemesis).joinAndLead},
	{"reads", shapeShard, (*nemesis).readAtOld},
	{"epochs", shapeEpochs, (*nemesis).leadAgain},
	{"power", shapePower, (*nemesis).loseTail},
	{"copied-disk", shapePower, (*nemesis).leadOlder},
	{"handover", shapeStandalone, (*nemesis).handOver},
	{"producers", shapeProducers, (*nemesis).stayAway},
	{"decay", shapeDecay, nil},
	{"sentinel", shapeSentinel, nil},
	{"hangs", shapeHangs, nil},
	{"clocks", (*Config).clocks, nil},
	{"flushes", func(c *Config, _ *Dice) { c.Flushes = true }, nil},
	{"evictions", shapeEvictions, (*nemesis).outrun},
	{"upgrades", shapeUpgrades, nil},
	{"feed", shapeFeed, feedScene},
	{"full-disk", shapeFullDisk, (*nemesis).failAndDie},
	{"last-copy", shapeLastCopy, (*nemesis).loseLastCopy},
	{"both-in-sync", shapeBothInSync, (*nemesis).loseBoth},
	{"alone", shapeAlone, losePowerAlone},
	{"aging", shapeAging, dropAndDie},
}

// SceneNames are the kinds of scenes.
func SceneNames() (names []string) {
	for _, s := range scenes {
		names = append(names, s.name)
	}
	return names
}

// stage gives a configuration the scenes of a name. The empty name leaves it to the dice.
func (c *Config) stage(name string, d *Dice) error {
	i := slices.IndexFunc(scenes, func(s scene) bool { return s.name == name })
	switch {
	case name == "none":
		return nil
	case name == "":
		if i = d.N(2*len(scenes)) - len(scenes); i < 0 {
			return nil
		}
	case i < 0:
		return fmt.Errorf("no scene %q: want none or one of %s", name, strings.Join(SceneNames(), ", "))
	}
	c.Scene = scenes[i].name
	c.Think, c.Lasts = d.Between(10*time.Millisecond, 80*time.Millisecond), d.Between(40*time.Second, 90*time.Second)
	c.Every = d.Between(500*time.Millisecond, 2500*time.Millisecond)
	c.Sentinel = false
	scenes[i].shape(c, d)
	return nil
}

// shapeShard makes it one shard of three nodes that notice each other's end soon.
func shapeShard(c *Config, d *Dice) {
	c.Standalone, c.Nodes, c.Shards, c.MinInSync, c.NodeTimeout = false, 3, 1, 2, 2*time.Second
	c.Network.Loss = Pick(d, []int{0, 0, 5})
}

// shapeCopies keeps so little log that a node which was away for a moment takes a full copy.
func shapeCopies(c *Config, d *Dice) {
	shapeShard(c, d)
	c.Retain, c.Segment = uint64(d.N(2)), Pick(d, []int64{512, 1 << 10})
}

func shapeMoves(c *Config, d *Dice) {
	shapeShard(c, d)
	c.Nodes, c.Shards = Pick(d, []int{4, 6}), 2
	c.MinInSync = 1 + d.N(2)
}

func shapeJoins(c *Config, d *Dice) {
	shapeShard(c, d)
	c.EtcdFaults = d.Chance(500)
}

func shapeEpochs(c *Config, d *Dice) {
	shapeShard(c, d)
	c.Sync, c.NodeTimeout = Pick(d, []string{"always", "always", "everysec"}), 6*time.Second
}

func shapePower(c *Config, d *Dice) {
	shapeShard(c, d)
	c.Sync = "everysec"
}

func shapeStandalone(c *Config, d *Dice) {
	c.Standalone, c.Nodes, c.Shards, c.MinInSync, c.Sync = true, 2+d.N(3), 1, min(c.MinInSync, 2), "always"
	c.Decay = false // of a node that never becomes the primary
}

func shapeDecay(c *Config, d *Dice) {
	c.tiers(d)
	c.decay(d)
}

func shapeSentinel(c *Config, d *Dice) {
	shapeStandalone(c, d)
	c.watched(d)
	c.Weights[killed], c.Weights[powerLost], c.Weights[linksCut] = 4, 3, 6
}

func shapeHangs(c *Config, d *Dice) {
	if c.hangs(d); d.Chance(500) {
		c.tiers(d)
	}
}

// scene plays a scene of the run, in most steps. !ok: it is a step for a single fault.
func (n *nemesis) scene(d *Dice) (ok bool) {
	i := slices.IndexFunc(scenes, func(s scene) bool { return s.name == n.run.Config.Scene })
	if i < 0 || scenes[i].play == nil || d.Chance(200) {
		return false
	}
	if scenes[i].name == "feed" && n.run.consumer == nil { // the few runs of make test have none, but in TestFollowedFeed
		return false
	}
	n.say("scene %s", scenes[i].name)
	scenes[i].play(n, d)
	return true
}

// leader is the machine that leads a shard by the map; nil: it does not run.
func (r *Run) leader(of topology.ShardID) *Machine {
	s := r.view().Shard(of)
	if s == nil {
		return nil
	}
	for _, m := range r.Machines {
		if srv := m.server(); srv != nil && srv.Cluster().Now().Self == s.Primary {
			return m
		}
	}
	return nil
}

// start is the last start that etcd has of a machine's node; the zero value if no process serves.
func (r *Run) start(m *Machine) (start topology.Start) {
	if srv := m.server(); srv != nil {
		if n := r.view().Nodes[srv.Cluster().Now().Self]; n != nil {
			return n.Start
		}
	}
	return start
}

// awaitLeader is the machine that leads the first shard, within some seconds; nil: none does.
func (n *nemesis) awaitLeader() (p *Machine) {
	n.until(3*time.Second, func() bool { p = n.run.leader(1); return p != nil })
	return p
}

// others are the machines of a shard without one of them, in random order.
func (r *Run) others(d *Dice, of topology.ShardID, but *Machine) (list []*Machine) {
	for _, i := range d.Shuffle(len(r.Machines)) {
		if i%r.Config.Shards == int(of)-1 && r.Machines[i] != but {
			list = append(list, r.Machines[i])
		}
	}
	return list
}

// until waits until ok, for a while at most.
func (n *nemesis) until(most time.Duration, ok func() bool) bool {
	for end := time.Now().Add(most); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return true
		}
	}
	return false
}

// between does something later, unless the run has ended.
func (n *nemesis) between(d *Dice, least, most time.Duration, do func()) {
	time.AfterFunc(d.Between(least, most), func() {
		if !n.run.ended() {
			do()
		}
	})
}

// apart cuts two machines off from each other.
func (n *nemesis) apart(a, b *Machine) {
	link := n.run.Net.Base()
	link.Cut = true
	n.say("link cut between %s and %s", a.name, b.name)
	n.run.Net.Set(a.host, b.host, link)
	n.run.Net.Set(b.host, a.host, link)
}

// end ends a machine without a warning, by a kill or a loss of power. It starts again between least and most.
func (n *nemesis) end(d *Dice, m *Machine, least, most time.Duration) {
	if d.Chance(500) || n.run.Config.Sync != "always" {
		n.say("%s is killed", m.name)
		m.Kill()
	} else {
		n.say("%s loses its power", m.name)
		m.PowerOff(d.Bits(), Pick(d, []int{0, 50, 100}))
	}
	n.between(d, least, most, m.On)
}

// moveAndDie moves groups to a shard whose primary reaches no replica, and ends that primary when the move is committed, or would be.
func (n *nemesis) moveAndDie(d *Dice) {
	r := n.run
	if !n.until(5*time.Second, func() bool { return r.whole() == "" }) {
		return
	}
	n.move(d, d.Chance(300))
	moves := r.view().Moves
	if len(moves) == 0 {
		return
	}
	to := topology.ShardID(0)
	for _, v := range moves {
		to = v.To
	}
	p := r.leader(to)
	if p == nil {
		return
	}
	time.Sleep(d.Between(0, Pick(d, []time.Duration{20 * time.Millisecond, 200 * time.Millisecond})))
	if d.Chance(700) {
		for _, m := range r.others(d, to, p) {
			n.apart(p, m)
		}
	}
	n.until(1500*time.Millisecond, func() bool { return len(r.view().Moves) == 0 })
	time.Sleep(d.Between(0, Pick(d, []time.Duration{5 * time.Millisecond, 300 * time.Millisecond})))
	n.end(d, p, 3*time.Second, 9*time.Second)
	r.Net.Heal()
}

// copyAndLead has a node take a full copy whose snapshot is older than the newest epochs, and lead soon after it.
func (n *nemesis) copyAndLead(d *Dice) {
	r := n.run
	p := n.awaitLeader()
	if p == nil {
		return
	}
	rest := r.others(d, 1, p)
	m := rest[0]
	n.say("%s is left behind", m.name)
	m.Kill()
	time.Sleep(d.Between(300*time.Millisecond, 1500*time.Millisecond)) // changes that it lacks
	n.snapshots(d)
	for range d.N(3) { // epochs behind the snapshot
		n.ask(Pick(d, rest[1:]), "CLUSTER", "FAILOVER")
		time.Sleep(d.Between(300*time.Millisecond, 1500*time.Millisecond))
		n.ask(p, "CLUSTER", "FAILOVER")
		time.Sleep(d.Between(300*time.Millisecond, 1500*time.Millisecond))
	}
	copies := r.Story.Met()[copied]
	m.On()
	n.until(8*time.Second, func() bool { return r.Story.Met()[copied] > copies })
	time.Sleep(d.Between(0, Pick(d, []time.Duration{20 * time.Millisecond, time.Second})))
	if d.Chance(500) {
		n.ask(m, "CLUSTER", "FAILOVER")
		time.Sleep(d.Between(0, time.Second))
	}
	for _, o := range r.others(d, 1, m)[:1+d.N(2)] {
		n.end(d, o, 2*time.Second, 6*time.Second)
	}
}

// copied is the line that a node logs when it has taken a full copy.
const copied = "full copy complete; serving the data of the primary"

// joinAndLead has a replica come back into the in-sync set while the primary does not hear from etcd, and ends all others.
func (n *nemesis) joinAndLead(d *Dice) {
	r := n.run
	p := n.awaitLeader()
	if p == nil {
		return
	}
	q := r.others(d, 1, p)[0]
	n.apart(p, q)
	time.Sleep(d.Between(2200*time.Millisecond, 4*time.Second))
	r.Net.Heal()
	has := func() bool {
		srv, s := q.server(), r.view().Shard(1)
		return srv != nil && s.Has(srv.Cluster().Now().Self)
	}
	n.until(4*time.Second, func() bool { return !has() })
	time.Sleep(d.Between(0, 800*time.Millisecond))
	if l := p.etcdLink(); l != nil {
		n.say("%s gets no answers from etcd", p.name)
		l.Cut(false, true)
		n.between(d, time.Second, 4*time.Second, func() { l.Cut(false, false) })
	}
	n.until(3*time.Second, has)
	n.apart(p, q)
	time.Sleep(d.Between(0, Pick(d, []time.Duration{200 * time.Millisecond, 1500 * time.Millisecond})))
	for _, o := range r.others(d, 1, q) {
		n.end(d, o, 4*time.Second, 9*time.Second)
	}
	r.Net.Heal()
}

// readAtOld cuts a primary off from etcd and from all other nodes, and not from clients, until another one leads.
func (n *nemesis) readAtOld(d *Dice) {
	r := n.run
	p := n.awaitLeader()
	if p == nil {
		return
	}
	time.Sleep(d.Between(0, r.Config.NodeTimeout))
	if l := p.etcdLink(); l != nil {
		n.say("%s is cut off from etcd", p.name)
		l.Cut(true, d.Chance(500))
		n.between(d, 5*time.Second, 9*time.Second, func() { l.Cut(false, false) })
	}
	if d.Chance(700) {
		for _, o := range r.others(d, 1, p) {
			n.apart(p, o)
		}
	}
	time.Sleep(d.Between(r.Config.NodeTimeout, 3*r.Config.NodeTimeout))
	r.Net.Heal()
}

// leadAgain ends the primary, often right behind its election, and starts it again before its lease is over.
func (n *nemesis) leadAgain(d *Dice) {
	r := n.run
	if d.Chance(500) {
		if p := r.leader(1); p != nil {
			n.ask(r.others(d, 1, p)[0], "CLUSTER", "FAILOVER")
			time.Sleep(d.Between(0, 400*time.Millisecond))
		}
	}
	p := n.awaitLeader()
	if p == nil {
		return
	}
	if d.Chance(300) {
		n.apart(p, r.others(d, 1, p)[0])
		time.Sleep(d.Between(0, 500*time.Millisecond))
	}
	n.end(d, p, 0, Pick(d, []time.Duration{10 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second}))
	time.Sleep(d.Between(0, 2*time.Second))
	r.Net.Heal()
}

// loseTail takes the power of one node and ends all others. The machine that lost the end of its log comes back first.
func (n *nemesis) loseTail(d *Dice) {
	r := n.run
	if !n.until(10*time.Second, func() bool { return r.whole() == "" }) {
		return
	}
	time.Sleep(d.Between(0, 5*time.Second))
	if r.whole() != "" {
		return
	}
	m := Pick(d, r.Machines)
	keep := Pick(d, []int{0, 0, 50})
	n.say("%s loses its power; %d %% of what is not synced survives", m.name, keep)
	m.PowerOff(d.Bits(), keep)
	n.aloneFirst(d, m)
}

// aloneFirst kills all others, and starts one machine long before them.
func (n *nemesis) aloneFirst(d *Dice, m *Machine) {
	for _, o := range n.run.others(d, 1, m) {
		time.Sleep(d.Between(0, 5*time.Millisecond))
		n.say("%s is killed", o.name)
		o.Kill()
		n.between(d, 4*time.Second, 12*time.Second, o.On)
	}
	n.between(d, 0, 300*time.Millisecond, m.On)
	time.Sleep(d.Between(2*time.Second, 12*time.Second))
}

// leadOlder gives a machine an older copy of its disk, made before another process of it, and ends all others.
func (n *nemesis) leadOlder(d *Dice) {
	r := n.run
	if !n.until(10*time.Second, func() bool { return r.whole() == "" }) {
		return
	}
	m := Pick(d, r.Machines)
	n.say("the disk of %s is copied, and a process starts", m.name)
	disk := m.Image()
	before := r.start(m)
	m.Kill()
	m.On()
	// An older copy is noticed by the start that etcd has had since it was made.
	if !n.until(8*time.Second, func() bool { return r.whole() == "" && r.start(m).Count > before.Count }) {
		return
	}
	// Two nodes that have older copies of this scene before are in sync by the map until the new primary has heard of them. Without them, this machine
	// alone has all changes, and a person must put its newest directory back.
	time.Sleep(d.Between(500*time.Millisecond, 2*time.Second))
	if r.whole() != "" {
		return
	}
	n.say("%s gets an older copy of its disk", m.name)
	m.SwapDisk(disk)
	n.aloneFirst(d, m)
}

// handOver hands the primary's role over without etcd, and ends one or two machines within it.
func (n *nemesis) handOver(d *Dice) {
	r := n.run
	n.ask(Pick(d, r.Machines), "FAILOVER", "TIMEOUT", fmt.Sprint(1000*(1+d.N(10))))
	time.Sleep(d.Between(0, Pick(d, []time.Duration{10 * time.Millisecond, 50 * time.Millisecond, 500 * time.Millisecond})))
	for _, i := range d.Shuffle(len(r.Machines))[:1+d.N(2)] {
		n.end(d, r.Machines[i], 0, Pick(d, []time.Duration{300 * time.Millisecond, 8 * time.Second}))
		time.Sleep(d.Between(0, 30*time.Millisecond))
	}
	time.Sleep(d.Between(0, 4*time.Second))
}
