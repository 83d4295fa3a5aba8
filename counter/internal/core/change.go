package core

import (
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
)

// addInTable is change for an OpAdd, where the item is in the table of blk at ref, and the table has all columns of the counter.
func addInTable(b *Batch, blk *block.Block, op *Op, ref hot.Ref) *block.Block {
	old := blk.Tab.Get(ref, int(op.Column))
	value, ok := add(old, int64(op.Arg), op.ks.Def.Columns[op.Column].Limit())
	if !ok {
		op.Value, op.Err = old, ErrOutOfRange
		return blk
	}
	op.Value = value
	if op.Err = b.refused; op.Err != nil {
		return blk
	}
	if op.ks.Watched && len(op.Counter.Derived) > 0 && value > old {
		if op.Err = b.windows.addOne(blk, op, value-old); op.Err != nil {
			return blk
		}
	}
	blk.Tab.Set(ref, int(op.Column), value)
	changed(b, blk, op, old, value)
	if blk.Tab.Crowded() {
		b.stretch.log(blk)
		blk = op.ks.Widen(blk, op.Mid)
	}
	return blk
}

// change is apply for operations that give a column a new value: OpSet, OpAdd, OpAddWithin, and OpReset of an item that is there.
func (b *Batch) change(blk *block.Block, op *Op, p block.Location) *block.Block {
	ks, col := op.ks, &op.ks.Def.Columns[op.Column]
	old := col.Default
	if op.Found && (p.Readable() || !op.blind()) {
		if old, op.Err = ks.Value(blk, op.Mid, p, int(op.Column)); op.Err != nil {
			b.data.ReadErrors.Add(1)
			return blk
		}
	}

	// Every refusal comes before the first change.
	value := op.Arg
	switch op.Kind {
	case OpAdd:
		var ok bool
		if value, ok = add(old, int64(op.Arg), col.Limit()); !ok {
			op.Value, op.Err = old, ErrOutOfRange
			return blk
		}
		op.Value = value
	case OpAddWithin:
		w, ok := &b.within[op.row], false
		if value, ok = w.add(old, int64(op.Arg), col.Limit()); !ok {
			op.Value, w.applied = old, 0
			return blk
		}
		op.Value, w.applied = value, int64(value-old)
	case OpReset:
		op.Value, value = old, col.Default
	default:
		if op.Found {
			op.Value = old
		}
		if op.Cond == IfAbsent && op.Found || op.Cond == IfPresent && !op.Found {
			return blk
		}
		if value > col.Limit() {
			op.Err = ErrOutOfRange
			return blk
		}
	}
	if op.Err = b.refused; op.Err != nil {
		return blk
	}
	if b.full && p.Where != block.InTable {
		op.Err = ErrMaxMemory
		return blk
	}
	if op.derives() && value > old {
		b.stretch.log(blk) // blocks of spaces that it has are locked for this operation then
		if op.Err = b.windows.addOne(blk, op, value-old); op.Err != nil {
			return blk
		}
	}
	if !p.Readable() {
		if op.Err = ks.SetPartial(blk, op.Mid, col.ID, value); op.Err != nil {
			b.windows.cancel(op.Mid)
			return blk
		}
		if t := ks.Tops; t != nil {
			topMade(b, t, op, 1<<op.Column, false)
		}
		changed(b, blk, op, unknown, value)
		return blk
	}
	// The column comes before the row: without memory for it there must be no row either.
	// The default is what a block without the column answers anyway.
	if value != col.Default && blk.Shape != ks.Layout && blk.Span.Data != nil && ks.Field(blk, int(op.Column)) < 0 {
		if blk, p, op.Err = withColumns(b, blk, op); op.Err != nil {
			b.windows.cancel(op.Mid)
			return blk
		}
	}
	if p.Where != block.InTable { // what takes blk's place may be several
		b.stretch.log(blk)
	}
	var ref hot.Ref
	if blk, ref, op.Err = ks.Ensure(blk, op.Mid, p); op.Err != nil {
		b.windows.cancel(op.Mid)
		return blk
	}
	f := ks.Field(blk, int(op.Column))
	if f >= 0 {
		blk.Tab.Set(ref, f, value)
	}
	changed(b, blk, op, old, value)
	if blk.Tab.Crowded() {
		b.stretch.log(blk)
		blk = ks.Widen(blk, op.Mid)
	}
	return blk
}

// withColumns packs blk anew, so that its table has all present columns, and finds op's item there. It returns the block
// that is locked afterwards.
func withColumns(b *Batch, blk *block.Block, op *Op) (*block.Block, block.Location, error) {
	b.stretch.log(blk)
	blk, err := op.ks.Repack(blk, op.Mid)
	if err != nil {
		return blk, block.Location{}, err
	}
	p, err := op.ks.Find(blk, op.Mid)
	return blk, p, err
}
