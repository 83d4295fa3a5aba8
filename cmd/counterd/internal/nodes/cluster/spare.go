package cluster

import (
	"hash/fnv"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
)

// spares is a node's memory of other nodes, to choose replicas and to report what a failover loses.
type spares struct {
	loop *loop

	at      int64                         // revision of the map that was looked at last
	written map[topology.NodeID]uint64    // the end of the log of nodes of the shard, as heard last
	missing map[topology.NodeID]time.Time // since when a node of the shard has no key
	short   time.Time                     // since when the shard has too few nodes
}

// shortAfter is how long a shard must be short of nodes before a free one joins: an operator may be adding nodes by hand.
const shortAfter = 10 * time.Second

// keep gives the shard a free node where it has fewer than wanted, in a zone that it is not in yet if there is one.
// A node that is gone counts until SpareAfter, and is taken out when the shard has all it wants in sync without it.
func (p *spares) keep(leading bool) {
	s := p.loop.shard()
	if s == nil {
		*p = spares{loop: p.loop}
		return
	}
	if p.written == nil {
		*p = spares{loop: p.loop, written: map[topology.NodeID]uint64{}, missing: map[topology.NodeID]time.Time{}}
	}
	members := p.loop.m.Members(s.ID)
	if p.at != p.loop.m.Revision {
		p.at = p.loop.m.Revision
		for _, n := range members {
			if live := p.loop.m.Live[n.ID]; live != nil {
				p.written[n.ID] = live.Written
				delete(p.missing, n.ID)
			} else if p.missing[n.ID].IsZero() {
				p.missing[n.ID] = p.loop.now
			}
		}
	}
	if !leading {
		p.short = time.Time{}
		return
	}
	var present, lost []*topology.Node
	for _, n := range members {
		if since := p.missing[n.ID]; n.ID != p.loop.id && !since.IsZero() && p.loop.now.Sub(since) >= p.loop.conf.SpareAfter {
			lost = append(lost, n)
		} else {
			present = append(present, n)
		}
	}
	want := 1 + p.loop.m.Cluster.Replicas
	if len(present) >= want {
		p.short = time.Time{}
		if len(lost) > 0 && len(s.InSync) >= min(want, len(present)) && p.loop.idle() {
			c, err := topology.ReleaseNode(p.loop.m, lost[0].ID, p.loop.least())
			p.loop.propose(c, err, commitTime, func(error, bool) {})
		}
		return
	}
	if p.short.IsZero() {
		p.short = p.loop.now
	}
	spare := p.spare(s.ID, present)
	if spare == nil || p.loop.now.Sub(p.short) < shortAfter || !p.loop.idle() {
		return
	}
	c, err := topology.AssignNode(p.loop.m, spare.ID, s.ID)
	p.loop.propose(c, err, commitTime, func(err error, _ bool) {
		if err == nil {
			p.loop.stats.spares.Add(1)
		}
	})
}

// spare is the free node that a shard should take, or nil. Shards that look at the same moment prefer different ones.
func (p *spares) spare(id topology.ShardID, present []*topology.Node) (best *topology.Node) {
	zones := map[string]bool{}
	for _, n := range present {
		zones[n.Zone] = true
	}
	score := func(n *topology.Node) uint64 {
		h := fnv.New64a()
		_, _ = h.Write(append([]byte(n.ID), byte(id), byte(id>>8))) // never fails
		v := h.Sum64() >> 1
		if zones[n.Zone] {
			v |= 1 << 63
		}
		return v
	}
	for _, n := range p.loop.m.Members(0) {
		if live := p.loop.m.Live[n.ID]; live != nil && !n.Retired && !live.Leaves && !live.Outdated && (best == nil || score(n) < score(best)) {
			best = n
		}
	}
	return best
}
