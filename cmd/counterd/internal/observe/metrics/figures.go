package metrics

import (
	"slices"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist"
)

// Source is the server whose figures are shown.
type Source interface {
	// Figures returns those of now. It is called by one goroutine at a time.
	Figures() *Figures
}

// Figures are those of a server at a moment, or nearly: they are read one after the other. Durations and sizes are as
// their types say, counts are since the start or the last CONFIG RESETSTAT.
type Figures struct {
	Version  string // counterd's own
	Loading  Loading
	Clients  Clients
	Traffic  Traffic
	Commands []Command // those that were called, refused or failed
	Errors   []Error
	Memory   Memory
	Slow     Slow
	Denied   Denied
	// When the certificate that this node shows ends; zero: it shows none.
	CertificateUntil time.Time
	Pubsub           Pubsub
	Tracking         Tracking

	Cluster *Cluster // nil: the server is no node of one

	// Of the store: nil while data is loaded.
	Store *Store
}

// Loading is how far the reading of data at the start has come.
type Loading struct {
	Active      bool
	Done, Total uint64 // bytes
}

// Clients are the connections.
type Clients struct {
	Connected, Readonly    int // all; of them those of the port for reads
	Blocked                int64
	Max, ReadonlyMax       int
	Accepted, Refused      int64 // refused: for maxclients, protected mode, or too few descriptors
	Evicted, Overflowed    int64 // closed by maxmemory-clients, by client-output-buffer-limit
	ProtocolErrors         int64
	FailedHandshakes       int64 // of TLS
	HeldBytes, UnreadBytes int64 // in buffers; of messages that subscribers have not read
	MaxBytes               int64 // maxmemory-clients, 0 is none
	Panics                 int64
}

// Traffic is what came and went.
type Traffic struct {
	InBytes, OutBytes int64
	Hits, Misses      int64 // operations on posts that were there, and not
}

// Buckets are a histogram: value i is of more than 2^(i-1) and at most 2^i units, the last one of all larger values.
type Buckets struct {
	Counts []uint64
	Sum    float64 // of all values, in the unit of the series
	Unit   float64 // of a bound, in the unit of the series
}

// from puts all before a bucket into that one.
func (b Buckets) from(first int) Buckets {
	counts := slices.Clone(b.Counts[first:])
	for _, n := range b.Counts[:first] {
		counts[0] += n
	}
	return Buckets{counts, b.Sum, b.Unit * float64(int(1)<<first)}
}

// Command is a row of the command table.
type Command struct {
	Name             string
	Calls            int64
	Rejected, Failed int64
	Times            Buckets
}

// Error says how many replies began with a word.
type Error struct {
	Word string
	N    int64
}

// Memory is that of the process as INFO tells it, in bytes.
type Memory struct{ Used, Peak int64 }

// Slow is the slow log.
type Slow struct{ Len, Total int64 }

// Denied are clients that were refused by ACL: the wrong password, or no right to a command, a key, a channel.
type Denied struct{ Auth, Command, Key, Channel int64 }

// Pubsub is who is subscribed to what.
type Pubsub struct{ Channels, Patterns, Shards int }

// Tracking is what clients keep and want to hear of.
type Tracking struct{ Clients, Items, Prefixes int }

// Store is all that is the store's and the node's.
type Store struct {
	Role        string // primary or replica
	Failover    bool   // one is under way
	Usage       []counter.Usage
	Tiers       counter.TierStats // only its totals: see Admin.TierCounts
	Repacks     int64
	Repacking   time.Duration
	Producers   counter.ProducerStats
	IdmpMax     int
	IdmpBytes   int64 // limit
	CutTails    int
	CutFiles    int
	Peers       []Peer
	Syncs       Syncs
	Link        *Link   // nil: a primary
	Disk        *OnDisk // nil: data is in memory only
	Ready       bool    // changes are taken, as far as the disk goes
	FewReplicas bool    // min-replicas-to-write refuses changes
}

// OnDisk is what a store with a data directory has.
type OnDisk struct {
	Log       persist.Stats
	Snapshots counter.SnapshotStats
	Space     counter.DiskStats
}

// Peer is a replica that is connected.
type Peer struct {
	Name   string // address:port
	Online bool
	Behind uint64 // bytes of log that it has not
	Lag    time.Duration
	Kept   int64 // bytes of log that are kept from where it stands; below 0 it needs a full copy
}

// Syncs are how replicas began to follow.
type Syncs struct{ Full, Partial, Refused int64 }

// Link is that to the primary.
type Link struct {
	Up, Copying   bool
	LastIO        time.Duration // since the primary was last heard of; below 0: never
	DownFor       time.Duration
	Behind        uint64
	Copied, Total int64
}
