package cluster

import (
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/slot"
)

// Host is what the agent asks of the server. The agent calls it from one goroutine; a call may take as long as the disk
// does, but waits for no other node.
type Host interface {
	// Shard says of which shard the node is, and the newest epoch of it that began unclean (topology.Shard), 0 if none did. Behind
	// it the node gives up what was confirmed before, for its primary, and else never: see LinkState.Lacks. It comes before
	// Lead and Follow.
	Shard(id topology.ShardID, unclean uint64)

	// Lead begins the term of an epoch and returns when that is durable. Nothing of an older epoch is acknowledged any
	// more, here or to an older primary, and nothing of this one before Require. Clients change nothing before Serve says so.
	Lead(epoch uint64) error

	// Follow makes the node the replica of another, whose frames are taken while they carry the epoch. It tries for as long
	// as it is told nothing else.
	Follow(id topology.NodeID, address string, epoch uint64) error

	// Rest makes the node neither: nothing is changed, nobody is fed or followed. Who waits for a change to be confirmed is
	// told that it is uncertain.
	Rest(why string)

	// Require says who must have a change before it is acknowledged: each of ids and the node itself. It is in force on
	// return.
	Require(ids []topology.NodeID)

	// Doubt answers who waits for a change to be confirmed, and who will, by UNCERTAIN, until it is called with nil.
	Doubt(err error)

	// Replica is what a primary knows of one that follows it.
	Replica(id topology.NodeID) ReplicaState

	// Link is what a replica knows of the one it follows.
	Link() LinkState

	// Log is how far the node's own log is.
	Log() LogState

	// HoldWrites lets changes of clients wait until release is called, for max at most, and returns when none is under way.
	HoldWrites(max time.Duration) (release func(), err error)

	// Serve says what clients get from now on. With Writes set no change is made any more behind its return.
	Serve(s *Standing)

	// Notice carries a value when one of Replica, Link, Log has changed in a way that matters: a link came up, broke or was
	// refused, another epoch was heard of, a replica caught up. What was not taken in time is not repeated.
	Notice() <-chan struct{}
}

// LogState is how far a node's log is, in bytes since its beginning.
type LogState struct {
	Epoch     uint64 // of the term that the log ends in
	Written   uint64
	Durable   uint64
	Confirmed uint64 // all whom Require names have it
	Waiting   bool   // somebody waits for what is written to be confirmed
	// Behind is set where the log may lack what it acknowledged, as the machine went down under it or it was cut for a
	// primary. It ends, durably, when the node has caught up with a primary, or leads.
	Behind bool
	ReplID string   // of the log since the term began
	Err    error    // why nothing can be written: the disk failed or is full
	Hangs  bool     // a write or a sync of the log has not ended for 2 s, and may never; Err is set too
	Lacks  slot.Set // groups of the shard whose posts the log of its primary says are not here, and that no move brings
	Posts  uint64   // in memory and on disk
	Bytes  uint64   // of data, memory and files
	Ops    uint64   // commands a second, of late
}

// ReplicaState is what a primary knows of a node that follows it.
type ReplicaState struct {
	Connected bool      // it was heard of lately: an open connection is not enough
	Process   string    // of the other end, as its Live.Process
	Heard     time.Time // of its last word on this link; it has one every second at least
	// Has is what it acknowledged on this link in this epoch: all up to there is there, by its own appendfsync. It goes on
	// while the link is broken for who is required.
	Has uint64
	// CaughtUp is the last moment at which it had acknowledged all that was written then; zero: never in this epoch.
	CaughtUp time.Time
	// Waiting is since when something that was written waits for its acknowledgement; zero: nothing does.
	Waiting time.Time
}

// LinkState is what a replica knows of the node that it follows.
type LinkState struct {
	Connected bool // the other was heard of lately: an open connection is not enough
	// Refused is set while the other's port refuses connections: nothing listens there, so its process is dead. It must not
	// be set for a connection that timed out.
	Refused bool
	// Lacks is the epoch in which changes were confirmed that the other lacks, by the histories of the two logs: the node
	// does not follow it, as it would have to cut its log. 0: there are none.
	Lacks uint64
	// Newer is the highest epoch of Lead and Follow. What others say of epochs is no more than a reason to wake: see Notice.
	Newer uint64
}
