package block

import (
	"sync"
	"time"
	"unsafe"

	"github.com/counterd/counterd/counter/internal/arena"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/schema"
)

// Block is a mid range of a counter and the table that holds its items.
//
// A block is hot, and all its items are in the table, or cold (cold is not nil): then its items are in a file, and the table
// is the overlay, which holds the changes since the file was written (overlay.go). It is one or the other for life.
//
// The range and the geometry of a hot block's table never change: to grow, seal, split or re-pack, a new block takes the
// place of the old one in the directory, while the old one's lock is held, and the old one is marked dead. A caller that
// finds a block dead under its lock asks the directory again. So range, layout and place of the buckets may be read, and
// buckets prefetched, without the lock.
//
// Operations on random items wait for the block's cache lines, so the fields that they need are in three of them: two of the
// table's, and one that begins with the lock (TestBlockLines). It was in seven: 5 % of an INCR at 40 million items.
type Block struct {
	// Of a cold block: empty (span too) until something was changed; guarded by mu, and it grows in place.
	Tab  hot.Table // its size and that of Span are a whole number of cache lines, so that the lock begins one
	Span arena.Span

	Mu   sync.Mutex
	Cold *ColdRange // nil for a hot block
	// Guarded by mu, as most fields below. The counter's (Columns.Layout or over) whose columns the table has, though maybe
	// with other widths; else nil, or one of the past.
	Shape  *schema.Layout
	Logged uint64 // log offset behind its last change
	Used   int64  // tiers.clock when it was last used
	// While a background goroutine writes the block to a file: the mids changed since it took its copy; else nil.
	Moved map[uint64]struct{}
	Work  uint32 // operations since the tiers were looked over
	Dead  bool
	Dirty bool // changed since its image was made

	Holder Holder // of a change set that has the block locked, guarded by Mu; nil: none

	Lo, Hi uint64 // range of mids, hi exclusive; not guarded, as id and from
	ID     uint64 // never used twice: names the image
	From   uint64 // changes logged up to this offset are in it: where its image stood, when it was read back
	Edits  uint64 // inserts and deletes so far: a sorted copy of the mids is good while it stays
	// Store.changeSets as the last change set, or exclusive batch, that changed something here had counted it. A reader in
	// slices knows by it which blocks to read again. A block that takes another's place has 0: the other one is dead.
	ChangeSet uint64

	Packed    time.Time // when it was made: its widths were chosen then, or before
	Tightened bool      // and chosen again since (widths.go)
	Tolerated int32     // no re-packing before more values overflow
	Backoff   Backoff   // of changes of tier, after one failed

	Image *format.BlockFile // its newest; nil: none
	Ascent

	_ [40]byte // so that blocks begin where cache lines do: without it they are 472 bytes apart
}

// Holder is who has several blocks locked at a time: a change set. Where another block takes the place of one of them, it is
// told, and unlocks that one instead.
type Holder interface {
	// Replaced says that news, which are locked, have taken the place of old.
	Replaced(old *Block, news []*Block)
}

// Ascent tells whether new mids come in (nearly) rising order. It is kept for the open-ended last block only: there it
// decides whether a full block is sealed near its top or split in the middle.
type Ascent struct {
	Top      uint64 // largest mid
	arrivals uint32 // items inserted
	tops     uint32 // of those, above all before

	Newest *Newest // of a group of hash slots; nil: not known
}

// Sealed is the ascent of the open block that stays when the rest of a block is sealed.
func (a *Ascent) Sealed() Ascent { return Ascent{Top: a.Top, Newest: a.Newest} }

// arrived notes a new mid.
func (a *Ascent) arrived(mid uint64) {
	a.arrivals++
	if mid >= a.Top {
		a.Top = mid
		a.tops++
	}
}

// rising: of the ids of a live stream 27 % are above all before them (tweets: 73 % come late, mostly by 8-127 ms), of
// ids in random order 1/k after k of them. 1 in 64 tells them apart.
func (a *Ascent) rising() bool { return a.tops*64 >= a.arrivals }

// Open says whether the block is the last of its counter: it has no upper end, so its keys are stored wide.
func (b *Block) Open() bool { return b.Hi == hot.EndMid }

// Items is the number of items of a block. Of a damaged file it is off by the rows that were set, or deleted, without
// knowing whether the file has them. REQUIRES b.Mu held.
func (b *Block) Items() int {
	if b.Cold == nil {
		return b.Tab.Len()
	}
	return max(0, int(b.Cold.File.Stat().Items)+b.Cold.fresh-b.Cold.gone)
}

// Mark marks the block as changed, and remembers for the goroutine that is writing the block to a file that mid
// changed.
func (b *Block) Mark(mid uint64) {
	b.Dirty = true
	if b.Moved != nil {
		b.Moved[mid] = struct{}{}
	}
}

// Prefetch asks for the cache lines of b that every operation needs. It needs no lock.
func (b *Block) Prefetch() { b.Tab.PrefetchHeader(unsafe.Pointer(&b.Mu)) }

// lock locks b. It is free again in less time than sync.Mutex has between two of its four looks, 1.6 us, nearly always,
// and to park a goroutine costs more than a hundred operations.
func (b *Block) lock() {
	for range lockLooks {
		if b.Mu.TryLock() {
			return
		}
	}
	b.Mu.Lock()
}

// lockLooks take 2 us.
const lockLooks = 1000
