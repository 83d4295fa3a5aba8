package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/cmd/internal/registry"
	"github.com/counterd/counterd/cmd/internal/topology"
)

// Config has the parts of an agent. All fields are required except Log and those with a default.
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
	// Troubles are the faults that the server finds in itself, besides those that the agent finds. The agent calls it at
	// each step, so it must be quick and must not wait for the disk. nil: the server finds nothing.
	Troubles func() []topology.Trouble
}

// Times. Safety depends on none of them.
const (
	tick       = 100 * time.Millisecond // the loop looks at everything that often at least
	syncTime   = 5 * time.Second        // until then, a primary waits for its disk before etcd has it alone in sync
	slowAfter  = 2 * time.Second        // a replica that owes an acknowledgement for that long is slow
	commitTime = time.Second            // a transaction takes less
	switchTime = 500 * time.Millisecond // writes are held for a planned switch no longer
	// A primary that reaches nobody lets another take over for yieldTime before it makes itself the only one in sync.
	yieldTime = 3 * time.Second
)

// Agent takes a node through the life of its cluster. Its methods are safe for concurrent use.
type Agent struct {
	loop     *loop
	standing atomic.Pointer[Standing]
	troubles atomic.Pointer[[]topology.Trouble] // of the last step

	// The parts. Only the agent's goroutine uses them.
	membership membership
	starts     starts
	role       role
	untaken    untaken
	inSync     inSync
	election   election
	handover   handover
	spares     spares
	found      troubles
	linked     time.Time // when the link to the primary was seen up last
}

// New makes an agent; Start starts it.
func New(conf Config) *Agent {
	l := newLoop(conf)
	a := &Agent{loop: l, starts: starts{loop: l, known: conf.Home.Starts()}, spares: spares{loop: l}}
	a.inSync = inSync{loop: l, serve: a.serve}
	a.standing.Store(&Standing{Self: l.id, Reads: textNoMap, Writes: textNoMap})
	return a
}

// Start has the node rest, and starts to look at etcd.
func (a *Agent) Start() {
	a.loop.host.Rest(textNoMap)
	a.loop.host.Serve(a.standing.Load())
	a.loop.wg.Go(a.run)
}

// Standing is the node's present role and the commands that it may serve.
func (a *Agent) Standing() *Standing { return a.standing.Load() }

// Close ends the agent at once: the node rests, and its key goes from etcd. Call Drain first to hand over without an
// election.
func (a *Agent) Close(ctx context.Context) error {
	a.loop.stop()
	a.loop.wg.Wait()
	a.withdraw()
	a.loop.host.Rest("the node ends")
	return a.membership.close(ctx)
}

func (a *Agent) run() {
	maps := a.loop.conf.Registry.Watch(a.loop.ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-a.loop.ctx.Done():
			a.dropHold()
			return
		case m, ok := <-maps:
			if !ok {
				maps = nil // the registry was closed
				break
			}
			a.loop.adopt(m)
		case f := <-a.loop.calls:
			f()
		case <-a.loop.host.Notice():
		case <-a.membership.lost():
		case <-timer.C:
		}
		a.loop.next = tick
		a.step()
		timer.Reset(a.loop.next)
	}
}

// step runs each part once. Its decisions are valid at any moment, and a repeated step does no harm.
func (a *Agent) step() {
	a.loop.now, a.loop.log = time.Now(), a.loop.host.Log()
	a.keepMembership()
	if a.loop.m != nil {
		a.takeRole()
		a.inSync.keep(a.role.kind == leading)
		a.keepHandover()
		a.keepElection()
		a.spares.keep(a.role.kind == leading)
	}
	a.findTroubles()
	a.serve() // before others are told that they may take over
	if a.loop.m != nil {
		a.publish()
	}
}

func (a *Agent) String() string { return fmt.Sprintf("%.8s", a.loop.id) }
