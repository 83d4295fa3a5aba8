package plan

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"time"
)

// Failure is what a rack that goes dark does: no connection is refused, nothing is said, so leases have to end.
type Failure struct {
	Nodes, Primaries, Replicas int // in the rack, of shards
	Txns                       int // that etcd committed: leases that ended, promotions, members taken out, what nodes say of the new epoch
	Lost                       int // transactions of candidates that came second
	Peak                       int // committed in the busiest second
	EventBytes                 float64

	Outage  []time.Duration // of each shard whose primary was lost, until its new one takes changes; rising
	Held    []time.Duration // of each shard that lost a replica: how long its changes waited; rising
	Settled time.Duration   // until the last transaction
	Back    int             // transactions when the rack returns: leases, what nodes say, members added
}

// event is something that happens at a moment.
type event struct {
	at time.Duration
	do func(now time.Duration)
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// rackFailure simulates it.
type rackFailure struct {
	p     *Plan
	l     *layout
	c     Control
	rng   *rand.Rand
	queue events
	next  time.Duration // when etcd can take the next transaction
	times []time.Duration
	out   Failure
}

func (f *rackFailure) at(t time.Duration, do func(now time.Duration)) {
	heap.Push(&f.queue, event{t, do})
}

// commit is a transaction of someone at a moment; then is called when that one hears of it. One at a time goes in, at
// etcd's rate.
func (f *rackFailure) commit(now time.Duration, bytes int, then func(now time.Duration)) {
	f.next = max(f.next, now) + time.Duration(float64(time.Second)/f.p.EtcdRate)
	done := f.next + f.p.EtcdCommit
	f.times = append(f.times, done)
	f.out.Txns++
	f.out.EventBytes += float64(bytes) * float64(f.p.Nodes-f.out.Nodes)
	if then != nil {
		f.at(done, then)
	}
}

// RackFailure simulates the loss of a rack. Where etcd's leader is in it too, the next one gives every lease its full
// time again, counted from its election.
func (p *Plan) RackFailure(l *layout, c Control, rack int, withLeader bool) Failure {
	f := &rackFailure{p: p, l: l, c: c, rng: rand.New(rand.NewPCG(p.Seed, uint64(2+rack)))}
	if withLeader {
		f.next = p.EtcdElection
	}
	for n := range l.nodes {
		if l.rack(n) == rack {
			f.out.Nodes++
		}
	}
	for n := range l.nodes {
		if l.rack(n) != rack {
			continue
		}
		f.out.Back += 2 // Live, and the node's key as its version or address may differ
		ends := p.NodeTimeout - time.Duration(f.rng.Int64N(int64(p.NodeTimeout/3)))
		if withLeader {
			ends = p.EtcdElection + p.NodeTimeout
		}
		ends = (ends + p.EtcdRevoke - 1) / p.EtcdRevoke * p.EtcdRevoke
		shard := l.nodes[n].shard
		var then func(time.Duration)
		switch {
		case shard >= 0 && l.members[shard][0] == n:
			f.out.Primaries++
			f.out.Back++
			then = func(now time.Duration) { f.promote(now, shard) }
		case shard >= 0:
			f.out.Replicas++
			f.out.Back++
			f.shrink(shard)
		}
		f.at(ends, func(now time.Duration) { f.commit(now, len(keyPrefix)+45, then) })
	}
	for len(f.queue) > 0 {
		e := heap.Pop(&f.queue).(event)
		e.do(e.at)
	}
	slices.Sort(f.times)
	for i, j := 0, 0; i < len(f.times); i++ {
		for f.times[i]-f.times[j] >= time.Second {
			j++
		}
		f.out.Peak = max(f.out.Peak, i-j+1)
	}
	if n := len(f.times); n > 0 {
		f.out.Settled = f.times[n-1]
	}
	slices.Sort(f.out.Outage)
	slices.Sort(f.out.Held)
	return f.out
}

// promote is a shard without its primary, as etcd's watchers learn it: each in-sync member asks the others for their
// offsets and proposes by its rank. The first transaction makes an epoch, and those behind it meet another revision.
func (f *rackFailure) promote(now time.Duration, shard int) {
	done := false
	for rank := range f.l.members[shard][1:] {
		heard := now + f.delay()
		asked := heard + 2*f.delay() + time.Duration(rank)*f.p.RankDelay
		f.at(asked, func(now time.Duration) {
			if done { // it has heard of the new epoch
				return
			}
			f.commit(now, f.c.ShardBytes, func(now time.Duration) {
				if done {
					f.out.Lost++
					return
				}
				done = true
				// Its log has the term's first frame on disk before it takes a change.
				f.at(now+f.p.EtcdCommit, func(now time.Duration) {
					f.out.Outage = append(f.out.Outage, now)
					f.commit(now, f.c.ShardBytes, nil) // the history that it leads
					for range f.l.members[shard][1:] {
						f.commit(now+f.delay(), f.c.LiveBytes, nil) // each member's Live, with the epoch
					}
				})
			})
		})
	}
}

// shrink is a shard that lost a replica: its changes wait for the slow limit, and then for etcd.
func (f *rackFailure) shrink(shard int) {
	f.at(f.p.SlowLimit+f.delay(), func(now time.Duration) {
		f.commit(now, f.c.ShardBytes, func(now time.Duration) { f.out.Held = append(f.out.Held, now) })
	})
}

// delay is one way between two processes: 0.2 to 5 ms, as a busy one is not scheduled at once.
func (f *rackFailure) delay() time.Duration {
	return 200*time.Microsecond + time.Duration(f.rng.Int64N(int64(5*time.Millisecond)))
}
