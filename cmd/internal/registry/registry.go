// Package registry is where a cluster's topology is decided: in etcd, which an existing cluster of three or five members
// makes safe, so that there is no consensus of our own. Servers and tools share it.
//
// # What etcd is asked for
//
//	transactions      all changes of roles, in-sync sets, owners and moves; each compares the revisions of the keys it
//	                  writes, so that of two made from the same map one fails
//	watches           each newer map comes by itself
//	leases            a node's "live" key goes when the node does not renew it; that bounds stale reads, and makes others
//	                  look closer. No safety rests on it
//
// # Layers
//
//	Registry  maps that only grow newer, leases with deadlines; the same code over each store
//	Store     keys and revisions: etcd.go is etcd's, package registrytest has one in memory with faults
//
// # Who did not hear the answer
//
// A transaction whose answer did not come may have happened, or may happen yet: ErrUnknown. A map that is read behind it and
// does not show it proves nothing. A caller that must know the outcome commits another change of the same keys from the same
// map (topology.Touch): if that is made, the first cannot happen any more; if it conflicts, the map that is read then shows
// what happened.
package registry

import (
	"context"
	"errors"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
)

// Registry is one cluster in etcd, or in the memory of a test (package registrytest). It is safe for concurrent use. Each
// call ends with its context, or after Timeout.
type Registry interface {
	// Load reads the map as it is now: everything that was committed before is in it.
	Load(ctx context.Context) (*topology.Map, error)

	// Watch gives the map as it is, and each newer one, until ctx ends: then the channel is closed. Maps that nobody took
	// in time are left out for the newest. It never goes back to an older one, whichever member of etcd answers. While
	// etcd is away, or holds what makes no map, nothing comes, and Err says why.
	Watch(ctx context.Context) <-chan *topology.Map

	// Err is the reason why watches may lack new changes; nil while all is well.
	Err() error

	// Commit makes a change. Of its errors, ErrConflict says that what it compares has changed, and ErrUnknown that it
	// may have happened or may yet; with any other it did not happen and will not.
	Commit(ctx context.Context, c topology.Change) error

	// Register puts a node's key under a new lease, which is renewed until it is closed or lost. ttl is in whole seconds,
	// 2 at least. The key of an earlier process of the node is taken over.
	Register(ctx context.Context, id topology.NodeID, ttl time.Duration, live topology.Live) (Lease, error)

	// Alarms are faults that etcd itself reports, in sentences for people; none while all is well. While the alarm NOSPACE
	// lasts etcd answers reads and renews leases, and refuses all other writes (Commit, Register, Update).
	Alarms(ctx context.Context) ([]string, error)

	// Close ends all watches and renewals; leases run out unless they were closed before.
	Close() error
}

// Lease is a node's, see Registry.Register. It is safe for concurrent use.
type Lease interface {
	// Deadline is when the lease may have run out: the moment at which the last renewal that was answered had been sent,
	// and its time to live. It carries the monotonic clock.
	Deadline() time.Time

	// Update writes the node's key. Updates happen in the order of the calls; behind an error one may be written or not,
	// or later, but never over a later one. ErrLost and ErrTaken are for good.
	Update(ctx context.Context, live topology.Live) error

	// Lost is closed when etcd has said that the lease is no more, or the deadline has passed without a renewal: etcd may
	// have removed the key. The lease is not renewed any more; the node registers again. It is closed too when another
	// process has taken the key (Update gives ErrTaken), as one with a copy of the node's directory would, and by Close.
	Lost() <-chan struct{}

	// Close removes the key at once, if etcd can be reached until ctx ends.
	Close(ctx context.Context) error
}

var (
	// ErrConflict says that a change was not made, as a key has another revision than it compares.
	ErrConflict = topology.ErrConflict
	// ErrUnknown says that a change may have been made, or may be made yet.
	ErrUnknown = errors.New("etcd did not confirm whether the change was made")
	// ErrLost says that a lease is no more.
	ErrLost = errors.New("the lease is lost")
	// ErrTaken says that another process registered as the same node since.
	ErrTaken = errors.New("another process has registered as this node")
	// ErrClosed says that the registry was closed.
	ErrClosed = errors.New("the registry is closed")
)

// NoSpaceText is the text of Alarms for the alarm NOSPACE, before the member that raised it.
const NoSpaceText = "etcd has the alarm NOSPACE: its database is full, so it takes no writes, and no node can fail over, join or change the in-sync set. " +
	"Compact and defragment etcd, or raise its quota, then etcdctl alarm disarm"

// Timeout ends a call to etcd that has no earlier deadline: an election takes up to 2 s by its settings.
const Timeout = 5 * time.Second
