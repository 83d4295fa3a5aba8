package core

import (
	"errors"
	"slices"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/counter/internal/window"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/schema"
)

// ErrDerived refuses an operation that gives a derived column a value: only additions to the column that it is of change it.
var ErrDerived = errors.New("counter: the column is derived: additions to another column change it, and nothing else does")

// windows changes and reads derived columns for a batch (schema.Derived). The space of a derived column is a keyspace like others. Its items are
// the posts with additions in the window: see window.Place.
//
// An addition and the derived changes are records of one append, so a crash keeps both or neither. The records have the values after the
// change. A store that replays or follows a log makes the changes of its records and derives nothing.
//
// Locks: that of a post's block in a space is taken while that of the post's block is held, in the order of the spaces. A batch that
// waits for one holds no other block of a space that comes behind it, and a stretch logs and lets go of all its blocks first.
//
// Invariant: open are the places in spaces that the operation at hand changes, and it is empty between operations.
type windows struct {
	b       *Batch
	one     [1]addition
	open    []place
	crowded []spaceItem // whose blocks are to be widened, once all is logged
	columns []format.ColumnValue
	counts  countedBy
	ready   []readyPlace // of the additions that locate has seen, in their order
	next    int          // of ready
	peeked  int          // of ready, by peek
	now     window.Moment

	// Of a change set, and of an update: the records of derived changes, which it logs itself.
	records []byte
	locked  bool        // the change set at hand has locked all blocks of spaces that it needs
	order   []spaceItem // by which it locks them
	made    []spaceItem // that it has made
	lost    []spaceItem // on unreadable pages, that it may remove: see reserve
}

// mostReady is how many places stay allocated.
const mostReady = 4096

// addition is one to a column.
type addition struct {
	column int // index in Counter.Columns
	n      uint64
}

// place is an item of a space that the operation at hand changes or reads.
type place struct {
	window.Place
	add uint64
	own bool // the block is locked for this operation alone: not by the stretch, and not by the change set

	// Of watchedAdds.
	weight uint64        // how much an addition of 1 adds
	bucket window.Bucket // of a window
	done   uint32        // additions since p has its block, which the block does not know of yet
}

// readyPlace is where an item of a space is, or would be. blk may be dead since: the ranges of blocks, and homes in hot ones, never change.
type readyPlace struct {
	mid  uint64
	of   *schema.Derived
	ks   *block.Keyspace
	blk  *block.Block
	home hot.Home // in blk
}

// spaceItem is an item of a space, or its place.
type spaceItem struct {
	ks  *block.Keyspace
	mid uint64
}

// addOne is begin for an addition to one column.
func (w *windows) addOne(blk *block.Block, op *Op, n uint64) error {
	w.one[0] = addition{int(op.Column), n}
	return w.begin(blk, op.Counter, op.Mid, w.one[:])
}

// begin locks the places that change with additions to mid, and makes them where they are not there. blk is the post's block, which
// stays locked. On an error nothing was changed. Behind it comes apply or cancel.
func (w *windows) begin(blk *block.Block, def *schema.Counter, mid uint64, adds []addition) error {
	if w.b.data.Time.Seconds() == 0 {
		return nil // nobody has said what time it is
	}
	for i := range def.Derived {
		of, n := &def.Derived[i], uint64(0)
		for _, a := range adds {
			n = min(n+of.Counts(a.column, a.n), schema.MaxValue) // both are below 2^63
		}
		if n > 0 {
			w.open = append(w.open, place{})
			p := &w.open[len(w.open)-1]
			p.Of, p.Ks, p.add = of, w.b.data.Spaces[of.Space.ID].Of(mid), n
		}
	}
	if len(w.open) == 0 {
		return nil
	}
	w.lock(blk, mid, true)
	for i := range w.open {
		if err := w.ensure(&w.open[i].Place, mid); err != nil {
			w.cancel(mid)
			return err
		}
	}
	return nil
}

// lock locks the blocks of open. With change, only those that are in the table of the block stay with the stretch, whose blocks must not be
// replaced.
func (w *windows) lock(blk *block.Block, mid uint64, change bool) {
	if w.locked {
		for i := range w.open {
			p := &w.open[i]
			p.Block = p.Ks.Dir.Load().Find(mid)
		}
		return
	}
	if w.tryLock(mid, change) {
		return
	}
	w.b.stretch.log(blk)
	for i := range w.open {
		p := &w.open[i]
		p.Block, p.own, p.At, p.Made = p.Ks.Lock(mid), true, block.Location{}, false
	}
}

// tryLock is lock without waiting. With change it finds the items, too, and makes them, where that leaves their blocks as they are; so it has to where the
// stretch has the block. false: nothing is locked, and nothing was made.
func (w *windows) tryLock(mid uint64, change bool) bool {
	for i := range w.open {
		p := &w.open[i]
		b, home := w.find(p.Ks, mid)
		held := slices.Contains(w.b.stretch.blocks, b)
		if held {
			p.Block = b
		} else if p.Block = p.Ks.TryLock(b); p.Block != nil {
			p.own = true
		}
		if p.Block == nil || change && !p.FindInTable(mid, home, !w.b.full) && held {
			w.unmakeOpen(mid)
			w.unlock(0)
			return false
		}
	}
	return true
}

// find returns the block where the item mid of a space is, or would be, and its home there, if that is hot.
func (w *windows) find(ks *block.Keyspace, mid uint64) (blk *block.Block, home hot.Home) {
	for w.next < len(w.ready) { // operations run in order: those that are passed over are not asked for again
		r := &w.ready[w.next]
		w.next++
		if r.mid == mid && r.ks == ks {
			return r.blk, r.home
		}
	}
	if blk = ks.Dir.Load().Find(mid); blk.Cold == nil {
		home = blk.Tab.Home(mid)
	}
	return blk, home
}

// ensure finds the item of p, and makes it if it is not there.
func (w *windows) ensure(p *window.Place, mid uint64) error {
	if p.At.Where == block.InTable { // lock has found it, or made it
		return nil
	}
	if err := p.Find(mid); err != nil {
		return err
	}
	switch {
	case p.At.Where == block.InTable:
		p.Made = w.locked && p.Empty() // the change set made it before
		return nil
	case w.b.full:
		return ErrMaxMemory
	}
	return p.Ensure(mid)
}

// cancel takes back what begin did.
func (w *windows) cancel(mid uint64) {
	w.unmakeOpen(mid)
	w.forget()
}

// unmakeOpen removes the items that were made for the operation at hand.
func (w *windows) unmakeOpen(mid uint64) {
	for i := range w.open {
		if p := &w.open[i]; p.Made && !w.locked {
			p.Unmake(mid)
		}
	}
}

// apply makes the changes that begin prepared. Their records go to the stretch, before that of the addition, and the stretch unlocks the
// blocks. With apart they go to records, and logged unlocks the blocks.
func (w *windows) apply(mid uint64, apart bool) {
	b := w.b
	w.now.Set(b.data.Time.Seconds())
	for i := range w.open {
		p := &w.open[i]
		w.columns = p.Add(p.add, &w.now, w.columns[:0])
		w.counted(p, mid)
		switch {
		case apart:
			w.records = p.AppendRecord(w.records, mid, w.columns)
		case b.data.Log != nil:
			b.stretch.records = p.AppendRecord(b.stretch.records, mid, w.columns)
			w.stretch(p)
		}
		if !w.locked && p.Block.Crowded() {
			w.crowded = append(w.crowded, spaceItem{p.Ks, mid})
		}
	}
	if !apart || w.locked {
		w.forget()
	}
}

// counted notes that the item of p was given w.columns, for its block and for top lists.
func (w *windows) counted(p *place, mid uint64) {
	w.tell(p, mid)
	mark(w.b, p.Block, mid)
	p.Block.Used = w.b.now
	p.Block.Work++
}

// tell tells top lists that the item of p was given w.columns.
func (w *windows) tell(p *place, mid uint64) {
	b := w.b
	switch t := p.Ks.Tops; {
	case t == nil:
	case t.Sum == nil:
		decayTop(b, t, mid, w.columns[0].Value)
	default:
		topSumAt(b, p.Ks, p.Block, mid, p.At, nil)
		topDone(b)
	}
}

// widen gives blocks in which many values have outgrown their widths others. Nothing of a space is locked, or the stretch has it.
func (w *windows) widen(blk *block.Block) {
	w.b.stretch.log(blk)
	for _, i := range w.crowded {
		i.ks.Widen(i.ks.Lock(i.mid), i.mid).Mu.Unlock()
	}
	w.crowded = w.crowded[:0]
}

// stretch gives the block of p to the stretch, which has a record of it.
func (w *windows) stretch(p *place) {
	if p.own {
		w.b.stretch.blocks, p.own = append(w.b.stretch.blocks, p.Block), false
	}
}

// log logs what apply, or remove, put apart, with the records of the change of blk that it follows from. It lets go of the other blocks.
func (w *windows) log(blk *block.Block, records []byte) {
	b := w.b
	if b.data.Log != nil && len(records)+len(w.records) > 0 {
		pos, err := b.data.Log.Append(append(w.records, records...))
		if err != nil {
			panic("counter: BUG: records that the log does not take: " + err.Error())
		}
		b.pos, blk.Logged = pos, pos
	}
	if !b.tops.Empty() {
		tellTops(b, b.pos)
	}
	w.records = w.records[:0]
	w.unlock(b.pos)
	if w.open = w.open[:0]; len(w.crowded) > 0 {
		w.widen(blk)
	}
}

// unlock lets go of the blocks of open that are locked for them alone.
func (w *windows) unlock(logged uint64) {
	for i := range w.open {
		p := &w.open[i]
		if p.own {
			p.Block.Logged = max(p.Block.Logged, logged)
			p.Block.Mu.Unlock()
		}
		p.Block, p.own = nil, false
	}
}

// value reads derived column number i of a post that is there. blk is its block, which stays locked.
func (w *windows) value(blk *block.Block, def *schema.Counter, i int, mid uint64) (sum uint64, err error) {
	of := &def.Derived[i]
	w.open = append(w.open[:0], place{Place: window.Place{Of: of, Ks: w.b.data.Spaces[of.Space.ID].Of(mid)}})
	w.lock(blk, mid, false)
	p := &w.open[0]
	if err = p.Find(mid); err == nil {
		sum, err = p.Sum(mid, w.b.data.Time.Seconds())
	}
	switch {
	case err != nil:
		w.b.data.ReadErrors.Add(1)
	case w.b.seen.failing && p.own: // changes of other posts do not matter
		err = w.b.seen.noteItem(p.Block, of.Space.ID, mid)
	default:
		w.b.seen.noteSeen(p.Block.Logged)
	}
	w.forget()
	return sum, err
}

// appendRow appends all derived columns of a post that was read to the batch's rows.
func (w *windows) appendRow(blk *block.Block, op *Op) {
	for i := range op.Counter.Derived {
		v, err := w.value(blk, op.Counter, i, op.Mid)
		if err != nil {
			w.b.rows, op.Err = w.b.rows[:op.row], err
			return
		}
		w.b.rows = append(w.b.rows, v)
	}
}

// beginRemoval locks the places of a post that is about to be removed, and makes memory for their removal. On an error nothing was changed. Behind it comes remove, or forget.
func (w *windows) beginRemoval(blk *block.Block, def *schema.Counter, mid uint64) error {
	for i := range def.Derived {
		of := &def.Derived[i]
		w.open = append(w.open, place{Place: window.Place{Of: of, Ks: w.b.data.Spaces[of.Space.ID].Of(mid)}})
	}
	w.lock(blk, mid, false)
	for i := range w.open {
		if err := w.open[i].FindToRemove(mid); err != nil {
			w.forget()
			return err
		}
	}
	return nil
}

// remove removes the items of a post that was removed. Records and locks are as those of apply.
func (w *windows) remove(mid uint64, apart bool) {
	b := w.b
	for i := range w.open {
		p := &w.open[i]
		if !p.At.Found() || p.Ks.Remove(p.Block, mid, p.At) != nil { // no error: beginRemoval made memory for it
			continue
		}
		mark(b, p.Block, mid)
		if t := p.Ks.Tops; t != nil {
			topGone(b, t, mid)
		}
		switch {
		case apart:
			w.records = format.AppendDelete(w.records, p.Ks.ID, mid)
		case b.data.Log != nil:
			b.stretch.records = format.AppendDelete(b.stretch.records, p.Ks.ID, mid)
			w.stretch(p)
		}
	}
	if !apart || w.locked {
		w.forget()
	}
}

// forget lets go of the places of an operation.
func (w *windows) forget() {
	w.unlock(0)
	w.open = w.open[:0]
}

// locate asks for the memory of spaces that the operations need, and refuses those that give derived columns a value. It has reads of a derived
// column alone run as such.
func (w *windows) locate(ops []Op) {
	if w.ready, w.next, w.peeked = w.ready[:0], 0, 0; cap(w.ready) > mostReady {
		w.ready = nil
	}
	w.counts = countedBy{spaces: w.counts.spaces[:0]}
	for i := 0; i < len(ops); i++ {
		op := &ops[i]
		def := op.Counter
		if len(def.Derived) == 0 || op.block == nil {
			continue
		}
		switch {
		case op.Kind == OpSetRow && w.b.sets.shapes[op.Arg].set>>len(def.Columns) != 0,
			op.Kind.changes() && op.Kind != OpDelete && op.Kind != OpSetRow && def.IsDerived(int(op.Column)):
			op.block, op.Err = nil, ErrDerived
			w.b.foreign = true
			continue
		case op.Kind == OpGet && def.IsDerived(int(op.Column)):
			op.Kind = OpGetDerived
		case op.Kind != OpAdd && op.Kind != OpRead && op.Kind != OpAddWithin:
			continue
		}
		if op.Kind != OpRead {
			i += w.locateAdds(ops[i:]) - 1
			continue
		}
		for k := range def.Derived {
			if blk := w.b.data.Spaces[def.Derived[k].Space.ID].Of(op.Mid).Dir.Load().Find(op.Mid); blk.Cold == nil {
				blk.Prefetch()
				blk.Tab.Prefetch(op.Mid)
			}
		}
	}
}

// peek looks for the items of the next n operations in their first buckets, as core.peek does for posts, and for the counts of today's bucket. Most operations have
// one item, or two.
func (w *windows) peek(n int) {
	if !w.b.derives {
		return
	}
	var of *schema.Derived
	count, seconds := schema.DecayedSum, w.b.data.Time.Seconds()
	for end := min(w.next+2*n, len(w.ready)); w.peeked < end; w.peeked++ {
		r := &w.ready[w.peeked]
		if r.of != of {
			if of, count = r.of, schema.DecayedSum; !of.Decays() {
				count = of.Window.Count(of.Window.At(seconds))
			}
		}
		hot.PeekColumn(&r.blk.Tab, &r.home, count)
	}
}
