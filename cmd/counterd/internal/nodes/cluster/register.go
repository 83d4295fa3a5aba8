package cluster

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/counterd/counterd/cmd/internal/registry"
	"github.com/counterd/counterd/cmd/internal/topology"
)

// membership is the node's two keys: node/<id>, which stays, and live/<id>, under a lease.
type membership struct {
	mu    sync.Mutex
	lease registry.Lease // nil: none

	// registered is set when the map was read after the lease began. While the lease lives, a candidate finds the key, so
	// the node still has the role that it had then.
	registered  bool
	registering bool          // one of the two steps to that is under way: the lease is asked for, or the map behind it is read
	patience    time.Duration // that the next registration has with etcd; 0: leastPatience
	// rested is set from before the key says Rests until the map was read after a key that does not: others may take over.
	rested       bool
	restsAtFirst bool // the key says so since the lease began
	// doubledAt is since when another process is this node, and copyOf its address where that is so for good: see doubled.
	doubledAt time.Time
	copyOf    string

	retryAt  time.Time
	updating bool
	updateAt time.Time     // not before: etcd did not take the key
	told     topology.Live // as written last
	toldAt   time.Time
}

// metricsEvery is how often the metrics in a node's key are written, if one has changed by a sixteenth. In a cluster of
// 1,000 nodes, each node reads each write.
const metricsEvery = 10 * time.Second

// patienceFor is how long the next registration may take at etcd. The first one ends after half of the node timeout, so that it leaves a
// member of etcd that hangs for another one soon. Each registration that fails gives the next one twice as long, as etcd may be slow: nodes
// whose disks are those of etcd sync all their logs behind a power loss, and a registration is two writes at etcd.
func (p *membership) patienceFor(nodeTimeout time.Duration) time.Duration {
	return min(max(p.patience, nodeTimeout/2), registry.Timeout)
}

func (p *membership) held() registry.Lease {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lease
}

func (p *membership) hold(l registry.Lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lease = l
}

// lost is closed when the lease is; nil without one.
func (p *membership) lost() <-chan struct{} {
	if l := p.held(); l != nil {
		return l.Lost()
	}
	return nil
}

func (p *membership) close(ctx context.Context) error {
	if l := p.held(); l != nil {
		return l.Close(ctx)
	}
	return nil
}

// stranger tells whether the directory is of another cluster than the map, or of one that etcd has lost: a node that were
// free then would have its posts replaced by those of a new cluster's primary.
func (a *Agent) stranger() bool {
	mine := a.loop.conf.Home.Cluster()
	return mine != "" && a.loop.m != nil && (!a.loop.m.Created() || mine != a.loop.m.Cluster.ID)
}

// doubled returns the address of another process that is this node too, because one directory is a copy of the other;
// empty: there is none. The first of two processes stays the node. A process that was killed and started again at another
// address finds its own key until the lease ends. A process that finds the key for longer is the copy, until it is started
// again. A copy may lack changes that were acknowledged after it was made, so it must not replace the other.
func (a *Agent) doubled() (address string) {
	p := &a.membership
	if p.copyOf != "" || a.loop.m == nil {
		return p.copyOf
	}
	l := a.loop.m.Live[a.loop.id]
	if l == nil || l.Process == a.loop.conf.Process || l.Address == a.loop.conf.Address {
		p.doubledAt = time.Time{}
		return ""
	}
	if p.doubledAt.IsZero() {
		p.doubledAt = a.loop.now
	}
	if p.held() == nil && a.loop.now.Sub(p.doubledAt) > 2*a.loop.conf.NodeTimeout {
		p.copyOf = l.Address
	}
	return l.Address
}

// keepMembership registers the node, and again when its lease is lost.
func (a *Agent) keepMembership() {
	p := &a.membership
	if err := a.loop.conf.Registry.Err(); err != nil { // it is away, or older than it was
		a.loop.fault("nothing new is heard of etcd", err)
	}
	if l := p.held(); l != nil {
		select {
		case <-l.Lost():
			p.hold(nil)
			p.registered = false
			a.loop.stats.leasesLost.Add(1)
			a.loop.conf.Log.Warn("cluster: lease lost; refusing reads until there is a new one")
		default:
		}
	}
	if a.loop.m == nil {
		return // of which cluster etcd speaks is not known yet
	}
	if a.stranger() {
		theirs := "has none of this name: did it lose its data?"
		if a.loop.m.Created() {
			theirs = "has " + a.loop.m.Cluster.ID
		}
		a.loop.fault("the node does not join", errors.New("its directory is of cluster "+a.loop.conf.Home.Cluster()+", and etcd "+theirs))
		return
	}
	if other := a.doubled(); other != "" {
		a.loop.fault("the node does not join", errors.New("a process at "+other+" is this node too, "+string(a.loop.id)+
			": is one's directory a copy of the other's? Stop one; without its node.json and node.json.copy it is a node of its own"))
		return
	}
	if c, err := topology.RegisterNode(a.loop.m, a.loop.conf.Node); (err != nil || len(c.Put) > 0) && a.loop.idle() {
		a.loop.propose(c, err, commitTime, func(error, bool) {})
	}
	a.starts.keep()
	if p.registered || p.registering || a.loop.now.Before(p.retryAt) {
		return
	}
	p.registering = true
	if l := p.held(); l != nil {
		a.confirm(l)
	} else {
		a.register()
	}
}

// register asks etcd for a lease and puts the node's key under it.
func (a *Agent) register() {
	p, live := &a.membership, a.live()
	within := p.patienceFor(a.loop.conf.NodeTimeout)
	a.loop.beside(func(ctx context.Context) func() {
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		l, err := a.loop.conf.Registry.Register(ctx, a.loop.id, a.loop.conf.NodeTimeout, live)
		if err == nil {
			p.hold(l)
		}
		return func() {
			p.registering = false
			a.loop.wrote(err)
			if err != nil {
				p.patience = 2 * within
				a.unregistered(err)
				return
			}
			p.patience = 0
			p.told, p.toldAt, p.restsAtFirst, p.rested = live, time.Now(), live.Rests, p.rested || live.Rests
		}
	})
}

// confirm reads the map behind the beginning of the lease: the map that was read before may have another primary by now, which found no
// key. The lease stays where that fails, as to ask for another one takes an etcd that is slow longer than to read.
func (a *Agent) confirm(l registry.Lease) {
	p := &a.membership
	a.loop.beside(func(ctx context.Context) func() {
		m, err := a.loop.conf.Registry.Load(ctx)
		return func() {
			p.registering = false
			if err != nil {
				a.unregistered(err)
				return
			}
			a.loop.adopt(m)
			if p.held() == l { // not lost meanwhile
				p.registered, p.rested = true, p.restsAtFirst
			}
		}
	})
}

// unregistered notes that a step of the registration has failed.
func (a *Agent) unregistered(err error) {
	a.membership.retryAt = time.Now().Add(a.loop.conf.NodeTimeout / 10)
	a.loop.fault("the node is not registered", err)
}

// live is the content that the node's key should have now.
func (a *Agent) live() topology.Live {
	l := topology.Live{Process: a.loop.conf.Process, Address: a.loop.conf.Address, Epoch: a.loop.log.Epoch, Written: a.loop.log.Written, Durable: a.loop.log.Durable,
		Behind: a.loop.log.Behind, Posts: a.loop.log.Posts, Bytes: a.loop.log.Bytes, Ops: a.loop.log.Ops, Rests: a.rests(), Wants: a.election.wants,
		Asks: a.handover.asks, Leaves: a.handover.leaves, Lacks: a.loop.log.Lacks, Outdated: a.starts.outdated(), Troubles: a.Troubles()}
	if a.loop.conf.Schema != nil {
		l.Schema = a.loop.conf.Schema()
	}
	return l
}

// publish writes the node's key when its content has changed.
func (a *Agent) publish() {
	p := &a.membership
	lease := p.held()
	if lease == nil || !p.registered || p.updating || a.loop.now.Before(p.updateAt) {
		return
	}
	live, urgent := a.live(), p.told
	metrics := far(live.Written, urgent.Written) || far(live.Posts, urgent.Posts) || far(live.Bytes, urgent.Bytes) || far(live.Ops, urgent.Ops)
	urgent.Written, urgent.Durable, urgent.Posts, urgent.Bytes, urgent.Ops = live.Written, live.Durable, live.Posts, live.Bytes, live.Ops
	if live.Same(urgent) && !(metrics && a.loop.now.Sub(p.toldAt) >= metricsEvery) {
		return
	}
	p.updating = true
	p.rested = p.rested || live.Rests
	back := p.rested && !live.Rests
	a.loop.beside(func(ctx context.Context) func() {
		ctx, cancel := context.WithTimeout(ctx, commitTime)
		defer cancel()
		err := lease.Update(ctx, live)
		var m *topology.Map
		if err == nil && back {
			m, err = a.loop.conf.Registry.Load(ctx)
		}
		return func() {
			p.updating = false
			if m != nil && err == nil {
				p.rested = false
				a.loop.adopt(m)
			}
			if !errors.Is(err, registry.ErrLost) && !errors.Is(err, registry.ErrTaken) {
				a.loop.wrote(err)
			}
			if err != nil {
				a.loop.fault("the node's key is not written", err)
				p.told = topology.Live{} // it may say anything: again
				// An etcd that is full refuses at once: without a pause it would be asked again as fast as it answers.
				p.updateAt = time.Now().Add(100*time.Millisecond + rand.N(200*time.Millisecond))
				return
			}
			p.told, p.toldAt = live, time.Now()
		}
	})
}

func far(a, b uint64) bool { return max(a, b)-min(a, b) > max(a, b)/16 }
