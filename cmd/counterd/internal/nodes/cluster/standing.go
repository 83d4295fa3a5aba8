package cluster

import (
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/slot"
)

// Standing is a node's present role and the commands that it may serve. It is immutable: a newer one replaces it
// (Host.Serve, Agent.Standing).
type Standing struct {
	Map     *topology.Map   // nil: none was read yet
	Self    topology.NodeID // never empty
	Shard   *topology.Shard // of the map; nil: a free node
	Primary bool            // it leads the shard's epoch
	Leader  topology.NodeID // of the shard, by the map; empty: nobody yet
	Owned   slot.Set
	// Coming are groups of a move that is being committed. The source may see the commit first and send clients here.
	Coming slot.Set
	// Lacking are groups of the shard whose posts are not on this node, by its primary's log, and that no move brings. The
	// node does not serve them. They are not in Owned.
	Lacking slot.Set
	// Reads and Writes are empty where they are served, else the error's text.
	Reads, Writes string
	// Until is how long reads are served, by the monotonic clock: past it another node may lead, and take changes.
	Until time.Time
}

// Readable tells whether reads are served now, and else the error's text.
func (s *Standing) Readable(now time.Time) (refusal string) {
	if s.Reads == "" && !now.Before(s.Until) {
		return textLease
	}
	return s.Reads
}

// Error replies. All come before anything is changed, so a client may repeat the command on another node.
const (
	textNoMap    = "CLUSTERDOWN The map of the cluster was not read yet"
	textFree     = "CLUSTERDOWN The node is of no shard"
	textResting  = "CLUSTERDOWN The shard has no primary yet"
	textReplica  = "CLUSTERDOWN The node is a replica" // routing answers MOVED before it comes to this
	textLease    = "CLUSTERDOWN The lease of this node has expired: another node may be primary of its shard"
	textCut      = "CLUSTERDOWN The replica has no connection to its primary"
	textDoubt    = "CLUSTERDOWN An in-sync replica does not acknowledge, and etcd is unavailable: the shard accepts no changes"
	textDisk     = "CLUSTERDOWN An in-sync replica does not acknowledge, and this node's disk has not synced its log: the shard accepts no changes"
	textTooFew   = "NOREPLICAS Not enough good replicas to write." // as Redis says it
	textDoubled  = "CLUSTERDOWN Another process runs with the id of this node: its directory is a copy"
	textOutdated = "CLUSTERDOWN The directory is an older copy and may lack acknowledged changes"
	textStranger = "CLUSTERDOWN The directory is of another cluster"
)

// ErrSwitch refuses commands while the role of primary goes to another node, or comes to this one: some 10 ms as a rule. So they are held for a moment first.
const ErrSwitch = "CLUSTERDOWN The primary is changing"

// same tells whether clients would see no difference.
func (s *Standing) same(o *Standing) bool { return *s == *o }

// serve gives the host a new Standing, if it has changed.
func (a *Agent) serve() {
	s := &Standing{Map: a.loop.m, Self: a.loop.id, Shard: a.loop.shard(), Primary: a.role.kind == leading}
	if l := a.membership.held(); l != nil && a.membership.registered {
		s.Until = l.Deadline()
	}
	if s.Shard != nil {
		s.Leader = s.Shard.Primary
	}
	switch {
	case a.loop.m == nil:
		s.Reads = textNoMap
		s.Writes = s.Reads
	case s.Primary:
		s.Owned = s.Shard.Groups
		s.Writes = a.inSync.doubt
		if a.handover.unknown || a.membership.rested || a.rests() {
			s.Reads, s.Writes = ErrSwitch, ErrSwitch
		}
	case a.role.kind == following:
		s.Owned = s.Shard.Groups
		s.Writes = textReplica
		if a.cutOff() {
			s.Reads = textCut
		}
	default:
		s.Reads = a.role.why
		s.Writes = s.Reads
	}
	if s.same(a.standing.Load()) {
		return
	}
	a.standing.Store(s)
	a.loop.host.Serve(s)
}

// withdraw has a primary serve nothing, before the host gives its role up. A store that leads answers what others have. A store that
// does not lead answers what it has itself, and a primary has changes that the next primary may lack.
func (a *Agent) withdraw() {
	s := *a.standing.Load()
	if !s.Primary {
		return
	}
	s.Reads, s.Writes = ErrSwitch, ErrSwitch
	a.standing.Store(&s)
	a.loop.host.Serve(&s)
}

// cutOff tells whether a replica has had no link to its primary for longer than a lease lasts.
func (a *Agent) cutOff() bool {
	if a.loop.host.Link().Connected {
		a.linked = a.loop.now
	}
	return a.loop.now.Sub(a.linked) > a.loop.conf.NodeTimeout
}
