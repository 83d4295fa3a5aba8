package cluster

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
)

// election is a candidate's.
type election struct {
	wants   uint64            // the epoch that it is a candidate for; 0: it is none
	careful bool              // as the host was told
	end     uint64            // where the log ended then
	hurried uint64            // the offset up to which the disk was asked last
	since   time.Time         // of the suspicion
	wait    patience          // for the disk
	missing time.Time         // since when the primary's key is gone
	forced  uint64            // the epoch that a person wants ended
	saved   uint64            // Lacks of the link for which this process took over last: it does so once
	asks    bool              // TakeLastFrames is under way
	asked   time.Time         // when it ended
	shorter []topology.NodeID // nodes that cannot open their data, are behind, and had no more of the log then
	behind  uint64            // the epoch that this process proposed itself for as all in sync were behind, and it had the most
}

// Reasons to take over that matter.
const (
	whyFirst = "has not led yet"            // nobody has
	whyLacks = "lacks acknowledged changes" // the primary
)

const (
	// askTime is for how long a candidate waits to hear how much the others have.
	askTime = 150 * time.Millisecond
	// catchUpEvery is how long a node that is behind rests between two rounds of asking.
	catchUpEvery = time.Second
	// rankTime is how much later the next candidate proposes itself.
	rankTime = 400 * time.Millisecond
)

// keepElection has the node take over where the primary is gone.
func (a *Agent) keepElection() {
	s := a.loop.shard()
	why, key := a.suspects(s)
	if why == "" {
		a.election.wants, a.election.since = 0, time.Time{}
		a.careful(false)
		return
	}
	if a.election.wants != s.Epoch+1 {
		a.election.wants, a.election.since, a.election.wait = s.Epoch+1, a.loop.now, patience{}
	}
	synced := a.synced(s)
	after, ok := a.rank(s)
	if !ok {
		a.catchUp(s)
		return
	}
	if wait := after - a.loop.now.Sub(a.election.since); wait > 0 {
		a.loop.within(wait)
		return
	}
	if !synced || !a.loop.idle() {
		return
	}
	if why == whyFirst && a.loop.log.Healing {
		if err := a.loop.host.BeginEmpty(); err != nil {
			a.loop.fault("the node cannot begin without data", err)
			a.loop.proposeAt = a.loop.now.Add(time.Second)
			return
		}
	}
	lacks := a.loop.host.Link().Lacks
	promote := topology.PromoteAbove
	if a.loop.log.Behind {
		promote = topology.PromoteBehind
	}
	c, err := promote(a.loop.m, s.ID, a.loop.id, a.loop.log.Epoch)
	if err == nil && key >= 0 {
		c.Same(topology.LiveKey(s.Primary), key)
	}
	if err == nil { // its directory is the newest one yet
		c.Same(topology.NodeKey(a.loop.id), a.loop.m.Nodes[a.loop.id].Revision)
	}
	a.loop.conf.Log.Info("cluster: taking over", "epoch", s.Epoch+1, "old_primary", s.Primary, "reason", why, "took", a.loop.now.Sub(a.election.since), "end", a.loop.log.Written)
	if a.loop.log.Behind {
		a.election.behind = max(s.Epoch, a.loop.log.Epoch) + 1
	}
	a.loop.propose(c, err, commitTime, func(err error, _ bool) {
		if err == nil {
			a.loop.stats.promotions.Add(1)
			if why == whyLacks {
				a.election.saved = lacks
			}
		}
		if soon := time.Now().Add(20 * time.Millisecond); soon.After(a.loop.proposeAt) {
			a.loop.proposeAt = soon // epochs are not used up as fast as etcd can
		}
	})
}

// synced tells whether a candidate's log is durable as far as the node has acknowledged it, or need not be. A candidate that will be alone in sync
// has it synced first: see parting. Until it leads, it acknowledges only durable changes, as the primary may still feed it.
func (a *Agent) synced(s *topology.Shard) bool {
	e, log := &a.election, &a.loop.log
	alone := s.Primary != a.loop.id && !slices.ContainsFunc(s.InSync, func(id topology.NodeID) bool { return id != a.loop.id && id != s.Primary })
	if a.careful(alone && !log.Behind); !e.careful {
		return true
	}
	if end := max(log.Written, e.end); end > e.hurried { // the primary's clients wait for this disk
		a.loop.host.Hurry(end)
		e.hurried = end
	}
	a.loop.within(partingPoll)
	return e.wait.step(a.loop.now) >= syncTime || log.Durable >= e.end
}

// careful has the host acknowledge only changes that are durable here, or any again.
func (a *Agent) careful(on bool) {
	if e := &a.election; e.careful != on {
		a.loop.host.Careful(on)
		e.careful, e.end = on, a.loop.host.Log().Written
		e.hurried = 0
	}
}

// suspects tells why the node should take over; empty: it should not. key is the revision of the primary's key that says so,
// 0 as it is not there: so a primary that answers reads is not replaced because of an old value of its key. It is below 0
// where the key does not matter.
func (a *Agent) suspects(s *topology.Shard) (why string, key int64) {
	e := &a.election
	if s == nil || !s.Has(a.loop.id) || a.role.kind == leading || a.loop.log.Err != nil || a.handover.leaves || !a.membership.registered || a.stranger() ||
		a.starts.outdated() || !a.starts.begun || a.loop.log.Healing && s.Primary != "" || s.Epoch != 0 && a.loop.log.Epoch > s.Epoch || a.inSync.failed > s.Epoch {
		e.missing = time.Time{}
		return "", -1
	}
	link, live := a.loop.host.Link(), a.loop.m.Live[s.Primary]
	if live != nil || s.Primary == "" || s.Primary == a.loop.id {
		e.missing = time.Time{}
	} else if e.missing.IsZero() {
		e.missing = a.loop.now
	}
	switch {
	case s.Primary == "":
		return whyFirst, -1
	case s.Primary == a.loop.id:
		if a.role.anew {
			return "was another process", -1
		}
	case e.forced == s.Epoch:
		return "is to hand over by force", -1
	case live == nil:
		// It may be cut off from etcd only, and be about to come back: a stopped node has a link too.
		if !link.Connected || a.loop.now.Sub(e.missing) >= a.loop.conf.NodeTimeout/4 {
			return "is gone from etcd", 0
		}
	case a.role.kind == following && a.role.primary == s.Primary && link.Refused:
		return "refuses connections", -1
	case live.Rests:
		return "rests", live.Revision
	case a.role.kind == following && a.role.primary == s.Primary && link.Lacks > e.saved:
		// A disk or a program failed, as all nodes in sync had the confirmed changes. This node still has them.
		return whyLacks, -1
	}
	return "", -1
}

// catchUp has a node that is behind ask the other nodes in sync for the end of the log. A node that cannot open its directory waits
// for a primary, while this node waits for it.
func (a *Agent) catchUp(s *topology.Shard) {
	e := &a.election
	if !a.loop.log.Behind || e.asks || a.loop.now.Sub(e.asked) < catchUpEvery {
		return
	}
	from := map[topology.NodeID]string{}
	for _, id := range s.InSync {
		if address := a.address(id); id != a.loop.id && address != "" {
			from[id] = address
		}
	}
	if len(from) == 0 {
		return
	}
	e.asks = true
	a.loop.beside(func(ctx context.Context) func() {
		shorter, _ := a.loop.host.TakeLastFrames(ctx, from) // it fails as long as they are away, or open their data
		return func() { e.asks, e.asked, e.shorter = false, time.Now(), shorter }
	})
}

// rank tells how long behind the suspicion the node proposes itself. !ok: it is no candidate.
func (a *Agent) rank(s *topology.Shard) (after time.Duration, ok bool) {
	type candidate struct {
		id             topology.NodeID
		last           bool // the old primary
		wants          bool // it said so, so its epoch and offset are as of now
		epoch, written uint64
	}
	var sound, behind []candidate
	heard, all := true, true // from candidates; from all in sync
	for _, id := range s.InSync {
		c := candidate{id: id, last: id == s.Primary, epoch: a.loop.log.Epoch, written: a.loop.log.Written}
		b := a.loop.log.Behind
		if id != a.loop.id {
			live := a.loop.m.Live[id]
			if live == nil && slices.Contains(a.election.shorter, id) && a.loop.now.Sub(a.election.asked) < 3*catchUpEvery {
				behind = append(behind, candidate{id: id}) // it has waited since, and has not opened its data
				continue
			}
			if live == nil || live.Outdated {
				continue
			}
			c.epoch, c.written, b = live.Epoch, live.Written, live.Behind
			c.wants = live.Wants == s.Epoch+1
			heard, all = heard && (b || id == s.Primary || c.wants), all && c.wants
		}
		switch {
		case b:
			behind = append(behind, c)
		case id == a.loop.id || id != s.Primary:
			sound = append(sound, c)
		}
	}
	mine := func(c candidate) bool { return c.id == a.loop.id }
	most := func(x, y candidate) int {
		return cmp.Or(cmp.Compare(y.epoch, x.epoch), cmp.Compare(y.written, x.written), cmp.Compare(x.id, y.id))
	}
	if a.loop.log.Behind {
		// A node that is away, or is not behind, may have changes that this one lacks.
		slices.SortFunc(behind, most)
		return 0, all && len(behind) == len(s.InSync) && mine(behind[0])
	}
	slices.SortFunc(sound, func(x, y candidate) int {
		if x.last != y.last {
			if x.last {
				return 1
			}
			return -1
		}
		return most(x, y)
	})
	at := slices.IndexFunc(sound, mine)
	for _, c := range sound[:at] {
		// All nodes in sync have the acknowledged changes. If another candidate still has more, this node must not lead: its
		// directory may be an older copy that no start has shown yet.
		if c.wants && (c.epoch > a.loop.log.Epoch || c.epoch == a.loop.log.Epoch && c.written > a.loop.log.Written) {
			return 0, false
		}
	}
	after = time.Duration(at) * rankTime
	if !heard {
		after += askTime
	}
	return after, true
}
