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
)

// newBlock makes an empty block as c says, with the keyspace's hash. The layout must have the counter's present columns.
func (ks *keyspace) newBlock(c hot.Config) (*block, error) {
	c.Seed = ks.seed
	span, err := ks.arena.Alloc(c.Bytes(), c.Hi == hot.EndMid)
	if err != nil {
		return nil, err
	}
	return &block{lo: c.Lo, hi: c.Hi, tab: hot.New(c, span.Data), span: span, shape: ks.layout, id: ks.ids.Add(1), dirty: true, packed: time.Now()}, nil
}

// rebuild makes new blocks of the items of old, as plans say. Should a table turn out full for a key's whole probe sequence, larger ones
// are tried.
func (ks *keyspace) rebuild(old *block, plans ...plan) ([]*block, error) {
	for scale := 1.0; ; scale *= 1.25 {
		news := make([]*block, 0, len(plans))
		tabs := make([]*hot.Table, 0, len(plans))
		most := 0
		var err error
		for i := range plans {
			c := plans[i].config(scale)
			most = max(most, c.Buckets)
			var b *block
			if b, err = ks.newBlock(c); err != nil {
				break
			}
			b.from, b.used, b.work, b.settled = old.from, old.used, old.work, plans[i].settled
			news, tabs = append(news, b), append(tabs, &b.tab)
		}
		if err == nil {
			if err = old.tab.CopyTo(tabs...); err == nil {
				return news, nil
			}
		}
		for _, b := range news {
			ks.arena.Free(b.span)
		}
		if !errors.Is(err, hot.ErrFull) {
			return nil, err
		}
		if most >= hot.MaxBuckets/2 {
			return nil, fmt.Errorf("counter: block [%d,%d) with %d items does not fit %d buckets: %w", old.lo, old.hi, old.tab.Len(), most, err)
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
		return ks.replace(b, mid, ks.plan(b, b.lo, b.hi, want, growLoad))
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
	news, err := ks.rebuild(b, plans...)
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
	ks.dropPartial(old)
	old.mu.Unlock()
	ks.arena.Free(old.span)
	return mine
}
