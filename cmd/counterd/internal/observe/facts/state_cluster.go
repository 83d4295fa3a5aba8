package facts

import "time"

// Replication is the node's part in replication.
type Replication struct {
	ID, Second string // replication ids, as Redis has them
	SecondEnd  int64  // offset up to which Second holds; -1: none
	Failover   string // its phase: no-failover while there is none
	Priority   int
	Announced  bool
	Primary    string // host of the primary
	Port       int

	MinReplicas  int // min-replicas-to-write, 0: changes need no replica
	GoodReplicas int
	TooFew       bool // changes are refused for that

	Cuts     int // times that changes were taken back
	LastCut  string
	Diverged int // files with changes that were taken back

	Healing string        // what was damaged, while the node has no data of its own; empty: it has
	Since   time.Duration // how long that has been so
	Waits   string        // the damage, while another node with the data is looked for; empty: none is
	Healed  uint64        // times that the node got its data back

	HealingLost uint64 // bytes of its log that no node had

	ClosedID  string // of the log of a node that cannot open its data, and waits for its primary; empty: it is not such a node
	ClosedEnd uint64 // of that log

	RefilledLog, NotesMended                uint64 // log segments that got the frames of another node; notes that were written again
	Refilled, RefilledPosts, RefillFailures uint64 // ranges with damaged files that got the posts of another node

	Compare Compare
}

// Compare is the result of comparing posts with other nodes.
type Compare struct {
	Posts, Ranges       uint64
	Missed, Unreadable  uint64 // ranges
	Passes              uint64
	LastPass            time.Time // zero: there was none
	PassTook            time.Duration
	Differences, Mended uint64 // posts
	Differing           uint64 // ranges that could not be mended
	Recently            bool   // posts differed in the last day
	Last                string
}

// Link is that of a replica to its primary.
type Link struct {
	Primary       string
	State         string // connect, connecting, sync or connected
	Error         string
	Down          time.Duration // how long it has not been connected
	LastIO        time.Duration // since the primary was last heard from; negative: never
	Behind        uint64        // bytes of log
	Copied, Total int64         // bytes of a full copy
	Lacks         bool          // the primary lacks a confirmed change
}

// Up tells whether the replica follows its primary.
func (l *Link) Up() bool { return l.State == "connected" }

// Copying tells whether the replica takes a full copy.
func (l *Link) Copying() bool { return l.State == "sync" }

// Replica is a replica of this node.
type Replica struct {
	Host     string
	Port     int
	Addr     string // of both
	Online   bool   // else it is being sent a full copy
	Watching bool   // it is sent commands and keeps nothing: redis-cli --replica
	Applied  uint64 // log offsets
	Sent     uint64
	Durable  uint64
	Behind   uint64        // bytes of log that it has not applied
	Lag      time.Duration // since its last acknowledgement
	Kept     int64         // bytes of log that are kept from where it stands; negative: it needs a full copy
}

// Cluster is the node's part in its cluster, and its knowledge of the whole.
type Cluster struct {
	Name     string
	NodeID   string
	Shard    int // its number; 0: a free node
	Epoch    uint64
	Primary  bool
	Reads    string // why they are refused; empty: they are served
	Writes   string // the same for changes
	Slots    int    // hash slots that the node serves
	Lease    time.Duration
	Revision int64 // of the map
	Schema   int64 // revision of the cluster's schema

	Members, InSync int // of the shard
	Shards, Nodes   int
	Away, Free      int // nodes without a lease; nodes of no shard
	Unowned, Down   int // hash slots of no shard; of a shard whose primary is away
	Headless, Thin  int // shards whose primary is away; with nodes that are not in sync
	Moves           int
	Unconfirmed     uint64 // bytes of log that not all nodes have that must
}

// Agent is the part of a node that talks to etcd.
type Agent struct {
	Etcd                                           string // why etcd is not heard from; empty: it is
	Troubles                                       []Trouble
	Promotions, Switches, Shrinks, Expands, Spares uint64
	Conflicts, Failed, LeasesLost                  uint64
}

// Trouble is a fault that a node of a cluster reports about itself.
type Trouble struct {
	ID       string
	Severity string
	Text     string
	Severe   bool // clients notice
}
