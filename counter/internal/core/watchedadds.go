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
// Invariant: places are of the derived columns that count the column at hand of def. Between runs none of them has a block.
type watchedAdds struct {
	def    *schema.Counter
	column int16 // index in def.Columns
	limit  uint64
	places []place
}

// of sets the column at hand.
func (a *watchedAdds) of(def *schema.Counter, column int16) {
	if a.def == def && a.column == column {
		return
	}
	a.def, a.column, a.limit, a.places = def, column, def.Columns[column].Limit(), a.places[:0]
	for i := range def.Derived {
		if d := &def.Derived[i]; d.Counts(int(column), 1) > 0 {
			a.places = append(a.places, place{Place: window.Place{Of: d}})
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
		if op.Column != a.column || op.Counter != a.def {
			a.leave()
			a.of(op.Counter, op.Column)
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
		for i := range a.places {
			a.add(b, w, &a.places[i], op)
		}
		s.records = format.AppendSet(s.records, op.Counter.ID, ks.Def.Columns[op.Column].ID, op.Mid, value)
		if !s.held {
			s.blocks, s.held = append(s.blocks, blk), true
		}
		if len(w.crowded) > 0 || blk.Crowded() || len(s.records) >= maxStretchBytes {
			break
		}
	}
	a.leave()
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
		if next == len(w.ready) || !p.lockFor(b, &w.ready[next]) || !p.FindInTable(op.Mid, w.ready[next].home, !b.full) {
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

// lockFor makes the block of an item the one of p, locked. false: another has it.
func (p *place) lockFor(b *Batch, r *readyPlace) bool {
	if p.Made = false; p.Block == r.blk {
		return true
	}
	if p.unlock(); !slices.Contains(b.stretch.blocks, r.blk) {
		if p.own = r.ks.TryLock(r.blk) != nil; !p.own {
			return false
		}
	}
	p.Ks, p.Block = r.ks, r.blk
	return true
}

// unlock lets go of the block of p, if it is locked for p alone.
func (p *place) unlock() {
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

// add counts op in the item of p, and notes that for the log.
func (a *watchedAdds) add(b *Batch, w *windows, p *place, op *Op) {
	w.columns = p.Add(p.Of.Counts(int(op.Column), op.Arg), &w.now, w.columns[:0])
	w.counted(p, op.Mid)
	b.stretch.records = p.AppendRecord(b.stretch.records, op.Mid, w.columns)
	if w.stretch(p); p.Block.Crowded() {
		w.crowded = append(w.crowded, spaceItem{p.Ks, op.Mid})
	}
}

// unmake removes the items that find has made for a post.
func (a *watchedAdds) unmake(mid uint64) {
	for i := range a.places {
		a.places[i].unmake(mid)
	}
}

// leave lets go of all places.
func (a *watchedAdds) leave() {
	for i := range a.places {
		a.places[i].unlock()
	}
}
