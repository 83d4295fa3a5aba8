package console

import (
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/observe/facts"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/stats"
)

// Source is the server that the page is about. Its methods are called by one goroutine at a time, but for Walk and MidTime,
// which may run beside the others.
type Source interface {
	// Totals are counts since the start. Each second.
	Totals() Totals
	// State returns the facts of now, with some parts. It is called each second, so it must be cheap, and must not wait for
	// the disk.
	State(parts facts.Part) *facts.State
	// Details are the other data shown. Each second while somebody watches. limit bounds each list in it.
	Details(limit int) Details
	// MidTime is how mids carry time, as an operator says.
	MidTime() MidTime
	// Walk calls f for the blocks counter by counter in the order of their ranges. It may stop early with an error, as when
	// the store is closed. The values given to f are not used then.
	Walk(f func(Block)) error
}

// Totals are counted since the start, or since they were reset.
type Totals struct {
	Commands, Writes, Errors int64 // Writes are commands that may change data, of Commands
	ColdReads                int64 // operations that read a cold page
	Times                    stats.Histogram
}

// Details are the data shown next to the verdict.
type Details struct {
	Server  []Setting `json:"server"`
	Slow    []Slow    `json:"slow"`    // newest first
	Hot     []HotPost `json:"hot"`     // posts that are read and written most
	Largest []Client  `json:"largest"` // clients that hold most
	Busiest []Client  `json:"busiest"` // that sent most commands
	Restore *Restore  `json:"restore,omitempty"`
	Shards  []Shard   `json:"shards,omitempty"` // of the cluster, those with a fault first, the free nodes last
}

// Setting is a line about the server: a name and a value, for people.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// HotPost is a post that is read or written often, as COUNTER.HOT has it.
type HotPost struct {
	Key    string  `json:"key"`
	Reads  float64 `json:"reads"` // a second, as all that follow
	Writes float64 `json:"writes"`

	ReadsLeast  float64 `json:"readsLeast"`
	ReadsMost   float64 `json:"readsMost"`
	WritesLeast float64 `json:"writesLeast"`
	WritesMost  float64 `json:"writesMost"`

	Curve []float64 `json:"curve"` // reads and writes together at the last moments, oldest first, 10 s apart
}

// Restore is the range of moments that counterctl restore can go back to.
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
