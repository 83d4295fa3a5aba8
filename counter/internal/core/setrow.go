package core

import (
	"slices"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/schema"
)

// rowSets is what the OpSetRows of a batch give: a row is loaded by one operation and one record, where an OpSet for each
// column would look the item up as many times.
//
//	Op.Arg  -> shapes   which columns: those of a whole command
//	Op.row  -> values   one for each of them
//
// A row of several columns that is in no change set is one by itself, and is counted as one: a change set of reads may read
// two of its columns at two times.
type rowSets struct {
	shapes  []rowShape
	columns []int16 // of all shapes
	values  []uint64
	before  []uint64 // beside values, of posts that keep old values: the values before; unknown as the first of a post: they are not known
}

// rowShape is where the columns of a shape are, and which they are: a bit for each.
type rowShape struct {
	from, to int32
	set      uint64
}

// Shape names columns that rows OpSetRows are going to give values to, by their indexes in Counter.Columns, none twice. It
// returns the number to give to SetRow, until Reset. REQUIRES the batch to be open.
func (b *Batch) Shape(columns []int16, rows int) int {
	r := &b.sets
	last := len(r.shapes) - 1
	if rows == 1 && last >= 0 && slices.Equal(r.columns[r.shapes[last].from:], columns) {
		return last // a pipeline names the same columns in each command
	}
	b.ops = slices.Grow(b.ops, rows)
	r.values = slices.Grow(r.values, rows*len(columns))
	s := rowShape{from: int32(len(r.columns))}
	r.columns = append(r.columns, columns...)
	s.to = int32(len(r.columns))
	for _, c := range columns {
		s.set |= 1 << c
	}
	r.shapes = append(r.shapes, s)
	return last + 1
}

// SetRow appends an OpSetRow, and returns where the values of its columns are to be put, in the order of the shape,
// before anything else is added. REQUIRES the batch to be open.
func (b *Batch) SetRow(c *schema.Counter, mid uint64, shape int) []uint64 {
	op := b.Next()
	op.Kind, op.Counter, op.Mid, op.Column, op.Arg = OpSetRow, c, mid, -1, uint64(shape)
	s := b.sets.shapes[shape]
	from := len(b.sets.values)
	op.row = int32(from)
	b.sets.values = append(b.sets.values, make([]uint64, s.to-s.from)...)
	return b.sets.values[from:]
}

// MaxRows is how many OpSetRows of a number of columns may be in a change set: their records fit in one frame of the log, and
// 4,096 rows take about 1 ms, for which others that want their blocks wait.
func MaxRows(columns int) int {
	return min(4096, (format.MaxAppend-maxDefine-format.MaxOnceLen)/format.SetItemLen(columns))
}

// reset forgets all.
func (r *rowSets) reset() {
	if cap(r.values) > 4*retainedOps {
		r.values, r.before = nil, nil
	}
	if cap(r.columns) > 4*retainedOps {
		r.shapes, r.columns = nil, nil
	}
	r.shapes, r.columns, r.values, r.before = r.shapes[:0], r.columns[:0], r.values[:0], r.before[:0]
}

// of returns what an OpSetRow gives.
func (r *rowSets) of(op *Op) (columns []int16, values []uint64) {
	s := r.shapes[op.Arg]
	return r.columns[s.from:s.to], r.values[op.row:][:s.to-s.from]
}

// settable tells why the values of an OpSetRow cannot be those of their columns.
func (r *rowSets) settable(op *Op) error {
	columns, values := r.of(op)
	for i, c := range columns {
		if values[i] > op.Counter.Columns[c].Limit() {
			return ErrOutOfRange
		}
	}
	return nil
}

// setRow is apply for an OpSetRow: all of its columns are set, or none. p is where its item is. It returns the block that
// is locked afterwards.
func (b *Batch) setRow(blk *block.Block, op *Op, p block.Location) *block.Block {
	ks := op.ks
	columns, values := b.sets.of(op)
	// Every refusal comes before the first change.
	if op.Err = b.sets.settable(op); op.Err != nil {
		return blk
	}
	if op.Err = b.refused; op.Err != nil {
		return blk
	}
	if b.full && p.Where != block.InTable {
		op.Err = ErrMaxMemory
		return blk
	}
	b.old.keepColumns(blk, op, p)
	if !p.Readable() {
		if op.Err = ks.Builder.ReserveOverlay(blk, ks.Over, 1); op.Err != nil {
			return blk
		}
		for i, c := range columns { // what the first needs is reserved, and the others need no more
			if op.Err = ks.SetPartial(blk, op.Mid, ks.Def.Columns[c].ID, values[i]); op.Err != nil {
				return blk
			}
			if p, _ = ks.Find(blk, op.Mid); p.Where == block.InTable { // it was the last that was missing
				ks.SetFields(blk, p, columns[i+1:], values[i+1:])
				break
			}
		}
		rowChanged(b, blk, op, columns, values, false)
		return blk
	}
	if blk.Span.Data != nil && ks.Lacking(blk, columns, values) {
		if blk, p, op.Err = withColumns(b, blk, op); op.Err != nil {
			return blk
		}
	}
	if p.Where != block.InTable {
		b.stretch.log(blk)
	}
	if blk, p.Ref, op.Err = ks.Ensure(blk, op.Mid, p); op.Err != nil {
		return blk
	}
	ks.SetFields(blk, p, columns, values)
	rowChanged(b, blk, op, columns, values, true)
	if blk.Crowded() {
		b.stretch.log(blk)
		blk = ks.Widen(blk, op.Mid)
	}
	return blk
}

// rowChanged is changed for an OpSetRow.
func rowChanged(b *Batch, blk *block.Block, op *Op, columns []int16, values []uint64, readable bool) {
	mark(b, blk, op.Mid)
	if t := op.ks.Tops; t != nil {
		topSet(b, t, blk, op, columns, values, readable)
	}
	if len(columns) > 1 && b.changeSets.number == 0 {
		blk.ChangeSet = b.data.changeSets.Add(1)
	}
	switch {
	case b.silent:
		blk.Logged = max(blk.Logged, b.applied)
	case b.data.Log != nil:
		b.stretch.row(blk, op)
	}
	op.Done, op.Value = true, b.sets.shapes[op.Arg].set
}

// appendRow appends the record of an OpSetRow.
func (r *changeSets) appendRow(dst []byte, op *Op) []byte {
	columns, values := r.b.sets.of(op)
	r.columns = r.columns[:0]
	for i, c := range columns {
		r.columns = append(r.columns, format.ColumnValue{Column: op.Counter.Columns[c].ID, Value: values[i]})
	}
	dst, kept := r.b.old.appendSetRow(dst, op, r.columns)
	if kept {
		return dst
	}
	return appendValues(dst, op.Counter.ID, op.Mid, r.columns)
}

// appendValues appends the record that gives columns of an item values: the shorter one where it is one column.
func appendValues(dst []byte, counter uint32, mid uint64, values []format.ColumnValue) []byte {
	if len(values) == 1 {
		return format.AppendSet(dst, counter, values[0].Column, mid, values[0].Value)
	}
	return format.AppendSetItem(dst, counter, mid, values)
}
