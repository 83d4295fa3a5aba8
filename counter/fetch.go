package counter

import "github.com/counterd/counterd/coldstore"

// Fetch waits for the pages of cold files that the operations need: what is run soon after, with others kept out, need
// not wait for the disk. REQUIRES the batch to be open.
func (b *Batch) Fetch() {
	b.locate()
	b.fetch()
}

// fetch brings the pages that the operations on cold blocks need into the cache. It waits for the disk while no block is
// locked, for whoever wants one would wait with it: a loop, and then all its connections. Only a page that is pushed out
// of the cache before the operation runs is read under its block's lock. Others' loops are not stopped by the batch being
// open meanwhile: see gate.
func (b *Batch) fetch() {
	if len(b.cold) > 1 { // one alone is asked for by reading it
		for _, i := range b.cold {
			op := &b.ops[i]
			op.block.cold.file.Ask(op.at)
		}
		for _, i := range b.cold {
			op := &b.ops[i]
			op.block.cold.file.Touch(op.at, op.Mid)
		}
	}
	for _, i := range b.cold {
		op := &b.ops[i]
		if op.block.cold.file.Cached(op.at) {
			continue
		}
		blk := op.ks.lockFor(op.block, op.Mid)
		file := blk.fileOf(op.Mid)
		blk.mu.Unlock()
		if file != nil {
			file.Load(file.Locate(op.Mid))
		}
	}
}

// fileOf is the file in which an operation on mid has to look; nil: b is hot, or its overlay has the row. REQUIRES b.mu
// held.
func (b *block) fileOf(mid uint64) *coldstore.File {
	if b.cold == nil {
		return nil
	}
	if b.tab.Len() > 0 {
		if _, ok := b.tab.Find(mid); ok {
			return nil
		}
	}
	return b.cold.file
}
