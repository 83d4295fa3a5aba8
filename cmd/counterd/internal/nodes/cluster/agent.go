package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/cmd/internal/registry"
	"github.com/counterd/counterd/cmd/internal/topology"
)

// Config is what an agent is made of. All of it is needed but Log and what has a default.
type Config struct {
	Registry registry.Registry
	Host     Host
	Home     Home
	Node     topology.Node // as it is to stand in etcd; its id is Home's, its shard is not used
	Address  string        // host:port by which other nodes reach it
	Process  string        // random, of this process; its links name it too (ReplicaState.Process)
	Log      *slog.Logger

	NodeTimeout time.Duration // of the lease; in whole seconds, 2 at least
	// SpareAfter is how long a node must be gone before a free one takes its place; 0: 5 minutes.
	SpareAfter time.Duration
	// RenewStart is how often a running process registers another start (topology.Start); 0: 10 minutes.
	RenewStart time.Duration
	// Schema is the revision of the cluster's schema that the data has; nil: none.
	Schema func() int64
	// Troubles are what the server finds wrong with itself, besides what the agent finds. The agent calls it at each step,
	// so it must be quick and must not wait for the disk. nil: the server finds nothing.
	Troubles func() []topology.Trouble
}

// Times. None decides over what is safe.
const (
	tick       = 100 * time.Millisecond // the loop looks at everything that often at least
	slowAfter  = 2 * time.Second        // a replica that owes an acknowledgement for that long is slow
	commitTime = time.Second            // a transaction takes less
	switchTime = 500 * time.Millisecond // writes are held for a planned switch no longer
	// A primary that reaches nobody lets another take over for yieldTime before it makes itself the only one in sync.
	yieldTime = 3 * time.Second
)

// Agent takes a node through the life of its cluster. Its methods are safe for concurrent use.
type Agent struct {
	conf     Config
	id       topology.NodeID
	host     Host
	standing atomic.Pointer[Standing]
	troubles atomic.Pointer[[]topology.Trouble] // of the last step
	stats    stats

	calls chan func() // run by the loop
	ctx   context.Context
	stop  context.CancelFunc
	wg    sync.WaitGroup

	// What follows is the loop's own.
	now        time.Time
	m          *topology.Map        // newest; nil before the first
	log        LogState             // of the step
	linked     time.Time            // when the link to the primary was seen up last
	next       time.Duration        // until the next step at the latest
	proposing  bool                 // a transaction is under way
	proposeAt  time.Time            // not before: the last one failed
	lastErr    map[string]time.Time // when it was logged
	membership membership
	starts     starts
	role       role
	inSync     inSync
	election   election
	handover   handover
	spares     spares
	found      troubles
}

// New makes an agent; Start starts it.
func New(conf Config) *Agent {
	if conf.Log == nil {
		conf.Log = slog.New(slog.DiscardHandler)
	}
	if conf.SpareAfter == 0 {
		conf.SpareAfter = 5 * time.Minute
	}
	if conf.RenewStart == 0 {
		conf.RenewStart = 10 * time.Minute
	}
	a := &Agent{conf: conf, id: conf.Home.Node(), host: conf.Host, calls: make(chan func(), 16), lastErr: map[string]time.Time{}}
	a.conf.Node.ID = a.id
	a.starts.known = conf.Home.Starts()
	a.ctx, a.stop = context.WithCancel(context.Background())
	a.standing.Store(&Standing{Self: a.id, Reads: textNoMap, Writes: textNoMap})
	return a
}

// Start has the node rest, and starts to look at etcd.
func (a *Agent) Start() {
	a.host.Rest(textNoMap)
	a.host.Serve(a.standing.Load())
	a.wg.Go(a.run)
}

// Standing is what the node is now, and what clients get.
func (a *Agent) Standing() *Standing { return a.standing.Load() }

// Close ends it at once: the node rests, and its key goes from etcd. Drain before it spares the others the search for a
// primary.
func (a *Agent) Close(ctx context.Context) error {
	a.stop()
	a.wg.Wait()
	a.host.Rest("the node ends")
	return a.membership.close(ctx)
}

func (a *Agent) run() {
	maps := a.conf.Registry.Watch(a.ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-a.ctx.Done():
			a.dropHold()
			return
		case m, ok := <-maps:
			if !ok {
				maps = nil // the registry was closed
				break
			}
			a.take(m)
		case f := <-a.calls:
			f()
		case <-a.host.Notice():
		case <-a.membership.lost():
		case <-timer.C:
		}
		a.next = tick
		a.step()
		timer.Reset(a.next)
	}
}

// step looks at everything, once. What it decides is right at any moment and any number of times.
func (a *Agent) step() {
	a.now, a.log = time.Now(), a.host.Log()
	a.keepMembership()
	if a.m != nil {
		a.takeRole()
		a.keepInSync()
		a.keepHandover()
		a.keepElection()
		a.keepSpares()
	}
	a.findTroubles()
	a.serve() // before others are told that they may take over
	if a.m != nil {
		a.publish()
	}
}

// within has the next step come in time.
func (a *Agent) within(d time.Duration) { a.next = min(a.next, max(d, time.Millisecond)) }

// take is told each map that was read; the newest counts.
func (a *Agent) take(m *topology.Map) {
	if a.m == nil || m.Revision > a.m.Revision {
		a.m = m
	}
}

// beside runs f in a goroutine of its own, and what it returns in the loop.
func (a *Agent) beside(f func(ctx context.Context) (then func())) {
	a.wg.Go(func() {
		then := f(a.ctx)
		select {
		case a.calls <- then:
		case <-a.ctx.Done():
		}
	})
}

// idle tells whether a change may be proposed now.
func (a *Agent) idle() bool { return !a.proposing && !a.now.Before(a.proposeAt) }

// propose commits a change, one at a time, and reads the map behind it. done hears the outcome in the loop: nil, else
// definite tells that it has not happened and will not. err is that of making the change.
func (a *Agent) propose(c topology.Change, err error, within time.Duration, done func(err error, definite bool)) {
	if err == nil && !a.idle() {
		err = errBusy
	}
	if err != nil {
		a.fault("a change is not proposed", err)
		done(err, true)
		return
	}
	a.proposing = true
	a.beside(func(ctx context.Context) func() {
		within, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		err := a.conf.Registry.Commit(within, c)
		// What comes next is decided from the map behind it: from the one before it would conflict.
		var m *topology.Map
		if err == nil || errors.Is(err, registry.ErrConflict) {
			load, cancel := context.WithTimeout(ctx, commitTime)
			defer cancel()
			var loadErr error
			if m, loadErr = a.conf.Registry.Load(load); loadErr != nil {
				m = nil // the watch will bring it
			}
		}
		return func() {
			a.proposing = false
			if !errors.Is(err, registry.ErrConflict) {
				a.wrote(err)
			}
			switch {
			case err == nil:
				a.conf.Log.Info("cluster: committed", "change", c.What)
			case errors.Is(err, registry.ErrConflict):
				a.stats.conflicts.Add(1)
				a.proposeAt = time.Now().Add(10 * time.Millisecond)
			default:
				a.stats.failed.Add(1)
				a.proposeAt = time.Now().Add(100*time.Millisecond + rand.N(200*time.Millisecond))
				a.fault("a change is not committed", err)
			}
			done(err, !errors.Is(err, registry.ErrUnknown))
			if m != nil {
				a.take(m)
			}
		}
	})
}

var errBusy = errors.New("another change is under way")

// fault logs what goes wrong again and again once in ten seconds.
func (a *Agent) fault(what string, err error) {
	if at, ok := a.lastErr[what]; ok && time.Since(at) < 10*time.Second {
		return
	}
	a.lastErr[what] = time.Now()
	a.conf.Log.Warn("cluster: "+what, "error", err)
}

// ask runs f in the loop and waits for it.
func (a *Agent) ask(ctx context.Context, f func()) error {
	done := make(chan struct{})
	select {
	case a.calls <- func() { f(); close(done) }:
	case <-ctx.Done():
		return ctx.Err()
	case <-a.ctx.Done():
		return errClosed
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-a.ctx.Done():
		return errClosed
	}
}

var errClosed = errors.New("the node is shutting down")

// shard is the node's by the newest map; nil: a free node.
func (a *Agent) shard() *topology.Shard {
	if a.m == nil {
		return nil
	}
	if n := a.m.Nodes[a.id]; n != nil && n.Shard != 0 {
		return a.m.Shard(n.Shard)
	}
	return nil
}

// least is how many must have a change before it is acknowledged.
func (a *Agent) least() int { return max(a.m.Cluster.MinInSync, 1) }

func (a *Agent) String() string { return fmt.Sprintf("%.8s", a.id) }
