package core

import (
	"fmt"
	"slices"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/schema"
)

// RangeDrop is a range of mids of a counter whose posts were removed at once, by one record of the log. Blocks that lie within the range go
// as they are, tables and files, and nothing of them is read: see block.Drop.
//
// A store removes the posts of groups of hash slots that it serves. Posts on their way here are the source's to drop, and its log brings that
// (package replica).
type RangeDrop struct {
	Counter       *schema.Counter
	From, To      uint64
	Posts, Blocks int // that were removed; of files that cannot be read Posts is an estimate

	plans  []*block.Drop
	groups slot.Set
	kept   bool // posts in a file that cannot be read stay
}

// DropRangeError refuses a range. Nothing was changed.
type DropRangeError struct{ From, To uint64 }

func (e *DropRangeError) Error() string {
	return fmt.Sprintf("counter: a range of post ids from %d on and below %d, want at least one id in it, and at most %d as its end", e.From, e.To, uint64(hot.EndMid))
}

// DropSteps are the sets of groups that a range is dropped in, one after the other, each by a record and an exclusive batch of its own. A store with SlotGroups
// has two blocks at the edges of the range in each group, whose posts are removed one by one: all 512 take 187 to 342 ms, and 8 groups 6 to 11.
func (d *Data) DropSteps() []slot.Set {
	if !d.SlotGroups {
		return []slot.Set{slot.AllGroups()}
	}
	steps := make([]slot.Set, slot.Groups/dropGroups)
	for group := range slot.Groups {
		steps[group/dropGroups].Add(uint8(group))
	}
	return steps
}

// dropGroups is how many groups a step has.
const dropGroups = 8

// DropRange removes the posts of a counter with mids from from on and below to, of some groups of hash slots. Of a range without posts nothing is logged, unless it has the newest block. The error is a
// *DropRangeError, ErrNoMemory, one of changes, or matches block.ErrCold if from or to lies in a file that cannot be read there; nothing was changed
// then. REQUIRES Replication.AdmitCursors where there is a log.
func (w Whole) DropRange(def *schema.Counter, from, to uint64, only slot.Set) (*RangeDrop, error) {
	b, d := w.b, w.b.data
	if from >= to || to > hot.EndMid {
		return nil, &DropRangeError{from, to}
	}
	if d.Log != nil {
		if err := d.TakesChanges(); err != nil {
			return nil, err
		}
		if !d.Cursors.Admitted.Load() {
			return nil, errNotAdmitted
		}
	}
	groups := only.Minus(d.Own.Foreign)
	drop, err := d.planDrop(def, groups, block.DropRange{From: from, To: to, Before: ^uint64(0)})
	if err != nil || drop.nothing() {
		return drop, err
	}
	// The counts of the posts go first, so that the batch tells of the posts.
	for i := range def.Derived {
		if err := w.clear(def.Derived[i].Space, from, to, groups); err != nil {
			drop.abandon()
			return nil, err
		}
	}
	if d.Log != nil {
		pos, err := d.Log.Append(format.AppendDropRange(nil, def.ID, from, to, groups))
		if err != nil {
			drop.abandon()
			return nil, err
		}
		b.pos, d.Altered = pos, pos
	}
	return drop, drop.apply(b, b.pos)
}

// clear removes the items of a range from the space of a derived column.
func (w Whole) clear(space *schema.Counter, from, to uint64, groups slot.Set) error {
	b, d := w.b, w.b.data
	drop, err := d.planDrop(space, groups, block.DropRange{From: from, To: to, Before: ^uint64(0)})
	if err != nil {
		return err
	}
	if drop.nothing() {
		drop.abandon()
		return nil
	}
	if d.Log != nil {
		pos, err := d.Log.Append(format.AppendDropRange(nil, space.ID, from, to, groups))
		if err != nil {
			drop.abandon()
			return err
		}
		b.pos, d.Altered = pos, pos
	}
	return drop.apply(b, b.pos)
}

// planDrop prepares the removal of a range in all keyspaces of groups.
func (d *Data) planDrop(def *schema.Counter, groups slot.Set, r block.DropRange) (*RangeDrop, error) {
	drop := &RangeDrop{Counter: def, From: r.From, To: r.To, groups: groups}
	if lost := r.Lost; lost != nil {
		r.Lost = func(lo, hi uint64) {
			drop.kept = true
			lost(lo, hi)
		}
	}
	if !d.SlotGroups && groups != slot.AllGroups() {
		r.Has = func(mid uint64) bool { return groups.Has(slot.Group(mid)) }
	}
	for _, ks := range d.Spaces[def.ID] {
		if d.SlotGroups && !groups.Has(ks.Group) {
			continue
		}
		p, err := ks.PlanDrop(r)
		if err != nil {
			drop.abandon()
			return nil, err
		}
		drop.plans = append(drop.plans, p)
	}
	return drop, nil
}

func (r *RangeDrop) nothing() bool {
	for _, p := range r.plans {
		if !p.Nothing() {
			return false
		}
	}
	return true
}

func (r *RangeDrop) abandon() {
	for _, p := range r.plans {
		p.Abandon()
	}
}

// apply removes the posts; its record ends at logged. Its blocks are freed behind the batch, which is exclusive, or at once in a replay.
func (r *RangeDrop) apply(b *Batch, logged uint64) (err error) {
	for _, p := range r.plans {
		posts, blocks, failed := p.Make(logged, b.number)
		r.Posts, r.Blocks = r.Posts+posts, r.Blocks+blocks
		if failed != nil {
			err = failed
		}
	}
	b.data.dropFromLists(b.data.Spaces[r.Counter.ID][0].Tops, r, logged)
	b.dropped.free(b.data)
	if b.dropped = r; !b.open {
		r.free(b.data)
		b.dropped = nil
	}
	return err
}

// DroppedBy is the range that a batch has removed last, until it ends; nil: none, or it is of the space of a derived column.
func DroppedBy(b *Batch) *RangeDrop {
	if b.dropped != nil && b.dropped.Counter.IsSpace() {
		return nil
	}
	return b.dropped
}

// free frees the blocks that are gone. nil has none.
func (r *RangeDrop) free(d *Data) {
	if r == nil {
		return
	}
	for _, p := range r.plans {
		d.Broken.Add(-int64(p.Free()))
	}
}

// dropRange makes a record. Of a file that cannot be read posts at the edges of the range stay, as they are not known.
func (r *Replayer) dropRange(pos uint64, rec *format.Record) error {
	d := r.s
	if int(rec.Counter) >= len(d.Spaces) || d.Spaces[rec.Counter] == nil {
		return nil
	}
	def := d.Spaces[rec.Counter][0].Def
	drop, err := d.planDrop(def, rec.Groups, block.DropRange{From: rec.Mid, To: rec.Value, Before: pos, Lost: func(lo, hi uint64) {
		d.Config.Logger.Error("posts of a dropped range cannot be removed: their file cannot be read", "counter", def.Name, "lo", lo, "hi", hi)
	}})
	if err != nil {
		return err
	}
	return drop.apply(r.Batch, r.Batch.applied)
}

// Newest returns the nth largest mid of a counter's posts below end, or false if there are fewer. end is at most hot.EndMid. It looks at one keyspace
// after the other, so at no single moment. Posts of a file that cannot be read are left out. The error is ErrClosed.
func (d *Data) Newest(def *schema.Counter, n int, end uint64) (mid uint64, ok bool, err error) {
	if end == 0 {
		return 0, false, nil
	}
	l := largest{n: n, end: end}
	b := d.NewBatch()
	for i := 0; ; i++ {
		if err := b.Begin(); err != nil {
			return 0, false, err
		}
		var sp block.Space
		if int(def.ID) < len(d.Spaces) {
			sp = d.Spaces[def.ID]
		}
		if i < len(sp) && !d.Hidden(sp[i]) {
			l.look(sp[i])
		}
		b.End()
		if i >= len(sp) {
			break
		}
	}
	if len(l.mids) < n {
		return 0, false, nil
	}
	return l.mids[0], true, nil
}

// largest keeps the largest mids below end that it is shown, rising: n at most.
type largest struct {
	n     int
	end   uint64
	mids  []uint64
	block []uint64
}

// look takes the mids of blocks, from the newest on, as long as they may be among the largest. REQUIRES Data.Gate held.
func (l *largest) look(ks *block.Keyspace) {
	for at := l.end - 1; ; {
		b := ks.Lock(at)
		l.block, _ = b.AppendMids(l.block[:0])
		lo := b.Lo
		b.Mu.Unlock()
		for _, mid := range l.block {
			l.add(mid)
		}
		if lo == 0 || len(l.mids) == l.n && l.mids[0] >= lo {
			return
		}
		at = lo - 1
	}
}

func (l *largest) add(mid uint64) {
	if mid >= l.end {
		return
	}
	if len(l.mids) == l.n {
		if mid <= l.mids[0] {
			return
		}
		l.mids = slices.Delete(l.mids, 0, 1)
	}
	i, _ := slices.BinarySearch(l.mids, mid)
	l.mids = slices.Insert(l.mids, i, mid)
}
