package main

import "context"

// System is a replicated system with one node on each disk. Its methods other than Write are called one at a time.
type System interface {
	// Name has the version and how the system syncs.
	Name() string
	// Start starts all nodes for the first time, and makes the counter or stream for the records, with a copy on each node.
	Start(ctx context.Context) error
	// Write writes a record. It returns nil if and only if the system acknowledged the record. It may be called from many goroutines.
	Write(ctx context.Context, id uint64) error
	// Read returns how often each record is there.
	Read(ctx context.Context, ids []uint64) (map[uint64]int, error)
	// KillNode kills node i, StartNode starts it again.
	KillNode(i int)
	StartNode(i int) error
	// KillShared and StartShared do so with what the nodes need beside themselves, as etcd.
	KillShared()
	StartShared() error
	// Healthy returns nil if all nodes have all records, and changes are taken.
	Healthy(ctx context.Context) error
	// HasRecords tells whether a node keeps records in a file of that path.
	HasRecords(path string) bool
	// Stop kills all.
	Stop()
}
