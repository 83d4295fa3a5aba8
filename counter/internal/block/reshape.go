package block

import (
	"github.com/counterd/counterd/counter/internal/hot"
)

// How full tables are made. Measured on 10 M ids with a mean gap of 4000 (see BenchmarkInsert for the costs):
// an insert into a table above 0.96 finds a free slot after 3 buckets and more.
const (
	// SealLoad leaves 5 % for ids that come late: on a real stream 0.5 % are late by more than 17 minutes.
	SealLoad = 0.925
	// GrowLoad is the load of a table made because the last one was full.
	GrowLoad = 0.86
	// HeadShare of the newest items stays in the open block when it is sealed, so that ids late by milliseconds do not
	// land in the sealed one.
	HeadShare = 1.0 / 64
	// SmallestBlock is the number of slots of a counter's first block.
	SmallestBlock = 64
)

// makeRoom is called when b has no place for mid. It puts a larger block, or two, in the place of b and returns the
// one for mid, which may have no place for it either: insert counts how often it asks. REQUIRES b.Mu held; b is
// unlocked then and the result is locked. On error b stays as it was, locked, and is returned.
func (ks *Keyspace) makeRoom(b *Block, mid uint64) (*Block, error) {
	if b.Cold != nil {
		return b, ks.Builder.growOverlay(b, ks.Over)
	}
	n := b.Tab.Len()
	limit := ks.BlockItems
	if !b.Open() {
		limit += limit / 2 // or a sealed block of blockItems would be split for a few late ids
	}
	if n < limit {
		return ks.replace(b, mid, growPlan(ks, b))
	}
	at := 0.5
	rising := b.Open() && b.rising()
	if rising {
		at = 1 - HeadShare
	}
	cut, ok := b.Tab.Quantile(at)
	if !ok {
		return ks.replace(b, mid, ks.Plan(b, b.Lo, b.Hi, 2*b.Tab.Slots(), GrowLoad))
	}
	low := ks.Plan(b, b.Lo, cut, 0, SealLoad)
	above := n - low.Items
	if rising {
		above = ks.BlockItems
	}
	return ks.replace(b, mid, low, ks.Plan(b, cut, b.Hi, above, GrowLoad))
}

// growPlan is the plan of a larger block in the place of b, which is hot. A sealed block keeps its widths, so that its items are copied as they are packed,
// unless more values overflow than it has room for.
func growPlan(ks *Keyspace, b *Block) Plan {
	n := b.Tab.Len()
	want := n + n/16
	if b.Open() {
		want = min(2*n, ks.BlockItems)
	}
	want = roomier(&b.Tab, want)
	if b.Open() || b.Shape != ks.Layout || b.Tab.Crowded() {
		return ks.Plan(b, b.Lo, b.Hi, want, GrowLoad)
	}
	return Plan{Lo: b.Lo, Hi: b.Hi, Items: want, Load: GrowLoad, Layout: b.Tab.Layout(), Shape: b.Shape, above: b.Tab.Overflows()}
}

// Seal makes a sealed block of the open block b before it has BlockItems, and a small open one. REQUIRES and returns as
// makeRoom, and tells whether it was done.
func (ks *Keyspace) Seal(b *Block) (*Block, bool, error) {
	if !b.Open() || b.Cold != nil {
		return b, false, nil
	}
	cut, ok := b.Tab.Quantile(1 - HeadShare)
	if !ok {
		return b, false, nil
	}
	low := ks.Plan(b, b.Lo, cut, 0, SealLoad)
	b, err := ks.replace(b, b.Lo, low, ks.Plan(b, cut, b.Hi, max(b.Tab.Len()-low.Items, SmallestBlock), GrowLoad))
	return b, err == nil, err
}

// Repack gives b the counter's present columns, and widths for the values it holds now. REQUIRES and returns as
// makeRoom.
func (ks *Keyspace) Repack(b *Block, mid uint64) (*Block, error) {
	if b.Cold != nil {
		return b, ks.Builder.RepackOverlay(b, ks.Over)
	}
	return ks.replace(b, mid, ks.RepackPlan(b))
}

// AddColumns gives b the counter's present columns, and leaves the widths of those that it has: a change waits for that, and so do others that need b. It
// takes a tenth of the time of Repack. REQUIRES and returns as makeRoom.
func AddColumns(ks *Keyspace, b *Block, mid uint64) (*Block, error) {
	if b.Cold != nil {
		return b, ks.Builder.RepackOverlay(b, ks.Over)
	}
	wider, ok, err := ks.Builder.Extend(b, &ks.Columns)
	switch {
	case !ok:
		return ks.Repack(b, mid)
	case err != nil:
		return b, err
	}
	return ks.Swap(b, mid, wider), nil
}

// RepackPlan is the plan of repack. REQUIRES b.Mu held.
func (cs *Columns) RepackPlan(b *Block) Plan {
	load := SealLoad
	if b.Open() {
		load = GrowLoad
	}
	return cs.Plan(b, b.Lo, b.Hi, b.Tab.Len(), load)
}

// replace makes the blocks of plans, which cover b's range in order, and puts them in the place of b. REQUIRES and
// returns as makeRoom.
func (ks *Keyspace) replace(b *Block, mid uint64, plans ...Plan) (*Block, error) {
	news, err := ks.Builder.Rebuild(b, func(tabs []*hot.Table) error { return b.Tab.CopyTo(tabs...) }, plans...)
	if err != nil {
		return b, err
	}
	if last := news[len(news)-1]; len(news) == 1 {
		last.Ascent = b.Ascent
	} else {
		last.Ascent = b.Sealed() // it is kept for the open block only
	}
	return ks.Swap(b, mid, news...), nil
}

// Swap puts news in the place of old in the directory and returns the one for mid, locked. REQUIRES old.Mu held; it is
// unlocked. The new block is locked before anybody can find it, and all are where old is one of a change set's.
func (ks *Keyspace) Swap(old *Block, mid uint64, news ...*Block) *Block {
	var mine *Block
	for _, b := range news {
		b.Edits, b.Logged = old.Edits+1, old.Logged
		if b.Lo <= mid && mid < b.Hi {
			mine = b
		}
	}
	if old.Holder == nil {
		mine.Mu.Lock()
	} else {
		for _, b := range news {
			b.Mu.Lock()
		}
		old.Holder.Replaced(old, news)
	}
	ks.put(old, news)
	ks.Files.dropPartial(old)
	old.Mu.Unlock()
	ks.Arena.Free(old.Span)
	return mine
}

// Sealing ahead: when an eighth of BlockItems is left, the open block of rising ids is sealed beside its writers. An insert
// that finds it full seals it in the foreground: at 1.2 million inserts a second, 7 ms are left for sealing ahead.
const (
	AheadShare = 8
	// AheadLeast is the least BlockItems of it: below, sealing takes 0.2 ms.
	AheadLeast = 4 << 10
)

// ahead asks for the open block to be sealed when it has come to that. REQUIRES b.Mu held; an item was just added.
func (ks *Keyspace) ahead(b *Block) {
	if b.Tab.Len() != ks.AheadAt || b.Moved != nil || !b.rising() {
		return
	}
	select {
	case ks.Sealing <- ks:
	default: // others are waited for
	}
}
