package counter

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/counterd/counterd/counter/internal/arena"
	"github.com/counterd/counterd/schema"
)

// Options of a store. The zero value of each field is its default.
type Options struct {
	// BlockItems is the number of items at which a block is sealed or split: 16..512 Ki, default 64 Ki. Larger blocks
	// save little memory; sealing one stops its writers for about 60 ns an item.
	BlockItems int

	// HashSeed makes the places of items unforeseeable for whoever chooses mids. Default: random.
	HashSeed uint64
}

func (o Options) withDefaults() (Options, error) {
	if o.BlockItems == 0 {
		o.BlockItems = 64 << 10
	}
	if o.BlockItems < 16 || o.BlockItems > 512<<10 {
		return o, fmt.Errorf("counter: BlockItems: got %d, want 16..%d", o.BlockItems, 512<<10)
	}
	if o.HashSeed == 0 {
		o.HashSeed = rand.Uint64()
	}
	return o, nil
}

// Store holds counters. All methods are safe for concurrent use.
//
// Lock order, outermost first:
//
//	Store.gate      shared by every batch; exclusive for changes of the schema, for MULTI/EXEC and FLUSHALL
//	block.mu        one at a time, but for a new block that nobody can find yet
//	keyspace.dirMu  to replace the directory
//	arena's         inside it
type Store struct {
	opts  Options
	arena arena.Arena

	gate   sync.RWMutex
	closed bool                          // guarded by gate
	schema atomic.Pointer[schema.Schema] // written under gate held exclusively
	spaces []*keyspace                   // by counter id, nil where dropped; guarded by gate

	scans    scanCache
	repacker repacker
}

// Open returns a store that keeps its data in memory. dir must be empty: there is no durability yet.
func Open(dir string, opts Options) (*Store, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{opts: opts}
	s.schema.Store(schema.Empty())
	s.repacker.start(s)
	return s, nil
}

// Close waits for running batches and frees all memory. Later calls answer ErrClosed.
func (s *Store) Close() error {
	s.repacker.stop()
	s.gate.Lock()
	defer s.gate.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.closed = true
	return s.arena.Close()
}

// Schema returns the schema in force. It may have changed when the caller looks at it: see Batch for one that stands still.
func (s *Store) Schema() *schema.Schema { return s.schema.Load() }

// Alter changes the schema by one statement. A statement that changes nothing is no error. Data is not touched: a new
// column answers its default at once, and blocks are re-packed in the background, one at a time.
func (s *Store) Alter(st schema.Statement) error {
	b := s.NewBatch()
	if err := b.BeginExclusive(); err != nil {
		return err
	}
	defer b.End()
	return b.Alter(st)
}

// Alter is Store.Alter inside a batch. REQUIRES BeginExclusive.
func (b *Batch) Alter(st schema.Statement) error {
	s := b.s
	next, err := s.schema.Load().Apply(st)
	if err != nil || next == s.schema.Load() {
		return err
	}
	return s.setSchema(next)
}

// setSchema puts next, which comes from the present schema, in force. REQUIRES gate held exclusively.
func (s *Store) setSchema(next *schema.Schema) error {
	changed := false
	for _, def := range next.Counters() {
		for int(def.ID) >= len(s.spaces) {
			s.spaces = append(s.spaces, nil)
		}
		ks := s.spaces[def.ID]
		if ks == nil {
			ks, err := s.newKeyspace(def)
			if err != nil {
				return err
			}
			s.spaces[def.ID] = ks
			continue
		}
		ks.def = def
		if !ks.layout.Equal(def.Layout) {
			ks.layout = def.Layout
			changed = true
		}
	}
	for id, ks := range s.spaces {
		if ks != nil && next.CounterByID(uint32(id)) == nil {
			ks.free()
			s.spaces[id] = nil
		}
	}
	s.schema.Store(next)
	if changed {
		s.repacker.wake()
	}
	return nil
}

// Clear removes all items of all counters; the schema stays. REQUIRES BeginExclusive.
func (b *Batch) Clear() error {
	s := b.s
	for id, ks := range s.spaces {
		if ks == nil {
			continue
		}
		fresh, err := s.newKeyspace(ks.def)
		if err != nil {
			return err
		}
		ks.free()
		s.spaces[id] = fresh
	}
	return nil
}

// Items is the number of items of all counters. REQUIRES the batch to be open.
func (b *Batch) Items() int {
	n := 0
	for _, ks := range b.s.spaces {
		if ks != nil {
			n += ks.len()
		}
	}
	return n
}

// AlterScript is Store.AlterScript inside a batch. REQUIRES BeginExclusive.
func (b *Batch) AlterScript(script string) error {
	next, err := schema.ParseScript(strings.NewReader(script), b.Schema())
	if err != nil {
		return err
	}
	return b.s.setSchema(next)
}
