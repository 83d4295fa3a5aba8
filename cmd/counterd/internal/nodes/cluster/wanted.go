package cluster

import (
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
)

type roleKind uint8

const (
	resting roleKind = iota
	following
	leading
)

// role is the role that the host was given.
type role struct {
	kind    roleKind
	epoch   uint64
	primary topology.NodeID // that is followed
	address string
	why     string // it rests
	// anew is set where it is the primary by the map and must not lead that epoch: another process did, it failed to, or its
	// directory is an older copy.
	anew bool
}

// untaken is a role that the host did not take, and when it is asked again. A failed attempt changes the host's role, of which the
// host gives notice: an agent that tried at each notice would never pause.
type untaken struct {
	role  role
	until time.Time
}

// wanted is the role that the map gives.
func (a *Agent) wanted() role {
	s := a.loop.shard()
	switch {
	case a.stranger():
		return role{why: textStranger}
	case a.doubled() != "":
		return role{why: textDoubled}
	case s == nil:
		return role{why: textFree}
	case a.lostByEtcd(s):
		a.loop.fault("the node has no role in the cluster", fmt.Errorf("its log is of epoch %d, and etcd's is %d: etcd lost what it was told", a.loop.log.Epoch, s.Epoch))
		return role{why: textResting}
	case a.starts.outdated():
		return role{why: textOutdated, epoch: s.Epoch, anew: s.Primary == a.loop.id}
	case s.Primary == "":
		return role{why: textResting}
	case s.Primary == a.loop.id:
		if a.role.kind == leading && a.role.epoch == s.Epoch {
			return a.role
		}
		if a.loop.log.Epoch >= s.Epoch || a.loop.log.Behind && a.election.behind != s.Epoch || a.inSync.failed == s.Epoch {
			return role{why: textResting, epoch: s.Epoch, anew: true}
		}
		return role{kind: leading, epoch: s.Epoch}
	}
	return role{kind: following, epoch: s.Epoch, primary: s.Primary, address: a.address(s.Primary)}
}

// lostByEtcd tells whether the node's log is of a later epoch than etcd's. It was not of another shard, as it is in sync
// here: etcd was restored from a backup.
func (a *Agent) lostByEtcd(s *topology.Shard) bool {
	return s.Has(a.loop.id) && a.loop.log.Epoch > s.Epoch && s.Epoch != 0
}

// address is where other nodes reach a node; empty: it is not known.
func (a *Agent) address(id topology.NodeID) string {
	if l := a.loop.m.Live[id]; l != nil {
		return l.Address
	}
	if a.role.primary == id && a.role.address != "" {
		return a.role.address
	}
	if n := a.loop.m.Nodes[id]; n != nil && n.Port != 0 {
		return net.JoinHostPort(n.Host, strconv.Itoa(n.Port))
	}
	return ""
}

// takeRole gives the host the role that the map says.
func (a *Agent) takeRole() {
	want := a.wanted()
	if want == a.role || want == a.untaken.role && a.loop.now.Before(a.untaken.until) {
		return
	}
	if want.kind != resting && a.loop.conf.Home.Cluster() == "" {
		if err := a.loop.conf.Home.Join(a.loop.m.Cluster.ID); err != nil {
			a.loop.fault("the directory does not take the cluster's id", err)
			return
		}
	}
	was := a.role
	if was.kind == leading {
		a.loop.conf.Log.Info("cluster: no longer primary", "epoch", was.epoch, "new_epoch", a.loop.shardEpoch())
		a.withdraw()
	}
	if s := a.loop.shard(); s != nil {
		a.loop.host.Shard(s.ID, s.Unclean)
	}
	var err error
	switch want.kind {
	case resting:
		a.loop.host.Rest(want.why)
		a.loop.conf.Log.Info("cluster: no role", "reason", want.why)
	case following:
		if err = a.loop.host.Follow(want.primary, want.address, want.epoch); err == nil && (was.primary != want.primary || was.epoch != want.epoch) {
			a.loop.conf.Log.Info("cluster: following a primary", "primary", want.primary, "address", want.address, "epoch", want.epoch)
		}
	case leading:
		err = a.inSync.lead(want.epoch)
	}
	if err != nil {
		a.loop.fault("the role is not taken", err)
		if want.kind == leading {
			a.inSync.failed = want.epoch // part of the term may be in the log: another epoch, here or elsewhere
		}
		a.loop.host.Rest(textResting)
		a.role = role{why: textResting}
		a.untaken = untaken{role: want, until: a.loop.now.Add(tick)}
		return
	}
	a.role = want
}

// rests tells others that they may take over at once.
func (a *Agent) rests() bool { return a.role.anew || !a.inSync.yields.IsZero() || a.hangs() }

// hangs tells whether the node leads, its disk hangs, and another node in sync can lead.
func (a *Agent) hangs() bool {
	s := a.loop.shard()
	if a.role.kind != leading || !a.loop.log.Hangs || s == nil {
		return false
	}
	for _, id := range s.InSync {
		if id != a.loop.id && a.loop.m.Live[id] != nil {
			a.loop.fault("another node may lead", a.loop.log.Err)
			return true
		}
	}
	return false
}
