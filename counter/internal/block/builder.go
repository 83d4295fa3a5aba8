package block

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/counter/internal/arena"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/schema"
)

// Environment is shared by all keyspaces of a store. They make their blocks with it.
type Environment struct {
	Arena      *arena.Arena   // memory of tables
	IDs        *atomic.Uint64 // last block id given
	Seed       uint64         // of the tables' seeds: see tableSeed
	Probes     uint           // hot.Config.Probes
	BlockItems int            // a block is sealed or split at this many
	SlotGroups bool           // all mids of a keyspace are of one group of hash slots
	Sealing    chan *Keyspace // asks for an open block to be sealed ahead; nil: none is
	Widening   chan Place     // asks for other widths of a block; nil if Sealing is
	Files      *ColdFiles
}

// Builder makes the blocks of a keyspace, and the overlays of cold ones. It knows memory, seeds and sizes; it knows no
// directory and no files, and puts nothing in the place of another block.
type Builder struct {
	env    *Environment
	tables atomic.Uint64 // seeds given
	group  uint8         // of hash slots; 0 without Environment.SlotGroups
}

const (
	// tableTries is how many tables are made, each a bit larger and with a seed of its own, until one holds the items
	// it is for. One in a hundred does not at sealLoad, every second at settleLoad; that 8 of them do not, the last
	// more than twice as large, does not happen.
	tableTries = 8
	// roomTries is how often room is made for one item. The first time is nearly always enough: the table was full as a
	// whole.
	roomTries = 8
)

// tableScale is how much larger than planned a table is at a try (from 0): 1, 1.01, 1.03, 1.07 ... 2.27. Another seed alone
// helps in most cases, and blocks are packed to save memory.
func tableScale(try int) float64 { return 1 + 0.01*float64(int(1)<<try-1) }

// tableSeed returns a seed for a table. No two are the same, so a table that replaces a table which was full too early has
// nothing in common with it, whatever its size. With the same seed it would be full for the same items again.
func (m *Builder) tableSeed() uint64 { // splitmix64
	x := m.env.Seed + m.tables.Add(1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// placed says in c of which group the mids are.
func (m *Builder) placed(c hot.Config) hot.Config {
	c.OneGroup, c.Group = m.env.SlotGroups, m.group
	return c
}

// NewBlock makes an empty block as c says, with a permutation of its own. shape is the layout whose columns c's has.
func (m *Builder) NewBlock(c hot.Config, shape *schema.Layout) (*Block, error) {
	c = m.placed(c)
	c.Seed, c.Probes = m.tableSeed(), m.env.Probes
	return m.newBlock(c, shape)
}

// newBlock is NewBlock with the permutation of c.
func (m *Builder) newBlock(c hot.Config, shape *schema.Layout) (*Block, error) {
	span, err := m.env.Arena.Alloc(c.Bytes(), c.Hi == hot.EndMid)
	if err != nil {
		return nil, err
	}
	return &Block{Lo: c.Lo, Hi: c.Hi, Tab: hot.New(c, span.Data), Span: span, Shape: shape, ID: m.env.IDs.Add(1), Dirty: true, Packed: time.Now()}, nil
}

// Extend makes a block with the items of old, which is hot, in the same places, and with the columns of cs. ok is false where that cannot be.
func (m *Builder) Extend(old *Block, cs *Columns) (b *Block, ok bool, err error) {
	least := uint8(YoungBits)
	if old.Open() {
		least = math.MaxUint8 // as wide as hints
	}
	c, ok := hot.Extended(&old.Tab, cs.Def.Columns, least)
	if !ok {
		return nil, false, nil
	}
	if b, err = m.newBlock(c, cs.Layout); err != nil {
		return nil, true, err
	}
	arena.Populate(b.Span.Data)
	hot.ExtendTo(&old.Tab, &b.Tab)
	b.From, b.Used, b.Work, b.Ascent = old.From, old.Used, old.Work, old.Ascent
	return b, true, nil
}

// Rebuild makes new blocks in the place of old, as plans say, and has fill put the items into their tables. It tries
// again while one of them is full.
func (m *Builder) Rebuild(old *Block, fill func(tabs []*hot.Table) error, plans ...Plan) ([]*Block, error) {
	var err error
	for try := range tableTries {
		var news []*Block
		if news, err = m.try(old, tableScale(try), fill, plans); !errors.Is(err, hot.ErrFull) {
			return news, err
		}
	}
	return nil, fmt.Errorf("counter: block [%d,%d) with %d items: none of %d tables holds them: %w",
		old.Lo, old.Hi, old.Items(), tableTries, err)
}

// try is one try of rebuild.
func (m *Builder) try(old *Block, scale float64, fill func([]*hot.Table) error, plans []Plan) ([]*Block, error) {
	news := make([]*Block, 0, len(plans))
	tabs := make([]*hot.Table, 0, len(plans))
	var err error
	for i := range plans {
		var b *Block
		if b, err = m.NewBlock(plans[i].config(scale), plans[i].Shape); err != nil {
			break
		}
		if !b.Open() { // else it has room for posts to come
			arena.Populate(b.Span.Data)
		}
		b.From, b.Used, b.Work, b.Tightened = old.From, old.Used, old.Work, plans[i].tightened
		news, tabs = append(news, b), append(tabs, &b.Tab)
	}
	if err == nil {
		if err = fill(tabs); err == nil {
			return news, nil
		}
	}
	for _, b := range news {
		m.env.Arena.Free(b.Span)
	}
	return nil, err
}

// roomier is how many items a table is made for in the place of tab, which was full: want of them, and in any case more
// than tab was made for, as it may have been full early. Not so if it was full at a quarter: no size helps against ids
// that meet in one bucket, another seed does.
func roomier(tab *hot.Table, want int) int {
	if tab.Len()*4 < tab.Slots() {
		return want
	}
	return max(want, int(GrowLoad*17/16*float64(tab.Slots())))
}
