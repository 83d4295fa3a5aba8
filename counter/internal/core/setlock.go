package core

import (
	"cmp"
	"slices"

	"github.com/counterd/counterd/counter/internal/block"
)

// The locks of a change set. Its blocks are locked in order of counter, group of hash slots and mid: change sets that share some
// cannot wait for each other.

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
	last := (*block.Block)(nil)
	for i := g.from; i < g.to; i++ {
		if ops[i].block == last {
			continue
		}
		last = ops[i].block
		if _, known := r.among[last]; !known {
			r.among[last] = struct{}{}
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
