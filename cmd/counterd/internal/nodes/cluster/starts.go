package cluster

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
)

// starts is how a node knows that its directory is not an older copy: see topology.Start.
//
// Invariant: a start is in the directory's note before it is in etcd, and stays there until etcd has a later one of this
// directory. So the start that etcd has is in the note, whenever the process or the machine ends; a note without it is an
// older copy. An older copy writes nothing into its note while it is in sync, so it is found out at each further start too.
//
// A machine that is rolled back to an image of a running process is found out if a start was registered since: each process
// registers another one each Config.RenewStart.
type starts struct {
	known   []topology.Start // the note's, rising
	mine    topology.Start   // this process's, in the note; zero: it has none yet
	begun   bool             // etcd had one of this process
	at      time.Time        // when etcd had mine first
	writing bool             // the note is being written
	retryAt time.Time        // not before: the note was not written
}

// startsKept bounds the note. Where processes end again and again before etcd has their start, the last one is taken again.
const startsKept = 16

// outdated tells whether the directory is an older copy. A start in etcd that is older than all of the note's is not the
// directory's fault: etcd was restored from a backup.
func (a *Agent) outdated() bool {
	if a.m == nil || a.m.Nodes[a.id] == nil {
		return false
	}
	has, known := a.m.Nodes[a.id].Start, a.starts.known
	return has.Count != 0 && !slices.Contains(known, has) && (len(known) == 0 || has.Count >= known[0].Count)
}

// keepStart registers a start of this process. An older copy gets one when it is in sync no more: it then is a replica that
// lacks a part of the log, as any other.
func (a *Agent) keepStart() {
	p, n, s := &a.starts, a.m.Nodes[a.id], a.shard()
	if n == nil || p.writing || a.now.Before(p.retryAt) || !a.idle() {
		return
	}
	old := a.outdated()
	switch {
	case old && s != nil && s.Has(a.id):
		return
	case p.mine.Count != 0 && n.Start == p.mine:
		if p.begun = true; p.at.IsZero() {
			p.at = a.now
		}
		if len(p.known) > 1 {
			a.writeStarts([]topology.Start{p.mine}, func(error) {})
			return
		}
		if a.now.Sub(p.at) < a.conf.RenewStart {
			return
		}
	case p.mine.Count > n.Start.Count:
		c, err := topology.BeginStart(a.m, a.id, p.mine)
		if err == nil && old && s != nil {
			c.Same(topology.ShardKey(s.ID), s.Revision) // it is not being put in sync
		}
		a.propose(c, err, commitTime, func(error, bool) {})
		return
	}
	a.drawStart(n, func(error) {})
}

// drawStart gives the process another start, in the note; done hears of it in the loop.
func (a *Agent) drawStart(n *topology.Node, done func(error)) {
	p := &a.starts
	list := slices.Clone(p.known)
	if i := slices.Index(list, n.Start); i > 0 {
		list = list[i:] // what comes before it cannot come into etcd any more
	}
	next := topology.Start{Count: n.Start.Count + 1}
	if k := len(list); k > 0 {
		next.Count = max(next.Count, list[k-1].Count+1)
		if k >= startsKept && list[k-1].Count > n.Start.Count {
			p.mine = list[k-1]
			done(nil)
			return
		}
	}
	var token [16]byte
	_, _ = rand.Read(token[:]) // never fails
	next.Token = hex.EncodeToString(token[:])
	a.writeStarts(append(list, next), func(err error) {
		if err == nil {
			p.mine, p.at = next, time.Time{}
		}
		done(err)
	})
}

// writeStarts makes a list the note's. The loop does not wait for the disk; done hears of it there.
func (a *Agent) writeStarts(list []topology.Start, done func(error)) {
	p := &a.starts
	p.writing = true
	a.beside(func(context.Context) func() {
		err := a.conf.Home.SetStarts(list)
		return func() {
			if p.writing = false; err == nil {
				p.known = list
			} else {
				p.retryAt = time.Now().Add(time.Second)
				a.fault("the directory does not take the start", err)
			}
			done(err)
		}
	})
}

// forceUnclean proposes that the node leads its shard, whatever it lacks. An older copy becomes the newest directory by it.
func (a *Agent) forceUnclean(s *topology.Shard, done func(error)) {
	propose := func(c topology.Change, err error) {
		a.now, a.proposeAt = time.Now(), time.Time{}
		a.propose(c, err, commitTime, func(err error, _ bool) { done(err) })
	}
	switch {
	case !a.outdated():
		propose(topology.ForceUncleanAbove(a.m, s.ID, a.id, a.host.Log().Epoch))
	case a.starts.writing:
		done(errBusy)
	default:
		a.drawStart(a.m.Nodes[a.id], func(err error) {
			if err != nil {
				done(err)
				return
			}
			propose(topology.ForceOutdated(a.m, s.ID, a.id, a.host.Log().Epoch, a.starts.mine))
		})
	}
}
