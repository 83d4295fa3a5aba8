package tier

import (
	"errors"
	"time"

	"github.com/counterd/counterd/counter/internal/arena"
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/counter/internal/pace"
)

// reshaping is a hot block on its way to other tables beside its readers and writers, as rewriting is one on its way to
// a file:
//
//  1. under the block's lock, copy its table (0.1 ms for 64 Ki items) and begin to note which mids change
//  2. without it, make the new blocks of the copy (60 ns an item), with rests: 4 ms at a stretch keep a processor from
//     connections for as long
//  3. put the items that changed meanwhile there, carryMost at a time under the lock, until few are left
//  4. under the lock, put those there too, and the new blocks in the place of the old one
//
// An operation that waits for a block's lock holds up all connections of its loop: 4 ms while 64 Ki items are packed.
type reshaping struct {
	s       *core.Data
	ks      *block.Keyspace
	old     *block.Block
	columns block.Columns // as they were when the copy was made
	copied  block.Block   // the source of the new blocks; nobody else has it
	memory  arena.Span    // of its table
	rest    func()        // called now and then in the work without a lock
}

// ErrReshaped: the block, or the schema, changed in the meantime in a way that leaves nothing to do, or that is for
// another time.
var ErrReshaped = errors.New("counter: the block is another by now")

// ReshapeBeside puts the blocks of the plans in the place of the hot block that holds mid. plans are asked for a copy of it;
// none: nothing is done. The error is ErrReshaped, hot.ErrFull or ErrNoMemory; the block is as it was then.
func (t *Tiers) ReshapeBeside(ks *block.Keyspace, mid uint64, plans func(cs *block.Columns, b *block.Block) []block.Plan) error {
	t.one.Lock() // who notes what changes in a block is one
	defer t.one.Unlock()
	r := reshaping{s: t.s, ks: ks, rest: t.Rest}
	if r.rest == nil {
		r.rest = new(pace.Pace).Rest
	}
	r.rest() // its first turn begins
	defer func() { t.s.Copies.Free(r.memory) }()
	if err := r.copy(mid); err != nil {
		return err
	}
	var news []*block.Block
	err := error(ErrReshaped)
	if p := plans(&r.columns, &r.copied); len(p) > 0 {
		news, err = ks.Builder.Rebuild(&r.copied, func(tabs []*hot.Table) error { return r.copied.Tab.CopyResting(r.columns.Rest, tabs...) }, p...)
	}
	if err == nil {
		err = r.catchUp(news)
	}
	if err == nil {
		err = r.install(news)
	}
	if err != nil {
		for _, b := range news {
			ks.Arena.Free(b.Span)
		}
		r.old.Mu.Lock()
		r.old.Moved = nil
		r.old.Mu.Unlock()
	}
	return err
}

// sealSoon is the age at which an open block is made again without rests, which take as long as the work: the seven eighths that
// are full when it is sealed ahead (block.AheadShare) came in less, so the last eighth is full 57 ms later or sooner.
const sealSoon = 400 * time.Millisecond

// copy is step 1.
func (r *reshaping) copy(mid uint64) error {
	s, ks := r.s, r.ks
	s.Gate.RLock()
	if !s.Serves(ks) {
		s.Gate.RUnlock()
		return ErrReshaped
	}
	b := ks.Lock(mid)
	var image arena.Span
	defer func() { s.Copies.Free(image) }()
	idle := func() bool { return b.Cold != nil || b.Tab.Len() == 0 } // a change of the schema meets many empty blocks
	for need := b.Tab.Bytes() + core.ImageSlack; len(image.Data) < need && !idle(); need = b.Tab.Bytes() + core.ImageSlack {
		b.Mu.Unlock() // new memory costs as much as the copy
		s.Copies.Free(image)
		var err error
		if image, err = s.Copies.Alloc(need, true); err != nil {
			s.Gate.RUnlock()
			return err
		}
		arena.Populate(image.Data)
		b = ks.Lock(mid)
	}
	if idle() {
		b.Mu.Unlock()
		s.Gate.RUnlock()
		return ErrReshaped
	}
	hurry := b.Open() && time.Since(b.Packed) < sealSoon
	r.old, r.columns = b, ks.Columns
	bytes := b.Tab.AppendImage(image.Data[:0])
	r.copied = block.Block{Lo: b.Lo, Hi: b.Hi, From: b.From, Used: b.Used, Work: b.Work, Shape: b.Shape, Ascent: b.Ascent}
	b.Moved = make(map[uint64]struct{})
	b.Mu.Unlock()
	s.Gate.RUnlock()

	if r.columns.Rest = r.rest; hurry {
		r.columns.Rest = func() {}
	}
	r.columns.Rest()
	im, err := hot.DecodeImage(bytes)
	if err == nil {
		if r.memory, err = s.Copies.Alloc(im.Config.Bytes(), true); err == nil {
			arena.Populate(r.memory.Data)
			r.columns.Rest()
			r.copied.Tab, err = im.Table(r.memory.Data)
		}
	}
	r.columns.Rest()
	if err != nil { // no memory: the image was just made
		b.Mu.Lock()
		b.Moved = nil
		b.Mu.Unlock()
	}
	return err
}

const (
	// carryMost is how many items are carried under one lock: 50 us where all are misses of the cache.
	carryMost = 256
	// carryRounds bounds step 3: items of a block that all clients change at a time are changed as fast as they are carried.
	carryRounds = 64
)

// catchUp is step 3.
func (r *reshaping) catchUp(news []*block.Block) error {
	for range carryRounds {
		more, err := r.carrySome(news)
		if err != nil || !more {
			return err
		}
		r.rest()
	}
	return nil
}

// carrySome carries up to carryMost items that have changed, and tells whether at least as many are left. An item that
// changes again is noted again.
func (r *reshaping) carrySome(news []*block.Block) (more bool, err error) {
	old := r.old
	old.Mu.Lock()
	defer old.Mu.Unlock()
	if old.Dead { // install says so
		return false, nil
	}
	n := 0
	for mid := range old.Moved {
		if n++; n > carryMost {
			break
		}
		if err := carryHot(old, news, mid); err != nil {
			return false, err
		}
		delete(old.Moved, mid)
	}
	return len(old.Moved) >= carryMost, nil
}

// install is step 4. On an error nothing was changed.
func (r *reshaping) install(news []*block.Block) error {
	s, ks, old := r.s, r.ks, r.old
	s.Gate.RLock()
	defer s.Gate.RUnlock()
	old.Mu.Lock()
	if old.Dead || s.Closed || ks.Layout != r.columns.Layout {
		old.Mu.Unlock()
		return ErrReshaped
	}
	for mid := range old.Moved {
		if err := carryHot(old, news, mid); err != nil {
			old.Mu.Unlock()
			return err
		}
	}
	old.Moved = nil
	last := news[len(news)-1]
	if last.Ascent = old.Ascent; len(news) > 1 {
		last.Ascent = old.Sealed()
	}
	for _, b := range news {
		b.Used, b.Work = old.Used, old.Work
	}
	ks.Swap(old, old.Lo, news...).Mu.Unlock()
	return nil
}

// carryHot brings an item to the one of news that has its range, as it is in old. REQUIRES old.Mu held, and that nobody
// can find news yet. The error is hot.ErrFull.
func carryHot(old *block.Block, news []*block.Block, mid uint64) error {
	var b *block.Block
	for _, b = range news {
		if mid < b.Hi {
			break
		}
	}
	from, found := old.Tab.Find(mid)
	to, there := b.Tab.Find(mid)
	if !found {
		if there {
			b.Tab.Delete(to)
		}
		return nil
	}
	if !there {
		var err error
		if to, err = b.Tab.AddAt(b.Tab.Home(mid)); err != nil {
			return err
		}
	}
	for f := range b.Tab.Layout().Fields {
		field := &b.Tab.Layout().Fields[f]
		v := field.Default
		if at := old.Tab.Layout().Index(field.ID); at >= 0 {
			v = old.Tab.Get(from, at)
		}
		b.Tab.Set(to, f, v)
	}
	return nil
}

// sealAhead seals the open block of ks. It tells whether nobody was faster.
func (t *Tiers) sealAhead(ks *block.Keyspace) error {
	return t.ReshapeBeside(ks, hot.EndMid-1, func(cs *block.Columns, b *block.Block) []block.Plan {
		cut, ok := b.Tab.Quantile(1 - block.HeadShare)
		if !ok || b.Tab.Len() < ks.AheadAt { // it was sealed before
			return nil
		}
		low := cs.Plan(b, b.Lo, cut, 0, block.SealLoad)
		return []block.Plan{low, cs.Plan(b, cut, b.Hi, ks.BlockItems, block.GrowLoad)}
	})
}
