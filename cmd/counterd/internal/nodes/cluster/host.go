package cluster

import (
	"context"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/slot"
)

// Host is the part of the server that the agent uses. The agent calls it from one goroutine; a call may take as long as the
// disk does, but waits for no other node, except TakeLastFrames.
type Host interface {
	// Shard names the node's shard, and the newest epoch of it that began unclean (topology.Shard); 0 if none did. From that
	// epoch on, the node may cut changes that were confirmed before, to follow its primary. Otherwise it never cuts confirmed
	// changes: see LinkState.Lacks. Shard comes before Lead and Follow.
	Shard(id topology.ShardID, unclean uint64)

	// BeginEmpty ends the healing of a node (LogState.Healing) that is to be the first primary of its shard: there is no data to copy.
	BeginEmpty() error

	// Lead begins the term of an epoch and returns when that is durable. Nothing of an older epoch is acknowledged any
	// more, here or to an older primary, and nothing of this one before Require. Clients change nothing before Serve says so.
	Lead(epoch uint64) error

	// Follow makes the node the replica of another, whose frames are taken while they carry the epoch. It tries for as long
	// as it is told nothing else.
	Follow(id topology.NodeID, address string, epoch uint64) error

	// TakeLastFrames gets the end of the log from other nodes in sync, at these addresses, that cannot open their directories. Without an error, the log
	// has all acknowledged changes, and is no longer Behind. With an error, shorter has the nodes that may lack acknowledged changes,
	// too, and have no more of the log than this one. It may wait for other nodes, and is called beside the agent's goroutine.
	TakeLastFrames(ctx context.Context, from map[topology.NodeID]string) (shorter []topology.NodeID, err error)

	// Rest makes the node neither primary nor replica: it takes no changes, feeds no replica and follows no primary. Clients
	// that wait for a change to be confirmed get UNCERTAIN.
	Rest(why string)

	// Require sets the nodes that must have a change before it is acknowledged: each of ids and the node itself. It is in
	// force when Require returns.
	Require(ids []topology.NodeID)

	// Alone says whether etcd may have no other node in sync than this primary, from now on or soon. Then replicas are told of confirmed changes only as far
	// as these are durable here: a power failure of this node takes the others back. With both set, changes are also confirmed only as
	// far as they are durable here, besides those that were confirmed before. It is in force when Alone returns. A term begins with neither.
	Alone(alone, both bool)

	// Careful has a replica acknowledge only changes that are durable here, besides those that it has acknowledged, until it is called with false.
	Careful(on bool)

	// Hurry has the log durable up to an offset by one more sync, which begins at once or behind the one under way, where appendfsync leaves that for
	// later. It does not wait. Called once for an offset.
	Hurry(offset uint64)

	// Doubt answers UNCERTAIN to clients that wait for a change to be confirmed, now and later, until it is called with nil.
	Doubt(err error)

	// Replica returns a primary's knowledge of a replica.
	Replica(id topology.NodeID) ReplicaState

	// Link returns a replica's knowledge of its primary.
	Link() LinkState

	// Log is how far the node's own log is.
	Log() LogState

	// HoldWrites lets changes of clients wait until release is called, for max at most, and returns when none is under way.
	HoldWrites(max time.Duration) (release func(), err error)

	// Serve sets the commands that clients may run from now on. With Writes set, no change is made after Serve has returned.
	Serve(s *Standing)

	// Notice carries a value when one of Replica, Link, Log has changed in a way that matters: a link came up, broke or was
	// refused, another epoch was heard of, a replica caught up. A notice that nobody received is not repeated.
	Notice() <-chan struct{}
}

// LogState is how far a node's log is, in bytes since its beginning.
type LogState struct {
	Epoch     uint64 // of the term that the log ends in
	Position  uint64 // behind the last change, written or not
	Written   uint64
	Durable   uint64
	Confirmed uint64 // all required nodes have it
	Waiting   bool   // a client waits for written changes to be confirmed
	// Behind is set while the log may lack changes that the node acknowledged, because the machine lost power or the log was
	// cut for a primary. It ends, durably, when the node has caught up with a primary, or leads.
	Behind bool
	// Healing is set while the data was set aside as it was damaged, and no other node's data has been copied yet. Lead fails until then.
	Healing bool
	ReplID  string   // of the log since the term began
	Err     error    // why nothing can be written: the disk failed or is full
	Hangs   bool     // a write or a sync of the log has not ended for 2 s, and may never; Err is set too
	Lacks   slot.Set // groups of the shard whose posts the log of its primary says are not here, and that no move brings
	Posts   uint64   // in memory and on disk
	Bytes   uint64   // of data, memory and files
	Ops     uint64   // commands a second, of late
}

// ReplicaState is a primary's knowledge of a replica.
type ReplicaState struct {
	Connected bool      // it was heard of lately: an open connection is not enough
	Process   string    // of the other end, as its Live.Process
	Heard     time.Time // of its last word on this link; it has one every second at least
	// Has is the offset that the replica acknowledged on this link in this epoch: it has all changes up to there, by its own
	// appendfsync. For required nodes it stays valid while the link is broken.
	Has uint64
	// CaughtUp is the last moment at which the replica had acknowledged the whole log; zero: never in this epoch.
	CaughtUp time.Time
	// Waiting is the time since which a written change waits for the replica's acknowledgement; zero: none waits.
	Waiting time.Time
}

// LinkState is a replica's knowledge of its primary.
type LinkState struct {
	Connected bool // the other was heard of lately: an open connection is not enough
	// Refused is set while the other's port refuses connections: nothing listens there, so its process is dead. It must not
	// be set for a connection that timed out.
	Refused bool
	// Lacks is the epoch in which changes were confirmed that the other lacks, by the histories of the two logs: the node
	// does not follow it, as it would have to cut its log. 0: there are none.
	Lacks uint64
	// Newer is the highest epoch of Lead and Follow. Epochs that other nodes report are no more than a reason to wake: see
	// Notice.
	Newer uint64
}
