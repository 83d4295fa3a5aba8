package core

import (
	"math"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/persist/format"
)

// addInTable is change for an OpAdd, where the item is in the table of blk at ref, and the table has all columns of the counter.
func addInTable(b *Batch, blk *block.Block, op *Op, ref hot.Ref) *block.Block {
	limit := op.ks.Def.Columns[op.Column].Limit()
	old := blk.Tab.Get(ref, int(op.Column))
	value, ok := hot.Added(old, int64(op.Arg), limit)
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
	if blk.Crowded() {
		b.stretch.log(blk)
		blk = op.ks.Widen(blk, op.Mid)
	}
	return blk
}

// lookNeighbours makes the first ones of ops, as far as they are of the kind of the first, an OpGet or OpRead, and of posts of blk, which is locked, hot, and
// has all columns. It returns how many these are.
func lookNeighbours(b *Batch, ops []Op, blk *block.Block) (done int) {
	ks, kind := ops[0].ks, ops[0].Kind
	if blk.Cold != nil || blk.Shape != ks.Layout || ks.Watched && kind == OpRead {
		return 0
	}
	for ; done < len(ops); done++ {
		op := &ops[done]
		if op.block != blk || op.ks != ks || op.Kind != kind {
			break
		}
		ref, found := blk.Tab.FindAt(op.home)
		if op.Found = found; !found {
			continue
		}
		if kind == OpGet {
			op.Value = blk.Tab.Get(ref, int(op.Column))
		} else {
			op.row = int32(len(b.rows))
			b.rows = blk.Tab.AppendRow(b.rows, ref)
		}
	}
	blk.Used = b.now
	blk.Work += uint32(done)
	b.seen.noteSeen(blk.Logged)
	return done
}

// addNeighbours makes the first ones of ops, as far as they are OpAdds of posts that are in the table of blk, which is locked and has all columns. Of
// columns that a top list or derived columns follow, watchedAdds does. It returns how many these are. It stops behind an addition that makes the table crowded. REQUIRES
// changes to be taken, and a log.
func addNeighbours(b *Batch, ops []Op, blk *block.Block) (done int) {
	s, ks := &b.stretch, ops[0].ks
	if ks.Noted {
		return b.watched.run(b, ops, blk)
	}
	if blk.Shape != ks.Layout || blk.Cold != nil {
		return 0
	}
	logged := blk.Logged // before the first of these
	col, limit, column := &ks.Def.Columns[0], uint64(0), int16(-1)
	for done < len(ops) {
		op := &ops[done]
		if op.block != blk || op.ks != ks || op.Kind != OpAdd {
			break
		}
		if op.Column != column {
			column, col = op.Column, &ks.Def.Columns[op.Column]
			limit = col.Limit()
		}
		ref, found := blk.Tab.FindAt(op.home)
		if !found { // it makes the item
			break
		}
		old, value, ok := blk.Tab.Add(ref, int(column), int64(op.Arg), limit)
		op.Found = true
		done++
		if !ok {
			op.Value, op.Err = old, ErrOutOfRange
			continue
		}
		op.Value, op.Done = value, true
		if blk.Moved != nil {
			blk.Moved[op.Mid] = struct{}{}
		}
		s.records = format.AppendSet(s.records, op.Counter.ID, col.ID, op.Mid, value)
		if !s.held {
			s.blocks, s.held = append(s.blocks, blk), true
		}
		if blk.Crowded() || len(s.records) >= maxStretchBytes {
			break
		}
	}
	if done == 0 {
		return 0
	}
	blk.Used = b.now
	blk.Work += uint32(done)
	if s.held {
		mark(b, blk, ops[0].Mid)
	}
	if b.seen.noteSeen(logged); len(s.records) >= maxStretchBytes {
		s.log(blk)
	}
	return done
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
	} else if op.Found {
		op.row = notKept
	}

	// Every refusal comes before the first change.
	value := op.Arg
	switch op.Kind {
	case OpAdd:
		var ok bool
		if value, ok = hot.Added(old, int64(op.Arg), col.Limit()); !ok {
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
	if blk.Crowded() {
		b.stretch.log(blk)
		blk = ks.Widen(blk, op.Mid)
	}
	return blk
}

// withColumns gives the table of blk all present columns, and finds op's item there. It returns the block
// that is locked afterwards.
func withColumns(b *Batch, blk *block.Block, op *Op) (*block.Block, block.Location, error) {
	b.stretch.log(blk)
	blk, err := block.AddColumns(op.ks, blk, op.Mid)
	if err != nil {
		return blk, block.Location{}, err
	}
	p, err := op.ks.Find(blk, op.Mid)
	return blk, p, err
}

// Bounds are those of an addition: the result is in [Lo, Hi], and in what the column holds. Outside of them the addition
// is not made, or, with Saturate, made as far as the nearer bound.
type Bounds struct {
	Lo, Hi   int64
	Saturate bool
}

// Unbounded lets every value pass that the column holds.
var Unbounded = Bounds{Lo: math.MinInt64, Hi: math.MaxInt64}

// bounded is what an OpAddWithin has beside its Op.
type bounded struct {
	Bounds
	applied int64
}

// AddWithin is Add of an OpAddWithin: column += int64(Arg) within bounds (INCREX of Redis 8.8). Value is the new value,
// or, where the addition was not made, what the column is; Applied tells what was added. An addition that is not made
// is no error: Done is false, and an item that is not there is not made.
func (b *Batch) AddWithin(op Op, bounds Bounds) int {
	op.Kind, op.row = OpAddWithin, int32(len(b.within))
	b.within = append(b.within, bounded{Bounds: bounds})
	return b.Add(op)
}

// Applied is what an OpAddWithin has added: 0 where nothing was.
func (b *Batch) Applied(op *Op) int64 {
	if op.Kind != OpAddWithin {
		return 0
	}
	return b.within[op.row].applied
}

// add returns v+n within the bounds and limit; false: it is not to be made.
func (w *Bounds) add(v uint64, n int64, limit uint64) (uint64, bool) {
	lo, hi := max(w.Lo, 0), min(w.Hi, int64(limit))
	if lo > hi {
		return 0, false
	}
	sum, over := int64(v)+n, n > 0 && n > math.MaxInt64-int64(v) // v is at most MaxInt64: only upwards
	switch {
	case over || sum > hi:
		return uint64(hi), w.Saturate
	case sum < lo:
		return uint64(lo), w.Saturate
	}
	return uint64(sum), true
}
