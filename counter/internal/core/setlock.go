package core

import (
	"cmp"
	"slices"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/persist/format"
)

// The locks of a change set, room for rows on unreadable pages, and large change sets that cannot fail. Its blocks are locked in order of counter, group of hash
// slots and mid: change sets that share some cannot wait for each other.

// largeSet is how many operations a change set has at least that sorts its blocks and not its operations. To sort 10,000 operations
// takes 5 ms, to find their blocks 0.2 ms.
const largeSet = 64

// lock locks the blocks of a change set.
func (r *changeSets) lock(g changeSet) {
	if r.located = g.to-g.from >= largeSet && r.lockLocated(g); r.located {
		return
	}
	r.sort(g)
	ops := r.b.ops
	var ks *block.Keyspace
	var last *block.Block
	for _, i := range r.order {
		op := &ops[i]
		if op.ks == ks && op.Mid < last.Hi {
			continue
		}
		ks, last = op.ks, op.ks.LockFor(op.block, op.Mid)
		r.hold(last)
	}
}

// sort puts the operations in order of counter, group of hash slots, mid and number.
func (r *changeSets) sort(g changeSet) {
	ops := r.b.ops
	r.order = slices.Grow(r.order[:0], g.to-g.from)
	for i := g.from; i < g.to; i++ {
		r.order = append(r.order, int32(i))
	}
	slices.SortFunc(r.order, func(i, j int32) int {
		x, y := &ops[i], &ops[j]
		return cmp.Or(cmp.Compare(x.Counter.ID, y.Counter.ID), cmp.Compare(x.ks.Group, y.ks.Group), cmp.Compare(x.Mid, y.Mid), cmp.Compare(i, j))
	})
}

// lockLocated locks the blocks in which the operations were located. false: one of them is not there any more, and nothing is
// locked.
func (r *changeSets) lockLocated(g changeSet) bool {
	r.touched(g)
	for _, i := range r.order {
		blk := r.b.ops[i].block
		blk.Mu.Lock() // not LockFor: the block in the place of a dead one may be locked already
		if blk.Dead {
			blk.Mu.Unlock()
			r.unlock()
			return false
		}
		r.hold(blk)
	}
	return true
}

// touched puts one operation on each block in order of the blocks.
func (r *changeSets) touched(g changeSet) {
	if r.among == nil {
		r.among = make(map[*block.Block]struct{})
	}
	clear(r.among)
	ops := r.b.ops
	r.order = r.order[:0]
	var recent [64]*block.Block // nearly all operations are on these, which need no look at the map
	for i := g.from; i < g.to; i++ {
		blk := ops[i].block
		place := &recent[blk.ID%uint64(len(recent))]
		if *place == blk {
			continue
		}
		*place = blk
		if _, known := r.among[blk]; !known {
			r.among[blk] = struct{}{}
			r.order = append(r.order, int32(i))
		}
	}
	clear(r.among)
	slices.SortFunc(r.order, func(i, j int32) int {
		x, y := &ops[i], &ops[j]
		return cmp.Or(cmp.Compare(x.Counter.ID, y.Counter.ID), cmp.Compare(x.ks.Group, y.ks.Group), cmp.Compare(x.block.Lo, y.block.Lo))
	})
}

// blockOf is the block of an operation of the change set that is locked.
func (r *changeSets) blockOf(op *Op) *block.Block {
	if r.located && !op.block.Dead {
		return op.block
	}
	return op.ks.Dir.Load().Find(op.Mid)
}

// find looks up the item of an operation in blk. Where it was located there, its home is known.
func (r *changeSets) find(blk *block.Block, op *Op) (block.Location, error) {
	if blk != op.block || blk.Cold != nil {
		return op.ks.Find(blk, op.Mid)
	}
	if ref, ok := blk.Tab.FindAt(op.home); ok {
		return block.Location{Where: block.InTable, Ref: ref}, nil
	}
	return block.Location{}, nil
}

// hold notes that a block was locked.
func (r *changeSets) hold(blk *block.Block) {
	blk.Holder = r
	r.locked = append(r.locked, blk)
}

// unlock unlocks what lock locked, or what took its place.
func (r *changeSets) unlock() {
	for i, blk := range r.locked {
		blk.Holder, r.locked[i] = nil, nil
		if r.number > 0 {
			blk.ChangeSet = r.number
		}
		blk.Mu.Unlock()
	}
	r.locked, r.number = r.locked[:0], 0
	r.b.windows.endSet()
}

// Replaced has news, which are locked, take the place of old, which r has locked.
func (r *changeSets) Replaced(old *block.Block, news []*block.Block) {
	for _, blk := range news {
		blk.Holder = r
	}
	old.Holder = nil
	i := slices.Index(r.locked, old)
	r.locked = slices.Replace(r.locked, i, i+1, news...)
}

// reserve makes room in overlays for the rows on unreadable pages. It comes when all other rows are prepared: these get places in the same overlays, and
// would take the room.
func reserve(r *changeSets) error {
	for _, i := range r.lost {
		op := &r.b.ops[i]
		if err := op.ks.Builder.ReserveOverlay(r.blockOf(op), op.ks.Over, len(r.lost)); err != nil {
			return err
		}
	}
	lost := r.b.windows.lost
	for _, at := range lost {
		if err := at.ks.Builder.ReserveOverlay(at.ks.Dir.Load().Find(at.mid), at.ks.Over, len(lost)); err != nil {
			return err
		}
	}
	return nil
}

// plainHot tells whether a change set, whose blocks are locked, is of hot blocks only, and changes are logged and not refused.
func plainHot(r *changeSets) bool {
	if !r.located || r.b.silent || r.b.refused != nil {
		return false
	}
	for _, blk := range r.locked {
		if blk.Cold != nil {
			return false
		}
	}
	return true
}

// deletesOnly tells whether a change set, whose blocks are locked, has nothing but deletions of posts of hot blocks, and nothing but the log and
// the block has to know of them. None of these can fail, so there is nothing to be prepared.
func deletesOnly(r *changeSets, g changeSet) bool {
	b := r.b
	if !plainHot(r) {
		return false
	}
	ops := b.ops[g.from:g.to]
	for i := range ops {
		if op := &ops[i]; op.Kind != OpDelete || op.ks.Noted {
			return false
		}
	}
	return true
}

// deleteAll is runChanges of a change set of deletesOnly: each post is looked up once, and its record is made where it is removed.
func deleteAll(r *changeSets, g changeSet) {
	b := r.b
	r.number = b.data.changeSets.Add(1)
	r.records = r.records[:0]
	records := 0
	for from := g.from; from < g.to; from += peekAhead {
		ops := b.ops[from:min(from+peekAhead, g.to)]
		peek(ops)
		for i := range ops {
			op := &ops[i]
			blk := op.block
			ref, found := blk.Tab.FindAt(op.home)
			if op.Found = found; !found {
				continue
			}
			blk.Used = b.now
			blk.Work++
			_ = op.ks.Remove(blk, op.Mid, block.Location{Where: block.InTable, Ref: ref}) // of a hot block: it needs no memory
			mark(b, blk, op.Mid)
			op.Done = true
			records++
			r.records = format.AppendDelete(r.records, op.Counter.ID, op.Mid)
		}
	}
	if b.data.Log != nil {
		appendRecords(r, records, nil)
	}
	r.noteSeen()
}

// setAll is runChanges of a change set that sets columns of posts, all of which are in hot blocks that have these columns, where nothing but the log
// and the block has to know of that. When all were found nothing can fail, and none is looked up again. false: nothing was changed.
func setAll(r *changeSets, g changeSet) bool {
	b := r.b
	if !plainHot(r) {
		return false
	}
	r.refs = slices.Grow(r.refs[:0], g.to-g.from)
	for from := g.from; from < g.to; from += peekAhead {
		ops := b.ops[from:min(from+peekAhead, g.to)]
		peek(ops)
		for i := range ops {
			op := &ops[i]
			switch op.Kind {
			case OpSet:
				if op.Cond != Always || op.Arg > op.Counter.Columns[op.Column].Limit() {
					return false
				}
			case OpSetRow:
				if b.sets.settable(op) != nil {
					return false
				}
			default:
				return false
			}
			ref, found := op.block.Tab.FindAt(op.home)
			if !found || op.ks.Noted || op.block.Shape != op.ks.Layout {
				return false
			}
			r.refs = append(r.refs, ref)
		}
	}
	r.number = b.data.changeSets.Add(1)
	for i, ref := range r.refs {
		op := &b.ops[g.from+i]
		tab := &op.block.Tab
		if op.Kind == OpSet {
			op.Value = tab.Get(ref, int(op.Column))
			tab.Set(ref, int(op.Column), op.Arg)
		} else {
			columns, values := b.sets.of(op)
			for j, c := range columns {
				tab.Set(ref, int(c), values[j])
			}
			op.Value = b.sets.shapes[op.Arg].set
		}
		op.block.Used = b.now
		op.block.Work++
		mark(b, op.block, op.Mid)
		op.Found, op.Done = true, true
	}
	if b.data.Log != nil {
		r.log(g, nil)
	}
	r.noteSeen()
	for _, i := range r.order {
		if op := &b.ops[i]; op.block.Crowded() {
			op.ks.Widen(op.block, op.Mid)
		}
	}
	return true
}

// log appends the change set's changes to the log, several columns of an item as one record.
func (r *changeSets) log(g changeSet, once *Once) {
	b := r.b
	r.records = r.records[:0]
	if once != nil {
		r.prefix(once, b.ops[g.from].Mid, false)
	}
	records := 0
	for i := g.from; i < g.to && b.data.Log != nil; {
		op := &b.ops[i]
		if i++; !op.Done {
			continue
		}
		records++
		if op.Kind == OpDelete {
			r.records = b.old.appendDelete(r.records, op)
			continue
		}
		if op.Kind == OpSetRow {
			r.records = b.changeSets.appendRow(r.records, op)
			continue
		}
		r.columns = append(r.columns[:0], op.result())
		for ; i < g.to && len(r.columns) < format.MaxColumns; i++ {
			next := &b.ops[i]
			if !next.Done || next.Kind != op.Kind || next.Mid != op.Mid || next.Counter != op.Counter {
				break
			}
			r.columns = append(r.columns, next.result())
		}
		var kept bool
		if r.records, kept = b.old.appendChanges(r.records, b.ops[i-len(r.columns):i], r.columns); !kept {
			r.records = appendValues(r.records, op.Counter.ID, op.Mid, r.columns)
		}
	}
	r.records = append(r.records, b.windows.records...)
	appendRecords(r, records, once)
}

// appendRecords appends r.records, which are so many, to the log.
func appendRecords(r *changeSets, records int, once *Once) {
	b := r.b
	switch { // MaxChangeSet sees to it that they are not too long
	case once != nil:
		r.append(records)
		r.remember(once)
	case records == 0:
		return
	case records == 1: // one change anyway, which can share a frame
		b.pos, _ = b.data.Log.Append(r.records)
	default:
		b.pos, _ = b.data.Log.AppendWhole(r.records)
	}
	if b.data.Log == nil {
		return
	}
	for _, blk := range r.locked {
		blk.Logged = b.pos
	}
}
