package console

import (
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/observe/stats"
)

// Source is the server that the page is about. Its methods are called by one goroutine at a time, but for Walk and MidTime,
// which may run beside the others.
type Source interface {
	// Totals are what was done so far. Each second.
	Totals() Totals
	// Vitals are what the verdict is about. Each second, so they must be cheap, and must not wait for the disk.
	Vitals() Vitals
	// Details are what is shown beside. Each second while somebody watches. limit bounds each list in it.
	Details(limit int) Details
	// MidTime is how mids carry time, as an operator says.
	MidTime() MidTime
	// Walk calls f for the blocks counter by counter in the order of their ranges. It may stop early with an error, as
	// when the store is closed: what f was told is not used then.
	Walk(f func(Block)) error
}

// Totals are counted since the start, or since they were reset.
type Totals struct {
	Commands, Writes, Errors int64 // Writes are commands that may change data, of Commands
	ColdReads                int64 // operations that read a cold page
	Times                    stats.Histogram
}

// Vitals are what the verdict is about.
type Vitals struct {
	RunID    string    `json:"run"`
	Role     string    `json:"role"` // primary or replica
	Loading  *Loading  `json:"loading,omitempty"`
	Refusal  string    `json:"refusal,omitempty"` // why a change is refused now, as a client is told; empty: it is not
	Pause    string    `json:"pause,omitempty"`   // what waits and why: CLIENT PAUSE, FAILOVER
	Disk     Disk      `json:"disk"`
	Snapshot Snapshot  `json:"snapshot"`
	Memory   Memory    `json:"memory"`
	Damage   Damage    `json:"damage"`
	Link     *Link     `json:"link,omitempty"`    // nil: a primary, or a replica of nobody
	Cluster  *Cluster  `json:"cluster,omitempty"` // nil: it is in none
	Replicas []Replica `json:"replicas"`
	Clients  Clients   `json:"clients"`

	Certificate  int64 `json:"certificate,omitempty"` // ms since 1970 until which the TLS certificate is good, 0: none
	MinReplicas  int   `json:"minReplicas"`
	GoodReplicas int   `json:"goodReplicas"`
	Diverged     int   `json:"diverged"` // files with changes that were taken back
	Panics       int64 `json:"panics"`
}

// Loading is how far the store's recovery has come.
type Loading struct {
	Done  uint64        `json:"done"` // bytes
	Total uint64        `json:"total"`
	Left  time.Duration `json:"left"` // 0: not known
}

// Disk is the data directory, and the log in it.
type Disk struct {
	Durable    bool          `json:"durable"`           // data is kept on disk at all
	EverySec   bool          `json:"everySec"`          // the log is to be synced each second
	Trouble    string        `json:"trouble,omitempty"` // why the log takes no changes; empty: it does
	Total      int64         `json:"total"`             // bytes, 0: not known
	Free       int64         `json:"free"`              // bytes, -1: not known
	Reserve    int64         `json:"reserve"`
	Low        bool          `json:"low"`
	LogFirst   uint64        `json:"logFirst"` // offsets
	LogEnd     uint64        `json:"logEnd"`
	LogDurable uint64        `json:"logDurable"`
	LogBytes   int64         `json:"logBytes"`
	LogDisk    int64         `json:"logDisk"` // what it takes on disk: what is only kept is compressed
	Segments   int           `json:"segments"`
	Unsynced   time.Duration `json:"unsynced"` // age of the oldest byte that is not synced
	LastSync   time.Duration `json:"lastSync"`
	MaxSync    time.Duration `json:"maxSync"`
	SyncErrors uint64        `json:"syncErrors"`
}

// Snapshot is the newest snapshot and the last attempt to make one.
type Snapshot struct {
	Generation uint64        `json:"generation"` // 0: there is none
	At         int64         `json:"at"`         // ms since 1970, 0: none
	Bytes      uint64        `json:"bytes"`
	Blocks     int           `json:"blocks"`
	Took       time.Duration `json:"took"`
	Running    bool          `json:"running"`
	Error      string        `json:"error,omitempty"` // of the last attempt
	Behind     uint64        `json:"behind"`          // bytes of log since it, which a start replays
	Due        uint64        `json:"due"`             // bytes of log at which one is made by itself, 0: never
}

// Memory is what the process takes, in bytes.
type Memory struct {
	Store  int64 `json:"store"` // what counts against Limit: blocks, overlays, pages
	Limit  int64 `json:"limit"` // maxmemory, 0: none
	Cache  int64 `json:"cache"` // pages of cold files
	Full   bool  `json:"full"`  // changes that need memory are refused
	Heap   int64 `json:"heap"`
	RSS    int64 `json:"rss"`
	System int64 `json:"system"` // RAM of the machine, 0: not known
}

// Damage is what cannot be read.
type Damage struct {
	Files       int64 `json:"files"`       // cold files that could not be opened
	ReadErrors  int64 `json:"readErrors"`  // operations on pages that cannot be read
	ScrubErrors int64 `json:"scrubErrors"` // files found damaged in the background
}

// Link is a replica's to its primary.
type Link struct {
	Primary string        `json:"primary"`
	State   string        `json:"state"` // connect, connecting, sync or connected
	Error   string        `json:"error,omitempty"`
	Down    time.Duration `json:"down"`   // how long it is not connected
	LastIO  time.Duration `json:"lastIO"` // since the primary was heard of; negative: never
	Behind  uint64        `json:"behind"` // bytes of log
	Copied  int64         `json:"copied"` // of a full copy, bytes
	Total   int64         `json:"total"`
}

// Replica is one that follows this node.
type Replica struct {
	Addr   string        `json:"addr"`
	Online bool          `json:"online"` // else it is being sent a full copy
	Behind uint64        `json:"behind"` // bytes of log that it has not acknowledged
	Lag    time.Duration `json:"lag"`    // since its last word
	Kept   int64         `json:"kept"`   // bytes of log kept below what it has; negative: it needs a full copy
}

// Clients counts connections.
type Clients struct {
	Connected  int   `json:"connected"`
	Max        int   `json:"max"`
	Readers    int   `json:"readers"` // of Connected, on the port for reads
	ReadersMax int   `json:"readersMax"`
	Blocked    int64 `json:"blocked"`
	Rejected   int64 `json:"rejected"`
	Evicted    int64 `json:"evicted"`
	Held       int64 `json:"held"` // bytes of buffers
	HeldMax    int64 `json:"heldMax"`
}

// Details are what is shown beside the verdict.
type Details struct {
	Server   []Setting `json:"server"`
	Commands []Command `json:"commands"` // most called first
	Slow     []Slow    `json:"slow"`     // newest first
	Hot      []HotPost `json:"hot"`      // posts that are read and written most
	Largest  []Client  `json:"largest"`  // clients that hold most
	Busiest  []Client  `json:"busiest"`  // that sent most commands
	Restore  *Restore  `json:"restore,omitempty"`
	Shards   []Shard   `json:"shards,omitempty"` // of the cluster, those with a fault first, the free nodes last
	Counters int       `json:"counters"`
	Columns  int       `json:"columns"`

	Subscribers   int   `json:"subscribers"`
	Producers     int   `json:"producers"` // of numbered commands
	ProducerBytes int64 `json:"producerBytes"`
}

// Setting is a line about the server: a name and a value, for people.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Command is one of the command table that was called.
type Command struct {
	Name   string        `json:"name"`
	Calls  int64         `json:"calls"`
	Failed int64         `json:"failed"` // refused or answered by an error
	Mean   time.Duration `json:"mean"`
	P50    time.Duration `json:"p50"` // at most, as the next two
	P99    time.Duration `json:"p99"`
	P999   time.Duration `json:"p999"`
	PerSec float64       `json:"rate"` // in the last second; set by the monitor
}

// HotPost is a post that is read or written often, as COUNTER.HOT has it.
type HotPost struct {
	Key    string  `json:"key"`
	Reads  float64 `json:"reads"` // a second, as the next one
	Writes float64 `json:"writes"`
}

// Restore is what counterctl restore can go back to.
type Restore struct {
	From      int64   `json:"from"` // ms since 1970: every state since then
	FromStart bool    `json:"fromStart"`
	Offset    uint64  `json:"offset"`
	Retain    uint64  `json:"retain"` // bytes of log kept for replicas that come back
	Points    []Point `json:"points"` // snapshots, newest first
}

// Point is a snapshot.
type Point struct {
	Generation uint64 `json:"generation"`
	At         int64  `json:"at"` // ms since 1970
	Offset     uint64 `json:"offset"`
	Bytes      uint64 `json:"bytes"`
	Blocks     int    `json:"blocks"`
}

// Slow is an entry of the slow log.
type Slow struct {
	ID   int64         `json:"id"`
	At   int64         `json:"at"` // ms since 1970
	Took time.Duration `json:"took"`
	Text string        `json:"text"`
	Addr string        `json:"addr"`
	Name string        `json:"name,omitempty"`
}

// Client is a connection.
type Client struct {
	ID       int64  `json:"id"`
	Addr     string `json:"addr"`
	Name     string `json:"name,omitempty"`
	Lib      string `json:"lib,omitempty"`
	Age      int64  `json:"age"`  // seconds
	Idle     int64  `json:"idle"` // seconds
	Memory   int64  `json:"memory"`
	Commands int64  `json:"commands"`
	Last     string `json:"last,omitempty"` // its last command
	Flags    string `json:"flags"`          // as in CLIENT LIST
}

// Block is one of the map.
type Block struct {
	Counter   string
	Lo, Hi    uint64 // mids, Hi exclusive
	Open      bool   // the last one
	Cold      bool
	Lost      bool // its file cannot be used
	Posts     int
	Overlay   int    // rows changed since its file was written
	Bytes     int    // memory: of the block, or of the overlay
	Index     int64  // memory of the index of a cold file
	FileBytes int64  // on disk
	Uses      uint32 // operations: of a hot block so far, of a cold one about what two seconds make
	Idle      int64  // seconds since the last one, -1: none yet
}
