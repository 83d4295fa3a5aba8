package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
)

// handover is a planned switch, of either side.
type handover struct {
	asks   uint64 // a replica's: the epoch whose primary it asks to hand over
	leaves bool   // the node is shutting down
	drains bool   // a primary's: any node that can is to take over

	// Of a switch under way.
	to       topology.NodeID // empty: none is
	release  func()          // ends the hold of writes
	until    time.Time       // of the hold
	proposed bool
	unknown  bool // etcd did not say, or not in time: nothing is served until it is known
	at       int64
	retryAt  time.Time
}

// dropHold lets writes go on.
func (a *Agent) dropHold() {
	if a.handover.release != nil {
		a.handover.release()
		a.handover.release = nil
	}
}

// endSwitch forgets the switch under way.
func (a *Agent) endSwitch(retry time.Duration) {
	a.dropHold()
	h := &a.handover
	h.to, h.proposed, h.unknown, h.retryAt = "", false, false, a.loop.now.Add(retry)
}

// keepHandover is the primary's part: it holds its writes until the replica has all, and has etcd name it.
func (a *Agent) keepHandover() {
	h := &a.handover
	if a.role.kind != leading {
		if h.to != "" {
			a.serve() // clients that were held learn the new primary
			a.endSwitch(0)
		}
		return
	}
	s := a.loop.shard()
	if h.to == "" {
		a.beginSwitch(s)
		if h.to == "" {
			return
		}
	}
	a.loop.within(2 * time.Millisecond)
	switch {
	case h.proposed && h.unknown:
		if s.Revision != h.at { // it cannot happen any more, or has: then this node does not lead
			a.endSwitch(time.Second)
		} else if a.loop.idle() {
			c, err := topology.Touch(a.loop.m, s.ID)
			a.loop.propose(c, err, commitTime, func(error, bool) {})
		}
	case h.proposed:
		if s.Revision != h.at && !a.loop.proposing {
			a.endSwitch(time.Second)
		} else if !a.loop.now.Before(h.until.Add(-20 * time.Millisecond)) {
			h.unknown = true
			a.serve()
			a.dropHold()
		}
	case !a.loop.now.Before(h.until.Add(-100 * time.Millisecond)):
		a.loop.conf.Log.Warn("cluster: handover cancelled: a replica in sync does not catch up, or etcd is busy", "to", h.to)
		a.endSwitch(2 * time.Second)
	case a.loop.idle() && a.inSync.fit(h.to) && s.Has(h.to) && a.allHave(s, heldEnd(a.loop.host.Log())):
		h.proposed, h.at = true, s.Revision
		to := h.to
		c, err := topology.PlannedSwitch(a.loop.m, s.ID, to)
		a.loop.propose(c, err, commitTime, func(err error, definite bool) {
			switch {
			case err == nil:
				a.loop.stats.switches.Add(1)
			case h.to != to || !h.proposed:
			case definite:
				a.endSwitch(200 * time.Millisecond)
			default:
				h.unknown = true
			}
		})
	}
}

// allHave tells whether all replicas in sync have the log up to an offset. The next primary must have it; the clients of changes that another replica lacks would be
// answered UNCERTAIN. A replica that does not go on is soon out of sync.
func (a *Agent) allHave(s *topology.Shard, end uint64) bool {
	for _, id := range s.InSync {
		if id != a.loop.id && a.loop.host.Replica(id).Has < end {
			return false
		}
	}
	return true
}

// heldEnd is the log offset that replicas must have while writes are held: that of the last change, as the clients of changes that are not
// written yet would be answered UNCERTAIN. A disk that takes nothing will not write them.
func heldEnd(log LogState) uint64 {
	if log.Err != nil {
		return log.Written
	}
	return max(log.Position, log.Written)
}

// beginSwitch holds the writes if somebody is to take over.
func (a *Agent) beginSwitch(s *topology.Shard) {
	h := &a.handover
	if a.loop.now.Before(h.retryAt) || !a.loop.idle() {
		return
	}
	var to topology.NodeID
	most := uint64(0)
	for _, id := range s.InSync {
		live := a.loop.m.Live[id]
		if id == a.loop.id || !a.inSync.fit(id) || live == nil {
			continue
		}
		if r := a.loop.host.Replica(id); live.Asks == s.Epoch || h.drains && r.Has >= most {
			to, most = id, r.Has
			if live.Asks == s.Epoch {
				break
			}
		}
	}
	if to == "" {
		return
	}
	release, err := a.loop.host.HoldWrites(switchTime)
	if err != nil {
		h.retryAt = a.loop.now.Add(time.Second)
		a.loop.fault("the switch cannot hold the writes", err)
		return
	}
	h.to, h.release, h.until = to, release, a.loop.now.Add(switchTime)
	a.loop.conf.Log.Info("cluster: handing over the primary role", "to", to, "epoch", s.Epoch)
}

// FailoverKind is how a replica takes over when it is told to.
type FailoverKind uint8

// The kinds.
const (
	// Planned asks the primary, which holds its writes for at most half a second: nothing fails.
	Planned FailoverKind = iota
	// Forced does not ask the primary. Nothing that was acknowledged is lost, as the replica is in sync; changes under way
	// are uncertain.
	Forced
	// Unclean makes the replica the primary although it may lack acknowledged changes. Those are lost.
	Unclean
)

// Report is the result of a failover by hand.
type Report struct {
	Shard topology.ShardID
	From  topology.NodeID // the old primary; empty: there was none
	Epoch uint64          // the new one
	// Has is where the node's log ended, and Known the highest end that any other node of the shard was heard to have: at
	// least Lost bytes of log are gone, except for the part that the old primary cuts off and keeps if it comes back.
	Has, Known, Lost uint64
	KnownOf          topology.NodeID // whose that is
	Clean            bool            // it was in sync: all that was acknowledged is there
}

// Errors of Failover.
var (
	ErrIsPrimary = errors.New("the node is the primary of its shard")
	ErrNoShard   = errors.New("the node is of no shard")
	ErrNotInSync = errors.New("the replica is not in sync: it may lack changes that were acknowledged")
	ErrOutdated  = errors.New("the node's directory is an older copy: it may lack changes that were acknowledged")
)

// begun is a failover by hand that the agent has begun, or the reason why it has not.
type begun struct {
	report  Report
	outcome chan error // of the claim; nil: none is made
	err     error
}

// begin begins a failover by hand, unless ctx has ended meanwhile. Only the agent's goroutine calls it.
func (a *Agent) begin(ctx context.Context, kind FailoverKind) (b begun) {
	s := a.loop.shard()
	switch {
	case ctx.Err() != nil:
		b.err = ctx.Err()
		return b
	case s == nil:
		b.err = ErrNoShard
		return b
	case a.role.kind == leading:
		b.err = ErrIsPrimary
		return b
	case a.starts.outdated() && kind != Unclean:
		b.err = ErrOutdated
		return b
	case !s.Has(a.loop.id) && kind != Unclean, a.loop.log.Behind && kind != Unclean:
		b.err = ErrNotInSync
		return b
	}
	r := &b.report
	*r = Report{Shard: s.ID, From: s.Primary, Epoch: s.Epoch + 1, Has: a.loop.host.Log().Written, Clean: s.Has(a.loop.id) && !a.loop.log.Behind && !a.starts.outdated()}
	for id, written := range a.spares.written {
		if n := a.loop.m.Nodes[id]; n != nil && n.Shard == s.ID && id != a.loop.id && written > r.Known {
			r.Known, r.KnownOf = written, id
		}
	}
	r.Lost = max(r.Known, r.Has) - r.Has
	switch kind {
	case Planned:
		a.handover.asks = s.Epoch
	case Forced:
		a.election.forced = s.Epoch
	case Unclean:
		outcome := make(chan error, 1)
		b.outcome = outcome
		a.loop.conf.Log.Warn("cluster: taking over; acknowledged changes may be missing", "lost", r.Lost, "end", r.Has, "known_end", r.Known, "node", r.KnownOf)
		a.starts.forceUnclean(s, func(err error) { outcome <- err })
	}
	return b
}

// Failover makes the node the primary of its shard, and returns when it leads or ctx ends.
func (a *Agent) Failover(ctx context.Context, kind FailoverKind) (Report, error) {
	// The agent may begin it when ctx has ended already, so it does not write to variables of this goroutine.
	begins := make(chan begun, 1)
	forget := func() {
		_ = a.loop.ask(context.WithoutCancel(ctx), func() { a.handover.asks, a.election.forced = 0, 0 })
	}
	if err := a.loop.ask(ctx, func() { begins <- a.begin(ctx, kind) }); err != nil {
		forget() // it may have begun
		return Report{}, err
	}
	b := <-begins
	if b.err != nil {
		return Report{}, b.err
	}
	defer forget()
	r := b.report
	if b.outcome != nil {
		select {
		case err := <-b.outcome:
			if err != nil {
				return r, err
			}
		case <-ctx.Done():
			return r, ctx.Err()
		}
	}
	for {
		switch s := a.Standing(); {
		case s.Primary:
			r.Epoch = s.Shard.Epoch
			return r, nil
		case s.Shard == nil || s.Shard.Epoch >= r.Epoch && s.Shard.Primary != a.loop.id:
			return r, fmt.Errorf("another node took over: %s", s.Leader)
		}
		if !a.loop.pause(ctx, 5*time.Millisecond) {
			if err := ctx.Err(); err != nil {
				return r, fmt.Errorf("the primary %s did not hand over: %w", r.From, err)
			}
			return r, errClosed
		}
	}
}

// Drain prepares the end of the node: a primary hands over to a replica, a replica has itself taken out of sync, so that no
// write waits for it. It returns when that is done, ctx ends, or it cannot be as too few would stay in sync.
func (a *Agent) Drain(ctx context.Context) error {
	defer func() { _ = a.loop.ask(context.WithoutCancel(ctx), func() { a.handover.drains = false }) }()
	for {
		var done, alone bool
		err := a.loop.ask(ctx, func() {
			s := a.loop.shard()
			switch {
			case s == nil || !s.Has(a.loop.id):
				done = true
			case s.Primary == a.loop.id:
				a.handover.drains = true
				alone = !slices.ContainsFunc(s.InSync, func(id topology.NodeID) bool { return id != a.loop.id && a.inSync.fit(id) })
			default:
				a.handover.leaves, a.handover.drains = true, false
				done = len(s.InSync)-1 < a.loop.least()
			}
		})
		switch {
		case err != nil:
			return err
		case done:
			return nil
		case alone:
			return errors.New("no replica in sync is there to take over")
		case !a.loop.pause(ctx, 5*time.Millisecond):
			return ctx.Err()
		}
	}
}
