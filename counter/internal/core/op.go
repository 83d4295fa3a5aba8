package core

import (
	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/internal/slicepool"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/schema"
)

// OpKind is what an Op does.
type OpKind uint8

const (
	OpGet       OpKind = iota // Value = the column
	OpSet                     // column = Arg; Value = what it was before
	OpAdd                     // column += int64(Arg); Value = the new value
	OpReset                   // column = its default, if the item exists; Value = what it was before
	OpRead                    // all columns of the item, see Batch.Row
	OpExists                  // only Found
	OpDelete                  // remove the item
	OpAddWithin               // OpAdd, as far as bounds allow: see Batch.AddWithin
	OpSetRow                  // several columns of the item: see Batch.SetRow; Value = which they are, a bit for each
	// OpGetDerived: Run makes it of an OpGet of a derived column.
	OpGetDerived
)

// Cond restricts an OpSet.
type Cond uint8

const (
	Always    Cond = iota
	IfAbsent       // only where the item does not exist (NX)
	IfPresent      // only where it exists (XX)
)

// known is the Cond of an OpRead whose group is known. There is no room for a flag of its own: an Op has 96 bytes.
const known Cond = 255

// Op is one operation on one item. The caller fills the first group; Run fills the second. Small fields are neighbours, as
// every operation clears an Op.
type Op struct {
	Counter *schema.Counter
	Mid     uint64
	Arg     uint64 // OpSet: the value; OpAdd: an int64
	Kind    OpKind
	Cond    Cond
	Column  int16 // index for Counter.Col; ignored by OpRead, OpExists, OpDelete, OpSetRow
	// OpSet: Value is wanted. Without it a column can be set although what is there cannot be read, and Value is 0 then.
	Before bool

	Found bool   // the item existed before; one that cannot be read is taken to
	Done  bool   // a change was made
	in    uint8  // the group of hash slots that Mid is of: from the beginning if Cond is known (see ReadPosts), else from findInGroups on
	Value uint64 // see Kind; 0 where the item is absent
	Err   error  // ErrOutOfRange, ErrNoMemory, ErrCold, ...; nothing was changed then

	ks    *block.Keyspace
	block *block.Block
	home  hot.Home        // in block, if that is hot
	row   int32           // OpRead: where its values start in Batch.rows; OpAddWithin: which of Batch.within; OpSetRow: in Batch.sets; of a series: its hash
	at    coldstore.Place // of Mid in the file of block; means nothing where that is hot
}

// ReadPosts appends OpReads of posts whose groups of hash slots the caller knows.
func ReadPosts(b *Batch, def *schema.Counter, mids []uint64, groups []uint8) {
	ops := b.Extend(len(mids))
	groups = groups[:len(ops)]
	for i, mid := range mids[:len(ops)] {
		op := &ops[i]
		op.Counter, op.Mid = def, mid
		op.Kind, op.Cond, op.Column, op.in = OpRead, known, -1, groups[i]
	}
}

// peek looks for the items of operations in their first buckets, where those are in memory.
func peek(ops []Op) {
	for i := range ops {
		op := &ops[i]
		if blk := op.block; blk != nil && blk.Cold == nil {
			blk.Tab.Peek(&op.home)
		}
	}
}

// blind tells whether the operation needs nothing of what was there: its effect is the same whatever that was.
func (op *Op) blind() bool {
	return op.Kind == OpSet && op.Cond == Always && !op.Before || op.Kind == OpSetRow || op.Kind == OpDelete
}

// changes tells whether an operation of this kind can change something.
func (k OpKind) changes() bool {
	return k != OpGet && k != OpRead && k != OpExists && k != OpGetDerived
}

// simple tells whether an operation of this kind is one of those that have a short way through Batch.apply.
func (k OpKind) simple() bool { return k == OpGet || k == OpRead || k == OpAdd }

// result is the column of an OpSet, OpAdd, OpAddWithin or OpReset that was done and its value afterwards.
func (op *Op) result() format.ColumnValue {
	col := &op.Counter.Columns[op.Column]
	switch op.Kind {
	case OpReset:
		return format.ColumnValue{Column: col.ID, Value: col.Default}
	case OpAdd, OpAddWithin:
		return format.ColumnValue{Column: col.ID, Value: op.Value}
	}
	return format.ColumnValue{Column: col.ID, Value: op.Arg}
}

// Changed is the columns that a change that was made may have changed, a bit for each, also for derived ones: a replica does not know whether a
// value was added or set. All of them where it made the item or removed it.
func (op *Op) Changed() uint64 {
	switch {
	case op.Kind == OpDelete || !op.Found:
		return ^uint64(0)
	case op.Kind == OpSetRow:
		return op.Counter.Bits(op.Value)
	}
	return op.Counter.Bits(1 << op.Column)
}

// ChangedBy is the counter, and the columns of it as of Op.Changed, that users see changed by an operation of a batch. A change of the space of a derived
// column is one of that column. It comes without an addition where counts are restored or mended.
func ChangedBy(b *Batch, op *Op) (def *schema.Counter, columns uint64) {
	if !op.Counter.IsSpace() {
		return op.Counter, op.Changed()
	}
	def, of := b.Schema().SpaceOf(op.Counter.ID)
	for i := range def.Derived {
		if &def.Derived[i] == of {
			columns = 1 << (len(def.Columns) + i)
		}
	}
	return def, columns
}

// SetHash gives an OpAdd of a series (see OnceSeries) the hash of its command.
func (op *Op) SetHash(hash uint32) { op.row = int32(hash & (1<<format.HashBits - 1)) }

// hash is the hash of an OpAdd of a series.
func (op *Op) hash() uint32 { return uint32(op.row) }

// forget clears the results of a read.
func (op *Op) forget() { op.Value, op.Found, op.Err = 0, false, nil }

// retainedOps is how large a batch may stay: a pipeline of thousands must not cost an idle connection memory.
// 1,000 rows are what loads send in a command.
const retainedOps = 1280

// largeOps has the memory of operations of large batches. To take 8 MB from the heap, which clears them, keeps a processor for a
// millisecond, and so does no command that finds them here.
var largeOps slicepool.Pool[Op]

// largeRows has the memory of the rows of large batches.
var largeRows slicepool.Pool[uint64]

// mostLargeRows is the most memory of rows that largeRows gets, in values: 4 MiB.
const mostLargeRows = 512 << 10

// giveRows leaves the memory of rows to other batches, and returns none.
func giveRows(rows []uint64) []uint64 {
	if cap(rows) <= mostLargeRows {
		largeRows.Give(rows)
	}
	return nil
}

// largeRecords has the memory of records of large change sets, which otherwise grows while others wait.
var largeRecords slicepool.Pool[byte]
