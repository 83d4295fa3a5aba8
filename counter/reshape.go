package counter

import (
	"github.com/counterd/counterd/counter/internal/hot"
)

// How full tables are made. Measured on 10 M ids with a mean gap of 4000 (see BenchmarkInsert for the costs):
// an insert into a table above 0.96 finds a free slot after 3 buckets and more.
const (
	// sealLoad leaves 5 % for ids that come late: on a real stream 0.5 % are late by more than 17 minutes.
	sealLoad = 0.925
	// growLoad is the load of a table made because the last one was full.
	growLoad = 0.86
	// headShare of the newest items stays in the open block when it is sealed, so that ids late by milliseconds do not
	// land in the sealed one.
	headShare = 1.0 / 64
	// smallestBlock is the number of slots of a counter's first block.
	smallestBlock = 64
)

// makeRoom is called when b has no place for mid. It puts a larger block, or two, in the place of b and returns the
// one for mid, which may have no place for it either: insert counts how often it asks. REQUIRES b.mu held; b is
// unlocked then and the result is locked. On error b stays as it was, locked, and is returned.
func (ks *keyspace) makeRoom(b *block, mid uint64) (*block, error) {
	if b.cold != nil {
		return b, ks.growOverlay(b)
	}
	n := b.tab.Len()
	limit := ks.blockItems
	if !b.open() {
		limit += limit / 2 // or a sealed block of blockItems would be split for a few late ids
	}
	if n < limit {
		want := n + n/16
		if b.open() {
			want = min(2*n, ks.blockItems)
		}
		return ks.replace(b, mid, ks.plan(b, b.lo, b.hi, roomier(&b.tab, want), growLoad))
	}
	at := 0.5
	rising := b.open() && b.rising()
	if rising {
		at = 1 - headShare
	}
	cut, ok := b.tab.Quantile(at)
	if !ok {
		return ks.replace(b, mid, ks.plan(b, b.lo, b.hi, 2*b.tab.Slots(), growLoad))
	}
	low := ks.plan(b, b.lo, cut, 0, sealLoad)
	above := n - low.items
	if rising {
		above = ks.blockItems
	}
	return ks.replace(b, mid, low, ks.plan(b, cut, b.hi, above, growLoad))
}

// seal makes a sealed block of the open block b before it has BlockItems, and a small open one. REQUIRES and returns as
// makeRoom, and tells whether it was done.
func (ks *keyspace) seal(b *block) (*block, bool, error) {
	if !b.open() || b.cold != nil {
		return b, false, nil
	}
	cut, ok := b.tab.Quantile(1 - headShare)
	if !ok {
		return b, false, nil
	}
	low := ks.plan(b, b.lo, cut, 0, sealLoad)
	b, err := ks.replace(b, b.lo, low, ks.plan(b, cut, b.hi, max(b.tab.Len()-low.items, smallestBlock), growLoad))
	return b, err == nil, err
}

// repack gives b the counter's present columns, and widths for the values it holds now. REQUIRES and returns as
// makeRoom.
func (ks *keyspace) repack(b *block, mid uint64) (*block, error) {
	if b.cold != nil {
		return b, ks.repackOverlay(b)
	}
	return ks.replace(b, mid, ks.repackPlan(b))
}

// repackPlan is the plan of repack. REQUIRES b.mu held.
func (cs *columns) repackPlan(b *block) plan {
	load := sealLoad
	if b.open() {
		load = growLoad
	}
	return cs.plan(b, b.lo, b.hi, b.tab.Len(), load)
}

// replace makes the blocks of plans, which cover b's range in order, and puts them in the place of b. REQUIRES and
// returns as makeRoom.
func (ks *keyspace) replace(b *block, mid uint64, plans ...plan) (*block, error) {
	news, err := ks.rebuild(b, func(tabs []*hot.Table) error { return b.tab.CopyTo(tabs...) }, plans...)
	if err != nil {
		return b, err
	}
	if last := news[len(news)-1]; len(news) == 1 {
		last.ascent = b.ascent
	} else {
		last.ascent = ascent{top: b.top} // it is kept for the open block only
	}
	return ks.swap(b, mid, news...), nil
}

// swap puts news in the place of old in the directory and returns the one for mid, locked. REQUIRES old.mu held; it is
// unlocked. The new block is locked before anybody can find it, and all are where old is one of a change set's.
func (ks *keyspace) swap(old *block, mid uint64, news ...*block) *block {
	var mine *block
	for _, b := range news {
		b.edits, b.logged = old.edits+1, old.logged
		if b.lo <= mid && mid < b.hi {
			mine = b
		}
	}
	if old.holder == nil {
		mine.mu.Lock()
	} else {
		for _, b := range news {
			b.mu.Lock()
		}
		old.holder.replaced(old, news)
	}
	ks.put(old, news)
	ks.dropPartial(old)
	old.mu.Unlock()
	ks.arena.Free(old.span)
	return mine
}
