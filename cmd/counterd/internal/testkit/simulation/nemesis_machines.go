package simulation

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/vfs"
)

// powerLoss takes the power of some machines at once. With everysec a machine may lose what it acknowledged in the last
// seconds, so only one of a shard may: the promise is for the others' copies.
func (n *nemesis) powerLoss(d *Dice, many int) {
	r := n.run
	if r.Config.Sync != "always" {
		if many = 1; r.Config.Standalone || r.whole() != "" || r.Config.MinInSync < 2 {
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

// storm ends most machines within a moment, each in its own way, and starts them again one after another: whoever comes first may
// be the one that should not lead. With everysec, one of them loses its power at most, as in powerLoss.
func (n *nemesis) storm(d *Dice) {
	r := n.run
	mayLose := len(r.Machines)
	if r.Config.Sync != "always" {
		mayLose = 0
		if !r.Config.Standalone && r.Config.MinInSync > 1 && r.whole() == "" {
			mayLose = 1
		}
	}
	for _, i := range d.Shuffle(len(r.Machines)) {
		m := r.Machines[i]
		seed, keep, way := d.Bits(), Pick(d, []int{0, 30, 70, 100}), d.N(4)
		if way == 1 && mayLose == 0 {
			way = 0
		}
		switch way {
		case 0:
			n.say("storm: %s is killed", m.name)
			m.Kill()
		case 1:
			n.say("storm: %s loses its power; %d %% of what is not synced survives", m.name, keep)
			m.PowerOff(seed, keep)
			mayLose--
		case 2:
			n.say("storm: %s is stopped", m.name)
			r.lives.Go(m.Stop)
		}
		n.later(d, Pick(d, []time.Duration{time.Millisecond, 300 * time.Millisecond, 10 * time.Second}), m.On)
		time.Sleep(d.Between(0, Pick(d, []time.Duration{time.Millisecond, 100 * time.Millisecond, 2 * time.Second})))
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
	if r.sentinel != nil && d.Chance(500) {
		n.say("Sentinel does not reach %s", m.name)
		r.Net.Set(sentinelHost, m.host, link)
		r.Net.Set(m.host, sentinelHost, link)
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

// etcd takes etcd away, from one machine or from all, or has it forget old revisions.
func (n *nemesis) etcd(d *Dice, m *Machine) {
	r := n.run
	if d.Chance(200) {
		n.say("etcd compacts")
		r.Etcd.Compact()
		return
	}
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

// move begins to move some groups to another shard: those of clients' posts among them, or groups without posts (bare).
func (n *nemesis) move(d *Dice, bare bool) {
	r := n.run
	if r.Config.Shards < 2 {
		return
	}
	from := topology.ShardID(1 + d.N(r.Config.Shards))
	to := topology.ShardID(1 + (int(from)+d.N(r.Config.Shards-1))%r.Config.Shards)
	var groups slot.Set
	for range 1 + d.N(8) {
		groups.Add(uint8(d.N(slot.Groups)))
		groups.Add(slot.Group(Pick(d, r.mids)))
	}
	if bare {
		for _, mid := range r.mids {
			groups.Remove(slot.Group(mid))
		}
		for _, p := range r.pages {
			groups.Remove(slot.Group(p.mids[0])) // all are of one hash slot
		}
	}
	m := r.view()
	c, err := topology.StartMove(m, fmt.Sprint("move", n.step), groups.Both(m.Shard(from).Groups), from, to, time.Now())
	if err == nil {
		reg := r.Etcd.Open(nil)
		err = reg.Commit(context.Background(), c)
		_ = reg.Close()
	}
	n.say("groups move from shard %d to shard %d: %v", from, to, err)
}

// disk makes calls of a machine's disk fail for a while.
func (n *nemesis) disk(d *Dice, m *Machine) {
	disk := m.Disk()
	if disk == nil || !n.run.Config.DiskFaults {
		return
	}
	rule := vfs.Rule{Ops: Pick(d, []vfs.Op{vfs.OpWrite, vfs.OpSync, vfs.OpCreate, vfs.OpRename, vfs.OpSyncDir, vfs.OpMutating}),
		Err: Pick(d, []error{syscall.EIO, syscall.ENOSPC}), Skip: d.N(20), Every: Pick(d, []int{0, 0, 1, 3}), Short: d.Chance(300)}
	n.say("the disk of %s fails: %+v", m.name, rule)
	disk.Inject(rule)
	n.later(d, 15*time.Second, disk.Clear)
}

// replace gives a machine an empty disk: another node, which takes the place of the one before.
func (n *nemesis) replace(d *Dice, m *Machine) {
	r := n.run
	srv := m.server()
	if srv == nil || r.whole() != "" || r.Config.Nodes/r.Config.Shards < 3 {
		return
	}
	st := srv.Cluster().Now()
	if st.Shard == nil { // it starts, and has not heard from etcd
		return
	}
	old, shard := st.Self, st.Shard.ID
	n.say("%s is replaced by a machine with an empty disk", m.name)
	delete(n.images, m) // of another node
	m.PowerOff(d.Bits(), 0)
	m.SwapDisk(vfs.NewSim())
	m.On()
	r.lives.Go(func() { enroll(r, m, old, shard) })
}

// enroll makes a node with an empty disk a member of a shard, in the place of the former node of its machine.
func enroll(r *Run, m *Machine, old topology.NodeID, shard topology.ShardID) {
	r.await("the replaced node is a member", func() string {
		now := m.server()
		if now == nil {
			return "it does not run"
		}
		self := now.Cluster().Now().Self
		view := r.view()
		if node := view.Nodes[self]; node == nil {
			return "it is not registered"
		} else if node.Shard == 0 {
			if _, ok := view.Nodes[old]; ok {
				r.try(func(v *topology.Map) (topology.Change, error) { return topology.ForgetNode(v, old, 1) })
			}
			r.try(func(v *topology.Map) (topology.Change, error) { return topology.AssignNode(v, self, shard) })
			return "it is free"
		}
		if _, ok := view.Nodes[old]; ok {
			r.try(func(v *topology.Map) (topology.Change, error) { return topology.ForgetNode(v, old, 1) })
			return "the old one is not forgotten"
		}
		return ""
	})
}

// rollBack gives a machine an older copy of its disk, if etcd has another start of the node since the copy was made.
func (n *nemesis) rollBack(d *Dice, m *Machine) {
	r := n.run
	srv := m.server()
	if srv == nil || r.whole() != "" || r.Config.Nodes/r.Config.Shards < 3 {
		return
	}
	start := r.start(m)
	if was, ok := n.images[m]; ok && was.start.Count < start.Count && d.Chance(700) {
		n.say("%s gets an older copy of its disk", m.name)
		m.SwapDisk(was.disk.Kill())
		n.later(d, 5*time.Second, m.On)
		return
	}
	n.say("the disk of %s is copied", m.name)
	n.images[m] = image{m.Image(), start}
}

// hang has a machine's disk hang, or be slow, for a while. In a hang, some kinds of calls hang for it, or all.
//
// A disk that hangs answers nothing for a while, and then goes on: no call fails. Under a slow disk, each call takes long. Goroutines
// that wait meanwhile for a lock would stop the virtual clock if the holder hangs; locks.go makes the clock go on.
func (n *nemesis) hang(d *Dice, m *Machine) {
	disk := m.Disk()
	if disk == nil || !n.run.Config.DiskHangs || !lockWaitsAreIdle {
		return
	}
	ops := Pick(d, []vfs.Op{vfs.OpSync, vfs.OpWrite, vfs.OpRead, vfs.OpMutating, vfs.OpAll})
	lasts := d.Between(0, Pick(d, []time.Duration{time.Second, 5 * time.Second, 40 * time.Second}))
	if d.Chance(400) {
		rule := vfs.Rule{Ops: ops, Every: Pick(d, []int{1, 3, 10}), Delay: d.Between(time.Millisecond, Pick(d, []time.Duration{20 * time.Millisecond, time.Second}))}
		n.say("the disk of %s is slow for %s: %+v", m.name, lasts, rule)
		disk.Inject(rule)
		time.AfterFunc(lasts, disk.Clear)
		return
	}
	n.say("the disk of %s hangs for %s: %s", m.name, lasts, ops)
	until := make(chan struct{})
	disk.Inject(vfs.Rule{Ops: ops, Every: 1, Until: until})
	time.AfterFunc(lasts, func() {
		disk.Clear()
		close(until)
	})
}
