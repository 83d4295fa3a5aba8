package core

import (
	"errors"
	"math"
	"slices"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/schema"
)

// ErrDerived refuses an operation that gives a derived column a value: only additions to the column that it is of change it.
var ErrDerived = errors.New("counter: the column is derived: additions to another column change it, and nothing else does")

// windows changes and reads derived columns for a batch (schema.Derived). The space of a derived column is a keyspace like others. Its items are
// the posts with additions in the window: a count for each bucket, and the number of the newest bucket. So an addition clears the
// buckets that have come since the one before, and a read passes over those that have gone: nothing happens when only time passes.
//
// An addition and the derived changes are records of one append, so a crash keeps both or neither. The records have the values after the
// change. A store that replays or follows a log makes the changes of its records and derives nothing.
//
// Locks: that of a post's block in a space is taken while that of the post's block is held, in the order of the spaces. A batch that
// waits for one holds no other block of a space that comes behind it, and a stretch logs and lets go of all its blocks first.
//
// Invariant: open are the places in spaces that the operation at hand changes, and it is empty between operations.
type windows struct {
	b       *Batch
	one     [1]addition
	open    []place
	crowded []spaceItem // whose blocks are to be widened, once all is logged
	columns []format.ColumnValue

	// Of a change set, and of an update: the records of derived changes, which it logs itself.
	records []byte
	locked  bool        // the change set at hand has locked all blocks of spaces that it needs
	order   []spaceItem // by which it locks them
	made    []spaceItem // that it has made
}

// addition is one to a column.
type addition struct {
	column int // index in Counter.Columns
	n      uint64
}

// place is an item of a space. Its block is locked.
type place struct {
	of   *schema.Derived
	ks   *block.Keyspace
	blk  *block.Block
	at   block.Location
	add  uint64
	made bool // it was not there before
	own  bool // the block is locked for this operation alone: not by the stretch, and not by the change set
}

// spaceItem is an item of a space, or its place.
type spaceItem struct {
	ks  *block.Keyspace
	mid uint64
}

// addOne is begin for an addition to one column.
func (w *windows) addOne(blk *block.Block, op *Op, n uint64) error {
	w.one[0] = addition{int(op.Column), n}
	return w.begin(blk, op.Counter, op.Mid, w.one[:])
}

// begin locks the places that change with additions to mid, and makes them where they are not there. blk is the post's block, which
// stays locked. On an error nothing was changed. Behind it comes apply or cancel.
func (w *windows) begin(blk *block.Block, def *schema.Counter, mid uint64, adds []addition) error {
	if w.b.data.Time.Seconds() == 0 {
		return nil // nobody has said what time it is
	}
	for i := range def.Derived {
		of := &def.Derived[i]
		for _, a := range adds {
			if a.column == of.At && a.n > 0 {
				w.open = append(w.open, place{of: of, ks: w.b.data.Spaces[of.Space.ID].Of(mid), add: a.n})
			}
		}
	}
	if len(w.open) == 0 {
		return nil
	}
	w.lock(blk, mid, true)
	for i := range w.open {
		if err := w.ensure(&w.open[i], mid); err != nil {
			w.cancel(mid)
			return err
		}
	}
	return nil
}

// lock locks the blocks of open. With change, only those that are in the table of the block stay with the stretch, whose blocks must not be
// replaced.
func (w *windows) lock(blk *block.Block, mid uint64, change bool) {
	if w.locked {
		for i := range w.open {
			p := &w.open[i]
			p.blk = p.ks.Dir.Load().Find(mid)
		}
		return
	}
	if w.tryLock(mid, change) {
		return
	}
	w.b.stretch.log(blk)
	for i := range w.open {
		p := &w.open[i]
		p.blk, p.own = p.ks.Lock(mid), true
	}
}

// tryLock is lock without waiting; false: nothing is locked.
func (w *windows) tryLock(mid uint64, change bool) bool {
	for i := range w.open {
		p := &w.open[i]
		b := p.ks.Dir.Load().Find(mid)
		if slices.Contains(w.b.stretch.blocks, b) {
			if p.blk = b; change && !w.stays(p, mid) {
				p.blk = nil
			}
		} else if p.blk = p.ks.TryLock(b); p.blk != nil {
			p.own = true
		}
		if p.blk == nil {
			w.unlock(0)
			return false
		}
	}
	return true
}

// stays tells whether a change of the item leaves its block as it is.
func (w *windows) stays(p *place, mid uint64) bool {
	if p.blk.Cold != nil || p.blk.Shape != p.ks.Layout {
		return false
	}
	_, ok := p.blk.Tab.Find(mid)
	return ok
}

// ensure finds the item of p, and makes it if it is not there.
func (w *windows) ensure(p *place, mid uint64) (err error) {
	if p.at, err = p.ks.Find(p.blk, mid); err != nil {
		return err
	}
	if p.at.Where == block.InTable {
		p.made = w.locked && p.empty() // the change set made it before
		return nil
	}
	if w.b.full {
		return ErrMaxMemory
	}
	found := p.at.Found()
	if p.blk, p.at.Ref, err = p.ks.Ensure(p.blk, mid, p.at); err != nil {
		return err
	}
	p.at.Where, p.made = block.InTable, !found
	return nil
}

// cancel takes back what begin did.
func (w *windows) cancel(mid uint64) {
	for i := range w.open {
		if p := &w.open[i]; p.made && !w.locked {
			_ = p.ks.Remove(p.blk, mid, p.at) // it is in the table, and so it needs no memory
		}
	}
	w.unlock(0)
	w.open = w.open[:0]
}

// apply makes the changes that begin prepared. Their records go to the stretch, before that of the addition, and the stretch unlocks the
// blocks. With apart they go to records, and logged unlocks the blocks.
func (w *windows) apply(mid uint64, apart bool) {
	b, now := w.b, w.b.data.Time.Seconds()
	for i := range w.open {
		p := &w.open[i]
		w.add(p, now)
		mark(b, p.blk, mid)
		p.blk.Used = b.now
		p.blk.Work++
		switch {
		case apart:
			w.records = w.appendColumns(w.records, p, mid)
		case b.data.Log != nil:
			b.stretch.records = w.appendColumns(b.stretch.records, p, mid)
			w.stretch(p)
		}
		if !w.locked && p.blk.Tab.Crowded() {
			w.crowded = append(w.crowded, spaceItem{p.ks, mid})
		}
	}
	if !apart || w.locked {
		w.unlock(0)
		w.open = w.open[:0]
	}
}

// widen gives blocks in which many values have outgrown their widths others. Nothing of a space is locked, or the stretch has it.
func (w *windows) widen(blk *block.Block) {
	w.b.stretch.log(blk)
	for _, i := range w.crowded {
		i.ks.Widen(i.ks.Lock(i.mid), i.mid).Mu.Unlock()
	}
	w.crowded = w.crowded[:0]
}

// stretch gives the block of p to the stretch, which has a record of it.
func (w *windows) stretch(p *place) {
	if p.own {
		w.b.stretch.blocks, p.own = append(w.b.stretch.blocks, p.blk), false
	}
}

// log logs what apply, or remove, put apart, with the records of the change of blk that it follows from. It lets go of the other blocks.
func (w *windows) log(blk *block.Block, records []byte) {
	b := w.b
	if b.data.Log != nil && len(records)+len(w.records) > 0 {
		pos, err := b.data.Log.Append(append(w.records, records...))
		if err != nil {
			panic("counter: BUG: records that the log does not take: " + err.Error())
		}
		b.pos, blk.Logged = pos, pos
	}
	w.records = w.records[:0]
	w.unlock(b.pos)
	if w.open = w.open[:0]; len(w.crowded) > 0 {
		w.widen(blk)
	}
}

// unlock lets go of the blocks of open that are locked for them alone.
func (w *windows) unlock(logged uint64) {
	for i := range w.open {
		p := &w.open[i]
		if p.own {
			p.blk.Logged = max(p.blk.Logged, logged)
			p.blk.Mu.Unlock()
		}
		p.blk, p.own = nil, false
	}
}

// add counts an addition in the item of p, and puts the columns that it changes in columns.
func (w *windows) add(p *place, now int64) {
	w.columns = w.columns[:0]
	n := int64(p.of.Window.Buckets())
	today := p.of.Window.At(now)
	last := today
	if !p.made {
		last = p.bucket(today)
	}
	bucket := max(last, today)
	if p.made || bucket != last {
		w.set(p, schema.LastBucket, uint64(bucket)&(1<<schema.BucketBits-1))
	}
	for gone := max(last+1, bucket-n+1); gone < bucket; gone++ {
		if c := schema.FirstBucket + int(gone%n); p.value(c) > 0 {
			w.set(p, c, 0)
		}
	}
	c := schema.FirstBucket + int(bucket%n)
	was := uint64(0)
	if bucket == last {
		was = p.value(c)
	}
	w.set(p, c, min(was+p.add, math.MaxInt64)) // both are below 2^63
}

func (w *windows) set(p *place, column int, v uint64) {
	p.blk.Tab.Set(p.at.Ref, p.ks.Field(p.blk, column), v)
	w.columns = append(w.columns, format.ColumnValue{Column: p.of.Space.Columns[column].ID, Value: v})
}

// value is a column of an item in the table of its block.
func (p *place) value(column int) uint64 { return p.blk.Tab.Get(p.at.Ref, p.ks.Field(p.blk, column)) }

// bucket is the number of the newest bucket of the item. Its lowest bits are kept: it is the one of those that is nearest to today's.
func (p *place) bucket(today int64) int64 {
	return schema.NearestBucket(p.value(schema.LastBucket), today)
}

// empty tells whether the item of p, in the table of its block, counts nothing at all: it was made, and not changed yet.
func (p *place) empty() bool {
	for i := range p.of.Window.Buckets() {
		if p.value(schema.FirstBucket+i) > 0 {
			return false
		}
	}
	return true
}

// appendColumns appends the record of the columns that add changed.
func (w *windows) appendColumns(dst []byte, p *place, mid uint64) []byte {
	if len(w.columns) == 1 {
		return format.AppendSet(dst, p.ks.ID, w.columns[0].Column, mid, w.columns[0].Value)
	}
	return format.AppendSetItem(dst, p.ks.ID, mid, w.columns)
}

// value reads derived column number i of a post that is there. blk is its block, which stays locked.
func (w *windows) value(blk *block.Block, def *schema.Counter, i int, mid uint64) (sum uint64, err error) {
	of := &def.Derived[i]
	w.open = append(w.open[:0], place{of: of, ks: w.b.data.Spaces[of.Space.ID].Of(mid)})
	w.lock(blk, mid, false)
	p := &w.open[0]
	if p.at, err = p.ks.Find(p.blk, mid); err == nil && p.at.Found() {
		var row [schema.MaxColumns]uint64
		var read []uint64
		if read, err = p.ks.AppendRow(row[:0], p.blk, mid, p.at); err == nil {
			sum = of.Sum(read, w.b.data.Time.Seconds())
		}
	}
	switch {
	case err != nil:
		w.b.data.ReadErrors.Add(1)
	case w.b.seen.failing && p.own: // changes of other posts do not matter
		err = w.b.seen.noteItem(p.blk, of.Space.ID, mid)
	default:
		w.b.seen.noteSeen(p.blk.Logged)
	}
	w.unlock(0)
	w.open = w.open[:0]
	return sum, err
}

// appendRow appends all derived columns of a post that was read to the batch's rows.
func (w *windows) appendRow(blk *block.Block, op *Op) {
	for i := range op.Counter.Derived {
		v, err := w.value(blk, op.Counter, i, op.Mid)
		if err != nil {
			w.b.rows, op.Err = w.b.rows[:op.row], err
			return
		}
		w.b.rows = append(w.b.rows, v)
	}
}

// remove removes the items of a post that goes, as begin and apply do. On an error nothing was changed.
func (w *windows) remove(blk *block.Block, def *schema.Counter, mid uint64, apart bool) error {
	b := w.b
	for i := range def.Derived {
		of := &def.Derived[i]
		w.open = append(w.open, place{of: of, ks: b.data.Spaces[of.Space.ID].Of(mid)})
	}
	w.lock(blk, mid, false)
	for i := range w.open {
		p := &w.open[i]
		var err error
		if p.at, err = p.ks.Find(p.blk, mid); err != nil {
			w.unlock(0)
			w.open = w.open[:0]
			return err
		}
	}
	for i := range w.open {
		p := &w.open[i]
		if !p.at.Found() || p.ks.Remove(p.blk, mid, p.at) != nil { // without memory for the overlay of a file it stays: nobody reads it
			continue
		}
		mark(b, p.blk, mid)
		switch {
		case apart:
			w.records = format.AppendDelete(w.records, p.ks.ID, mid)
		case b.data.Log != nil:
			b.stretch.records = format.AppendDelete(b.stretch.records, p.ks.ID, mid)
			w.stretch(p)
		}
	}
	if !apart || w.locked {
		w.unlock(0)
		w.open = w.open[:0]
	}
	return nil
}

// locate asks for the memory of spaces that the operations need, and refuses those that give derived columns a value. It has reads of a derived
// column alone run as such.
func (w *windows) locate(ops []Op) {
	for i := range ops {
		op := &ops[i]
		def := op.Counter
		if len(def.Derived) == 0 || op.block == nil {
			continue
		}
		switch {
		case op.Kind == OpSetRow && w.b.sets.shapes[op.Arg].set>>len(def.Columns) != 0,
			op.Kind.changes() && op.Kind != OpDelete && op.Kind != OpSetRow && def.IsDerived(int(op.Column)):
			op.block, op.Err = nil, ErrDerived
			w.b.foreign = true
			continue
		case op.Kind == OpGet && def.IsDerived(int(op.Column)):
			op.Kind = OpGetDerived
		case op.Kind != OpAdd && op.Kind != OpRead && op.Kind != OpAddWithin:
			continue
		}
		for k := range def.Derived {
			blk := w.b.data.Spaces[def.Derived[k].Space.ID].Of(op.Mid).Dir.Load().Find(op.Mid)
			if blk.Cold == nil {
				blk.Prefetch()
				blk.Tab.Prefetch(op.Mid)
			}
		}
	}
}
