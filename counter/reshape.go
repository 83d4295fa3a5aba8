package counter

import (
	"errors"
	"fmt"

	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/schema"
)

// How full tables are made. Measured on 10 M ids with a mean gap of 4000 (see BenchmarkLoad for the costs):
// an insert into a table above 0.96 finds a free slot after 3 buckets and more.
const (
	// sealLoad leaves 5 % for ids that come late: on a real stream 0.5 % are late by more than 17 minutes.
	sealLoad = 0.925
	// growLoad is the load of a table made because the last one was full.
	growLoad = 0.86
	// headShare of the newest items stays in the open block when it is sealed, so that ids late by milliseconds do not land in
	// the sealed one.
	headShare = 1.0 / 64
	// smallestBlock is the number of slots of a counter's first block.
	smallestBlock = 64
)

// newBlock makes an empty block for [lo, hi).
func (ks *keyspace) newBlock(lo, hi uint64, layout *schema.Layout, buckets int) (*block, error) {
	c := hot.Config{Lo: lo, Hi: hi, Buckets: buckets, Layout: layout, Seed: ks.seed}
	span, err := ks.arena.Alloc(c.Bytes(), hi == hot.EndMid)
	if err != nil {
		return nil, err
	}
	return &block{lo: lo, hi: hi, tab: hot.New(c, span.Data), span: span, id: ks.ids.Add(1), dirty: true}, nil
}

// rebuild copies the items of old with mids in [lo, hi) into a new block with room for items at load.
// Should that table turn out full for a key's whole probe sequence, a larger one is tried.
func (ks *keyspace) rebuild(old *block, lo, hi uint64, items int, load float64) (*block, error) {
	for buckets := hot.BucketsFor(max(items, int(smallestBlock*load)), load); ; buckets = hot.BucketsFor(buckets*8, 0.8) {
		b, err := ks.newBlock(lo, hi, ks.layout, buckets)
		if err != nil {
			return nil, err
		}
		if err = old.tab.CopyTo(&b.tab); err == nil {
			b.ascent, b.from, b.used, b.work = old.ascent, old.from, old.used, old.work
			return b, nil
		}
		ks.arena.Free(b.span)
		if buckets >= hot.MaxBuckets/2 || !errors.Is(err, hot.ErrFull) {
			return nil, fmt.Errorf("counter: block [%d,%d) with %d items does not fit %d buckets: %w", lo, hi, items, buckets, err)
		}
	}
}

// makeRoom is called when b has no place for mid. It puts a larger block, or two, in the place of b and returns the
// one for mid. REQUIRES b.mu held; b is unlocked then and the result is locked. On error b stays as it was, locked,
// and is returned.
func (ks *keyspace) makeRoom(b *block, mid uint64) (*block, error) {
	if b.cold != nil {
		return b, ks.growOverlay(b)
	}
	n := b.tab.Len()
	sparse := n*4 < b.tab.Slots() // full at a quarter: only a hash gone bad (or tampered ids) does that, so growing won't help
	limit := ks.blockItems
	if !b.open() {
		limit += limit / 2 // or a sealed block of blockItems would be split for a few late ids
	}
	if n < limit && !sparse {
		want := n + n/16
		if b.open() {
			want = min(2*n, ks.blockItems)
		}
		return ks.enlarge(b, mid, want)
	}
	at := 0.5
	rising := b.open() && b.rising()
	if rising {
		at = 1 - headShare
	}
	cut, ok := b.tab.Quantile(at)
	if !ok {
		return ks.enlarge(b, mid, 2*b.tab.Slots())
	}
	below := b.tab.Count(b.lo, cut)
	low, err := ks.rebuild(b, b.lo, cut, below, sealLoad)
	if err != nil {
		return b, err
	}
	low.ascent = ascent{}
	above := n - below
	if rising {
		above = ks.blockItems
	}
	high, err := ks.rebuild(b, cut, b.hi, above, growLoad)
	if err != nil {
		ks.arena.Free(low.span)
		return b, err
	}
	high.ascent = ascent{top: b.top}
	return ks.swap(b, mid, low, high), nil
}

func (ks *keyspace) enlarge(b *block, mid uint64, items int) (*block, error) {
	bigger, err := ks.rebuild(b, b.lo, b.hi, items, growLoad)
	if err != nil {
		return b, err
	}
	return ks.swap(b, mid, bigger), nil
}

// repack gives b the counter's present layout. REQUIRES and returns as makeRoom.
func (ks *keyspace) repack(b *block, mid uint64) (*block, error) {
	if b.cold != nil {
		return b, ks.repackOverlay(b)
	}
	load := sealLoad
	if b.open() {
		load = growLoad
	}
	same, err := ks.rebuild(b, b.lo, b.hi, b.tab.Len(), load)
	if err != nil {
		return b, err
	}
	return ks.swap(b, mid, same), nil
}

// swap puts news in the place of old in the directory and returns the one for mid, locked. REQUIRES old.mu held; it is
// unlocked. The new block is locked before anybody can find it.
func (ks *keyspace) swap(old *block, mid uint64, news ...*block) *block {
	var mine *block
	for _, b := range news {
		b.edits, b.logged = old.edits+1, old.logged
		if b.lo <= mid && mid < b.hi {
			mine = b
		}
	}
	mine.mu.Lock()
	ks.dirMu.Lock()
	ks.dir.Store(ks.dir.Load().replace(old.lo, news...))
	ks.dirMu.Unlock()
	old.dead = true
	old.mu.Unlock()
	ks.arena.Free(old.span)
	return mine
}
