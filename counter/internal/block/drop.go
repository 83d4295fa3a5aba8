package block

import (
	"fmt"
	"slices"

	"github.com/counterd/counterd/counter/internal/hot"
)

// Drop removes all posts of a range of mids from a keyspace. It is planned before, so that nothing can fail any more when the log
// has its record:
//
//	blocks   [0,10)   [10,20)  [20,30)  [30,open)     a drop of the mids from 5 on and below 35
//	edges     5..9                       30..34       post by post: as DEL does it, in the overlay of a cold block
//	inside            [10,30), empty                  the blocks go as a whole, and one empty block takes their place
//
// Nothing of the blocks inside is read, whether they are tables or files. The empty block takes the place of empty neighbours as well, or
// a counter whose oldest posts are dropped each day would get one more block each day, for ever.
//
// No other change removes a bound between two blocks. A walk that goes from block to block without Data.Gate goes on at the mid
// behind the last block, and may find a block that begins before that mid.
//
// REQUIRES for all methods but Free: Data.Gate held exclusively from PlanDrop to Make, or a replay.
type Drop struct {
	ks    *Keyspace
	next  *Directory // nil: it stays
	gone  []*Block
	fresh []*Block
	edges []dropEdge
}

// dropEdge is posts of a block that stays.
type dropEdge struct {
	b    *Block
	mids []uint64
}

// DropRange says which posts PlanDrop is to remove.
type DropRange struct {
	From, To uint64                // mids from From on and below To, which is EndMid at most
	Has      func(mid uint64) bool // nil: all of them. Else posts are removed one by one
	// Before is the log offset behind the record. Blocks whose images have its effect are left alone.
	Before uint64
	// Lost is told of ranges at the edges that cannot be read, and stay. nil: they are an error that matches ErrCold.
	Lost func(lo, hi uint64)
}

// PlanDrop prepares a Drop. The error is ErrNoMemory, or one of Lost. The keyspace is as it was until Make.
func (ks *Keyspace) PlanDrop(r DropRange) (*Drop, error) {
	p := &Drop{ks: ks}
	d := ks.Dir.Load()
	first := max(0, d.Index(r.From)-1) // the neighbour before may be empty
	news := slices.Clone(d.Blocks[:first])
	var run []*Block // that become one
	var err error
	end := first
	for ; end < len(d.Blocks) && err == nil; end++ {
		b := d.Blocks[end]
		meets := b.Lo < r.To && r.From < b.Hi && b.From < r.Before
		if b.From < r.Before && (b.vacant() || meets && r.Has == nil && r.From <= b.Lo && b.Hi <= r.To) {
			run = append(run, b)
			continue
		}
		if news, err = p.joined(news, run); err != nil {
			break
		}
		if run, news = nil, append(news, b); meets {
			err = p.edge(b, &r)
		}
		if b.Lo >= r.To {
			end++
			break
		}
	}
	if err == nil {
		news, err = p.joined(news, run)
	}
	if err != nil {
		p.Abandon()
		return nil, err
	}
	if len(p.gone) > 0 {
		p.next = NewDirectory(slices.Concat(news, d.Blocks[end:]))
	}
	return p, nil
}

// vacant tells whether b is a block inside without posts, in memory.
func (b *Block) vacant() bool {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	return b.Cold == nil && !b.Open() && b.Tab.Len() == 0
}

// joined appends the block that takes the place of a run of blocks: they themselves if all of them are empty already. In a replay, all changes that
// come behind the drop are behind the images of the run, so the new block has the effect of none of them, and its From is 0.
func (p *Drop) joined(news, run []*Block) ([]*Block, error) {
	if !slices.ContainsFunc(run, func(b *Block) bool { return !b.vacant() }) {
		return append(news, run...), nil
	}
	ks, last := p.ks, run[len(run)-1]
	c := hot.Config{Lo: run[0].Lo, Hi: last.Hi, Buckets: hot.BucketsFor(SmallestBlock, 1), Layout: ks.Layout}
	b, err := ks.Builder.NewBlock(c, ks.Layout)
	if err != nil {
		return nil, err
	}
	p.gone, p.fresh = append(p.gone, run...), append(p.fresh, b)
	return append(news, b), nil
}

// edge notes the posts of b that are in the range, and makes room to remove them.
func (p *Drop) edge(b *Block, r *DropRange) error {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	mids, lost := b.AppendMids(nil)
	for _, l := range lost {
		lo, hi := max(l.Lo, r.From), min(l.Hi, r.To)
		switch {
		case lo >= hi:
		case r.Lost == nil:
			return fmt.Errorf("%w: posts from %d to %d are to be dropped, but not those before or behind them in their file", ErrCold, lo, hi-1)
		default:
			r.Lost(lo, hi)
		}
	}
	mids = slices.DeleteFunc(mids, func(mid uint64) bool { return mid < r.From || mid >= r.To || r.Has != nil && !r.Has(mid) })
	if len(mids) == 0 {
		return nil
	}
	p.edges = append(p.edges, dropEdge{b, mids})
	if b.Cold == nil {
		return nil
	}
	return p.ks.Builder.ReserveOverlay(b, p.ks.Over, len(mids))
}

// Nothing tells whether there is nothing to remove.
func (p *Drop) Nothing() bool { return len(p.gone) == 0 && len(p.edges) == 0 }

// Abandon ends a plan that is not made.
func (p *Drop) Abandon() {
	for _, b := range p.fresh {
		p.ks.Arena.Free(b.Span)
	}
}

// Make removes the posts, and counts them and the blocks that went as a whole. logged is the log offset behind the record, and changeSet the
// number of the exclusive batch (Block.ChangeSet).
func (p *Drop) Make(logged, changeSet uint64) (posts, blocks int, err error) {
	ks := p.ks
	for _, e := range p.edges {
		n, failed := ks.removeAll(e.b, e.mids)
		e.b.Mu.Lock()
		e.b.Logged, e.b.ChangeSet = max(e.b.Logged, logged), max(e.b.ChangeSet, changeSet)
		e.b.Mu.Unlock()
		if posts += n; failed != nil {
			err = failed
		}
	}
	if p.next == nil {
		return posts, 0, err
	}
	for _, b := range p.fresh {
		b.Logged = logged
	}
	ks.dirMu.Lock()
	ks.Dir.Store(p.next)
	ks.dirMu.Unlock()
	for _, b := range p.gone {
		b.Mu.Lock()
		posts += b.Items()
		b.Dead = true
		b.Mu.Unlock()
	}
	return posts, len(p.gone), err
}

// removeAll deletes posts of b, and counts them. Those whose page went bad since the plan was made stay.
func (ks *Keyspace) removeAll(b *Block, mids []uint64) (n int, err error) {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	for _, mid := range mids {
		at, _ := ks.Find(b, mid)
		if !at.Found() {
			continue
		}
		if failed := ks.Remove(b, mid, at); failed != nil {
			err = failed
			continue
		}
		b.Mark(mid)
		n++
	}
	return n, err
}

// Free gives the memory of the blocks that went back, and closes their files, which the next snapshots remove. It tells how many of the files
// could not be used. It needs no lock: closing a file takes 10 us.
func (p *Drop) Free() (broken int) {
	for _, b := range p.gone {
		b.Mu.Lock()
		if b.Cold != nil && b.Cold.File.Err() != nil {
			broken++
		}
		p.ks.Files.dropPartial(b)
		p.ks.Files.Retire(b)
		b.Mu.Unlock()
		p.ks.Arena.Free(b.Span)
	}
	p.gone = nil
	return broken
}
