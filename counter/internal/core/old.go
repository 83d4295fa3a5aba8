package core

import (
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/schema"
)

// oldValues makes the records of a batch that have the values before a change, of counters with old=on (schema.Counter.Old). All changes of their
// posts take the ways that look at each post alone: a keyspace that is Noted has none of the short ones, which append records without old values.
//
// An operation keeps the old values until its record is made, at once or behind the last operation of its change set:
//
//	OpSet, OpReset          Op.Value. Op.row is notKept where an OpSet did not see it
//	OpAdd, OpAddWithin      Op.Value less the addition
//	OpSetRow                rowSets.before, beside its values
//	OpDelete                Batch.rows, at Op.row; notKept: they are not known
//
// Where an old value is not known, as the page cannot be read, the record is one without old values. So is one for which there is no room.
//
// Records with old values may be longer than the longest ones without them. The limits of a change set and of a numbered transaction count with
// the latter, and these must stay in one frame. So must any transaction that would without old values.
type oldValues struct {
	b         *Batch
	roomInSet int    // how many bytes more the records of the change set may have that is made
	frame     uint64 // where the frame of an exclusive batch begins
	rest      int    // how many bytes the changes that Expect told, and that are not made yet, may take without old values
	derived   int    // how many of these are changes of derived columns, for each change
	values    []uint64
	columns   []format.ColumnValue
}

// notKept is Op.row where the values before the change are not known.
const notKept = -1

// keeps tells whether changes of ks are logged here with their old values.
func (o *oldValues) keeps(ks *block.Keyspace) bool {
	return ks.Noted && ks.Def.Old && o.b.data.Log != nil && !o.b.follows
}

// takes tells whether a record of n bytes with old values may be logged, where the limits count with most bytes. It is the last of waiting
// bytes that the log does not have yet.
func (o *oldValues) takes(waiting, n, most int) bool {
	if o.b.exclusive {
		o.rest -= most + o.derived
		if int(o.b.data.Log.Position()-o.frame)+waiting+len(o.b.windows.records)+max(o.rest, 0) > format.FrameHeaderLen+format.MaxFramePayload-maxDefine-format.MaxOnceLen {
			return false
		}
	}
	more := n - most
	if o.b.changeSets.number != 0 && more > o.roomInSet {
		return false
	}
	o.roomInSet -= more
	return true
}

// Expect tells, with everybody else kept out, how many columns and posts b is going to change at most, beside the changes that it was told before. Old values
// leave room for the records of these changes in the frame of the log.
func Expect(b *Batch, changes int) {
	o := &b.old
	o.derived = 0
	for _, def := range b.Schema().Counters() {
		o.derived = max(o.derived, derivedLen(def, schema.WholeItem))
	}
	o.rest = max(o.rest, 0) + changes*(format.MaxSetLen+o.derived)
}

// beginSet sets the room of the change set that is about to be made.
func (o *oldValues) beginSet(g changeSet) {
	most := format.MaxSetLen
	if first := &o.b.ops[g.from]; first.Kind == OpSetRow {
		columns, _ := o.b.sets.of(first)
		most = format.SetItemLen(len(columns))
	}
	o.roomInSet = format.MaxAppend - maxDefine - format.MaxOnceLen - o.b.changeSets.derivedBytes(g) - most*(g.to-g.from)
}

// appendSet appends the record of one column of a post that had the value old; there: the post existed.
func (o *oldValues) appendSet(dst []byte, counter uint32, column uint16, mid, value uint64, there bool, old uint64) []byte {
	at := len(dst)
	if dst = format.AppendSetOld(dst, counter, column, mid, value, there, old); o.takes(len(dst), len(dst)-at, format.MaxSetLen) {
		return dst
	}
	return format.AppendSet(dst[:at], counter, column, mid, value)
}

// appendValues appends the record of columns of a post that had the values old; there: the post existed. most is as of takes.
func (o *oldValues) appendValues(dst []byte, counter uint32, mid uint64, values []format.ColumnValue, there bool, old []uint64, most int) []byte {
	if len(values) == 1 {
		return o.appendSet(dst, counter, values[0].Column, mid, values[0].Value, there, old[0])
	}
	at := len(dst)
	if dst = format.AppendSetItemOld(dst, counter, mid, values, there, old); o.takes(len(dst), len(dst)-at, most) {
		return dst
	}
	return format.AppendSetItem(dst[:at], counter, mid, values)
}

// appendRemoved appends the record of a post of ks that is removed, and had the values of row.
func (o *oldValues) appendRemoved(dst []byte, ks *block.Keyspace, mid uint64, row []uint64) []byte {
	o.columns = o.columns[:0]
	for i := range ks.Def.Columns {
		if col := &ks.Def.Columns[i]; row[i] != col.Default {
			o.columns = append(o.columns, format.ColumnValue{Column: col.ID, Value: row[i]})
		}
	}
	at := len(dst)
	if dst = format.AppendDeleteOld(dst, ks.Def.ID, mid, o.columns); o.takes(len(dst), len(dst)-at, format.MaxSetLen) {
		return dst
	}
	return format.AppendDelete(dst[:at], ks.Def.ID, mid)
}

// appendDelete appends the record of an OpDelete that was made.
func (o *oldValues) appendDelete(dst []byte, op *Op) []byte {
	if !o.keeps(op.ks) || op.row == notKept {
		return format.AppendDelete(dst, op.Counter.ID, op.Mid)
	}
	return o.appendRemoved(dst, op.ks, op.Mid, o.b.rows[op.row:][:len(op.ks.Def.Columns)])
}

// keepRow keeps the post at p, which an OpDelete is about to remove, if its record has old values.
func (o *oldValues) keepRow(blk *block.Block, op *Op, p block.Location) {
	if !o.keeps(op.ks) {
		return
	}
	if op.row = notKept; !p.Readable() {
		return
	}
	at := len(o.b.rows)
	rows, err := op.ks.AppendRow(o.b.rows, blk, op.Mid, p)
	if err != nil {
		o.b.rows = rows[:at]
		return
	}
	o.b.rows, op.row = rows, int32(at)
}

// keepColumns keeps the columns of the post at p to which an OpSetRow is about to give values, if its record has old values.
func (o *oldValues) keepColumns(blk *block.Block, op *Op, p block.Location) {
	if !o.keeps(op.ks) {
		return
	}
	r := &o.b.sets
	columns, values := r.of(op)
	if len(r.before) < len(r.values) {
		r.before = append(r.before, make([]uint64, len(r.values)-len(r.before))...)
	}
	if !p.Found() {
		return
	}
	before := r.before[op.row:][:len(values)]
	err := error(block.ErrCold)
	if p.Readable() {
		o.values, err = op.ks.AppendRow(o.values[:0], blk, op.Mid, p)
	}
	if err != nil {
		before[0] = unknown
		return
	}
	for i, c := range columns {
		before[i] = o.values[c]
	}
}

// appendSetRow appends the record of an OpSetRow that gave columns their values, if their old values are known.
func (o *oldValues) appendSetRow(dst []byte, op *Op, columns []format.ColumnValue) (_ []byte, ok bool) {
	if !o.keeps(op.ks) {
		return dst, false
	}
	old := o.b.sets.before[op.row:][:len(columns)]
	if op.Found && old[0] == unknown {
		return dst, false
	}
	return o.appendValues(dst, op.Counter.ID, op.Mid, columns, op.Found, old, format.SetItemLen(len(columns))), true
}

// appendChanges appends the record of neighbouring operations that gave columns of one post values, if their old values are known.
func (o *oldValues) appendChanges(dst []byte, ops []Op, columns []format.ColumnValue) (_ []byte, ok bool) {
	first := &ops[0]
	if !o.keeps(first.ks) {
		return dst, false
	}
	o.values = o.values[:0]
	for i := range ops {
		old, ok := o.before(&ops[i])
		if !ok {
			return dst, false
		}
		o.values = append(o.values, old)
	}
	return o.appendValues(dst, first.Counter.ID, first.Mid, columns, first.Found, o.values, len(columns)*format.MaxSetLen), true
}

// appendUpdate appends the record of an update that gave columns of a post, places in row, values. row is the post before.
func (o *oldValues) appendUpdate(dst []byte, ks *block.Keyspace, mid uint64, values []format.ColumnValue, places []int, row []uint64) []byte {
	o.values = o.values[:0]
	for _, c := range places {
		o.values = append(o.values, row[c])
	}
	return o.appendValues(dst, ks.Def.ID, mid, values, true, o.values, format.SetItemLen(len(values)))
}

// before is the column of an OpSet, OpAdd, OpAddWithin or OpReset before it was done. ok is false where it is not known.
func (o *oldValues) before(op *Op) (old uint64, ok bool) {
	switch op.Kind {
	case OpAdd:
		return op.Value - op.Arg, true
	case OpAddWithin:
		return op.Value - uint64(o.b.within[op.row].applied), true
	case OpSet:
		return op.Value, op.row != notKept
	}
	return op.Value, true
}
