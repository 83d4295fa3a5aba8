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
// # Who did not hear the answer
//
// A transaction whose answer did not come may have happened, or may happen yet: ErrUnknown. A map that is read behind it
// and does not show it proves nothing. Who must know commits another change of the same keys from the same map
// (topology.Touch): if that is made, the first cannot happen any more; if it conflicts, the map that is read then shows
// what happened.
package registry

import (
	"context"
	"errors"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
)

// Registry is one cluster in etcd, or in the memory of a test (package registrytest). It is safe for concurrent use.
type Registry interface {
	// Load reads the map as it is now: everything that was committed before is in it. It ends with ctx at the latest.
	Load(ctx context.Context) (*topology.Map, error)

	// Watch gives the map as it is, and each newer one, until ctx ends: then the channel is closed. Maps that nobody took
	// in time are left out for the newest. It never goes back to an older one, whichever member of etcd answers; while
	// etcd is away nothing comes, and Err says why.
	Watch(ctx context.Context) <-chan *topology.Map

	// Err is why watches may lack what is new; nil while all is well.
	Err() error

	// Commit makes a change. Of its errors, ErrConflict says that what it compares has changed, and ErrUnknown that it
	// may have happened or may yet; with any other it did not happen and will not.
	Commit(ctx context.Context, c topology.Change) error

	// Register puts a node's key under a new lease, which is renewed until it is closed or lost. ttl is in whole seconds,
	// 2 at least. The key of an earlier process of the node is taken over.
	Register(ctx context.Context, id topology.NodeID, ttl time.Duration, live topology.Live) (Lease, error)

	// Close ends all watches; leases run out unless they were closed before.
	Close() error
}

// Lease is a node's, see Registry.Register. It is safe for concurrent use.
type Lease interface {
	// Deadline is when the lease may have run out: the moment at which the last renewal that was answered had been sent,
	// and its time to live. It carries the monotonic clock.
	Deadline() time.Time

	// Update writes the node's key. Behind an error it may be written or not.
	Update(ctx context.Context, live topology.Live) error

	// Lost is closed when etcd has said that the lease is no more, or the deadline has passed without a renewal: etcd may
	// have removed the key. The lease is not renewed any more; the node registers again.
	Lost() <-chan struct{}

	// Close removes the key at once, if etcd can be reached until ctx ends.
	Close(ctx context.Context) error
}

var (
	// ErrConflict says that a change was not made, as a key has another revision than it compares.
	ErrConflict = topology.ErrConflict
	// ErrUnknown says that a change may have been made, or may be made yet.
	ErrUnknown = errors.New("etcd did not say whether it was done")
	// ErrLost says that a lease is no more.
	ErrLost = errors.New("the lease is lost")
)
