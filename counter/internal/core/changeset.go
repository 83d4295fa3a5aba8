package core

import (
	"fmt"
	"slices"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/counter/internal/producers"
	"github.com/counterd/counterd/persist/format"
)

// A change set is a sequence of operations that stand or fall together: what one command does to several keys or columns.
//
//   - One of them refused, for whatever reason, and none is made: no page that cannot be read and no lack of memory
//     leaves half of them.
//   - The log has them in one frame: a crash keeps all or none, a replica gets all or none.
//   - Nobody sees a part of them.
//
// A change set holds the locks of all its blocks at a time. What can fail is done first (prepare), then nothing
// fails any more. Rows that were absent are made with their columns at the defaults, and are removed again where a
// later operation is refused.
//
// A change set of reads takes one lock after the other, as reads do, and looks at Data.changeSets before and after. That counts
// the change sets, each while it holds its locks: one that was seen in part was counted between. Then all is read
// once more under all locks. So reads that meet no such change pay two loads for it, and operations that are in no
// change set nothing.
//
// Changes that are in no change set may fall between the reads of a change set.
type changeSet struct {
	from, to int // numbers of operations
	once     int // number in changeSets.onces, from 1 on; 0: it has none
	series   bool
	page     bool // it is OpReads of one counter: see ReadSet
}

// changeSets runs the change sets of a batch.
type changeSets struct {
	b       *Batch
	list    []changeSet // since Reset, in order
	locked  []*block.Block
	located bool                      // every operation's block is locked, or dead since then
	among   map[*block.Block]struct{} // of a large one: see setlock.go
	number  uint64                    // of the change set that is made: see Block.ChangeSet; 0: none is
	order   []int32                   // operations: see sort, and touched
	refs    []hot.Ref                 // of the items of operations: see setAll
	made    []int32                   // operations whose rows were absent and were made, in order
	lost    []int32                   // operations on unreadable pages: see reserve
	records []byte                    // of the log
	columns []format.ColumnValue      // of one of them

	// See Once.
	onces     []Once
	pending   bool              // a transaction that has a number is being executed
	looks     bool              // LookOnce asks, which changes nothing
	req       producers.Request // the last one looked up in the table of producers
	lookup    producers.Try     // what was found: valid while producers.mu is held, or the gate exclusively
	hashGroup uint8             // its hash slot group
	now       int64             // ledger.Seconds, 0: not asked yet
	series    series
}

// MaxChangeSet is the largest number of operations in a change set: their records fit in one frame of the log.
const MaxChangeSet = (format.MaxAppend - maxDefine - format.MaxOnceLen) / format.MaxSetLen

// MaxOnceBytes is the most bytes of log that the changes of a transaction with a number may take, see Batch.TryOnce and ChangeBytes: a crash keeps
// all or none of those that fit in one frame.
const MaxOnceBytes = format.MaxFramePayload - maxDefine - format.MaxOnceLen

// ChangeSet makes all operations from number first on a change set. REQUIRES: those are OpSets without a condition; or OpSetRows of as many
// columns each; or OpAdds; or OpResets and OpDeletes, beside reads of the same items; or reads only. No later than their Run, and in order: change sets
// do not overlap. An OpAdd that is out of range, or an OpAddWithin out of its bounds, is not made, and the others are.
func (b *Batch) ChangeSet(first int) {
	if len(b.ops)-first > 1 { // one alone is a change set anyway
		b.changeSets.list = append(b.changeSets.list, changeSet{from: first, to: len(b.ops)})
	}
}

// ReadSet is ChangeSet of OpReads of one counter. The groups of all of them are known, or of none.
func ReadSet(b *Batch, first int) {
	if len(b.ops)-first > 1 {
		b.changeSets.list = append(b.changeSets.list, changeSet{from: first, to: len(b.ops), page: true})
	}
}

// reset forgets all change sets.
func (r *changeSets) reset() {
	if len(r.list) == 0 && len(r.onces) == 0 { // all else is of these
		return
	}
	if cap(r.order) > retainedOps {
		r.locked, r.order, r.among, r.made, r.lost = nil, nil, nil, nil, nil
	}
	if cap(r.refs) > retainedOps {
		r.refs = nil
	}
	if cap(r.onces) > retainedOps {
		r.onces = nil
	}
	if cap(r.records) > 2*retainedOps*format.MaxSetLen {
		largeRecords.Give(r.records)
		r.records = nil
	}
	clear(r.onces) // they hold the caller's bytes
	r.list, r.onces = r.list[:0], r.onces[:0]
}

// run runs the first change sets of list, and returns how many.
func (r *changeSets) run(list []changeSet) (n int) {
	g := list[0]
	if g.series {
		r.runSeries(g)
		return 1
	}
	if r.disowned(g) {
		return 1
	}
	if g.once > 0 && g.to-g.from <= 1 && !r.derivesAlone(g) {
		if n := r.runOnes(list); n > 0 {
			return n
		}
		r.runOne(g)
		return 1
	}
	if b := r.b; !b.foreign && !b.exclusive && !b.seen.failing {
		if n := pagesOf(b, list); n > 0 && list[n-1].to-g.from >= leastChained {
			readPages(r, list[:n])
			return n
		}
	}
	if !g.page && (g.once > 0 || anyChanges(r.b.ops[g.from:g.to])) {
		r.runChanges(g)
	} else {
		runReads(r, g)
	}
	return 1
}

// anyChanges tells whether some of the operations can change something.
func anyChanges(ops []Op) bool {
	for i := range ops {
		if ops[i].Kind.changes() {
			return true
		}
	}
	return false
}

func (r *changeSets) runChanges(g changeSet) {
	b := r.b
	first := &b.ops[g.from]
	limit := MaxChangeSet
	if first.Kind == OpSetRow {
		columns, _ := b.sets.of(first)
		limit = MaxRows(len(columns))
	}
	if g.to-g.from > limit {
		first.Err = fmt.Errorf("counter: a change set of %d operations, want at most %d", g.to-g.from, limit)
		return
	}
	if n := r.derivedBytes(g); n > 0 && n+(g.to-g.from)*format.MaxSetLen > format.MaxAppend-maxDefine-format.MaxOnceLen {
		first.Err = fmt.Errorf("counter: a change set of %d operations, from which changes of derived columns of up to %d bytes follow, want at most %d bytes", g.to-g.from, n, format.MaxAppend)
		return
	}
	var once *Once
	if g.once > 0 {
		if once = &r.onces[g.once-1]; !r.ready(once) {
			return
		}
	}
	if !r.warm(g) {
		return
	}
	r.lock(g)
	defer r.unlock()
	b.windows.lockSet(g)
	if once != nil {
		b.data.Producers.Mu.Lock()
		defer b.data.Producers.Mu.Unlock()
		if !r.try(once) {
			return
		}
	}
	if once == nil && deletesOnly(r, g) {
		deleteAll(r, g)
		return
	}
	if once == nil && setAll(r, g) {
		return
	}
	r.made, r.lost = r.made[:0], r.lost[:0]
	for i := g.from; i < g.to; i++ {
		if r.located && (i-g.from)%peekAhead == 0 {
			peek(b.ops[i:min(i+peekAhead, g.to)])
		}
		op := &b.ops[i]
		if op.Err = r.prepare(int32(i)); op.Err == nil && i == g.to-1 {
			op.Err = reserve(r)
		}
		if op.Err != nil {
			r.unmake()
			return
		}
	}
	defer r.noteSeen() // a refusal says nothing of what the blocks hold
	r.number = b.data.changeSets.Add(1)
	b.old.beginSet(g)
	silent := b.silent
	b.silent = true // the change set logs itself, in one piece: b.applied is 0
	b.tops.held = true
	defer r.tellTops()
	outOfRange := false
	for i := g.from; i < g.to; i++ {
		op := &b.ops[i]
		found := op.Found
		if (op.Kind == OpReset || op.Kind == OpDelete) && !found {
			continue
		}
		b.apply(r.blockOf(op), op)
		switch {
		case op.Kind == OpAdd:
			op.Found = found
			outOfRange = outOfRange || op.Err != nil // prepare left no other error
		case op.Kind == OpAddWithin:
			op.Found = found
			outOfRange = outOfRange || !op.Done
		case (op.Kind == OpSet || op.Kind == OpSetRow) && !found:
			op.Found, op.Value = false, 0 // prepare made it
		}
	}
	b.silent = silent
	r.topsOfMade()
	if outOfRange {
		r.unmakeUnchanged(g)
		r.topsOfMade()
	}
	b.windows.unmake()
	if once != nil {
		if g.to-g.from == 1 && first.Err != nil && !once.Each {
			return // as an operation alone: it leaves no entry
		}
		if once.Result = (Result{Kind: ResultInt, N: first.Value}); once.Make != nil {
			once.Result = once.Make(b, once, g.from, g.to-g.from)
		}
		done := func(op Op) bool { return op.Done }
		if once.Result.Kind == format.ResultNext && !slices.ContainsFunc(b.ops[g.from:g.to], done) {
			return
		}
	}
	if b.data.Log != nil && !b.silent || once != nil {
		r.log(g, once)
	}
}

// warm reads what a change set needs of cold files, one block at a time: it must not wait for the disk with all
// its locks held. It answers false where something cannot be read, which that operation's Err says.
func (r *changeSets) warm(g changeSet) bool {
	b := r.b
	for _, i := range b.cold {
		if int(i) < g.from || int(i) >= g.to {
			continue
		}
		op := &b.ops[i]
		blk := op.ks.LockFor(op.block, op.Mid)
		p, err := op.ks.Find(blk, op.Mid)
		if err == nil && p.Where == block.InFile {
			at := len(b.rows)
			b.rows, err = op.ks.AppendRow(b.rows, blk, op.Mid, p)
			b.rows = b.rows[:at]
		}
		blk.Mu.Unlock()
		if err != nil && !op.blind() {
			b.data.ReadErrors.Add(1)
			op.Err = err
			return false
		}
	}
	return true
}

// noteSeen is sight.noteSeen for what is locked.
func (r *changeSets) noteSeen() {
	for _, blk := range r.locked {
		r.b.seen.noteSeen(blk.Logged)
	}
}

// prepare does everything of operation i that can fail, so that apply cannot. It notes whether the item was there.
func (r *changeSets) prepare(i int32) error {
	b := r.b
	op := &b.ops[i]
	ks := op.ks
	blk := r.blockOf(op)
	if !op.Kind.changes() {
		at := len(b.rows)
		b.apply(blk, op) // for its error: it is run again among the others
		b.rows = b.rows[:at]
		err := op.Err
		op.forget()
		return err
	}
	p, err := r.find(blk, op)
	if err == nil && !p.Readable() && !op.blind() {
		_, err = ks.Value(blk, op.Mid, p, int(op.Column))
	}
	if err != nil && !op.blind() {
		b.data.ReadErrors.Add(1)
		return err
	}
	op.Found = p.Found()
	stays := true // the table has a field for what is set, or needs none: a default, a row that goes
	switch op.Kind {
	case OpSet:
		col := &ks.Def.Columns[op.Column]
		if op.Arg > col.Limit() {
			return ErrOutOfRange
		}
		stays = op.Arg == col.Default
	case OpSetRow:
		if err := b.sets.settable(op); err != nil {
			return err
		}
	case OpAdd, OpAddWithin:
		stays = false
	default:
		if !op.Found {
			return nil
		}
	}
	if b.refused != nil {
		return b.refused
	}
	if b.full && p.Where != block.InTable && op.Kind != OpDelete {
		return ErrMaxMemory
	}
	if p.Readable() {
		err = r.ensure(i, blk, p, stays)
	} else {
		r.lost, err = append(r.lost, i), nil
	}
	if err == nil && op.derives() {
		err = b.windows.prepare(op)
	}
	return err
}

// ensure is the part of prepare that makes the item, or copies it from its file. stays: the table need not have a field for the column.
func (r *changeSets) ensure(i int32, blk *block.Block, p block.Location, stays bool) (err error) {
	op := &r.b.ops[i]
	ks := op.ks
	if blk, _, err = ks.Ensure(blk, op.Mid, p); err != nil {
		return err
	}
	if !op.Found {
		r.made = append(r.made, i)
	}
	if op.Kind == OpSetRow {
		columns, values := r.b.sets.of(op)
		stays = !ks.Lacking(blk, columns, values)
	} else if !stays {
		stays = ks.Field(blk, int(op.Column)) >= 0
	}
	if !stays {
		_, err = block.AddColumns(ks, blk, op.Mid)
	}
	return err
}

// unmake removes the rows that prepare made.
func (r *changeSets) unmake() {
	r.b.windows.unmake()
	for _, i := range r.made {
		op := &r.b.ops[i]
		blk := op.ks.Dir.Load().Find(op.Mid)
		if p, err := op.ks.Find(blk, op.Mid); err == nil && p.Where == block.InTable { // always: it is in the table
			_ = op.ks.Remove(blk, op.Mid, p) // and so it needs no memory
		}
	}
}

// topsOfMade notes the rows that prepare made for top lists, or that none is there.
func (r *changeSets) topsOfMade() {
	for _, i := range r.made {
		if op := &r.b.ops[i]; op.ks.Tops != nil {
			topIs(r.b, op.ks, r.blockOf(op), op.Mid)
		}
	}
}

// tellTops tells the lists of the changes.
func (r *changeSets) tellTops() {
	r.b.tops.held = false
	tellTops(r.b, r.b.pos)
}

// unmakeUnchanged removes the rows that prepare made for additions that were out of range, all of them. What came behind
// the first of an item did not find it there.
func (r *changeSets) unmakeUnchanged(g changeSet) {
	ops := r.b.ops
	r.sort(g)
	var gone []int32
	for from, to := 0, 0; from < len(r.order); from = to { // sorted: one item's are neighbours
		first := &ops[r.order[from]]
		for to = from + 1; to < len(r.order) && ops[r.order[to]].Mid == first.Mid && ops[r.order[to]].Counter == first.Counter; to++ {
		}
		if _, made := slices.BinarySearch(r.made, r.order[from]); !made {
			continue
		}
		there := false
		for _, i := range r.order[from:to] {
			ops[i].Found = there
			there = there || ops[i].Done
		}
		if !there {
			gone = append(gone, r.order[from])
		}
	}
	r.made = gone
	r.unmake()
}
