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
	loop *loop

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
func (p *starts) outdated() bool {
	if p.loop.m == nil || p.loop.m.Nodes[p.loop.id] == nil {
		return false
	}
	return outdated(p.loop.m.Nodes[p.loop.id].Start, p.known)
}

// outdated tells whether a directory that knows of some starts is an older copy: etcd has a start that is not among them.
func outdated(has topology.Start, known []topology.Start) bool {
	return has.Count != 0 && !slices.Contains(known, has) && (len(known) == 0 || has.Count >= known[0].Count)
}

// keep registers a start of this process. An older copy gets one when it is in sync no more: it then is a replica that
// lacks a part of the log, as any other.
func (p *starts) keep() {
	n, s := p.loop.m.Nodes[p.loop.id], p.loop.shard()
	if n == nil || p.writing || p.loop.now.Before(p.retryAt) || !p.loop.idle() {
		return
	}
	old := p.outdated()
	switch {
	case old && s != nil && s.Has(p.loop.id):
		return
	case p.mine.Count != 0 && n.Start == p.mine:
		if p.begun = true; p.at.IsZero() {
			p.at = p.loop.now
		}
		if len(p.known) > 1 {
			p.write([]topology.Start{p.mine}, func(error) {})
			return
		}
		if p.loop.now.Sub(p.at) < p.loop.conf.RenewStart {
			return
		}
	case p.mine.Count > n.Start.Count:
		c, err := topology.BeginStart(p.loop.m, p.loop.id, p.mine)
		if err == nil && old && s != nil {
			c.Same(topology.ShardKey(s.ID), s.Revision) // it is not being put in sync
		}
		p.loop.propose(c, err, commitTime, func(error, bool) {})
		return
	}
	p.draw(n, func(error) {})
}

// draw gives the process another start, in the note; done hears of it in the loop.
func (p *starts) draw(n *topology.Node, done func(error)) {
	list := slices.Clone(p.known)
	if i := slices.Index(list, n.Start); i > 0 {
		list = list[i:] // earlier starts cannot get into etcd any more
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
	p.write(append(list, next), func(err error) {
		if err == nil {
			p.mine, p.at = next, time.Time{}
		}
		done(err)
	})
}

// write makes a list the note's. The loop does not wait for the disk; done hears of it there.
func (p *starts) write(list []topology.Start, done func(error)) {
	p.writing = true
	p.loop.beside(func(context.Context) func() {
		err := p.loop.conf.Home.SetStarts(list)
		return func() {
			if p.writing = false; err == nil {
				p.known = list
			} else {
				p.retryAt = time.Now().Add(time.Second)
				p.loop.fault("the directory does not take the start", err)
			}
			done(err)
		}
	})
}

// forceUnclean proposes that the node leads its shard, whatever it lacks. An older copy becomes the newest directory by it.
func (p *starts) forceUnclean(s *topology.Shard, done func(error)) {
	propose := func(c topology.Change, err error) {
		p.loop.now, p.loop.proposeAt = time.Now(), time.Time{}
		p.loop.propose(c, err, commitTime, func(err error, _ bool) { done(err) })
	}
	switch {
	case !p.outdated():
		propose(topology.ForceUnclean(p.loop.m, s.ID, p.loop.id, p.loop.host.Log().Epoch))
	case p.writing:
		done(errBusy)
	default:
		p.draw(p.loop.m.Nodes[p.loop.id], func(err error) {
			if err != nil {
				done(err)
				return
			}
			propose(topology.ForceOutdated(p.loop.m, s.ID, p.loop.id, p.loop.host.Log().Epoch, p.mine))
		})
	}
}
