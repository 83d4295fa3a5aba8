package core

import (
	"slices"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/window"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/schema"
)

// watchedAdds makes neighbouring additions to columns that a top list or derived columns follow, as addNeighbours makes those to others. It is the short way of
// nearly all of them: post and items are in tables that have all columns, and nobody else has the blocks of the items. Batch.apply makes the others.
//
// Invariant: places are of the derived columns that count the column at hand of def, with their buckets at seconds. Between runs none of them has a block.
type watchedAdds struct {
	def     *schema.Counter
	column  int16 // index in def.Columns
	limit   uint64
	seconds int64
	places  []place
}

// of sets the column at hand, and the time.
func (a *watchedAdds) of(def *schema.Counter, column int16, now *window.Moment, seconds int64) {
	if a.def == def && a.column == column && a.seconds == seconds {
		return
	}
	a.def, a.column, a.limit, a.seconds, a.places = def, column, def.Columns[column].Limit(), seconds, a.places[:0]
	for i := range def.Derived {
		if d := &def.Derived[i]; d.Counts(int(column), 1) > 0 {
			a.places = append(a.places, place{Place: window.Place{Of: d}, weight: d.Counts(int(column), 1)})
			if !d.Decays() {
				a.places[len(a.places)-1].bucket = now.Bucket(d)
			}
		}
	}
}

// run makes the first ones of ops, as far as they are additions to posts of blk, which is locked, and the short way is open. It returns how many these are. It stops behind an addition that makes a table crowded. REQUIRES as addNeighbours.
func (a *watchedAdds) run(b *Batch, ops []Op, blk *block.Block) (done int) {
	s, w, ks := &b.stretch, &b.windows, ops[0].ks
	seconds := b.data.Time.Seconds()
	if blk.Shape != ks.Layout || blk.Cold != nil || ks.Tops != nil && ks.Tops.Sum != nil || seconds == 0 && len(ops[0].Counter.Derived) > 0 {
		return 0
	}
	logged := blk.Logged // before the first of these
	w.now.Set(seconds)
	changes := uint32(0)
	for done < len(ops) {
		op := &ops[done]
		if op.block != blk || op.ks != ks || op.Kind != OpAdd || int64(op.Arg) <= 0 {
			break
		}
		if op.Column != a.column || op.Counter != a.def || a.seconds != seconds {
			a.leave(b)
			a.of(op.Counter, op.Column, &w.now, seconds)
		}
		ref, found := blk.Tab.FindAt(op.home)
		if !found || !a.find(b, w, op) {
			break
		}
		old, value, ok := blk.Tab.Add(ref, int(op.Column), int64(op.Arg), a.limit)
		op.Found = true
		done++
		if !ok {
			a.unmake(op.Mid)
			op.Value, op.Err = old, ErrOutOfRange
			continue
		}
		op.Value, op.Done = value, true
		if changes++; blk.Moved != nil {
			blk.Moved[op.Mid] = struct{}{}
		}
		if ks.Tops != nil {
			topChanged(b, ks.Tops, blk, op, old, value)
		}
		mid := format.VarintOf(op.Mid)
		for i := range a.places {
			a.add(b, w, &a.places[i], op, &mid)
		}
		if ks.Def.Old {
			s.records = b.old.appendSet(s.records, op.Counter.ID, ks.Def.Columns[op.Column].ID, op.Mid, value, true, old)
		} else {
			s.records = format.AppendSetOf(s.records, op.Counter.ID, ks.Def.Columns[op.Column].ID, &mid, value)
		}
		if !s.held {
			s.blocks, s.held = append(s.blocks, blk), true
		}
		if len(w.crowded) > 0 || blk.Crowded() || len(s.records) >= maxStretchBytes {
			break
		}
	}
	a.leave(b)
	if done == 0 {
		return 0
	}
	blk.Used = b.now
	blk.Work += uint32(done)
	if changes > 0 {
		mark(b, blk, ops[0].Mid)
	}
	b.seen.noteSeen(logged)
	switch {
	case len(w.crowded) > 0:
		w.widen(blk)
	case len(s.records) >= maxStretchBytes:
		s.log(blk)
	}
	return done
}

// find locks the blocks of the items of op's post, and finds the items, or makes them. false: the short way ends, and nothing was made.
func (a *watchedAdds) find(b *Batch, w *windows, op *Op) bool {
	next := w.next
	for i := range a.places {
		p := &a.places[i]
		for next < len(w.ready) && (w.ready[next].mid != op.Mid || w.ready[next].of != p.Of) {
			next++
		}
		if next == len(w.ready) || !p.take(b, &w.ready[next]) {
			for k := range i {
				a.places[k].unmake(op.Mid)
			}
			return false
		}
		next++
	}
	w.next = next
	return true
}

// take locks the block of an item, and finds the item, or makes it. It returns false if another goroutine has the lock, or if the block would not stay as it
// is: nothing was made then.
func (p *place) take(b *Batch, r *readyPlace) (ok bool) {
	if p.Block != r.blk && !p.lockFor(b, r) {
		return false
	}
	p.Made = false
	if p.At.Ref, ok = r.blk.Tab.FindAt(r.home); !ok {
		return !b.full && p.TryAdd(r.mid, r.home)
	}
	return true
}

// lockFor gives p the block of an item, locked. It returns false if another goroutine has the lock, or if a change of an item might not leave the block as it is.
func (p *place) lockFor(b *Batch, r *readyPlace) bool {
	if p.leave(b); !slices.Contains(b.stretch.blocks, r.blk) {
		if p.own = r.ks.TryLock(r.blk) != nil; !p.own {
			return false
		}
	}
	p.Ks, p.Block, p.At.Where = r.ks, r.blk, block.InTable
	if !p.InTable() {
		p.leave(b)
		return false
	}
	return true
}

// leave counts the additions to the block of p as its work, and lets go of the block, if it is locked for p alone.
func (p *place) leave(b *Batch) {
	if p.done > 0 {
		if p.Block.Dirty = true; b.exclusive {
			p.Block.ChangeSet = b.number
		}
		p.Block.Used = b.now
		p.Block.Work += p.done
		p.done = 0
	}
	if p.own {
		p.Block.Mu.Unlock()
	}
	p.Block, p.own = nil, false
}

// unmake removes the item of p if it was made and counts nothing.
func (p *place) unmake(mid uint64) {
	if p.Made {
		p.Unmake(mid)
	}
}

// add counts op in the item of p, and notes that for the log, which has the mid of op as mid.
func (a *watchedAdds) add(b *Batch, w *windows, p *place, op *Op, mid *format.Varint) {
	n := op.Arg
	if p.weight != 1 {
		n = p.Of.Counts(int(op.Column), n)
	}
	if sum, again := p.again(n); again {
		b.stretch.records = format.AppendSetOf(b.stretch.records, p.Ks.ID, p.bucket.ID, mid, sum)
	} else {
		w.columns = p.Add(n, &w.now, w.columns[:0])
		w.tell(p, op.Mid)
		b.stretch.records = p.AppendRecord(b.stretch.records, op.Mid, w.columns)
	}
	if p.done++; p.Block.Moved != nil {
		p.Block.Moved[op.Mid] = struct{}{}
	}
	if p.own {
		w.stretch(p)
	}
	if p.Block.Crowded() {
		w.crowded = append(w.crowded, spaceItem{p.Ks, op.Mid})
	}
}

// again is AddAgain of a window, where no top list wants to know of it.
func (p *place) again(n uint64) (sum uint64, ok bool) {
	if p.bucket.Count == 0 || p.Made || p.Ks.Tops != nil {
		return 0, false
	}
	return p.AddAgain(n, &p.bucket)
}

// unmake removes the items that find has made for a post.
func (a *watchedAdds) unmake(mid uint64) {
	for i := range a.places {
		a.places[i].unmake(mid)
	}
}

// leave lets go of all places.
func (a *watchedAdds) leave(b *Batch) {
	for i := range a.places {
		a.places[i].leave(b)
	}
}

// countedBy are the spaces of the derived columns that count a column.
type countedBy struct {
	def    *schema.Counter
	column int16
	spaces []countingSpace
}

type countingSpace struct {
	of  *schema.Derived
	all block.Space

	// Of the operations at hand.
	ks   *block.Keyspace
	dir  *block.Directory
	last *block.Block // whose memory was requested last
}

// of sets the column.
func (c *countedBy) of(b *Batch, def *schema.Counter, column int16) {
	c.def, c.column, c.spaces = def, column, c.spaces[:0]
	for i := range def.Derived {
		if of := &def.Derived[i]; of.Counts(int(column), 1) > 0 {
			all := b.data.Spaces[of.Space.ID]
			c.spaces = append(c.spaces, countingSpace{of: of, all: all, ks: all[0], dir: all[0].Dir.Load()})
		}
	}
}

// locateAdds asks for the items that the first of ops, additions to one column, change in spaces. It returns how many these are.
func (w *windows) locateAdds(ops []Op) (n int) {
	def, column, kind := ops[0].Counter, ops[0].Column, ops[0].Kind
	if w.counts.def != def || w.counts.column != column {
		w.counts.of(w.b, def, column)
	}
	spaces, ready := w.counts.spaces, w.ready
	for n < len(ops) {
		op := &ops[n]
		if op.Counter != def || op.Column != column || op.Kind != kind {
			break
		}
		if n++; op.block == nil {
			continue // not owned
		}
		for i := range spaces {
			s := &spaces[i]
			if len(s.all) > 1 {
				s.ks = s.all[op.in]
				s.dir = s.ks.Dir.Load()
			}
			blk := s.dir.Find(op.Mid)
			if blk.Cold != nil {
				continue
			}
			if blk != s.last {
				blk.Prefetch()
				s.last = blk
			}
			ready = append(ready, readyPlace{op.Mid, s.of, s.ks, blk, blk.Tab.Prefetch(op.Mid)})
		}
	}
	w.ready = ready
	return n
}
