package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/persist/vfs"
)

// The kinds of faults.
const (
	killed = iota
	powerLost
	allPowerLost
	stopped
	linksCut
	networkHealed
	snapshotMade
	etcdFails
	groupsMoved
	schemaChanged
	tierChanged
	diskFails
	nodeReplaced
	directoryRolledBack
	switched
	leftBehind
	storm
	decayed
	diskHangs
	clockSet
	upgraded
	kinds // how many there are
)

// nemesis makes faults happen, one after another. Each has a number; a run may leave out some of them.
type nemesis struct {
	run    *Run
	dice   *Dice
	step   int
	images map[*Machine]image
}

// image is a copy of a machine's disk.
type image struct {
	disk  *vfs.Sim
	start topology.Start // of the node, in etcd
}

func newNemesis(r *Run) *nemesis {
	return &nemesis{run: r, dice: NewDice(r.Seed, "faults"), images: make(map[*Machine]image)}
}

// work makes faults for as long as the configuration says.
func (n *nemesis) work() {
	r := n.run
	for end := time.Now().Add(r.Config.Lasts); time.Now().Before(end); {
		time.Sleep(n.dice.Between(0, 2*r.Config.Every))
		n.step++
		// What a fault draws comes from dice of its own: leaving one out changes nothing of the others.
		d := NewDice(r.Seed, fmt.Sprint("fault ", n.step))
		if !r.skip[n.step] && !n.scene(d) {
			n.fault(d)
		}
	}
}

func (n *nemesis) say(format string, args ...any) {
	n.run.Story.Say(fmt.Sprintf("#%d", n.step), format, args...)
}

// kind draws a kind of faults by the weights of the configuration.
func (n *nemesis) kind(d *Dice) int {
	sum := 0
	for _, w := range n.run.Config.Weights {
		sum += w
	}
	at := d.N(sum)
	for kind, w := range n.run.Config.Weights {
		if at -= w; at < 0 {
			return kind
		}
	}
	return killed
}

// fault makes one fault happen.
func (n *nemesis) fault(d *Dice) {
	r := n.run
	kind, m := n.kind(d), Pick(d, r.Machines)
	if r.Config.Standalone && (kind == etcdFails || kind == groupsMoved || kind == nodeReplaced || kind == directoryRolledBack) {
		kind = switched
	}
	switch kind {
	case killed:
		n.say("%s is killed", m.name)
		m.Kill()
		n.later(d, 5*time.Second, m.On)
	case powerLost:
		n.powerLoss(d, 1)
	case allPowerLost:
		n.powerLoss(d, 1+d.N(len(r.Machines)))
	case stopped:
		n.say("%s is stopped", m.name)
		r.lives.Go(m.Stop)
		n.later(d, 8*time.Second, m.On)
	case linksCut:
		n.cut(d, m)
	case networkHealed:
		n.say("the network is whole again")
		r.Net.Heal()
	case snapshotMade:
		if d.Chance(500) {
			n.ask(m, "BGSAVE")
			return
		}
		n.snapshots(d)
	case etcdFails:
		n.etcd(d, m)
	case groupsMoved:
		n.move(d, false)
	case schemaChanged:
		if t := NewDice(r.Seed, fmt.Sprint("top ", n.step)); r.Config.Top > 0 && t.Chance(300) {
			n.ask(m, "ALTER", "COLUMN", "c", Pick(t, []string{"n", "m"}), Pick(t, []string{"top=1", "top=3", "top=10", "top=off"}))
			return
		}
		switch column, add := fmt.Sprint("x", d.N(3)), d.Chance(500); {
		case add && column == "x2" && r.Config.Window != "":
			n.ask(m, "ADD", "COLUMN", "c", column, "window=1h/5m", "of=n", "suffix="+column)
		case add:
			n.ask(m, "ADD", "COLUMN", "c", column, "hint=4", "max=32", "suffix="+column)
		default:
			n.ask(m, "DROP", "COLUMN", "c", column)
		}
	case tierChanged:
		for range 1 + d.N(4) {
			n.ask(m, Pick(d, []string{"COUNTER.DEMOTE", "COUNTER.DEMOTE", "COUNTER.PROMOTE"}), "c", fmt.Sprint(Pick(d, r.mids)))
		}
	case diskFails:
		n.disk(d, m)
	case nodeReplaced:
		n.replace(d, m)
	case directoryRolledBack:
		n.rollBack(d, m)
	case leftBehind:
		n.leaveBehind(d, m)
	case storm:
		n.storm(d)
	case diskHangs:
		n.hang(d, m)
	case clockSet:
		n.setClock(d, m)
	case upgraded:
		if !n.upgrade(d) {
			n.snapshots(d)
		}
	case decayed:
		n.decay(d)
	case switched:
		switch {
		case r.sentinel != nil:
			n.say("SENTINEL FAILOVER")
			select {
			case r.sentinel.forced <- struct{}{}:
			default:
			}
			return
		case r.Config.Standalone:
			n.switchRole(d, m)
			return
		}
		n.ask(m, "CLUSTER", "FAILOVER")
	}
}

// switchRole has a primary without etcd hand its role over, to any replica, or to a replica that does not decay.
func (n *nemesis) switchRole(d *Dice, m *Machine) {
	r, words := n.run, []string{"FAILOVER"}
	if len(r.victims) > 0 {
		others := slices.DeleteFunc(slices.Clone(r.Machines), func(o *Machine) bool { return o == m || r.victim(o) })
		if len(others) == 0 {
			return
		}
		words = append(words, "TO", Pick(d, others).host, "7000")
	}
	n.ask(m, append(words, "TIMEOUT", fmt.Sprint(1000*(1+d.N(10))))...)
}

// snapshots has all nodes make snapshots until old log is gone.
func (n *nemesis) snapshots(d *Dice) {
	for range 3 {
		for _, m := range n.run.Machines {
			n.ask(m, "BGSAVE")
		}
		time.Sleep(d.Between(50*time.Millisecond, 400*time.Millisecond))
	}
}

// leaveBehind ends a node until the log that it needs is gone, so that it takes a full copy. It may become the primary right
// behind that.
func (n *nemesis) leaveBehind(d *Dice, m *Machine) {
	n.say("%s is left behind", m.name)
	m.Kill()
	time.Sleep(d.Between(0, time.Second))
	n.snapshots(d)
	m.On()
	if d.Chance(500) {
		n.later(d, 4*time.Second, func() { n.ask(m, "CLUSTER", "FAILOVER") })
	}
}

// later does something after a while, unless the run has ended.
func (n *nemesis) later(d *Dice, most time.Duration, do func()) {
	time.AfterFunc(d.Between(0, most), func() {
		if !n.run.ended() {
			do()
		}
	})
}

// ask has an operator send a command to a machine.
func (n *nemesis) ask(m *Machine, words ...string) {
	r := n.run
	n.say("%s is told %v", m.name, words)
	r.lives.Go(func() {
		if _, err := r.operator.say(m.host, words...); err != nil {
			r.Story.Say(m.name, "%v: %v", words, err)
		}
	})
}

// view is the map that etcd has.
func (r *Run) view() *topology.Map {
	m, err := r.Etcd.Map()
	if err != nil {
		panic(err) // nodes wrote what nodes cannot read
	}
	return m
}

// change makes a change of the map, again if a node changed it in between.
func (r *Run) change(f func(m *topology.Map) (topology.Change, error)) {
	reg := r.Etcd.Open(nil)
	defer reg.Close()
	for {
		c, err := f(r.view())
		if err == nil {
			err = reg.Commit(context.Background(), c)
		}
		if err == nil {
			return
		}
		if !errors.Is(err, topology.ErrConflict) {
			r.Fault("the map: %v", err)
			return
		}
	}
}

// try makes a change of the map, if it can be made now.
func (r *Run) try(f func(m *topology.Map) (topology.Change, error)) {
	if c, err := f(r.view()); err == nil {
		reg := r.Etcd.Open(nil)
		_ = reg.Commit(context.Background(), c)
		_ = reg.Close()
	}
}
