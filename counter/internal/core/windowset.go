package core

import (
	"cmp"
	"slices"

	"github.com/counterd/counterd/counter/internal/window"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/schema"
)

// Change sets and derived columns. A change set locks the blocks of spaces behind all others, in order, makes the items that it is going to
// change before anything else is changed, and logs the derived changes in the same frame.

// derives tells whether an operation may change, or remove, counts in spaces.
func (op *Op) derives() bool {
	return len(op.Counter.Derived) > 0 && (op.Kind == OpAdd || op.Kind == OpAddWithin || op.Kind == OpDelete)
}

// derivesAlone tells whether a change set is one operation, from which something may follow.
func (r *changeSets) derivesAlone(g changeSet) bool {
	return g.to-g.from == 1 && r.b.ops[g.from].derives()
}

// recordLen is the most bytes of the record of a change of one derived column: an addition to a window gives the number of its bucket and one count
// new values, and clears other counts, whose zeros take a byte each.
func recordLen(of *schema.Derived) int {
	given := min(len(of.Space.Columns), 2)
	return format.SetItemLen(given) + (len(of.Space.Columns)-given)*format.MaxZeroLen
}

// derivedLen is how many bytes of log the changes of derived columns may take that follow from a change of column number col of def, or of a post of def
// where col is negative.
func derivedLen(def *schema.Counter, col int) (n int) {
	for i := range def.Derived {
		if of := &def.Derived[i]; col < 0 || of.Counts(col, 1) > 0 {
			n += recordLen(of)
		}
	}
	return n
}

// ChangeBytes is how many bytes of log one change may take: of column number col of def, or of a post of def where col is negative. Changes of
// derived columns that follow from it count.
func ChangeBytes(def *schema.Counter, col int) int { return format.MaxSetLen + derivedLen(def, col) }

// derivedBytes is how many bytes the derived changes of a change set may take in the log.
func (r *changeSets) derivedBytes(g changeSet) (n int) {
	for i := g.from; i < g.to; i++ {
		if op := &r.b.ops[i]; op.derives() {
			n += derivedLen(op.Counter, schema.WholeItem)
		}
	}
	return n
}

// lockSet locks the blocks of spaces that a change set may change. REQUIRES its other blocks to be locked.
func (w *windows) lockSet(g changeSet) {
	b := w.b
	w.order, w.made, w.lost, w.records = w.order[:0], w.made[:0], w.lost[:0], w.records[:0]
	for i := g.from; i < g.to; i++ {
		op := &b.ops[i]
		if !op.derives() {
			continue
		}
		for k := range op.Counter.Derived {
			w.order = append(w.order, spaceItem{b.data.Spaces[op.Counter.Derived[k].Space.ID].Of(op.Mid), op.Mid})
		}
	}
	slices.SortFunc(w.order, func(a, b spaceItem) int {
		return cmp.Or(cmp.Compare(a.ks.ID, b.ks.ID), cmp.Compare(a.ks.Group, b.ks.Group), cmp.Compare(a.mid, b.mid))
	})
	end := uint64(0)
	for i, at := range w.order {
		if i > 0 && at.ks == w.order[i-1].ks && at.mid < end {
			continue
		}
		blk := at.ks.Lock(at.mid)
		end = blk.Hi
		b.changeSets.hold(blk)
	}
	w.locked = len(w.order) > 0
}

// endSet forgets what a change set did. Its records are logged: whatever this batch logs next must not have them again.
func (w *windows) endSet() { w.locked, w.records = false, w.records[:0] }

// prepare makes the items that an operation of a change set may change, and memory for removing those that it may remove, so that nothing can fail later.
func (w *windows) prepare(op *Op) error {
	removes := op.Kind == OpDelete
	if !removes && (w.b.data.Time.Seconds() == 0 || op.Kind == OpAdd && int64(op.Arg) <= 0) {
		return nil
	}
	for i := range op.Counter.Derived {
		of := &op.Counter.Derived[i]
		if !removes && of.Counts(int(op.Column), 1) == 0 {
			continue
		}
		p := window.Place{Of: of, Ks: w.b.data.Spaces[of.Space.ID].Of(op.Mid)}
		p.Block = p.Ks.Dir.Load().Find(op.Mid)
		if removes {
			if err := p.FindToRemove(op.Mid); err != nil {
				return err
			}
			if !p.At.Readable() {
				w.lost = append(w.lost, spaceItem{p.Ks, op.Mid})
			}
			continue
		}
		if err := w.ensure(&p, op.Mid); err != nil {
			return err
		}
		if p.Made {
			w.made = append(w.made, spaceItem{p.Ks, op.Mid})
		}
	}
	return nil
}

// unmake removes the items that prepare made and nothing changed.
func (w *windows) unmake() {
	for _, at := range w.made {
		p := window.Place{Ks: at.ks, Block: at.ks.Dir.Load().Find(at.mid)}
		if p.Find(at.mid) == nil {
			p.Unmake(at.mid)
		}
	}
	w.made = w.made[:0]
}
