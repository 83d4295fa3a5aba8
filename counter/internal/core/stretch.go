package core

import (
	"slices"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/persist/format"
)

// stretch is what neighbouring operations of a batch have changed and not logged yet. Their blocks stay locked until one
// append has put all their records into the log: once each, a change took the log's lock from another processor, which
// cost more than all else it does.
//
// The order of the log is that of the effects all the same, as nobody sees a change, nor makes one in its block, before
// its record has its place. Only the first block of a stretch is waited for, the others are taken if nobody has them: so
// who holds blocks waits for none. Where others have them, stretches become shorter, as they wait for these in turn.
//
// Before a block of a stretch is replaced (sealed, split, packed in another way), and before a file is read, all is logged:
// what changes items calls log first. Change sets, and changes that are numbered, log themselves.
//
// Invariants: records are those of the changes made in blocks since each was locked; every one of blocks is locked, and is
// not dead. held tells whether the block in which the batch is has a place in blocks. Between runs both are empty.
type stretch struct {
	b       *Batch
	blocks  []*block.Block
	held    bool
	records []byte
	most    int // blocks, from 1 to maxStretch
}

const (
	// maxStretch is how many blocks are locked at a time: others wait for 50 ns for each.
	maxStretch = 16
	// maxStretchBytes bounds what is appended at a time, of changes of one block.
	maxStretchBytes = 8 << 10
)

// next lets go of cur, if it is not nil and nothing in it waits to be logged, and returns the block of op, locked.
func (s *stretch) next(op *Op, cur *block.Block) *block.Block {
	s.leave(cur)
	if len(s.blocks) == 0 { // as with reads
		if blk := op.ks.TryLock(op.block); blk != nil {
			return blk
		}
		return op.ks.LockFor(op.block, op.Mid)
	}
	if op.block.Cold == nil { // else a page may be read, and nobody is to wait for that who wants another block
		if blk := s.further(op); blk != nil {
			return blk
		}
	}
	s.log(nil)
	return op.ks.LockFor(op.block, op.Mid)
}

// further returns the block of op, locked beside those that are not logged yet; nil: these have to be logged first.
func (s *stretch) further(op *Op) *block.Block {
	if s.held = slices.Contains(s.blocks, op.block); s.held {
		return op.block
	}
	if len(s.blocks) >= s.most {
		s.most = min(s.most+1, maxStretch)
		return nil
	}
	blk := op.ks.TryLock(op.block)
	if blk == nil {
		s.most = max(1, s.most/2)
	}
	return blk
}

// leave unlocks cur, if it is not nil and nothing in it waits to be logged.
func (s *stretch) leave(cur *block.Block) {
	if cur != nil && !s.held {
		if s.b.silent && !s.b.tops.Empty() { // of windows: see topSum
			tellTops(s.b, s.b.applied)
		}
		cur.Mu.Unlock()
	}
	s.held = false
}

// end lets go of everything.
func (s *stretch) end(cur *block.Block) {
	s.leave(cur)
	s.log(nil)
}

// set notes the record of a change that was made in blk, where the batch is.
func (s *stretch) set(blk *block.Block, counter uint32, column uint16, mid, value uint64) {
	s.records = format.AppendSet(s.records, counter, column, mid, value)
	s.keep(blk)
}

// delete is set for an OpDelete.
func (s *stretch) delete(blk *block.Block, op *Op) {
	s.records = s.b.old.appendDelete(s.records, op)
	s.keep(blk)
}

// row is set for an OpSetRow.
func (s *stretch) row(blk *block.Block, op *Op) {
	s.records = s.b.changeSets.appendRow(s.records, op)
	s.keep(blk)
}

func (s *stretch) keep(blk *block.Block) {
	if !s.held {
		s.blocks, s.held = append(s.blocks, blk), true
	}
	if len(s.records) >= maxStretchBytes {
		s.log(blk)
	}
}

// log appends all records to the log and unlocks all blocks but cur, where the batch is; nil: it is in none.
func (s *stretch) log(cur *block.Block) {
	if len(s.blocks) == 0 {
		return
	}
	pos, err := s.b.data.Log.Append(s.records)
	if err != nil {
		panic("counter: BUG: records that the log does not take: " + err.Error())
	}
	if !s.b.tops.Empty() {
		tellTops(s.b, pos)
	}
	for i, blk := range s.blocks {
		blk.Logged = pos
		if s.blocks[i] = nil; blk != cur {
			blk.Mu.Unlock()
		}
	}
	s.b.pos, s.blocks, s.records, s.held = pos, s.blocks[:0], s.records[:0], false
}

// mark notes that an item of blk has changed.
func mark(b *Batch, blk *block.Block, mid uint64) {
	if blk.Mark(mid); b.exclusive {
		blk.ChangeSet = b.number
	}
}

// changed notes for the log, and for top lists, that op gave its column a value instead of old.
func changed(b *Batch, blk *block.Block, op *Op, old, value uint64) {
	mark(b, blk, op.Mid)
	if op.ks.Watched {
		watchedChanged(b, blk, op, old, value)
	}
	logSet(b, blk, op, old, value)
	if op.Done = true; op.ks.Watched && len(b.windows.crowded) > 0 {
		b.windows.widen(blk)
	}
}

// logSet notes for the log that op gave its column a value instead of old.
func logSet(b *Batch, blk *block.Block, op *Op, old, value uint64) {
	switch {
	case b.silent:
		blk.Logged = max(blk.Logged, b.applied)
	case op.ks.Noted && old != unknown && b.old.keeps(op.ks):
		s := &b.stretch
		s.records = b.old.appendSet(s.records, op.Counter.ID, op.ks.Def.Columns[op.Column].ID, op.Mid, value, op.Found, old)
		s.keep(blk)
	case b.data.Log != nil:
		b.stretch.set(blk, op.Counter.ID, op.ks.Def.Columns[op.Column].ID, op.Mid, value)
	}
}

// watchedChanged is changed for top lists and derived columns.
func watchedChanged(b *Batch, blk *block.Block, op *Op, old, value uint64) {
	if t := op.ks.Tops; t != nil {
		topChanged(b, t, blk, op, old, value)
	}
	if len(b.windows.open) > 0 {
		b.windows.apply(op.Mid, b.silent)
	}
}
