package registry

import (
	"context"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
)

// Store is the interface to etcd: the keys of one cluster, without their prefix. It is safe for concurrent use. Reads
// are linearizable: they see all changes committed before.
type Store interface {
	// Get reads every key, at one revision.
	Get(ctx context.Context) (revision int64, kvs []topology.KV, err error)

	// Watch calls for all changes from a revision on, in order, those of a revision together, until ctx ends, the
	// function returns an error, or the stream may lack something: changes compacted, the connection lost.
	Watch(ctx context.Context, from int64, changed func(revision int64, kvs []topology.KV) error) error

	// Txn makes a change: its errors are those of Registry.Commit.
	Txn(ctx context.Context, c topology.Change) error

	// Grant makes a lease, that lives at least ttl from now on if it is not renewed.
	Grant(ctx context.Context, ttl time.Duration) (Granted, error)

	// Renew makes a lease live on for the time that it returns; ErrLost: there is no such lease.
	Renew(ctx context.Context, lease int64) (ttl time.Duration, err error)

	// PutLeased writes a key under a lease if it has the revision, else it says which it has, and which lease. ErrLost:
	// there is no such lease.
	PutLeased(ctx context.Context, kv topology.KV, lease int64) (Leased, error)

	// Revoke ends a lease; its keys are removed.
	Revoke(ctx context.Context, lease int64) error

	// Alarms are Registry's.
	Alarms(ctx context.Context) ([]string, error)

	Close() error
}

// Granted is a new lease.
type Granted struct {
	Lease int64
	TTL   time.Duration
}

// Leased is a key as it is behind PutLeased.
type Leased struct {
	Written  bool
	Revision int64 // 0: there is none
	Lease    int64 // 0: none
}
