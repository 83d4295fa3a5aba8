package core

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/arena"
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/gate"
	"github.com/counterd/counterd/counter/internal/producers"
	"github.com/counterd/counterd/counter/internal/scancache"
	"github.com/counterd/counterd/counter/internal/toplist"
	"github.com/counterd/counterd/counter/internal/window"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/vfs"
	"github.com/counterd/counterd/schema"
)

// Data is the posts of a store, in memory and in cold files, and everything that its batches need to read and change them: the
// schema, the log that has every change, and whether changes are taken. Batches, the background work that moves blocks,
// snapshots and replication all work on it.
//
// Lock order, outermost first. A goroutine takes a lock only while it holds none that stands further down.
//
//  1. the locks that let one snapshot be made at a time, and that let an export have one caller at a time
//  2. the lock of package tier: one block changes its tier, or is made again beside its readers, at a time
//  3. applying: held alone by a frame of the primary, an import and a change of role; shared while a block is copied for a
//     file
//  4. gate: shared by every batch; exclusive for changes of the schema, MULTI/EXEC and FLUSHALL
//  5. Block.Mu: one at a time, with three exceptions. A new block that nobody can find yet may be locked beside it. A change
//     set locks its blocks in order of counter, keyspace and mid. A stretch waits for its first block only, and takes
//     others if they are free. Blocks of the spaces of derived columns come behind all others, in the same order (type windows)
//  6. ledger.Mu, of producers, or the lock of Cursors: from the look at a number to its entry. A numbered change may replace its block and
//     appends to the log while it is held. With it held the next operation's block is taken only if it is free
//  7. Keyspace.dirMu: to replace a directory, with the lock of the replaced block held
//  8. the lock of a toplist.List, one at a time; the arena's lock, the log's locks (package persist), and those that guard statistics,
//     caches, pins and lineage: while
//     one of these is held, nobody takes a lock of 1 to 7
type Data struct {
	Config Config
	Arena  arena.Arena
	// Copies has the memory of private copies of blocks: of tables that are made again beside their readers. 1 M new posts make 16
	// copies of 1.7 MB. On the Go heap these were garbage, which the collector lets grow to as much again as is in use, and the
	// server had 4 MB more resident while posts were loaded. It is not counted as memory of posts.
	Copies arena.Arena

	Applying sync.RWMutex

	Gate   *gate.Gate
	Closed bool                          // guarded by gate
	Schema atomic.Pointer[schema.Schema] // written under gate held exclusively
	Spaces []block.Space                 // by counter id, nil where dropped; guarded by gate
	// Altered is the log offset behind the last change of everything: by FLUSHALL, or of the schema. Guarded by gate.
	Altered uint64

	SlotGroups bool // a counter's items are kept by group of hash slots; set before there are any
	Own        block.Ownership
	Disowned   slot.Set // that Own did not name
	Moving     Moves

	BlockIDs atomic.Uint64
	env      block.Environment // of all keyspaces

	// Whether changes are taken (TakesChanges). All three are written under gate held exclusively.
	Replica  atomic.Bool           // the store follows a primary
	Changing atomic.Bool           // a change of role is under way
	Refusal  atomic.Pointer[error] // why the owner of the store refuses changes; nil: it does not

	// Messages between the background and batches.
	Full       atomic.Bool          // changes that need new rows are refused
	Clock      atomic.Int64         // seconds since start, plus 1; coarse
	ReadErrors atomic.Int64         // of cold files
	Sealing    chan *block.Keyspace // whose open blocks are to be sealed; nil: nothing is sealed ahead
	Widening   chan block.Place     // blocks that are to have other widths
	Outdated   chan struct{}        // blocks have other columns than the schema
	// Listed has the top lists of all columns, for those that count them without the gate: INFO in a transaction has it exclusively.
	Listed   atomic.Pointer[[]*toplist.List]
	Unlisted chan struct{} // top lists are short of entries

	Files  block.ColdFiles
	Broken atomic.Int64     // that could not be opened at the start
	Cache  *coldstore.Cache // of their pages

	// nil where data is in memory only. The log is also nil while it is replayed.
	Dir      *persist.Dir
	Log      *persist.Log
	Replayed uint64 // log offset up to which the start replayed

	Scans      scancache.Cache
	changeSets atomic.Uint64 // of changes, made so far, and exclusive batches: see changeSet
	Producers  ledger
	Cursors    Cursors
	Time       window.Clock
}

// Config has the options of a Data.
type Config struct {
	FS         vfs.FS
	Logger     *slog.Logger
	Manual     bool   // no background work: for tests that replay from a seed
	Elected    bool   // others decide the role, one term at a time
	BlockItems int    // the number of items at which a block is sealed or split; 0: the default
	HashSeed   uint64 // makes the places of items unforeseeable
	Probes     uint   // hot.Config.Probes: tests have tables that are full early
	SlotGroups bool   // keep items by group of hash slots
	Producers  ProducerLimits
	Now        func() time.Time // the clock
	Listing    func()           // called while a top list is built; nil: nothing is
}

// NewData returns an empty one in memory. cache is for pages of cold files; nil: there are none.
func NewData(c Config, cache *coldstore.Cache) *Data {
	d := &Data{}
	d.Init(c, cache)
	return d
}

// Init is NewData in its place.
func (d *Data) Init(c Config, cache *coldstore.Cache) {
	if c.HashSeed == 0 {
		c.HashSeed = rand.Uint64()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	d.Config, d.Gate, d.Cache = c, gate.New(runtime.GOMAXPROCS(0)), cache
	d.Schema.Store(schema.Empty())
	d.Clock.Store(1)
	d.Outdated, d.Unlisted = make(chan struct{}, 1), make(chan struct{}, 1)
	if !c.Manual {
		d.Sealing, d.Widening = make(chan *block.Keyspace, 256), make(chan block.Place, 256)
	}
	d.SetSlotGroups(c.SlotGroups)
	d.Producers.Table = producers.New(c.Producers.WithDefaults())
	d.Producers.Now, d.Producers.began = c.Now, c.Now()
}

// wakeReshaping has the background look for blocks with other columns than the schema.
func (d *Data) wakeReshaping() {
	select {
	case d.Outdated <- struct{}{}:
	default: // it will look at everything anyway
	}
}

// NewBatch returns an empty batch.
func (d *Data) NewBatch() *Batch {
	b := &Batch{data: d, door: d.Gate.Door(), seen: sight{data: d, here: true}}
	b.changeSets.b = b
	b.stretch.b, b.stretch.most = b, maxStretch
	b.windows.b, b.old.b = b, b
	return b
}

// UseDoor makes a batch enter by door n of its store's gate, from its next Begin on: see gate.Gate.DoorAt. REQUIRES the batch to be closed, and n not
// to be negative.
func UseDoor(b *Batch, n int) { b.door = b.data.Gate.DoorAt(n) }

// Release frees all memory, and closes log, directory and cold files. closed, if not nil, is called once the log is closed
// without an error.
func (d *Data) Release(closed func() error) error {
	var errs []error
	for ks := range d.Keyspaces {
		for _, b := range ks.Dir.Load().Blocks {
			d.Files.Retire(b)
		}
	}
	if d.Log != nil {
		err := d.Log.Close()
		if err == nil && closed != nil {
			err = closed()
		}
		errs = append(errs, err)
	}
	if d.Dir != nil {
		errs = append(errs, d.Dir.Close())
	}
	return errors.Join(append(errs, d.Copies.Close(), d.Arena.Close())...)
}

// DataOf is the Data of a batch, for the packages beside this one.
func DataOf(b *Batch) *Data { return b.data }

// NoteSeen remembers that the results of a batch depend on the log below pos.
func NoteSeen(b *Batch, pos uint64) { b.seen.noteSeen(pos) }

// SeenBy is how far the log must be for the results of a batch to be told.
func SeenBy(b *Batch) uint64 { return b.seen.seen }

// ImageSlack is how many bytes an image has besides its table.
const ImageSlack = 4 << 10
