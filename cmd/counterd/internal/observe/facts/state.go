package facts

import (
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/observe/stats"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist"
)

// State is a server at a moment, or nearly: its parts are read one after the other. Counts are since the start or the
// last CONFIG RESETSTAT. Parts that were not requested are zero.
type State struct {
	Filled Part // the parts that are filled

	Process Process
	Loading *Loading // nil: no data is being loaded
	Role    string   // primary or replica
	Refusal string   // the error that a change gets now; empty: changes are accepted
	Pause   string   // the cause of delayed commands: CLIENT PAUSE, FAILOVER

	Clients     Clients
	Connections Connections
	Traffic     Traffic
	Denied      Denied
	Slow        Slow
	Memory      stats.Memory
	Limits      Limits
	CPU, Waited stats.CPU // of the process, and of its ended children
	Commands    []Command // those that were called, rejected or failed
	Errors      []stats.ErrorCount
	Pubsub      Pubsub
	Tracking    Tracking

	Tiers     counter.TierStats // only its totals: see counter.Admin.TierCounts
	Repacks   int64
	TopLists  counter.TopListStats
	Repacking time.Duration
	Usage     []counter.Usage
	Posts     int
	Counters  int
	Columns   int
	Producers counter.ProducerStats

	Cursors []counter.FeedCursorState // as of the last second
	Hot     []HotPost

	Aging []Aging // of the counters with retain
	Ticks Ticks

	Disk      Disk
	Log       persist.Stats
	Snapshots counter.SnapshotStats

	Replication Replication
	Replicas    []Replica
	Link        *Link // nil: a primary, or a replica of no primary

	Cluster *Cluster // nil: the server is not a node of a cluster
	Agent   *Agent   // nil: it is none, or it has not joined yet
}

// Process has facts that never or seldom change.
type Process struct {
	Version        string // of the program
	RedisVersion   string // that clients are told
	Mode           string // standalone or cluster
	RunID          string
	Port           int
	ReadonlyPort   int
	ConfigFile     string
	Started        time.Time
	Panics         int64
	Certificate    time.Time // when the TLS certificate that this node shows ends; zero: it shows none
	ClusterEnabled bool
}

// Loading is how far the loading of data has come.
type Loading struct {
	Began       time.Time
	Done, Total uint64        // bytes
	Left        time.Duration // 0: not known
}

// Aging tells of a counter with retain which posts were dropped by age.
type Aging struct {
	Counter       string
	Retain        time.Duration
	Known         bool // Cut, Mid and Next: this node has made a cut since its start
	Cut, Next     time.Time
	Mid           uint64 // posts below it are gone
	Posts, Blocks int64
}

// Ticks are the time of the log, by which windows are counted.
type Ticks struct {
	Known   bool // there is a column that needs ticks, and there was one
	Last    time.Time
	Overdue time.Duration // for so long the next tick has been due
}

// Clients are the connections.
type Clients struct {
	Connected, Readers  int // all; of them those of the port for reads
	Blocked             int64
	Max, ReadersMax     int
	Accepted, Rejected  int64 // rejected: for maxclients, protected mode, or too few descriptors
	Evicted, Overflowed int64 // closed by maxmemory-clients, by client-output-buffer-limit
	ProtocolErrors      int64
	FailedHandshakes    int64 // of TLS
	Buffered, Unread    int64 // bytes in buffers; bytes of messages that subscribers have not read
	HeldMax             int64 // maxmemory-clients, 0: no limit
	Watching            int   // clients with watched keys
}

// Connections are facts that are found by a look at each connection.
type Connections struct {
	InputMax, OutputMax int // the largest buffers
	Subscribers         int
}

// Traffic counts received and sent bytes, commands and connections.
type Traffic struct {
	Commands                int64
	InBytes, OutBytes       int64
	Hits, Misses            int64 // operations on posts that exist, and that do not
	ErrorReplies            int64
	Reads, Writes           int64 // of connections
	Rates                   stats.Rates
	Unsaved                 int64 // changing commands since the last snapshot
	Syncs, Partial, Refused int64 // how replicas began to follow
}

// Limits are settings and limits of the machine.
type Limits struct {
	MaxMemory        int64
	System           int64 // RAM of the machine, 0: not known
	Startup          int64 // bytes that were in use when the server was made
	MaxProducers     int
	MaxProducerBytes int64
	MinIdle          int    // idmp-min-idle
	FeedRetain       uint64 // bytes
}

// Denied are refusals by ACL.
type Denied struct{ Auth, Command, Key, Channel int64 }

// Slow is the slow log.
type Slow struct{ Len, Total int64 }

// Pubsub counts subscriptions.
type Pubsub struct{ Channels, Patterns, Shards int }

// Tracking counts keys that clients cache.
type Tracking struct{ Clients, Keys, Items, Prefixes int }

// Command is a row of the command table.
type Command struct {
	Name             string
	Calls            int64
	Nanos            int64
	Rejected, Failed int64
	Times            *stats.Histogram
	PerSec           float64 // in the last second; set by the console
}

// Disk is the data directory. Log and Snapshots are unknown unless Durable.
type Disk struct {
	counter.DiskStats
	Durable  bool   // data is kept on disk at all
	Fsync    string // appendfsync
	Memory   bool   // appendonly is no
	Trouble  string // why the log takes no changes; empty: it does
	LastSave time.Time
	Due      uint64 // bytes of log at which a snapshot is made automatically, 0: never
}

// FreeKnown tells whether the file system says how much space is free.
func (d *Disk) FreeKnown() bool { return d.Total > 0 && d.Free != counter.FreeUnknown }
