package cluster

import (
	"errors"
	"slices"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
)

// inSync is what a primary knows of those that must have its changes.
//
// Invariant: required holds all that etcd may have as in sync in this epoch, but the node itself, whatever became of the
// transactions under way.
type inSync struct {
	required []topology.NodeID // what the host was told
	joining  map[topology.NodeID]*joining
	gone     map[topology.NodeID]time.Time // since when a node has neither a key nor a link
	doubt    string                        // why changes are not taken; empty: they are
	yields   time.Time                     // since when another may take over, as this node reaches nobody; zero: it may not
	failed   uint64                        // epoch that the host failed to lead
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
	errDoubt  = errors.New("a node that is in sync does not acknowledge, and etcd does not answer")
)

// lead begins an epoch.
func (a *Agent) lead(epoch uint64) error {
	s := a.shard()
	a.inSync = inSync{joining: map[topology.NodeID]*joining{}, gone: map[topology.NodeID]time.Time{}, failed: a.inSync.failed}
	begun := time.Now()
	if err := a.host.Lead(epoch); err != nil {
		return err
	}
	a.conf.Log.Info("cluster: leads", "epoch", epoch, "in_sync", s.InSync, "took", time.Since(begun))
	a.log = a.host.Log()
	if len(s.InSync) < a.least() {
		a.setDoubt(textTooFew, errTooFew)
	}
	a.require(s)
	return nil
}

// keepInSync is the primary's: who is required, who is added and removed, whether changes are taken.
func (a *Agent) keepInSync() {
	if a.role.kind != leading {
		if a.inSync.doubt != "" || !a.inSync.yields.IsZero() || a.inSync.required != nil {
			a.host.Doubt(nil)
			a.inSync = inSync{failed: a.inSync.failed}
		}
		return
	}
	s := a.shard()
	a.settle(s)
	switch {
	case len(s.InSync) < a.least():
		a.setDoubt(textTooFew, errTooFew)
		a.require(s)
	case a.late():
		a.setDoubt(textDoubt, errDoubt)
		a.require(s)
	default:
		a.require(s)
		a.setDoubt("", nil)
	}
	a.expand(s)
	a.shrink(s)
	if s.ReplID == "" && a.log.ReplID != "" && a.idle() {
		c, err := topology.SetReplID(a.m, s.ID, s.Epoch, a.log.ReplID)
		a.propose(c, err, commitTime, func(error, bool) {})
	}
}

// settle forgets those who join that the map shows to be in, or out for good.
func (a *Agent) settle(s *topology.Shard) {
	for id, j := range a.inSync.joining {
		if s.Has(id) || j.at != 0 && j.at != s.Revision {
			delete(a.inSync.joining, id)
		}
	}
}

// require tells the host who is required, if that has changed.
func (a *Agent) require(s *topology.Shard) {
	var ids []topology.NodeID
	for _, id := range s.InSync {
		if id != a.id {
			ids = append(ids, id)
		}
	}
	for id := range a.inSync.joining {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	if ids = slices.Compact(ids); a.inSync.required == nil || !slices.Equal(ids, a.inSync.required) {
		a.host.Require(ids)
		a.inSync.required = append([]topology.NodeID{}, ids...)
	}
}

// setDoubt refuses changes and answers who waits, or ends that. No change is taken any more when it returns with one.
func (a *Agent) setDoubt(text string, err error) {
	if a.inSync.doubt == text {
		return
	}
	a.inSync.doubt = text
	a.host.Doubt(err)
	if err != nil {
		a.conf.Log.Warn("cluster: changes are refused", "error", err)
		a.serve()
	} else {
		a.conf.Log.Info("cluster: changes are taken again")
	}
}

// late tells whether somebody who is required owes an acknowledgement for so long that who waits must hear of it.
func (a *Agent) late() bool {
	limit := slowAfter + commitTime
	if a.inSync.doubt == textDoubt {
		limit = 0 // until nothing is owed
	}
	for _, id := range a.inSync.required {
		if r := a.host.Replica(id); !r.Waiting.IsZero() && a.now.Sub(r.Waiting) >= limit {
			return true
		}
	}
	return false
}

// expand requires replicas that have caught up, and puts them in sync when they have all that was written before.
func (a *Agent) expand(s *topology.Shard) {
	var ready []topology.NodeID
	log := a.host.Log() // before what replicas have
	confirmed := min(log.Confirmed, log.Written)
	for _, n := range a.m.Members(s.ID) {
		if n.ID == a.id || s.Has(n.ID) {
			continue
		}
		r, known := a.host.Replica(n.ID), a.fit(n.ID)
		j := a.inSync.joining[n.ID]
		switch {
		case j == nil:
			if known && !r.CaughtUp.IsZero() && a.now.Sub(r.CaughtUp) < time.Second {
				j = &joining{since: a.now}
				a.inSync.joining[n.ID] = j
				a.require(s)
				j.from = a.host.Log().Written // behind it: what is acknowledged from now on has to be there
				a.within(10 * time.Millisecond)
			}
		case known && r.Has >= max(j.from, confirmed): // also where etcd did not say whether it has happened
			// What was acknowledged behind j.from it has acknowledged too, but maybe in an earlier life of its directory.
			ready = append(ready, n.ID)
		case j.at != 0:
		case !known || a.now.Sub(j.since) >= slowAfter:
			delete(a.inSync.joining, n.ID)
			a.require(s)
		default:
			a.within(10 * time.Millisecond)
		}
	}
	if len(ready) == 0 || !a.idle() {
		return
	}
	for _, id := range ready {
		a.inSync.joining[id].at = s.Revision
	}
	c, err := topology.Expand(a.m, s.ID, s.Epoch, ready)
	// Whatever is heard of it, they stay required until the map shows the shard changed (settle): a conflict may be with the
	// same change, proposed before, whose answer or whose map was lost.
	a.propose(c, err, commitTime, func(err error, _ bool) {
		if err == nil {
			a.stats.expands.Add(uint64(len(ready)))
		}
	})
}

// fit tells whether a replica may be counted on: it keeps up, and etcd shows the process that acknowledged.
func (a *Agent) fit(id topology.NodeID) bool {
	r, live := a.host.Replica(id), a.m.Live[id]
	if !r.Waiting.IsZero() && a.now.Sub(r.Waiting) >= slowAfter/2 {
		return false // it would be taken out again
	}
	return r.Connected && live != nil && live.Process == r.Process && !live.Leaves && !live.Outdated
}

// shrink takes out who is slow, gone or about to go.
func (a *Agent) shrink(s *topology.Shard) {
	var slow, away, outdated []topology.NodeID
	alone := true // it reaches none of the slow ones, and they are alive
	for _, id := range a.inSync.required {
		r, live := a.host.Replica(id), a.m.Live[id]
		since, gone := a.inSync.gone[id], live == nil && !r.Connected
		if !gone {
			delete(a.inSync.gone, id)
		} else if since.IsZero() {
			since = a.now
			a.inSync.gone[id] = since
		}
		switch {
		case live != nil && live.Outdated:
			outdated = append(outdated, id)
		case !r.Waiting.IsZero() && a.now.Sub(r.Waiting) >= slowAfter:
			slow = append(slow, id)
			alone = alone && live != nil && (!r.Connected || a.now.Sub(r.Heard) >= slowAfter/2)
		case gone && a.now.Sub(since) >= slowAfter, live != nil && live.Leaves:
			away = append(away, id)
		}
	}
	out := append(slow, away...)
	if a.stay(s, out) < a.least() {
		// Nothing is gained by removing those for whom nothing waits, and each of them may lead.
		out = slow
	}
	// One whose directory is an older copy may not lead and acknowledges nothing, however few stay.
	out = append(out, outdated...)
	if len(out) == 0 || a.stay(s, out) < a.least() && len(slow)+len(outdated) == 0 {
		a.inSync.yields = time.Time{}
		return
	}
	if a.stay(s, out) < a.least() && alone && len(slow) > 0 {
		if a.inSync.yields.IsZero() {
			a.inSync.yields = a.now
			a.conf.Log.Warn("cluster: no replica is reached: another may lead", "replicas", slow)
		}
		if a.now.Sub(a.inSync.yields) < yieldTime {
			return
		}
	}
	if !a.idle() {
		return
	}
	c, err := topology.Shrink(a.m, s.ID, s.Epoch, out)
	a.propose(c, err, commitTime, func(err error, _ bool) {
		if err == nil {
			a.stats.shrinks.Add(uint64(len(out)))
		}
	})
}

// stay is how many are in sync without some.
func (a *Agent) stay(s *topology.Shard, out []topology.NodeID) (n int) {
	for _, id := range s.InSync {
		if !slices.Contains(out, id) {
			n++
		}
	}
	return n
}
