package core

import (
	"slices"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/schema"
)

// A long read is a change set of very many reads, in slices: others have the gate and all locks in between. What change sets
// promise holds all the same: no change set is seen in part.
//
//	pass      slice, pause, slice, pause, ...    each notes Data.changeSets before it
//	compare   all blocks that were read, one lock after the other, with Data.changeSets the same before and behind it:
//	            the blocks that no change set has changed since they were read are as they would all be read now
//	            the others' items are read again: the next pass
//
// A pass is shorter than the one before, as only what was changed together with something else is read again: changes of
// one item do not matter. Where change sets are faster than that, the last pass is made under all locks.
type longRead struct {
	b      *Batch
	pause  func()
	schema *schema.Schema
	since  map[*block.Block]uint64 // blocks read, and Data.changeSets before the first of their reads
	again  []int32                 // numbers of operations to be made again
}

const (
	// sliceOps is how many operations are run between two pauses: 50 us where all are misses of the cache.
	sliceOps = 256
	// maxPasses is how many are made before the last. 1,000 MSETs a second of posts of the same blocks leave two in most
	// cases.
	maxPasses = 6
	// maxCompares is how often all blocks are compared until no change set came in between: 1,000 blocks take 50 us.
	maxCompares = 32
)

// RunLong is Run of a batch that is one change set of reads, and may be long: after every 256 operations the batch is ended,
// pause is called, and it is begun again. It is false, and nothing that was read can be told, where the schema has
// changed meanwhile: the operations have to be made anew. The error is Begin's, and the batch is not open then.
// REQUIRES the batch to be open, and not exclusive.
func (b *Batch) RunLong(pause func()) (done bool, err error) {
	r := longRead{b: b, pause: pause, schema: b.Schema(), since: make(map[*block.Block]uint64)}
	growRows(b)
	for from := 0; from < len(b.ops); from += sliceOps {
		if from > 0 {
			if done, err = r.rest(); !done {
				return false, err
			}
		}
		if !r.slice(from, min(from+sliceOps, len(b.ops))) {
			return true, nil
		}
	}
	b.located = len(b.ops)
	for range maxPasses {
		if !r.compare() {
			break
		}
		if len(r.again) == 0 {
			return true, nil
		}
		for list := r.again; len(list) > 0; {
			if done, err = r.rest(); !done {
				return false, err
			}
			n := min(sliceOps, len(list))
			if !r.repeat(list[:n]) {
				return true, nil
			}
			list = list[n:]
		}
	}
	r.alone()
	return true, nil
}

// growRows makes room for the rows that the operations read, up to mostLargeRows. Memory that grows row by row is moved a dozen times, and nobody else
// has a turn while it is.
func growRows(b *Batch) {
	if len(b.ops) == 0 || b.ops[0].Kind != OpRead || len(b.rows) > 0 {
		return
	}
	n := min(len(b.ops)*b.ops[0].Counter.Width()+hot.RowRoom, mostLargeRows)
	if cap(b.rows) >= n {
		return
	}
	if b.rows = largeRows.Take(n); b.rows == nil {
		b.rows = make([]uint64, 0, n)
	}
}

// rest lets others go on.
func (r *longRead) rest() (same bool, err error) {
	r.b.End()
	r.pause()
	if err := r.b.Begin(); err != nil {
		return false, err
	}
	return r.b.Schema() == r.schema, nil
}

// slice reads some for the first time; false: one of them is not to be touched, and all say so.
func (r *longRead) slice(from, to int) bool {
	b := r.b
	before := b.data.changeSets.Load()
	b.checkState()
	b.locateThose(from, to)
	if b.changeSets.disowned(changeSet{from: 0, to: len(b.ops)}) {
		return false
	}
	b.fetch()
	b.runEach(from, to)
	last := (*block.Block)(nil)
	for i := from; i < to; i++ {
		if blk := b.ops[i].block; blk != last {
			r.read(blk, before)
			last = blk
		}
	}
	return true
}

// read notes that blk was read when Data.changeSets was before, or later.
func (r *longRead) read(blk *block.Block, before uint64) {
	if _, ok := r.since[blk]; !ok {
		r.since[blk] = before
	}
}

// compare finds out what has to be read again; false: blocks are too many for so many change sets.
func (r *longRead) compare() (settled bool) {
	b := r.b
	r.again = r.again[:0]
	stale := 0
	for range maxCompares {
		now := b.data.changeSets.Load()
		for blk, before := range r.since {
			blk.Mu.Lock()
			if blk.Dead || blk.ChangeSet > before {
				r.since[blk] = gone
				stale++
			}
			blk.Mu.Unlock()
		}
		if settled = b.data.changeSets.Load() == now; settled {
			break
		}
	}
	if stale == 0 {
		return settled
	}
	for i := range b.ops {
		if r.since[b.ops[i].block] == gone {
			r.again = append(r.again, int32(i))
		}
	}
	for blk, before := range r.since {
		if before == gone {
			delete(r.since, blk)
		}
	}
	return settled
}

// gone stands for a block whose items have to be read again.
const gone = ^uint64(0)

// repeat reads operations again.
func (r *longRead) repeat(list []int32) bool {
	b := r.b
	before := b.data.changeSets.Load()
	b.checkState()
	for _, i := range list {
		b.ops[i].forget()
		b.locateThose(int(i), int(i)+1)
		if b.changeSets.disowned(changeSet{from: 0, to: len(b.ops)}) {
			return false
		}
		b.fetch()
		b.runEach(int(i), int(i)+1)
		r.read(b.ops[i].block, before)
	}
	return true
}

// alone reads with all blocks locked what has to be read again.
func (r *longRead) alone() {
	b := r.b
	from := make([]*block.Block, len(b.ops))
	for i := range b.ops {
		from[i] = b.ops[i].block
	}
	b.locateThose(0, len(b.ops))
	all := changeSet{from: 0, to: len(b.ops)}
	if b.changeSets.disowned(all) {
		return
	}
	b.fetch()
	b.changeSets.lock(all)
	defer b.changeSets.unlock()
	for i := range b.ops {
		op := &b.ops[i]
		blk := op.ks.Dir.Load().Find(op.Mid)
		if before, ok := r.since[blk]; ok && blk == from[i] && blk.ChangeSet <= before {
			continue
		}
		op.forget()
		b.apply(blk, op)
	}
	b.changeSets.noteSeen()
}

// Pages of a pipeline are neighbouring change sets of reads. Where posts are kept by groups of hash slots, neighbouring posts of a page are in
// different blocks, and nearly each read would lock one: half of the difference to a page of one table. So all posts are read group by group,
// across the pages:
//
//	pages               | a1 b1 c1 | b2 a2 | c2 b1 |      letters are groups
//	order of the reads    a1 a2   b1 b2 b1   c1 c2
//
// Reads of one post keep their order. Change sets are seen as a whole or not at all, as Data.changeSets is looked at before and behind all pages.
//
// A chain links the reads of a group: it takes two passes over the operations, and no sorting.

const (
	// leastChained is how many reads are chained at least: of fewer, too few are of the same group.
	leastChained = 48
	// mostChained is how many are chained at most: a batch of commands has 256, and those of its last command.
	mostChained = 1024
)

// chains is memory for reads by groups.
type chains struct {
	first [slot.Groups]int16 // by group: number of its first read, from 1 on; 0: there is none
	next  []int16            // by read: the same of the next read of its group
}

// pagesOf counts the first change sets of list that readPages can read together: neighbours that read posts of one counter.
func pagesOf(b *Batch, list []changeSet) (n int) {
	if !b.data.SlotGroups || b.foreign || b.exclusive || b.seen.failing {
		return 0
	}
	from := list[0].from
	to, counter := from, b.ops[from].Counter
	if len(counter.Derived) > 0 {
		return 0
	}
	for ; n < len(list) && list[n].from == to && list[n].to-from <= mostChained && list[n].once == 0 && !list[n].series; n++ {
		for to = list[n].from; to < list[n].to; to++ {
			if op := &b.ops[to]; op.Kind != OpRead || op.Counter != counter {
				return n
			}
		}
	}
	return n
}

// readPages reads the posts of change sets that pagesOf has found.
func readPages(r *changeSets, list []changeSet) {
	b := r.b
	seen, rows := b.data.changeSets.Load(), len(b.rows)
	readInGroups(b, list[0].from, list[len(list)-1].to)
	if b.data.changeSets.Load() == seen {
		return
	}
	b.rows = b.rows[:rows]
	for _, g := range list {
		readLocked(r, g)
	}
}

// runReads reads the posts of one change set.
func runReads(r *changeSets, g changeSet) {
	b := r.b
	seen, rows := b.data.changeSets.Load(), len(b.rows)
	b.runEach(g.from, g.to)
	if b.exclusive || b.data.changeSets.Load() == seen {
		return
	}
	b.rows = b.rows[:rows]
	readLocked(r, g)
}

// readLocked makes the reads of a change set again, with all its blocks locked.
func readLocked(r *changeSets, g changeSet) {
	b := r.b
	r.lock(g)
	for i := g.from; i < g.to; i++ {
		op := &b.ops[i]
		op.forget()
		b.apply(op.ks.Dir.Load().Find(op.Mid), op)
	}
	r.noteSeen()
	r.unlock()
}

// readInGroups executes the operations with numbers from from on, below to, which are OpReads of one counter, group by group.
func readInGroups(b *Batch, from, to int) {
	ops := b.ops[from:to]
	peek(ops[min(max(b.peeked-from, 0), len(ops)):]) // Ahead has looked for those before
	chain := &b.chains
	clear(chain.first[:])
	if cap(chain.next) < len(ops) {
		chain.next = make([]int16, max(len(ops), 2*cap(chain.next)))
	}
	next := chain.next[:len(ops)]
	for i := len(ops) - 1; i >= 0; i-- {
		first := &chain.first[ops[i].in]
		next[i], *first = *first, int16(i+1)
	}
	width, at := ops[0].Counter.Width(), len(b.rows)
	// Each row has its place, as if the posts were read in their order.
	b.rows = slices.Grow(b.rows, len(ops)*width+hot.RowRoom)[:at+len(ops)*width]
	var cur, found *block.Block
	simple := false // all posts of cur are in its table, with all columns
	for i := range ops {
		if chain.first[ops[i].in] != int16(i+1) {
			continue
		}
		for j := i + 1; j > 0; j = int(next[j-1]) {
			op := &ops[j-1]
			if op.block != found || cur != found && (op.Mid < cur.Lo || op.Mid >= cur.Hi) {
				cur, found = b.stretch.next(op, cur), op.block
				simple = cur == found && cur.Shape == op.ks.Layout && cur.Cold == nil
				cur.Used = b.now
				b.seen.noteSeen(cur.Logged)
			}
			if !simple {
				cur = b.apply(cur, op)
				continue
			}
			cur.Work++
			ref, there := cur.Tab.FindAt(op.home)
			if op.Found = there; there {
				row := at + (j-1)*width
				op.row = int32(row)
				cur.Tab.AppendRow(b.rows[:row], ref)
			}
		}
	}
	b.stretch.end(cur)
}
