package cluster

import (
	"errors"
	"slices"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
)

// inSync is a primary's knowledge of the nodes that must have its changes.
//
// Invariant: required includes every other node that etcd may have in sync in this epoch, whatever the outcome of the
// transactions under way.
type inSync struct {
	loop  *loop
	serve func() // tells the host what clients get

	required []topology.NodeID // the in-sync set that the host was given
	joining  map[topology.NodeID]*joining
	gone     map[topology.NodeID]time.Time // since when a node has neither a key nor a link
	left     map[topology.NodeID]bool      // the last key of a node said that the node leaves
	doubt    string                        // why changes are not taken; empty: they are
	yields   time.Time                     // since when another may take over, as this node reaches nobody; zero: it may not
	failed   uint64                        // epoch that the host failed to lead

	parting     parting
	alone, both bool // as the host was told
}

// joining is a replica that is required before it is added.
type joining struct {
	since time.Time
	from  uint64 // where the log ended when it was required: with that it has all that is acknowledged
	// at is the revision of the shard from which its adding was proposed, as long as that may happen yet; 0: it was not.
	at int64
}

var (
	errTooFew = errors.New("fewer nodes than --min-insync are in sync")
	errDisk   = errors.New("a node that is in sync does not acknowledge, and the disk has not synced the log")
	errDoubt  = errors.New("a node that is in sync does not acknowledge, and etcd does not answer")
)

// reset forgets all but the failed epoch: the node begins an epoch, or leads no more.
func (p *inSync) reset() {
	*p = inSync{loop: p.loop, serve: p.serve, failed: p.failed, joining: map[topology.NodeID]*joining{}, gone: map[topology.NodeID]time.Time{}, left: map[topology.NodeID]bool{}}
}

// lead begins an epoch.
func (p *inSync) lead(epoch uint64) error {
	s := p.loop.shard()
	p.reset()
	begun := time.Now()
	if err := p.loop.host.Lead(epoch); err != nil {
		return err
	}
	p.loop.conf.Log.Info("cluster: became primary", "epoch", epoch, "in_sync", s.InSync, "took", time.Since(begun))
	p.loop.log = p.loop.host.Log()
	if len(s.InSync) < p.loop.least() {
		p.setDoubt(textTooFew, errTooFew)
	}
	p.require(s)
	return nil
}

// keep is a primary's part of a step: it requires replicas, adds and removes them, and decides whether changes are taken.
func (p *inSync) keep(leading bool) {
	if !leading {
		if p.doubt != "" || !p.yields.IsZero() || p.required != nil {
			p.loop.host.Doubt(nil)
			p.reset()
		}
		return
	}
	s := p.loop.shard()
	p.forgetJoined(s)
	p.forgetParting(s)
	switch {
	case len(s.InSync) < p.loop.least():
		p.setDoubt(textTooFew, errTooFew)
		p.require(s)
	case p.late():
		if p.parting.waits || p.doubt == textDisk && p.loop.failing.IsZero() { // etcd is asked behind the disk, and may answer
			p.setDoubt(textDisk, errDisk)
		} else {
			p.setDoubt(textDoubt, errDoubt)
		}
		p.require(s)
	default:
		p.require(s)
		p.setDoubt("", nil)
	}
	p.expand(s)
	p.shrink(s)
	if s.ReplID == "" && p.loop.log.ReplID != "" && p.loop.idle() {
		c, err := topology.SetReplID(p.loop.m, s.ID, s.Epoch, p.loop.log.ReplID)
		p.loop.propose(c, err, commitTime, func(error, bool) {})
	}
}

// forgetJoined forgets the joining replicas that the map shows in the in-sync set, or out of it for good.
func (p *inSync) forgetJoined(s *topology.Shard) {
	for id, j := range p.joining {
		if s.Has(id) || j.at != 0 && j.at != s.Revision {
			delete(p.joining, id)
		}
	}
}

// require tells the host which nodes are required, if the set has changed, and whether etcd may have this one alone in sync.
func (p *inSync) require(s *topology.Shard) {
	p.tellAlone(s)
	var ids []topology.NodeID
	for _, id := range s.InSync {
		if id != p.loop.id {
			ids = append(ids, id)
		}
	}
	for id := range p.joining {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	if ids = slices.Compact(ids); p.required == nil || !slices.Equal(ids, p.required) {
		p.loop.host.Require(ids)
		p.required = append([]topology.NodeID{}, ids...)
	}
}

// setDoubt refuses changes and answers the clients that wait, or takes changes again if err is nil. After it has returned
// with an error, no change is made.
func (p *inSync) setDoubt(text string, err error) {
	if p.doubt == text {
		return
	}
	p.doubt = text
	p.loop.host.Doubt(err)
	if err != nil {
		p.loop.conf.Log.Warn("cluster: refusing changes", "error", err)
		p.serve()
	} else {
		p.loop.conf.Log.Info("cluster: accepting changes again")
	}
}

// late tells whether a required node owes an acknowledgement for so long that waiting clients must get an answer.
func (p *inSync) late() bool {
	limit := slowAfter + commitTime
	if p.doubt == textDoubt || p.doubt == textDisk {
		limit = 0 // until nothing is owed
	}
	for _, id := range p.required {
		if r := p.loop.host.Replica(id); !r.Waiting.IsZero() && p.loop.now.Sub(r.Waiting) >= limit {
			return true
		}
	}
	return false
}

// expand requires replicas that have caught up, and puts them in sync when they have all that was written before.
func (p *inSync) expand(s *topology.Shard) {
	var ready []topology.NodeID
	log := p.loop.host.Log() // before the replicas' offsets
	confirmed := min(log.Confirmed, log.Written)
	for _, n := range p.loop.m.Members(s.ID) {
		if n.ID == p.loop.id || s.Has(n.ID) {
			continue
		}
		r, known := p.loop.host.Replica(n.ID), p.fit(n.ID)
		j := p.joining[n.ID]
		switch {
		case j == nil:
			if known && !r.CaughtUp.IsZero() && p.loop.now.Sub(r.CaughtUp) < time.Second {
				j = &joining{since: p.loop.now}
				p.joining[n.ID] = j
				p.require(s)
				j.from = p.loop.host.Log().Written // from now on, acknowledged changes must be on this node too
				p.loop.within(10 * time.Millisecond)
			}
		case known && r.Has >= max(j.from, confirmed): // also where etcd did not say whether it has happened
			// The node acknowledged everything after j.from, but perhaps in an earlier life of its directory.
			ready = append(ready, n.ID)
		case j.at != 0:
		case !known || p.loop.now.Sub(j.since) >= slowAfter:
			delete(p.joining, n.ID)
			p.require(s)
		default:
			p.loop.within(10 * time.Millisecond)
		}
	}
	if len(ready) == 0 || !p.loop.idle() {
		return
	}
	for _, id := range ready {
		p.joining[id].at = s.Revision
	}
	c, err := topology.Expand(p.loop.m, s.ID, s.Epoch, ready)
	// Whatever the answer is, they stay required until the map shows the shard changed (forgetJoined): a conflict may be with the
	// same change, proposed before, whose answer or whose map was lost.
	p.loop.propose(c, err, commitTime, func(err error, _ bool) {
		if err == nil {
			p.loop.stats.expands.Add(uint64(len(ready)))
		}
	})
}

// fit tells whether a replica may be counted on: it keeps up, and etcd shows the process that acknowledged.
func (p *inSync) fit(id topology.NodeID) bool {
	r, live := p.loop.host.Replica(id), p.loop.m.Live[id]
	if !r.Waiting.IsZero() && p.loop.now.Sub(r.Waiting) >= slowAfter/2 {
		return false // it would be taken out again
	}
	return r.Connected && live != nil && live.Process == r.Process && !live.Leaves && !live.Outdated
}

// shrink takes nodes out that are slow, gone or about to leave.
func (p *inSync) shrink(s *topology.Shard) {
	var soon, slow, away, outdated []topology.NodeID
	alone := true // it reaches none of the slow ones, and they are alive
	for _, id := range p.required {
		r, live := p.loop.host.Replica(id), p.loop.m.Live[id]
		since, gone := p.gone[id], live == nil && !r.Connected
		if !gone {
			delete(p.gone, id)
		} else if since.IsZero() {
			since = p.loop.now
			p.gone[id] = since
		}
		if live != nil {
			p.left[id] = live.Leaves
		}
		switch {
		case live != nil && live.Outdated:
			outdated = append(outdated, id)
		case !r.Waiting.IsZero() && p.loop.now.Sub(r.Waiting) >= slowAfter:
			slow = append(slow, id)
			alone = alone && live != nil && (!r.Connected || p.loop.now.Sub(r.Heard) >= slowAfter/2)
		case gone && p.loop.now.Sub(since) >= slowAfter, p.left[id]: // also where it has not waited until it was out
			away = append(away, id)
		case !r.Waiting.IsZero() && p.loop.now.Sub(r.Waiting) >= slowAfter/2:
			soon = append(soon, id)
		}
	}
	out := append(slow, away...)
	if p.stay(s, out) < p.loop.least() {
		// Nothing is gained by removing those for whom nothing waits, and each of them may lead.
		out = slow
	}
	// A node whose directory is an older copy may not lead and acknowledges nothing, so it goes however few stay.
	out = append(out, outdated...)
	if len(out) == 0 || p.stay(s, out) < p.loop.least() && len(slow)+len(outdated) == 0 {
		p.yields = time.Time{}
		p.together(s, soon)
		return
	}
	if p.stay(s, out) > 1 {
		p.stopParting(s)
	}
	if p.stay(s, out) < p.loop.least() && alone && len(slow) > 0 {
		if p.yields.IsZero() {
			p.yields = p.loop.now
			p.loop.conf.Log.Warn("cluster: no replica is reachable; another node may be primary", "replicas", slow)
		}
		if p.loop.now.Sub(p.yields) < yieldTime {
			return
		}
	}
	if !p.loop.idle() {
		return
	}
	if p.stay(s, out) == 1 {
		if !p.synced(s) {
			return
		}
		p.parting.at = s.Revision
	}
	c, err := topology.Shrink(p.loop.m, s.ID, s.Epoch, out)
	p.loop.propose(c, err, commitTime, func(err error, definite bool) {
		switch {
		case err == nil:
			p.loop.stats.shrinks.Add(uint64(len(out)))
		case definite:
			p.parting.at = 0
		}
	})
}

// stay is the number of nodes in sync without those in out.
func (p *inSync) stay(s *topology.Shard, out []topology.NodeID) (n int) {
	for _, id := range s.InSync {
		if !slices.Contains(out, id) {
			n++
		}
	}
	return n
}
