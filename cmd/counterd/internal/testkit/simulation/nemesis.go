package simulation

import (
	"fmt"
	"time"
)

// nemesis makes faults happen, one after another. Each has a number; a run may leave out some of them.
type nemesis struct {
	run  *Run
	dice *Dice
	step int
}

func newNemesis(r *Run) *nemesis { return &nemesis{run: r, dice: NewDice(r.Seed, "faults")} }

// work makes faults for as long as the configuration says.
func (n *nemesis) work() {
	r := n.run
	for end := time.Now().Add(r.Config.Lasts); time.Now().Before(end); {
		time.Sleep(n.dice.Between(0, 2*r.Config.Every))
		n.step++
		// What a fault draws comes from dice of its own: leaving one out changes nothing of the others.
		d := NewDice(r.Seed, fmt.Sprint("fault ", n.step))
		if !r.skip[n.step] {
			n.fault(d)
		}
	}
}

func (n *nemesis) say(format string, args ...any) {
	n.run.Story.Say(fmt.Sprintf("#%d", n.step), format, args...)
}

// fault makes one fault happen.
func (n *nemesis) fault(d *Dice) {
	r := n.run
	m := Pick(d, r.Machines)
	switch d.N(12) {
	case 0, 1:
		n.say("%s is killed", m.name)
		m.Kill()
		n.later(d, 5*time.Second, m.On)
	case 2:
		n.powerLoss(d, 1)
	case 3:
		n.powerLoss(d, 1+d.N(len(r.Machines)))
	case 4:
		n.say("%s is stopped", m.name)
		go m.Stop()
		n.later(d, 8*time.Second, m.On)
	case 5, 6:
		n.cut(d, m)
	case 7:
		n.say("the network is whole again")
		r.Net.Heal()
	case 8, 9, 10:
		n.say("%s makes a snapshot", m.name)
		go func() {
			if _, err := r.operator.say(m.host, "BGSAVE"); err != nil {
				r.Story.Say(m.name, "BGSAVE: %v", err)
			}
		}()
	case 11:
		n.etcd(d, m)
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

// powerLoss takes the power of some machines at once. With everysec a machine may lose what it acknowledged in the last
// seconds, so only one of a shard may: the promise is for the others' copies.
func (n *nemesis) powerLoss(d *Dice, many int) {
	r := n.run
	if r.Config.Sync != "always" {
		if many = 1; r.whole() != "" {
			return
		}
	}
	for _, i := range d.Shuffle(len(r.Machines))[:many] {
		m := r.Machines[i]
		seed, keep := d.Bits(), Pick(d, []int{0, 30, 70, 100})
		n.say("%s loses its power; %d %% of what is not synced survives", m.name, keep)
		m.PowerOff(seed, keep)
		n.later(d, 10*time.Second, m.On)
	}
}

// cut cuts a machine off, in one direction or both, from one machine, from all, or from clients too.
func (n *nemesis) cut(d *Dice, m *Machine) {
	r := n.run
	out, in := d.Chance(700), d.Chance(700)
	link := r.Net.Base()
	link.Cut = true
	others := r.Machines
	if d.Chance(500) {
		others = []*Machine{Pick(d, r.Machines)}
	}
	for _, o := range others {
		if o == m {
			continue
		}
		if out {
			r.Net.Set(m.host, o.host, link)
		}
		if in {
			r.Net.Set(o.host, m.host, link)
		}
		n.say("link cut between %s and %s: out %t, in %t", m.name, o.name, out, in)
	}
	if d.Chance(300) {
		for i := range r.Config.Clients {
			c := fmt.Sprintf("10.0.1.%d", i+1)
			r.Net.Set(c, m.host, link)
			r.Net.Set(m.host, c, link)
		}
		n.say("clients do not reach %s", m.name)
	}
	n.later(d, 20*time.Second, func() {
		r.Story.Say("", "the network is whole again")
		r.Net.Heal()
	})
}

// etcd takes etcd away, from one machine or from all.
func (n *nemesis) etcd(d *Dice, m *Machine) {
	r := n.run
	if l := m.etcdLink(); d.Chance(700) && l != nil {
		out, in := d.Chance(700), d.Chance(700)
		n.say("%s is cut off from etcd: requests %t, answers %t", m.name, out, in)
		l.Cut(out, in)
		n.later(d, 15*time.Second, func() {
			if l == m.etcdLink() { // of a process that still runs
				l.Cut(false, false)
			}
		})
		return
	}
	n.say("etcd is down")
	r.Etcd.SetDown(true)
	n.later(d, 15*time.Second, func() { r.Etcd.SetDown(false) })
}
