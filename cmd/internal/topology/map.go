package topology

import "time"

// NodeID is 40 lower-case hex digits, as in Redis Cluster.
type NodeID string

// ShardID counts from 1.
type ShardID int

// Cluster is what holds for all of a cluster. Key: <prefix>/cluster.
type Cluster struct {
	Format    int       `json:"format"` // of all of these values: a higher one than this program's is refused
	ID        string    `json:"id"`     // random: a cluster of the same name that was made anew is another one
	Created   time.Time `json:"created"`
	Replicas  int       `json:"replicas"`  // wanted of each shard
	MinInSync int       `json:"minInSync"` // nodes that must have a change before it is acknowledged, the primary counted
}

// Node is a node as it registered itself. Key: <prefix>/node/<id>; it stays when the node is away.
type Node struct {
	ID       NodeID  `json:"id"`
	Host     string  `json:"host"` // as clients reach it
	Port     int     `json:"port"`
	TLSPort  int     `json:"tlsPort,omitempty"` // one of the two is not 0
	HTTP     string  `json:"http,omitempty"`    // host:port of metrics and page
	Zone     string  `json:"zone,omitempty"`    // rack or zone: replicas of a shard are spread over them
	Version  string  `json:"version"`
	Shard    ShardID `json:"shard,omitempty"` // 0: a free node
	Revision int64   `json:"-"`
}

// Live says that a node's process runs. Key: <prefix>/live/<id>, under a lease; written again when it changes, and each
// few seconds for the sake of its figures.
type Live struct {
	Process string `json:"process"` // random, of the process: it changes with each start
	Address string `json:"address"` // host:port by which nodes reach it
	Epoch   uint64 `json:"epoch"`   // highest of its shard that it has seen
	// Written and Durable are log offsets that it has; Behind is set where it may lack what it acknowledged, as the
	// machine went down under it (appendfsync everysec): until it has caught up it is no candidate unless all others
	// were asked.
	Written uint64 `json:"written"`
	Durable uint64 `json:"durable"`
	Behind  bool   `json:"behind,omitempty"`
	Posts   uint64 `json:"posts"`
	Bytes   uint64 `json:"bytes"` // of data, memory and files
	Ops     uint64 `json:"ops"`   // commands a second, of late
}

// Shard is the nodes that hold one log. Key: <prefix>/shard/<n>.
type Shard struct {
	ID      ShardID  `json:"id"`
	Epoch   uint64   `json:"epoch"`
	Primary NodeID   `json:"primary"`
	InSync  []NodeID `json:"inSync"` // the primary is one of them
	// Groups that the shard owns. That a move was committed is told by them alone.
	Groups   GroupSet `json:"groups"`
	ReplID   string   `json:"replid,omitempty"` // of the log since the epoch began; empty until its primary leads
	Revision int64    `json:"-"`                // of the key, for Txn
}

// Move is groups on their way. Key: <prefix>/move/<id>; it is removed when both sides have done their part.
type Move struct {
	ID       string    `json:"id"` // random
	Groups   GroupSet  `json:"groups"`
	From     ShardID   `json:"from"`
	To       ShardID   `json:"to"`
	State    MoveState `json:"state"`
	Began    time.Time `json:"began"`
	Error    string    `json:"error,omitempty"` // of an aborted one
	Revision int64     `json:"-"`
}

// MoveState is how far a move is.
type MoveState string

const (
	MoveCopying   MoveState = "copying"   // the destination fetches; the source owns
	MoveCommitted MoveState = "committed" // the destination owns; the source has to drop
	MoveAborted   MoveState = "aborted"   // the source owns; the destination has to drop
)

// Map is all that is known of a cluster at one revision of etcd. It is immutable: readers share it.
type Map struct {
	Revision int64
	Cluster  Cluster
	Nodes    map[NodeID]*Node
	Live     map[NodeID]*Live // those under a lease
	Shards   []*Shard         // by id, without gaps in order but maybe in ids
	Moves    []*Move          // by id

	owner [256]*Shard // by group; nil: nobody's
}
