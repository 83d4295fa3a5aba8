package simulation

import (
	"bytes"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// A run with decay has one victim in each shard, whose files decay: bits flip, sectors are zero or stand in another's place, files
// are cut short or gone, while the node serves and while it is down. The victim must never give a wrong answer for that, and be
// whole again at the end. Only one copy decays, as nobody could help otherwise; all other faults happen to all nodes.
//
// The victim of a standalone run never becomes the primary, whose damage needs a person.

// chooseVictims draws them.
func (r *Run) chooseVictims(d *Dice) {
	if !r.Config.Decay {
		return
	}
	if r.Config.Standalone {
		r.victims = r.Machines[len(r.Machines)-1:]
		return
	}
	for s := range r.Config.Shards { // as begin deals the machines
		r.victims = append(r.victims, r.Machines[s+r.Config.Shards*d.N(len(r.Machines)/r.Config.Shards)])
	}
}

// victim tells whether a machine's disk decays.
func (r *Run) victim(m *Machine) bool {
	for _, v := range r.victims {
		if v == m {
			return true
		}
	}
	return false
}

// decay damages one file of a victim, and has it found soon or late.
func (n *nemesis) decay(d *Dice) {
	r := n.run
	if len(r.victims) == 0 {
		return
	}
	m := Pick(d, r.victims)
	if !r.hasOther(m) {
		return
	}
	name := m.decaying(d)
	if name == "" {
		return
	}
	what := m.Damage(d, name)
	r.Story.meet("simulation: decays " + path.Base(path.Dir(name)) + "/" + strings.Trim(path.Base(name), "0123456789-"))
	n.say("%s decays: %s: %s", m.name, name, what)
	switch d.N(4) {
	case 0:
		if srv := m.server(); srv != nil {
			_ = srv.Store().Admin().Scrub()
		}
	case 1:
		m.Kill()
		n.later(d, 3*time.Second, m.On)
	}
}

// hasOther tells whether the shard of a node has another node in sync now.
func (r *Run) hasOther(m *Machine) bool {
	if r.Config.Standalone {
		return true
	}
	for _, s := range r.view().Shards {
		for _, id := range s.InSync {
			if s.ID == r.shardOf(m) && !m.is(id) {
				return true
			}
		}
	}
	return false
}

// shardOf is the shard that a victim was dealt to.
func (r *Run) shardOf(m *Machine) topology.ShardID {
	for i, o := range r.Machines {
		if o == m {
			return topology.ShardID(1 + i%r.Config.Shards)
		}
	}
	return 0
}

// decaying draws a file of the machine's data directory: first its kind. "": there is none.
func (m *Machine) decaying(d *Dice) string {
	m.mu.Lock()
	disk := m.disk
	m.mu.Unlock()
	byKind := map[string][]string{}
	var kinds []string
	for _, name := range disk.Files("data") {
		rest := strings.TrimPrefix(name, "data/")
		kind, _, _ := strings.Cut(rest, "/")
		if _, _, aside := format.ParseDamaged(kind); aside || m.spared(disk, rest) {
			continue
		}
		if _, ok := format.ParseManifestName(rest); ok {
			kind = "MANIFEST"
		}
		if byKind[kind] == nil {
			kinds = append(kinds, kind)
		}
		byKind[kind] = append(byKind[kind], name)
	}
	if len(kinds) == 0 {
		return ""
	}
	for _, kind := range []string{format.ColdDirName, format.LogDirName, format.ImageDirName} { // data decays more often than notes
		if byKind[kind] != nil {
			kinds = append(kinds, kind, kind)
		}
	}
	return Pick(d, byKind[Pick(d, kinds)])
}

// spared tells whether a file stays whole. Without a configured primary, a replica knows its primary by its notes alone, and a
// node knows its place in the cluster by node.json alone: a person gives them to a node. Each of them may decay where its
// copy is whole.
func (m *Machine) spared(disk *vfs.Sim, name string) bool {
	base := path.Base(name)
	for _, kept := range []string{"PRIMARY", "HANDOVER", "node.json"} {
		if !strings.HasPrefix(base, kept) {
			continue
		}
		one, err := vfs.ReadFile(disk, "data/"+kept, 1<<20)
		other, err2 := vfs.ReadFile(disk, "data/"+kept+vfs.CopySuffix, 1<<20)
		return err != nil || err2 != nil || !bytes.Equal(one, other)
	}
	return base == "LOCK"
}

// Damage damages a file of the machine's disk in one of the ways that disks do, and says how.
func (m *Machine) Damage(d *Dice, name string) (what string) {
	const sector = 512
	m.mu.Lock()
	disk := m.disk
	m.mu.Unlock()
	err := disk.Damage(name, func(b []byte) []byte {
		used := min(len(bytes.TrimRight(b, "\x00"))+sector, len(b)) // a log segment is longer than its frames
		way := d.N(6)
		if used == 0 && way != 5 {
			what = "it is empty"
			return b
		}
		at := d.N(max(used, 1))
		from := at / sector * sector
		switch way {
		case 0, 1:
			b[at] ^= 1 << d.N(8)
			what = fmt.Sprintf("byte %d of %d has a flipped bit", at, len(b))
		case 2:
			to := min(from+sector*Pick(d, []int{1, 8}), len(b))
			clear(b[from:to])
			what = fmt.Sprintf("bytes %d to %d of %d are zero", from, to, len(b))
		case 3:
			other := d.N(used) / sector * sector
			copy(b[from:min(from+sector, len(b))], bytes.Clone(b[other:min(other+sector, len(b))]))
			what = fmt.Sprintf("the sector at %d of %d has the bytes of that at %d", from, len(b), other)
		case 4:
			what = fmt.Sprintf("cut to %d of %d bytes", at, len(b))
			return b[:at]
		case 5:
			what = "it is gone"
			return nil
		}
		return b
	})
	if err != nil {
		return err.Error()
	}
	return what
}

// accept acts as a person acts when the only node in sync of a shard has lost its files: of the others, the node with the most
// data becomes the primary. Where two nodes acknowledge each change, one of the others has all that was acknowledged.
func (r *Run) accept() {
	for _, s := range r.view().Shards {
		var best *Machine
		var epoch uint32
		var end uint64
		stuck := true
		for _, m := range r.Machines {
			srv := m.server()
			if srv == nil || r.view().Nodes[srv.Cluster().Now().Self] == nil || r.view().Nodes[srv.Cluster().Now().Self].Shard != s.ID {
				continue
			}
			if r.victim(m) {
				stuck = stuck && len(s.InSync) == 1 && m.is(s.InSync[0])
				continue
			}
			log := srv.Store().Replication()
			lineage := log.Lineage()
			if e, at := lineage.Current().Epoch, log.Position(); best == nil || e > epoch || e == epoch && at > end {
				best, epoch, end = m, e, at
			}
		}
		if !stuck || best == nil {
			continue
		}
		r.Story.meet("simulation: a shard had no other copy in sync")
		r.Story.Say("", "nobody else is in sync in shard %d: %s shall lead, with epoch %d up to %d", s.ID, best.name, epoch, end)
		if r.Config.MinInSync < 2 {
			r.lossy = true
		}
		r.alone = true
		r.History.OmitReads()
		for _, p := range r.pages {
			p.history.OmitReads()
		}
		if _, err := r.operator.say(best.host, "CLUSTER", "FAILOVER", "FORCE-UNCLEAN"); err != nil {
			r.Story.Say("", "%v", err)
		}
	}
}

// is tells whether the node that runs on a machine, or ran last, has an id.
func (m *Machine) is(id topology.NodeID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.id == id
}

// unhealed names the first node with decay that has not healed.
func (r *Run) unhealed() string {
	for _, m := range r.Machines {
		srv := m.server()
		if srv == nil {
			return m.name + " does not run"
		}
		v, err := r.operator.say(m.host, "INFO", "replication")
		if err != nil {
			return m.name + ": " + err.Error()
		}
		if strings.Contains(v.Text(), "counterd_healing:1") {
			return m.name + " is healing"
		}
		if n := len(counter.DamagedRanges(srv.Store())); n > 0 {
			return fmt.Sprintf("%s has %d damaged ranges", m.name, n)
		}
	}
	return ""
}

// wholeAndHealed returns a function that tells which part of the cluster is missing or has not healed. After a minute, a person
// looks at it.
func (r *Run) wholeAndHealed() func() string {
	patience := time.Now().Add(time.Minute)
	return func() string {
		text := r.whole()
		if text == "" {
			return r.unhealed()
		}
		if len(r.victims) > 0 && !r.Config.Standalone && time.Now().After(patience) {
			patience = time.Now().Add(time.Minute)
			r.accept()
		}
		return text
	}
}

// verifyDecay has all files verified, and starts each node again: decay that was not found until then is found now.
func (r *Run) verifyDecay() {
	for _, m := range r.victims {
		if srv := m.server(); srv != nil {
			_ = srv.Store().Admin().Scrub()
		}
	}
	time.Sleep(time.Minute)
	for _, m := range r.victims {
		if !r.await("the nodes are whole", r.wholeAndHealed()) {
			return
		}
		r.Story.Say("", "%s starts again", m.name)
		m.Kill()
		m.On()
	}
	r.await("the nodes are whole after a start", r.wholeAndHealed())
}
