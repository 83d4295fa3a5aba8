package block

import (
	"slices"
	"sync/atomic"

	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/schema"
)

// Keyspace holds the items of one counter, all or those of a group of hash slots. Other systems call it a tablet. Its parts:
//
//	columns   what the schema says, and how rows of older blocks answer it     columns.go
//	ranges    the directory: which block holds a mid                           directory.go
//	Builder   memory, seeds and sizes of new blocks and overlays               builder.go, overlay.go
//
// What it adds is access to items, whatever the tier of their block (item.go, partial.go), and the change
// of blocks into others (reshape.go, widths.go).
type Keyspace struct {
	ID          uint32 // the counter's
	CounterName string
	Group       uint8         // of hash slots; 0 without Environment.SlotGroups
	HotFrom     atomic.Uint64 // blocks below are cold: where to begin to look for one to demote
	AheadAt     int           // items of the open block from which on it is sealed ahead; 0: never
	Builder     Builder

	Columns
	ranges
	*Environment
}

// Space is all items of a counter: one keyspace, or one for each group of hash slots. nil: there is no such counter.
type Space []*Keyspace

// Of is the keyspace that has, or would have, an item.
func (sp Space) Of(mid uint64) *Keyspace {
	if len(sp) == 1 {
		return sp[0]
	}
	return sp[slot.Group(mid)]
}

// Define puts a definition of the counter in force. REQUIRES Store.gate held exclusively.
func (sp Space) Define(def *schema.Counter) error {
	columns := sp[0].Columns
	if err := columns.Define(def); err != nil {
		return err
	}
	for _, ks := range sp {
		ks.Columns = columns // the layouts are the same ones, so blocks of all groups are recognized by them
	}
	return nil
}

// Free gives all memory back. REQUIRES Store.gate held exclusively.
func (sp Space) Free() {
	for _, ks := range sp {
		ks.Free()
	}
}

// Before tells whether no block's image contains what the log says at pos.
func (ks *Keyspace) Before(pos uint64) bool {
	return !slices.ContainsFunc(ks.Dir.Load().Blocks, func(b *Block) bool { return b.From >= pos })
}

// Free gives all memory back. REQUIRES Store.gate held exclusively.
func (ks *Keyspace) Free() {
	for _, b := range ks.Dir.Load().Blocks {
		b.Mu.Lock()
		b.Dead = true
		ks.Arena.Free(b.Span)
		ks.Files.dropPartial(b)
		ks.Files.Retire(b)
		b.Mu.Unlock()
	}
}

// NewKeyspace makes an empty keyspace with these columns, of a group of hash slots, or of all.
func NewKeyspace(env *Environment, columns Columns, group uint8) (*Keyspace, error) {
	def := columns.Def
	ks := &Keyspace{ID: def.ID, CounterName: def.Name, Group: group, Columns: columns, Environment: env}
	ks.Builder.env, ks.Builder.group = env, group
	if env.Sealing != nil && env.BlockItems >= AheadLeast {
		ks.AheadAt = env.BlockItems - env.BlockItems/AheadShare
	}
	c := hot.Config{Hi: hot.EndMid, Buckets: hot.BucketsFor(SmallestBlock, 1), Layout: ks.Layout}
	b, err := ks.Builder.NewBlock(c, ks.Layout)
	if err != nil {
		return nil, err
	}
	ks.Dir.Store(NewDirectory([]*Block{b}))
	return ks, nil
}
