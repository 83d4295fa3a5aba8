package counter

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/counterd/counterd/persist"
)

// A group is a sequence of operations that stand or fall together: what one command does to several keys or columns.
//
//   - One of them refused, for whatever reason, and none is made: no page that cannot be read and no lack of memory
//     leaves half of them.
//   - The log has them in one frame: a crash keeps all or none, a replica gets all or none.
//   - Nobody sees a part of them.
//
// A group of changes holds the locks of all its blocks at a time. What can fail is done first (prepare), then nothing
// fails any more. Rows that were absent are made with their columns at the defaults, and are removed again where a
// later operation is refused.
//
// A group of reads takes one lock after the other, as reads do, and looks at Store.groups before and after. That counts
// the groups of changes, each while it holds its locks: one that was seen in part was counted between. Then all is read
// once more under all locks. So reads that meet no such change pay two loads for it, and operations that are in no
// group nothing.
//
// Changes that are in no group may fall between the reads of a group.
type group struct{ from, to int } // numbers of operations

// MaxGroup is the largest number of operations in a group: their records fit in one frame of the log.
const MaxGroup = persist.MaxAppend / persist.MaxSetLen

// Group makes all operations from number first on a group. REQUIRES: those are OpSets without a condition; or OpResets
// and OpDeletes, beside reads of the same items; or reads only. No later than their Run, and in order: groups do not
// overlap.
func (b *Batch) Group(first int) {
	if len(b.ops)-first > 1 { // one alone is a group anyway
		b.groups = append(b.groups, group{first, len(b.ops)})
	}
}

// changes tells whether an operation of this kind can change something.
func (k OpKind) changes() bool { return k != OpGet && k != OpRead && k != OpExists }

// runGroup runs the operations of a group.
func (b *Batch) runGroup(g group) {
	for i := g.from; i < g.to; i++ {
		if b.ops[i].Kind.changes() {
			b.runChanges(g)
			return
		}
	}
	b.runReads(g)
}

func (b *Batch) runReads(g group) {
	seen, rows := b.s.groups.Load(), len(b.rows)
	b.runEach(g.from, g.to)
	if b.exclusive || b.s.groups.Load() == seen {
		return
	}
	b.rows = b.rows[:rows]
	b.lock(g)
	for i := g.from; i < g.to; i++ {
		op := &b.ops[i]
		op.forget()
		b.apply(op.ks.dir.Load().find(op.Mid), op)
	}
	b.unlock()
}

func (b *Batch) runChanges(g group) {
	first := &b.ops[g.from]
	if g.to-g.from > MaxGroup {
		first.Err = fmt.Errorf("counter: a group of %d operations, want at most %d", g.to-g.from, MaxGroup)
		return
	}
	if !b.warm(g) {
		return
	}
	b.lock(g)
	defer b.unlock()
	b.made, b.lost = b.made[:0], 0
	for i := g.from; i < g.to; i++ {
		op := &b.ops[i]
		if op.Err = b.prepare(int32(i)); op.Err != nil {
			b.unmake()
			return
		}
	}
	b.s.groups.Add(1)
	silent := b.silent
	b.silent = true // the group logs itself, in one piece: b.applied is 0
	for i := g.from; i < g.to; i++ {
		op := &b.ops[i]
		found := op.Found
		if (op.Kind == OpReset || op.Kind == OpDelete) && !found {
			continue
		}
		b.apply(op.ks.dir.Load().find(op.Mid), op)
		if op.Kind == OpSet && !found {
			op.Found, op.Value = false, 0 // prepare made it
		}
	}
	b.silent = silent
	if b.s.log != nil && !b.silent {
		b.logGroup(g)
	}
}

// warm reads what a group of changes needs of cold files, one block at a time: it must not wait for the disk with all
// its locks held. It answers false where something cannot be read, which that operation's Err says.
func (b *Batch) warm(g group) bool {
	for _, i := range b.cold {
		if int(i) < g.from || int(i) >= g.to {
			continue
		}
		op := &b.ops[i]
		blk := op.ks.lockFor(op.block, op.Mid)
		p, err := op.ks.find(blk, op.Mid)
		if err == nil && p.where == inFile {
			at := len(b.rows)
			b.rows, err = op.ks.appendRow(b.rows, blk, op.Mid, p)
			b.rows = b.rows[:at]
		}
		blk.mu.Unlock()
		if err != nil && !op.blind() {
			b.s.tiers.readErrors.Add(1)
			op.Err = err
			return false
		}
	}
	return true
}

// lock locks the blocks of a group, in order of counter and mid: groups that share some cannot wait for each other.
func (b *Batch) lock(g group) {
	b.order = b.order[:0]
	for i := g.from; i < g.to; i++ {
		b.order = append(b.order, int32(i))
	}
	slices.SortFunc(b.order, func(i, j int32) int {
		x, y := &b.ops[i], &b.ops[j]
		return cmp.Or(cmp.Compare(x.Counter.ID, y.Counter.ID), cmp.Compare(x.Mid, y.Mid))
	})
	var ks *keyspace
	var last *block
	for _, i := range b.order {
		op := &b.ops[i]
		if op.ks == ks && op.Mid < last.hi {
			continue
		}
		ks, last = op.ks, op.ks.lockFor(op.block, op.Mid)
		last.holder = b
		b.locked = append(b.locked, last)
	}
}

// unlock unlocks what lock locked, or what took its place.
func (b *Batch) unlock() {
	for i, blk := range b.locked {
		b.show(blk.logged)
		blk.holder, b.locked[i] = nil, nil
		blk.mu.Unlock()
	}
	b.locked = b.locked[:0]
}

// replaced has news, which are locked, take the place of old, which b has locked.
func (b *Batch) replaced(old *block, news []*block) {
	for _, blk := range news {
		blk.holder = b
	}
	old.holder = nil
	i := slices.Index(b.locked, old)
	b.locked = slices.Replace(b.locked, i, i+1, news...)
}

// prepare does everything of operation i that can fail, so that apply cannot. It notes whether the item was there.
func (b *Batch) prepare(i int32) error {
	op := &b.ops[i]
	ks := op.ks
	blk := ks.dir.Load().find(op.Mid)
	if !op.Kind.changes() {
		at := len(b.rows)
		b.apply(blk, op) // for its error: it is run again among the others
		b.rows = b.rows[:at]
		err := op.Err
		op.forget()
		return err
	}
	p, err := ks.find(blk, op.Mid)
	if err == nil && !p.readable() && !op.blind() {
		_, err = ks.value(blk, op.Mid, p, int(op.Column))
	}
	if err != nil && !op.blind() {
		b.s.tiers.readErrors.Add(1)
		return err
	}
	op.Found = p.found()
	stays := true // the column keeps its default, or goes with the row
	switch op.Kind {
	case OpSet:
		col := &ks.def.Columns[op.Column]
		if op.Arg > col.Limit() {
			return ErrOutOfRange
		}
		stays = op.Arg == col.Default
	default:
		if !op.Found {
			return nil
		}
	}
	if b.refused != nil {
		return b.refused
	}
	if b.full && p.where != inTable && op.Kind != OpDelete {
		return ErrMaxMemory
	}
	if !p.readable() {
		b.lost++
		return ks.reserveOverlay(blk, b.lost)
	}
	if blk, _, err = ks.ensure(blk, op.Mid, p); err != nil {
		return err
	}
	if !op.Found {
		b.made = append(b.made, i)
	}
	if !stays && ks.field(blk, int(op.Column)) < 0 {
		_, err = ks.repack(blk, op.Mid)
	}
	return err
}

// unmake removes the rows that prepare made.
func (b *Batch) unmake() {
	for _, i := range b.made {
		op := &b.ops[i]
		blk := op.ks.dir.Load().find(op.Mid)
		if p, err := op.ks.find(blk, op.Mid); err == nil && p.where == inTable { // always: it is in the table
			_ = op.ks.remove(blk, op.Mid, p) // and so it needs no memory
		}
	}
}

// logGroup appends the group's changes to the log, several columns of an item as one record.
func (b *Batch) logGroup(g group) {
	b.records = b.records[:0]
	records := 0
	for i := g.from; i < g.to; {
		op := &b.ops[i]
		if i++; !op.Done {
			continue
		}
		records++
		if op.Kind == OpDelete {
			b.records = persist.AppendDelete(b.records, op.Counter.ID, op.Mid)
			continue
		}
		b.columns = append(b.columns[:0], op.result())
		for ; i < g.to && len(b.columns) < persist.MaxColumns; i++ {
			next := &b.ops[i]
			if !next.Done || next.Kind != op.Kind || next.Mid != op.Mid || next.Counter != op.Counter {
				break
			}
			b.columns = append(b.columns, next.result())
		}
		if c := b.columns[0]; len(b.columns) == 1 {
			b.records = persist.AppendSet(b.records, op.Counter.ID, c.Column, op.Mid, c.Value)
		} else {
			b.records = persist.AppendSetItem(b.records, op.Counter.ID, op.Mid, b.columns)
		}
	}
	switch records { // MaxGroup sees to it that they are not too long
	case 0:
		return
	case 1: // one change anyway, which can share a frame
		b.pos, _ = b.s.log.Append(b.records)
	default:
		b.pos, _ = b.s.log.AppendWhole(b.records)
	}
	for _, blk := range b.locked {
		blk.logged = b.pos
	}
}

// result is the column of an OpSet or OpReset and its value afterwards.
func (op *Op) result() persist.ColumnValue {
	col := &op.Counter.Columns[op.Column]
	if op.Kind == OpReset {
		return persist.ColumnValue{Column: col.ID, Value: col.Default}
	}
	return persist.ColumnValue{Column: col.ID, Value: op.Arg}
}

// forget clears the results of a read.
func (op *Op) forget() { op.Value, op.Found, op.Err = 0, false, nil }
