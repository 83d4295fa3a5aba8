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
// A chain links the reads of a group: it takes one pass over the operations, and no sorting.

const (
	// leastChained is how many reads are chained at least: of fewer, too few are of the same group.
	leastChained = 48
	// mostChained is how many are chained at most: a batch of commands has 256, and those of its last command.
	mostChained = 1024
)

// chains links reads by groups.
type chains struct {
	from, to int                    // numbers of the operations that are linked; to is 0 where none are
	groups   [slot.Groups + 1]uint8 // those of the operations, n of them
	n        int
	first    [slot.Groups]int16 // by group: number of its first read, from 1 on; 0: there is none
	next     []int16            // by read: the same of the next read of its group
}

// link links the operations with numbers from from on, below to, whose groups are known.
func (c *chains) link(b *Batch, from, to int) {
	ops := b.ops[from:to]
	clear(c.first[:])
	if cap(c.next) < len(ops) {
		c.next = make([]int16, max(len(ops), 2*cap(c.next)))
	}
	next, n := c.next[:len(ops)], 0
	for i := len(ops) - 1; i >= 0; i-- {
		group := ops[i].in
		first := &c.first[group]
		c.groups[n] = group // stays there if it is new, which a processor cannot foretell
		isNew := 0
		if *first == 0 {
			isNew = 1
		}
		n += isNew
		next[i], *first = *first, int16(i+1)
	}
	c.from, c.to, c.n = from, to, n
}

// pagesOf counts the first change sets of list that are pages of one counter, one behind the other, and can be read together.
func pagesOf(b *Batch, list []changeSet) (n int) {
	if !b.data.SlotGroups || !list[0].page {
		return 0
	}
	from := list[0].from
	to, counter := from, b.ops[from].Counter
	if len(counter.Derived) > 0 {
		return 0
	}
	for ; n < len(list) && list[n].page && list[n].from == to && list[n].to-from <= mostChained && b.ops[to].Counter == counter; n++ {
		to = list[n].to
	}
	return n
}

// locatePages is locateThose for pages whose posts are kept by groups. It does nothing and returns false where the operations are not such, or some are of
// groups that are not owned.
func locatePages(b *Batch, from, to int, hides bool) bool {
	c, list := &b.chains, b.changeSets.list
	c.to = 0
	if to-from < leastChained || len(list) == 0 || list[0].from != from {
		return false
	}
	if n := pagesOf(b, list); n == 0 || list[n-1].to != to {
		return false
	}
	ops := b.ops[from:to]
	for _, page := range list {
		if page.from < to && b.ops[page.from].Cond != known {
			findGroups(b.ops[page.from:page.to])
		}
	}
	c.link(b, from, to)
	groups := c.groups[:c.n]
	if own := &b.data.Own; hides {
		for _, group := range groups {
			if own.Lacks(group) {
				c.to = 0
				return false
			}
		}
	}
	sp := b.data.Spaces[ops[0].Counter.ID]
	for _, group := range groups { // most posts are in the last block of their group
		sp[group].Dir.Load().Newest().Prefetch()
	}
	for i := range ops {
		op := &ops[i]
		ks := sp[op.in]
		dir := ks.Dir.Load()
		blk := dir.Find(op.Mid)
		if op.ks, op.block = ks, blk; blk != dir.Newest() {
			blk.Prefetch()
		}
	}
	return true
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
	ops, c := b.ops[from:to], &b.chains
	peek(ops[min(max(b.peeked-from, 0), len(ops)):]) // Ahead has looked for those before
	if c.from != from || c.to != to {
		c.link(b, from, to)
	}
	next := c.next[:len(ops)]
	width, at := ops[0].Counter.Width(), len(b.rows)
	// Each row has its place, as if the posts were read in their order.
	b.rows = slices.Grow(b.rows, len(ops)*width+hot.RowRoom)[:at+len(ops)*width]
	for _, group := range c.groups[:c.n] {
		for j := c.first[group]; j > 0; {
			op := &ops[j-1]
			found := op.block
			cur := lockForRead(op)
			if cur == found && cur.Shape == op.ks.Layout && cur.Cold == nil {
				j = readChain(ops, next, j, cur, b.rows, at, width)
			} else {
				for ; j > 0 && ops[j-1].block == found && ops[j-1].Mid >= cur.Lo && ops[j-1].Mid < cur.Hi; j = next[j-1] {
					cur = b.apply(cur, &ops[j-1])
				}
			}
			cur.Used = b.now
			b.seen.noteSeen(cur.Logged)
			cur.Mu.Unlock()
		}
	}
}

// lockForRead locks the block of op. It is stretch.next for reads, between which no change waits for the log.
func lockForRead(op *Op) *block.Block {
	if blk := op.block; blk.Mu.TryLock() {
		if !blk.Dead {
			return blk
		}
		blk.Mu.Unlock()
	}
	return op.ks.LockFor(op.block, op.Mid)
}

// readChain reads posts of a chain, from number j on, as far as they are in blk. Each of these is in the table of blk, with all columns, or absent. It
// returns the number of the next post. Row i begins at + i*width behind the beginning of rows.
func readChain(ops []Op, next []int16, j int16, blk *block.Block, rows []uint64, at, width int) int16 {
	for ; j > 0; j = next[j-1] {
		i := int(j - 1)
		op := &ops[i]
		if op.block != blk {
			break
		}
		blk.Work++
		row := at + i*width
		if op.Found = hot.ReadRow(&blk.Tab, rows[row:row+width], &op.home); op.Found {
			op.row = int32(row)
		}
	}
	return j
}
