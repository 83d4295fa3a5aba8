package counter

import (
	"sync"
	"time"
	"unsafe"

	"github.com/counterd/counterd/counter/internal/arena"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/schema"
)

// block is a mid range of a counter and the table that holds its items.
//
// A block is hot, and all its items are in the table, or cold (cold is not nil): then its items are in a file, and the
// table is the overlay that holds what was changed since the file was written (overlay.go). It is one or the other for
// life.
//
// The range and the geometry of a hot block's table never change: to grow, seal, split or re-pack, a new block takes
// the place of the old one in the directory, while the old one's lock is held, and the old one is marked dead. Whoever
// finds a dead block under the lock asks the directory again. So range, layout and place of the buckets may be read,
// and buckets prefetched, without the lock.
//
// Operations on random items wait for the block's cache lines, so what they need is in three of them: two of the
// table's, and one that begins with the lock (TestBlockLines). It was in seven: 5 % of an INCR at 40 million items.
type block struct {
	// Of a cold block: empty (span too) until something was changed; guarded by mu, and it grows in place.
	tab  hot.Table
	span arena.Span

	mu   sync.Mutex
	cold *coldRange // nil for a hot block
	// Guarded by mu, as most of what follows. The counter's (columns.layout or over) whose columns the table has, though
	// maybe with other widths; else nil, or one of the past.
	shape  *schema.Layout
	logged uint64 // log offset behind its last change
	used   int64  // tiers.clock when it was last used
	// While a background goroutine writes the block to a file: the mids changed since it took its copy; else nil.
	moved  map[uint64]struct{}
	holder *changeSets // runs a change set, and has what takes the block's place locked too; nil: none
	work   uint32      // operations since the tiers were looked over
	dead   bool
	dirty  bool // changed since its image was made

	lo, hi uint64 // range of mids, hi exclusive; not guarded, as id and from
	id     uint64 // never used twice: names the image
	from   uint64 // changes logged up to this offset are in it: where its image stood, when it was read back
	edits  uint64 // inserts and deletes so far: a sorted copy of the mids is good while it stays
	// Store.changeSets as the last change set, or exclusive batch, that changed something here had counted it: who reads
	// in slices knows by it what to read again. A block that takes another's place has 0: the other one is dead.
	changeSet uint64

	packed    time.Time // when its widths were chosen
	tightened bool      // and chosen again since (widths.go)
	tolerated int32     // no re-packing before more values overflow
	backoff   backoff   // of changes of tier, after one failed

	image *format.BlockFile // its newest; nil: none
	ascent

	_ [56]byte // so that blocks begin where cache lines do: without it they are 480 bytes apart
}

// ascent tells whether new mids come in (nearly) rising order. It is kept for the open-ended last block only: there it
// decides whether a full block is sealed near its top or split in the middle.
type ascent struct {
	top      uint64 // largest mid
	arrivals uint32 // items inserted
	tops     uint32 // of those, above all before
}

// arrived notes a new mid.
func (a *ascent) arrived(mid uint64) {
	a.arrivals++
	if mid >= a.top {
		a.top = mid
		a.tops++
	}
}

// rising: of the ids of a live stream 27 % are above all before them (tweets: 73 % come late, mostly by 8-127 ms), of
// ids in random order 1/k after k of them. 1 in 64 tells them apart.
func (a *ascent) rising() bool { return a.tops*64 >= a.arrivals }

// open says whether the block is the last of its counter: it has no upper end, so its keys are stored wide.
func (b *block) open() bool { return b.hi == hot.EndMid }

// items is the number of items of a block. Of a damaged file it is off by the rows that were set, or deleted, without
// knowing whether the file has them. REQUIRES b.mu held.
func (b *block) items() int {
	if b.cold == nil {
		return b.tab.Len()
	}
	return max(0, int(b.cold.file.Stat().Items)+b.cold.fresh-b.cold.gone)
}

// mark marks the block as changed, and remembers for the goroutine that is writing the block to a file that mid
// changed.
func (b *block) mark(mid uint64) {
	b.dirty = true
	if b.moved != nil {
		b.moved[mid] = struct{}{}
	}
}

// prefetch asks for what every operation needs of b. It needs no lock.
func (b *block) prefetch() { b.tab.PrefetchHeader(unsafe.Pointer(&b.mu)) }

// lock locks b. It is free again in less time than sync.Mutex has between two of its four looks, 1.6 us, nearly always,
// and to park a goroutine costs more than a hundred operations.
func (b *block) lock() {
	for range lockLooks {
		if b.mu.TryLock() {
			return
		}
	}
	b.mu.Lock()
}

// lockLooks take 2 us.
const lockLooks = 1000
