package core

import (
	"slices"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/gate"
	"github.com/counterd/counterd/schema"
)

// Batch runs operations on the store, many at once: Run finds all their blocks and asks for their cache lines before it
// waits for the first, and locks a block once for neighbouring operations on it.
//
// Between Begin (or BeginExclusive) and End the schema stands still, and with BeginExclusive everything else does.
// A goroutine must not Begin a second Batch, or call a method of Store that takes the gate, before it Ends
// the first, and must not block in between.
//
// A Batch is not safe for concurrent use; it is made to be reused and then allocates nothing.
type Batch struct {
	data   *Data
	ops    []Op
	rows   []uint64
	within []bounded // bounds of additions that have some
	sets   rowSets   // what OpSetRows give

	door            *gate.Door // of the store's gate
	room            *gate.Room // that it is in, while it is open and not exclusive
	open, exclusive bool
	number          uint64 // of an exclusive batch: see Block.ChangeSet

	carrier bool    // it may touch groups that are not owned: see Groups
	follows bool    // it makes the changes of records, and derives nothing from them: the log has all
	silent  bool    // a primary's changes: they are in the log already, and are made in any case
	refused error   // why changes are refused, as the log cannot take them; asked once a Run
	full    bool    // no new rows: maxmemory is passed and the tiers cannot keep up; asked once a Run
	now     int64   // Data.Clock, asked once a Run
	cold    []int32 // operations on cold blocks, of the first located
	located int     // operations whose blocks were found
	peeked  int     // operations whose first buckets were looked at: see Ahead
	early   bool    // before the batch was opened as it is now: see Locate
	foreign bool    // some of those are of groups that are not owned: they have no block
	derives bool    // some of those are of counters with derived columns
	pos     uint64  // log offset behind the last change, for Commit
	// Of a silent batch: log offset behind the frame whose changes it makes; 0 while the log is replayed.
	applied uint64
	dropped *RangeDrop // of an exclusive batch; its blocks are freed at End

	seen       sight
	changeSets changeSets
	stretch    stretch
	chains     chains
	tops       topNotes
	windows    windows
	watched    watchedAdds
	old        oldValues
}

// Begin opens the batch for operations, beside other batches.
func (b *Batch) Begin() error {
	b.room = b.door.Enter()
	if b.data.Closed {
		b.room.Leave()
		return ErrClosed
	}
	b.open = true
	b.seen.startReading()
	return nil
}

// BeginExclusive opens the batch and keeps all others out until End: what is run meanwhile is seen by others as one
// change, and is one frame of the log, of which a crash keeps all or nothing (up to 4 MiB of records, 200,000 changes).
// Until End nothing may wait for the log.
func (b *Batch) BeginExclusive() error {
	b.data.Gate.Lock()
	if b.data.Closed {
		b.data.Gate.Unlock()
		return ErrClosed
	}
	b.open, b.exclusive, b.number = true, true, b.data.changeSets.Add(1)
	b.seen.startReading()
	if b.data.Log != nil && !b.silent {
		b.old.frame, b.old.rest = b.data.Log.HoldFrame(), 0
	}
	return nil
}

// Opened tells whether the batch is between Begin and End.
func (b *Batch) Opened() bool { return b.open }

// End closes the batch; results stay readable until the next Reset.
func (b *Batch) End() {
	if !b.open {
		return
	}
	b.open, b.changeSets.pending = false, false
	if !b.early {
		b.located = 0
	}
	if b.exclusive {
		b.exclusive = false
		if b.data.Log != nil && !b.silent {
			b.data.Log.ReleaseFrame()
		}
		b.data.Gate.Unlock()
		b.dropped.free(b.data)
		b.dropped = nil
	} else {
		b.room.Leave()
	}
}

// Schema is the one in force. REQUIRES the batch to be open; operations are built from it.
func (b *Batch) Schema() *schema.Schema { return b.data.Schema.Load() }

// Add appends an operation and returns its number. REQUIRES the batch to be open.
func (b *Batch) Add(op Op) int {
	b.ops = append(b.ops, op)
	return len(b.ops) - 1
}

// Next appends an empty operation for the caller to fill.
func (b *Batch) Next() *Op {
	n := len(b.ops)
	if n == cap(b.ops) {
		b.ops = append(b.ops, Op{})
		return &b.ops[n]
	}
	b.ops = b.ops[:n+1]
	op := &b.ops[n]
	*op = Op{}
	return op
}

// Extend appends n empty operations for the caller to fill; Truncate takes back those that are too many.
func (b *Batch) Extend(n int) []Op {
	at := len(b.ops)
	b.ops = slices.Grow(b.ops, n)[:at+n]
	clear(b.ops[at:])
	return b.ops[at:]
}

// Grow makes room for n operations: 65,000 that are added one by one move 8 MB several times.
func (b *Batch) Grow(n int) {
	if n > retainedOps && len(b.ops) == 0 && cap(b.ops) < n {
		b.ops = largeOps.Take(n)
	}
	b.ops = slices.Grow(b.ops, n)
}

// Len is the number of operations since Reset.
func (b *Batch) Len() int { return len(b.ops) }

// Op returns operation i, with its results after Run.
func (b *Batch) Op(i int) *Op { return &b.ops[i] }

// Ops returns n operations from number first on: see Op.
func (b *Batch) Ops(first, n int) []Op { return b.ops[first : first+n] }

// Found is how many operations have found their item.
func (b *Batch) Found() (n int) {
	for i := range b.ops {
		if b.ops[i].Found {
			n++
		}
	}
	return n
}

// Row returns the columns that an OpRead found, in schema order, derived ones behind the others; nil where the item is absent.
// It is valid until Reset.
func (b *Batch) Row(op *Op) []uint64 {
	if !op.Found || op.Err != nil {
		return nil
	}
	n := int32(op.Counter.Width())
	return b.rows[op.row : op.row+n : op.row+n]
}

// Rows returns the columns that the first n of ops, OpReads of one counter, have found, one row behind the other. n is as large as such a
// list can be, and 0 where the first has found nothing. It is valid until Reset.
func (b *Batch) Rows(ops []Op) (values []uint64, n int) {
	if len(ops) == 0 {
		return nil, 0
	}
	columns := int32(ops[0].Counter.Width())
	first := ops[0].row
	for i := range ops {
		op := &ops[i]
		if !op.Found || op.Err != nil || op.row != first+int32(i)*columns {
			break
		}
		n++
	}
	if n == 0 {
		return nil, 0
	}
	end := first + int32(n)*columns
	return b.rows[first:end:end], n
}

// Reset forgets all operations and results.
func (b *Batch) Reset() {
	if cap(b.ops) > retainedOps {
		largeOps.Give(b.ops)
		b.ops = nil
	}
	if cap(b.rows) > 4*retainedOps {
		b.rows = giveRows(b.rows)
	}
	if cap(b.within) > retainedOps {
		b.within = nil
	}
	b.ops, b.rows, b.within, b.cold, b.located, b.early = b.ops[:0], b.rows[:0], b.within[:0], b.cold[:0], 0, false
	b.sets.reset()
	b.changeSets.reset()
}

// Run executes the operations added since Reset, in order as far as they touch the same item, change sets as one. REQUIRES
// the batch to be open.
func (b *Batch) Run() {
	b.checkState()
	if b.located != len(b.ops) || b.early && outdated(b) {
		locate(b)
	}
	b.early = false
	b.fetch()
	at, list := 0, b.changeSets.list
	for len(list) > 0 {
		b.runEach(at, list[0].from)
		n := b.changeSets.run(list)
		at, list = list[n-1].to, list[n:]
	}
	b.runEach(at, len(b.ops))
}

// checkState finds out, once for many operations, whether changes are refused, and what time it is.
func (b *Batch) checkState() {
	b.changeSets.now = 0
	if b.refused = nil; b.data.Log != nil && !b.silent {
		b.refused = b.data.TakesChanges()
	}
	b.full, b.now = b.data.Full.Load() && !b.silent, b.data.Clock.Load()
	b.seen.failing = b.data.Log != nil && !b.silent && b.data.Log.Doubtful()
}

// Refusal is why changes are refused now; nil: they are taken. REQUIRES the batch to be open.
func (b *Batch) Refusal() error {
	b.checkState()
	return b.refused
}

// peekAhead is how many items are looked for in their first buckets (Table.Peek) before the first of them is used: further buckets have
// about 0.5 us to come.
const peekAhead = 64

// runEach executes the operations with numbers from from on, below to, each on its own.
func (b *Batch) runEach(from, to int) {
	var cur, found *block.Block // the one that is locked, and the one that the last operation was thought to be in
	ops := b.ops[from:to]
	next := 0
	looks := !b.seen.failing
	adds := looks && b.refused == nil && !b.silent && b.data.Log != nil
	for i := 0; i < len(ops); i++ {
		if i == next {
			next = min(i+peekAhead, len(ops))
			if len(ops) > 1 || b.derives { // one alone has nothing to wait beside it
				peek(ops[min(max(i, b.peeked-from), next):next])
				b.windows.peek(next - i)
			}
		}
		op := &ops[i]
		if op.block == nil {
			continue // not owned
		}
		// What was one record of a primary is operations on one item here: nobody gets in between, whatever took its
		// block's place.
		if op.block != cur && (op.block != found || op.Mid < cur.Lo || op.Mid >= cur.Hi) {
			cur = b.stretch.next(op, cur)
		}
		if found = op.block; found == cur && looks {
			n := 0
			switch {
			case op.Kind == OpGet || op.Kind == OpRead:
				n = lookNeighbours(b, ops[i:next], cur)
			case op.Kind == OpAdd && adds:
				if n = addNeighbours(b, ops[i:next], cur); n > 0 && cur.Crowded() {
					b.stretch.log(cur)
					cur = op.ks.Widen(cur, ops[i+n-1].Mid)
				}
			}
			if n > 0 {
				i += n - 1
				continue
			}
		}
		cur = b.apply(cur, op)
		switch {
		case op.Err != nil && op.Err != ErrOutOfRange: // which tells of the value too
		case b.seen.failing && !op.Done:
			b.stretch.log(cur)
			b.seen.noteSeenSafe(cur, op)
		default:
			b.seen.noteSeen(cur.Logged)
		}
	}
	b.stretch.end(cur)
}

// Commit returns when the changes of all Runs since the last Commit may be acknowledged, and what was read may be told:
// their records were written to the log and, under appendfsync always, are durable. It waits for the disk: call it
// after End. The error is an *UncertainError: the changes were made, but a crash may take them back.
func (b *Batch) Commit() error {
	var a Ack
	b.Defer(&a)
	return a.Commit()
}

// Cold tells whether Run has to read cold files, which may wait for the disk: not for pages that are in the cache. One that
// another batch pushes out of it before Run is read all the same. REQUIRES the batch to be open. It does what Run begins
// with, so asking costs nothing, and it does not touch the disk.
func (b *Batch) Cold() bool {
	locate(b)
	for _, i := range b.cold {
		if op := &b.ops[i]; !op.block.Cold.File.Cached(op.at) {
			return true
		}
	}
	return false
}

// Defer adds to a what Commit would wait for: one Commit of a then stands for those of all batches deferred to it.
// REQUIRES the batch to be ended, and a to have nothing pending or to be of the same store.
func (b *Batch) Defer(a *Ack) {
	if log := b.data.Log; log != nil && (b.pos > 0 || !b.seen.seenIsSafe(log)) {
		a.here = b.seen.here && (a.log == nil || a.here)
		a.log, a.pos, a.seen = log, max(a.pos, b.pos), max(a.seen, b.seen.seen)
	}
	b.pos, b.seen.seen, b.seen.here = 0, 0, true
}

// apply executes op in blk, which is locked and holds op.Mid's range. It returns the block that is locked afterwards:
// blk, or what took its place.
func (b *Batch) apply(blk *block.Block, op *Op) *block.Block {
	blk.Used = b.now
	blk.Work++
	ks := op.ks
	if blk == op.block && blk.Shape == ks.Layout && blk.Cold == nil && op.Kind.simple() { // nearly all operations
		ref, found := blk.Tab.FindAt(op.home)
		switch {
		case !found && op.Kind == OpAdd: // it makes the item, below
		case !found:
			op.Found = false
			return blk
		case op.Kind == OpGet:
			op.Found, op.Value = true, blk.Tab.Get(ref, int(op.Column))
			return blk
		case op.Kind == OpRead:
			op.Found, op.row = true, int32(len(b.rows))
			if b.rows = blk.Tab.AppendRow(b.rows, ref); ks.Watched && len(op.Counter.Derived) > 0 {
				b.windows.appendRow(blk, op)
			}
			return blk
		default:
			op.Found = true
			return addInTable(b, blk, op, ref)
		}
	}
	if blk.Cold != nil && (op.Kind == OpGet || op.Kind == OpRead) {
		if op.Kind == OpRead {
			op.row = int32(len(b.rows))
			if b.rows, op.Found, op.Err = ks.AppendColdRow(b.rows, blk, op.Mid, op.at); op.Found && op.Err == nil && len(op.Counter.Derived) > 0 {
				b.windows.appendRow(blk, op)
			}
		} else {
			op.Value, op.Found, op.Err = ks.ColdValue(blk, op.Mid, op.at, int(op.Column))
		}
		if op.Err != nil {
			b.data.ReadErrors.Add(1)
		}
		return blk
	}
	var p block.Location
	if blk.Cold == nil && blk == op.block {
		if ref, ok := blk.Tab.FindAt(op.home); ok {
			p = block.Location{Where: block.InTable, Ref: ref}
		}
	} else {
		var err error
		if p, err = ks.Find(blk, op.Mid); err != nil && !op.blind() {
			op.Err = err
			b.data.ReadErrors.Add(1)
			return blk
		}
	}
	op.Found = p.Found()
	switch op.Kind {
	case OpSet, OpAdd, OpAddWithin:
		return b.change(blk, op, p)
	case OpSetRow:
		return b.setRow(blk, op, p)
	}
	if !op.Found {
		return blk
	}
	switch op.Kind {
	case OpGet:
		op.Value, op.Err = ks.Value(blk, op.Mid, p, int(op.Column))
	case OpRead:
		op.row = int32(len(b.rows))
		if b.rows, op.Err = ks.AppendRow(b.rows, blk, op.Mid, p); op.Err == nil && len(op.Counter.Derived) > 0 {
			b.windows.appendRow(blk, op)
		}
	case OpGetDerived:
		op.Value, op.Err = b.windows.value(blk, op.Counter, int(op.Column)-len(op.Counter.Columns), op.Mid)
	case OpReset:
		return b.change(blk, op, p)
	case OpDelete:
		if op.Err = b.refused; op.Err != nil {
			return blk
		}
		b.old.keepRow(blk, op, p)
		derives := len(op.Counter.Derived) > 0 && !b.follows
		if derives {
			if op.Err = b.windows.beginRemoval(blk, op.Counter, op.Mid); op.Err != nil {
				return blk
			}
		}
		if op.Err = ks.Remove(blk, op.Mid, p); op.Err != nil {
			b.windows.forget()
			return blk
		}
		mark(b, blk, op.Mid)
		if derives {
			b.windows.remove(op.Mid, b.silent)
		}
		if t := ks.Tops; t != nil {
			topGone(b, t, op.Mid)
		}
		switch {
		case b.silent:
			blk.Logged = max(blk.Logged, b.applied)
		case b.data.Log != nil:
			b.stretch.delete(blk, op)
		}
		op.Done = true
	}
	return blk
}
