package core

import (
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/toplist"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/schema"
)

// topNotes are the changes of a batch to columns that have a top list (package toplist).
//
// The lists are told where the records of the changes are in the log, and their blocks are locked still: nobody sees a change in a list that nobody
// sees in the block, and the changes of a post reach a list in their order. A stretch tells at its append, a change
// set and a numbered change behind their records, and a batch that logs nothing at once.
//
// # Windows
//
// The list of a column that counts in a window of time is one of the sums at the time of the log, and belongs to the space of the column.
// Between ticks a sum changes only with the item, as a value of any list does. A tick ends a bucket, so sums can only fall: the posts of the list are read
// again then. Those outside of it ranked below its marks, and still do. Posts with the sum 0 are not in it.
type topNotes struct {
	toplist.Notes
	held bool // by a change set, or a numbered change, which tells them itself
}

// unknown is the value before a change that did not look at it.
const unknown = ^uint64(0)

// topChanged notes that op, which was made, has changed its column from old to value.
func topChanged(b *Batch, t *toplist.Lists, blk *block.Block, op *Op, old, value uint64) {
	if t.Sum != nil {
		topSum(b, op.ks, blk, op.Mid)
		return
	}
	if l := t.Of[op.Column]; l != nil && (l.Reaches(value) || l.Reaches(old)) && !b.data.Own.Hides(op.Mid) {
		b.tops.Add(l, op.Mid, value)
	}
	if !op.Found {
		topMade(b, t, op, 1<<op.Column, true)
	}
	topDone(b)
}

// topMade notes that op has made its post, which has the defaults of columns that are not in set. Where the page of the post cannot
// be read, it may have been there before, with other values: lists that it could be in are built again.
func topMade(b *Batch, t *toplist.Lists, op *Op, set uint64, readable bool) {
	for i, l := range t.Of {
		switch {
		case l == nil || set>>i&1 != 0 || !l.Reaches(l.Default) || b.data.Own.Hides(op.Mid):
		case readable:
			b.tops.Add(l, op.Mid, l.Default)
		default:
			l.Reset()
			b.data.wakeLists()
		}
	}
}

// topSet notes that op has given several columns values.
func topSet(b *Batch, t *toplist.Lists, blk *block.Block, op *Op, columns []int16, values []uint64, readable bool) {
	if t.Sum != nil {
		topSum(b, op.ks, blk, op.Mid)
		return
	}
	set := uint64(0)
	for i, c := range columns {
		set |= 1 << c
		if l := t.Of[c]; l != nil && (op.Found && l.Takes() || l.Reaches(values[i])) && !b.data.Own.Hides(op.Mid) {
			b.tops.Add(l, op.Mid, values[i])
		}
	}
	if !op.Found || !readable {
		topMade(b, t, op, set, readable)
	}
	topDone(b)
}

// topGone notes that a post was removed.
func topGone(b *Batch, t *toplist.Lists, mid uint64) {
	for _, l := range t.All {
		if l.Takes() {
			b.tops.Gone(l, mid)
		}
	}
	topDone(b)
}

// topIs notes the values of a post in blk, which is locked.
func topIs(b *Batch, ks *block.Keyspace, blk *block.Block, mid uint64) {
	if ks.Tops.Sum != nil {
		topSum(b, ks, blk, mid)
		return
	}
	p, err := ks.Find(blk, mid)
	if err == nil && !p.Found() {
		for _, l := range ks.Tops.All {
			b.tops.Gone(l, mid)
		}
		return
	}
	for i, l := range ks.Tops.Of {
		if l == nil || b.data.Own.Hides(mid) {
			continue
		}
		value := uint64(0)
		if err == nil {
			value, err = ks.Value(blk, mid, p, i)
		}
		if err != nil {
			l.Reset()
			b.data.wakeLists()
			continue
		}
		b.tops.Add(l, mid, value)
	}
}

// decayTop notes the sum of a post in the space of a column that decays.
func decayTop(b *Batch, t *toplist.Lists, mid, sum uint64) {
	if l := t.Of[schema.DecayedSum]; l.Reaches(sum) && !b.data.Own.Hides(mid) {
		b.tops.Add(l, mid, sum)
	}
	topDone(b)
}

// topSum notes the sum of a post in the space ks of a window. blk is its block, which is locked. A replay makes one record of a window by several
// operations, which nobody is to see apart: their notes are told before the block is unlocked (stretch.leave).
func topSum(b *Batch, ks *block.Keyspace, blk *block.Block, mid uint64) {
	p, err := ks.Find(blk, mid)
	topSumAt(b, ks, blk, mid, p, err)
}

// topSumAt is topSum for an item that was found at p, or not, by an error.
func topSumAt(b *Batch, ks *block.Keyspace, blk *block.Block, mid uint64, p block.Location, err error) {
	l := ks.Tops.Sum
	if !l.Takes() || b.data.Own.Hides(mid) {
		return
	}
	sum := uint64(0)
	if err == nil {
		sum, err = sumAt(ks, blk, mid, p, b.data.Time.Seconds())
	}
	switch {
	case err != nil:
		l.Reset()
		b.data.wakeLists()
	case sum == 0:
		b.tops.Gone(l, mid)
	case b.silent || l.Reaches(sum): // a client's addition makes a sum larger: a sum that does not reach the list was not in it
		b.tops.Add(l, mid, sum)
	}
}

// SumOf is the sum of a post in the space of a window at a moment of the log's time; 0: it has none. REQUIRES blk, its block, to be locked.
func SumOf(ks *block.Keyspace, blk *block.Block, mid uint64, now int64) (uint64, error) {
	p, err := ks.Find(blk, mid)
	if err != nil {
		return 0, err
	}
	return sumAt(ks, blk, mid, p, now)
}

// sumAt is SumOf for an item that was found at p.
func sumAt(ks *block.Keyspace, blk *block.Block, mid uint64, p block.Location, now int64) (uint64, error) {
	if !p.Found() {
		return 0, nil
	}
	var row [schema.MaxColumns]uint64
	read, err := ks.AppendRow(row[:0], blk, mid, p)
	if err != nil {
		return 0, err
	}
	return ks.Def.WindowSum(read, now), nil
}

// topDone tells the lists at once, where no log waits for the changes.
func topDone(b *Batch) {
	if (b.silent || b.data.Log == nil) && !b.tops.held {
		tellTops(b, b.applied)
	}
}

// tellTops tells the lists of all notes; logged is the log offset behind it. REQUIRES the blocks of the posts to be locked.
func tellTops(b *Batch, logged uint64) {
	if b.tops.Tell(logged) {
		b.data.wakeLists()
	}
}

// wakeLists has the background build top lists that are short of entries.
func (d *Data) wakeLists() {
	select {
	case d.Unlisted <- struct{}{}:
	default: // it will look at all of them anyway
	}
}

// dropFromLists takes the posts of a range of mids out of the top lists of a counter.
func (d *Data) dropFromLists(t *toplist.Lists, r *RangeDrop, logged uint64) {
	if t == nil {
		return
	}
	if r.kept { // some of its posts, and which is not known
		d.resetLists(t)
		return
	}
	for _, l := range t.All {
		if l.Remove(logged, func(mid uint64) bool { return mid >= r.From && mid < r.To && r.groups.Has(slot.Group(mid)) }) {
			d.wakeLists()
		}
	}
}

// resetLists has the background build the top lists of a counter again: posts came or went at once.
func (d *Data) resetLists(t *toplist.Lists) {
	if t != nil {
		t.Reset()
		d.wakeLists()
	}
}

// resetAllLists is resetLists for all counters. REQUIRES Data.Gate held exclusively, or a replay.
func (d *Data) resetAllLists() {
	for _, sp := range d.Spaces {
		if sp != nil {
			d.resetLists(sp[0].Tops)
		}
	}
}
