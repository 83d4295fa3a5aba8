package cluster

import (
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
)

// parting is the state of a primary that prepares to be the only node in sync by etcd. With appendfsync everysec and no, changes are confirmed
// that several nodes have in memory. So the primary first syncs its log up to there, or further. Otherwise a power failure of the primary, alone, would
// take back changes that several nodes had acknowledged, and that feeds have shown.
//
// A first sync brings the log close. Only then changes wait for the primary's disk too, until etcd's answer is known: those that the others would
// confirm meanwhile.
//
// A disk may hang without being judged, with appendfsync no. So the primary waits for it for syncTime, and is then alone in sync all the same: it serves changes. A disk that is
// known to have failed takes no changes, so the primary would win nothing: it waits for as long as the disk has failed. The other node may be the only node with the
// changes, and takes over when it comes back.
type parting struct {
	begun    bool     // something is prepared
	waits    bool     // the disk is all that is waited for
	wait     patience // for the disk
	syncs    uint64   // the offset that is to be durable
	asked    uint64   // the offset up to which the disk was asked last: another sync would follow each time
	both     bool     // changes wait for the primary's disk too
	unsynced bool     // the disk took too long
	at       int64    // revision of the shard from which it was proposed, as long as that may happen yet; 0: it was not
}

// synced prepares that etcd has the primary alone in sync, and tells whether that may be proposed.
func (p *inSync) synced(s *topology.Shard) bool {
	v := &p.parting
	log := p.loop.host.Log()
	if !v.begun {
		v.begun, v.syncs = true, log.Written // Confirmed may have fallen, as a link began anew or another node joins
	}
	if v.waits = log.Err != nil; v.waits {
		v.wait, v.asked = patience{}, 0
		return false
	}
	if log.Durable >= v.syncs && !v.both && !v.unsynced {
		v.both = true
		p.require(s)
		log = p.loop.host.Log()
		v.syncs = log.Written
	}
	waited := v.wait.step(p.loop.now)
	switch {
	case log.Durable >= v.syncs || v.unsynced:
		return true
	case waited >= syncTime:
		p.loop.conf.Log.Warn("cluster: the disk does not sync the log; a power failure of this node, alone in sync, would lose acknowledged changes", "bytes", v.syncs-log.Durable)
		v.both, v.unsynced = false, true
		p.require(s)
		return true
	}
	p.hurry(v.syncs)
	p.loop.within(partingPoll)
	v.waits = true
	return false
}

// hurry has the log durable up to an offset.
func (p *inSync) hurry(offset uint64) {
	if v := &p.parting; offset > v.asked {
		p.loop.host.Hurry(offset)
		v.asked = offset
	}
}

// partingPoll is how often the primary looks how far its disk is.
const partingPoll = 5 * time.Millisecond

// together ends the preparation: another node stays in sync. Where nodes may be slow soon, and none but the primary stays then, the first sync begins already: a
// slow disk needs the time until clients must get an answer for the second one. Where it was proposed, and etcd did not say that it has not happened, the shard
// gets another revision first, from which it cannot happen.
func (p *inSync) together(s *topology.Shard, soon []topology.NodeID) {
	v := &p.parting
	switch {
	case len(soon) > 0 && p.stay(s, soon) == 1 && v.at == 0:
		if !v.begun {
			v.begun, v.syncs = true, p.loop.host.Log().Written
			p.hurry(v.syncs)
		}
	case !v.begun:
	case v.at == 0:
		p.stopParting(s)
	case p.loop.idle():
		c, err := topology.Touch(p.loop.m, s.ID)
		p.loop.propose(c, err, commitTime, func(error, bool) {})
	}
}

// stopParting ends the preparation where nothing was proposed: another node stays in sync, and the next preparation waits anew.
func (p *inSync) stopParting(s *topology.Shard) {
	if v := &p.parting; v.begun && v.at == 0 {
		*v = parting{}
		p.require(s)
	}
}

// forgetParting forgets a preparation whose outcome the map shows.
func (p *inSync) forgetParting(s *topology.Shard) {
	if v := &p.parting; v.at != 0 && v.at != s.Revision || len(s.InSync) == 1 {
		*v = parting{}
	}
}

// tellAlone tells the host whether etcd may have the primary alone in sync. While changes wait for its disk too, it is hurried at each step.
func (p *inSync) tellAlone(s *topology.Shard) {
	v := &p.parting
	alone, both := len(s.InSync) == 1 || v.both || v.unsynced, v.both
	if both {
		if p.both { // else it is not in force yet, and a sync that begins now may not have all
			p.hurry(p.loop.host.Log().Written)
		}
		p.loop.within(partingPoll)
	}
	if p.required == nil || both || alone != p.alone || both != p.both {
		p.loop.host.Alone(alone, both)
		p.alone, p.both = alone, both
		if alone && !both { // an operator may have taken the last other node out
			p.loop.host.Hurry(p.loop.host.Log().Written)
		}
	}
}

// patience is how long a disk was waited for. Each step of the loop counts for one tick at most: a process that was suspended did not wait, and its disk
// may have been as fast as ever.
type patience struct {
	waited time.Duration
	last   time.Time // of the last step; zero: there was none
}

// step counts the time since the last step, and returns the sum.
func (p *patience) step(now time.Time) time.Duration {
	if !p.last.IsZero() {
		p.waited += min(now.Sub(p.last), tick)
	}
	p.last = now
	return p.waited
}
