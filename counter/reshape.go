package counter

import (
	"errors"
	"fmt"
	"time"

	"github.com/counterd/counterd/counter/internal/hot"
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

	// tableTries is how many tables are made, each a bit larger and with a seed of its own, until one holds the items it is for. One in a
	// hundred does not at sealLoad, every second at settleLoad; that 8 of them do not, the last more than twice as large, does not happen.
	tableTries = 8
	// roomTries is how often room is made for one item. The first time is nearly always enough: the table was full as a whole.
	roomTries = 8
)

// tableScale is how much larger than planned a table is at a try (from 0): 1, 1.01, 1.03, 1.07 ... 2.27. Another seed alone is help enough in most
// cases, and memory is what blocks are packed for.
func tableScale(try int) float64 { return 1 + 0.01*float64(int(1)<<try-1) }

// tableSeed returns a seed for a table. No two are the same, so a table that takes the place of one that was full too early has nothing in
// common with it, whatever its size: without that it would be full for the same items again.
func (ks *keyspace) tableSeed() uint64 { // splitmix64
	x := ks.seed + ks.tables.Add(1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// newBlock makes an empty block as c says, with a permutation of its own. The layout must have the counter's present columns.
func (ks *keyspace) newBlock(c hot.Config) (*block, error) {
	c.Seed, c.Probes = ks.tableSeed(), ks.probes
	span, err := ks.arena.Alloc(c.Bytes(), c.Hi == hot.EndMid)
	if err != nil {
		return nil, err
	}
	return &block{lo: c.Lo, hi: c.Hi, tab: hot.New(c, span.Data), span: span, shape: ks.layout, id: ks.ids.Add(1), dirty: true, packed: time.Now()}, nil
}

// rebuild makes new blocks in the place of old, as plans say, and has fill put the items into their tables. It tries again while one
// of them is full.
func (ks *keyspace) rebuild(old *block, fill func(tabs []*hot.Table) error, plans ...plan) ([]*block, error) {
	var err error
	for try := range tableTries {
		var news []*block
		if news, err = ks.try(old, tableScale(try), fill, plans); !errors.Is(err, hot.ErrFull) {
			return news, err
		}
	}
	return nil, fmt.Errorf("counter: block [%d,%d) with %d items: none of %d tables holds them: %w", old.lo, old.hi, old.items(), tableTries, err)
}

// try is one try of rebuild.
func (ks *keyspace) try(old *block, scale float64, fill func([]*hot.Table) error, plans []plan) ([]*block, error) {
	news := make([]*block, 0, len(plans))
	tabs := make([]*hot.Table, 0, len(plans))
	var err error
	for i := range plans {
		var b *block
		if b, err = ks.newBlock(plans[i].config(scale)); err != nil {
			break
		}
		b.from, b.used, b.work, b.settled = old.from, old.used, old.work, plans[i].settled
		news, tabs = append(news, b), append(tabs, &b.tab)
	}
	if err == nil {
		if err = fill(tabs); err == nil {
			return news, nil
		}
	}
	for _, b := range news {
		ks.arena.Free(b.span)
	}
	return nil, err
}

// roomier is how many items a table is made for in the place of tab, which was full: want of them, and in any case more than tab was made for, as it
// may have been full early. Not so if it was full at a quarter: no size helps against ids that meet in one bucket, another seed does.
func roomier(tab *hot.Table, want int) int {
	if tab.Len()*4 < tab.Slots() {
		return want
	}
	return max(want, int(growLoad*17/16*float64(tab.Slots())))
}

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

// repack gives b the counter's present columns, and widths for the values it holds now. REQUIRES and returns as makeRoom.
func (ks *keyspace) repack(b *block, mid uint64) (*block, error) {
	if b.cold != nil {
		return b, ks.repackOverlay(b)
	}
	load := sealLoad
	if b.open() {
		load = growLoad
	}
	return ks.replace(b, mid, ks.plan(b, b.lo, b.hi, b.tab.Len(), load))
}

// replace makes the blocks of plans, which cover b's range in order, and puts them in the place of b. REQUIRES and returns as makeRoom.
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
// unlocked. The new block is locked before anybody can find it, and all are where old is one of a group's.
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
	ks.dirMu.Lock()
	ks.dir.Store(ks.dir.Load().replace(old.lo, news...))
	ks.dirMu.Unlock()
	old.dead = true
	ks.dropPartial(old)
	old.mu.Unlock()
	ks.arena.Free(old.span)
	return mine
}
