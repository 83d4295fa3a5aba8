package counter

import (
	"errors"

	"github.com/counterd/counterd/counter/internal/hot"
)

// reshaping is a hot block on its way to other tables beside its readers and writers, as rewriting is one on its way to
// a file:
//
//  1. under the block's lock, copy its table (0.1 ms for 64 Ki items) and begin to note which mids change
//  2. without it, make the new blocks of the copy (60 ns an item)
//  3. under the lock, put there what changed meanwhile, and them in the place of the old block
//
// An operation that waits for a block's lock holds up all connections of its loop: 4 ms while 64 Ki items are packed.
type reshaping struct {
	s       *Store
	ks      *keyspace
	old     *block
	columns columns // as they were when the copy was made
	copied  block   // what the new blocks are made of; nobody else has it
}

// errReshaped: the block, or the schema, changed in the meantime in a way that leaves nothing to do, or that is for
// another time.
var errReshaped = errors.New("counter: the block is another by now")

// beside puts the blocks of the plans in the place of the hot block that holds mid. plans are asked for a copy of it;
// none: nothing is done. The error is errReshaped, hot.ErrFull or ErrNoMemory; the block is as it was then.
func (ks *keyspace) beside(s *Store, mid uint64, plans func(cs *columns, b *block) []plan) error {
	s.tiers.one.Lock() // who notes what changes in a block is one
	defer s.tiers.one.Unlock()
	r := reshaping{s: s, ks: ks}
	if err := r.copy(mid); err != nil {
		return err
	}
	var news []*block
	err := error(errReshaped)
	if p := plans(&r.columns, &r.copied); len(p) > 0 {
		news, err = ks.rebuild(&r.copied, func(tabs []*hot.Table) error { return r.copied.tab.CopyTo(tabs...) }, p...)
	}
	if err == nil {
		err = r.install(news)
	}
	if err != nil {
		for _, b := range news {
			ks.arena.Free(b.span)
		}
		r.old.mu.Lock()
		r.old.moved = nil
		r.old.mu.Unlock()
	}
	return err
}

// copy is step 1.
func (r *reshaping) copy(mid uint64) error {
	s, ks := r.s, r.ks
	s.gate.RLock()
	if !s.serves(ks) {
		s.gate.RUnlock()
		return errReshaped
	}
	b := ks.lock(mid)
	var image []byte
	for need := b.tab.Bytes() + imageSlack; cap(image) < need; need = b.tab.Bytes() + imageSlack {
		b.mu.Unlock() // new memory costs as much as the copy
		image = make([]byte, 0, need)
		clear(image[:need])
		b = ks.lock(mid)
	}
	if b.cold != nil || b.tab.Len() == 0 {
		b.mu.Unlock()
		s.gate.RUnlock()
		return errReshaped
	}
	r.old, r.columns = b, ks.columns
	image = b.tab.AppendImage(image)
	r.copied = block{lo: b.lo, hi: b.hi, from: b.from, used: b.used, work: b.work, shape: b.shape, ascent: b.ascent}
	b.moved = make(map[uint64]struct{})
	b.mu.Unlock()
	s.gate.RUnlock()

	im, err := hot.DecodeImage(image)
	if err == nil {
		r.copied.tab, err = im.Table(make([]byte, im.Config.Bytes()))
	}
	if err != nil { // never: it was just made
		b.mu.Lock()
		b.moved = nil
		b.mu.Unlock()
	}
	return err
}

// install is step 3. On an error nothing was changed.
func (r *reshaping) install(news []*block) error {
	s, ks, old := r.s, r.ks, r.old
	s.gate.RLock()
	defer s.gate.RUnlock()
	old.mu.Lock()
	if old.dead || s.closed || ks.layout != r.columns.layout {
		old.mu.Unlock()
		return errReshaped
	}
	for mid := range old.moved {
		if err := carryHot(old, news, mid); err != nil {
			old.mu.Unlock()
			return err
		}
	}
	old.moved = nil
	last := news[len(news)-1]
	if last.ascent = old.ascent; len(news) > 1 {
		last.ascent = ascent{top: old.top}
	}
	for _, b := range news {
		b.used, b.work = old.used, old.work
	}
	ks.swap(old, old.lo, news...).mu.Unlock()
	return nil
}

// carryHot brings an item to the one of news that has its range, as it is in old. REQUIRES old.mu held, and that nobody
// can find news yet. The error is hot.ErrFull.
func carryHot(old *block, news []*block, mid uint64) error {
	var b *block
	for _, b = range news {
		if mid < b.hi {
			break
		}
	}
	from, found := old.tab.Find(mid)
	to, there := b.tab.Find(mid)
	if !found {
		if there {
			b.tab.Delete(to)
		}
		return nil
	}
	if !there {
		var err error
		if to, err = b.tab.AddAt(b.tab.Home(mid)); err != nil {
			return err
		}
	}
	for f := range b.tab.Layout().Fields {
		field := &b.tab.Layout().Fields[f]
		v := field.Default
		if at := old.tab.Layout().Index(field.ID); at >= 0 {
			v = old.tab.Get(from, at)
		}
		b.tab.Set(to, f, v)
	}
	return nil
}

// Sealing ahead: when an eighth of BlockItems is left, the open block of rising ids is sealed beside its writers. Who
// inserts where it is full seals it then and there, as ever: 1.2 million inserts a second leave 7 ms.
const (
	aheadShare = 8
	// aheadLeast is the least BlockItems of it: below, sealing takes 0.2 ms.
	aheadLeast = 4 << 10
)

// ahead asks for the open block to be sealed when it has come to that. REQUIRES b.mu held; an item was just added.
func (ks *keyspace) ahead(b *block) {
	if b.tab.Len() != ks.aheadAt || b.moved != nil || !b.rising() {
		return
	}
	select {
	case ks.sealing <- ks:
	default: // others are waited for
	}
}

// sealAhead seals the open block of ks. It tells whether nobody was faster.
func (ks *keyspace) sealAhead(s *Store) error {
	return ks.beside(s, hot.EndMid-1, func(cs *columns, b *block) []plan {
		cut, ok := b.tab.Quantile(1 - headShare)
		if !ok || b.tab.Len() < ks.aheadAt { // it was sealed before
			return nil
		}
		low := cs.plan(b, b.lo, cut, 0, sealLoad)
		return []plan{low, cs.plan(b, cut, b.hi, ks.blockItems, growLoad)}
	})
}
