package core

import (
	"fmt"
	"slices"
	"time"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/query"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/schema"
)

// Change is what an Update does to each item: OpSet, OpAdd and OpReset to a column, OpDelete to the item.
type Change struct {
	Kind   OpKind
	Column int16
	Arg    uint64 // OpSet: the value; OpAdd: an int64
}

// Returning says what rows an Update returns.
type Returning uint8

const (
	ReturnNothing Returning = iota
	ReturnOld               // the items as they were
	ReturnNew               // the items as they are
)

// Update changes the items of a query. The conditions are checked, the changes of an item made and logged, in one
// record, while its block is locked: each item is changed as a whole or not at all, and only while it meets the query.
// Items are changed one after the other. Not safe for concurrent use.
type Update struct {
	Search  query.Search
	changes []Change
	ret     Returning
	columns []int16 // of the rows: see Columns
	named   bool    // by the caller: none of them may be missing
	rows    query.Rows
	mids    []uint64
	changed int
	unfit   int

	Pending []uint64 // found and not looked at again yet
	try     bool     // nothing is changed
	fits    bool     // the last item meets the query, and its values stay in their columns
	fit     int      // of pending, from the first on, Gather has looked at so many: they fit
	places  []int    // columns of changes in the schema in force
	shown   []int    // the same of columns
	row     []uint64
	values  []format.ColumnValue
	records []byte
}

// NewUpdate prepares one. Query.Limit counts the items changed, Offset means nothing. The error is a *QueryError, or
// ErrOutOfRange for an OpSet of what its column cannot hold.
func NewUpdate(q query.Query, changes []Change, ret Returning) (*Update, error) {
	u := &Update{changes: slices.Clone(changes), ret: ret}
	q.Offset = 0
	if err := u.Search.Init(q, []int16{}); err != nil { // the search needs no more than what it compares
		return nil, err
	}
	u.Search.Most = foundItems
	if u.named = q.Columns != nil; u.named {
		u.columns = slices.Clone(q.Columns)
	} else {
		for c := range q.Counter.Columns {
			u.columns = append(u.columns, int16(c))
		}
	}
	for _, c := range u.columns {
		if err := query.CheckStored(&q, c); err != nil {
			return nil, err
		}
	}
	if len(changes) == 0 {
		return nil, &query.QueryError{What: "no change"}
	}
	seen := make(map[int16]bool)
	for _, c := range changes {
		if c.Kind == OpDelete {
			if len(changes) > 1 || ret == ReturnNew {
				return nil, &query.QueryError{What: "a deletion goes with no other change, and leaves nothing to return"}
			}
			continue
		}
		if err := query.CheckStored(&q, c.Column); err != nil {
			return nil, err
		}
		if c.Kind != OpSet && c.Kind != OpAdd && c.Kind != OpReset {
			return nil, &query.QueryError{What: fmt.Sprintf("operation %d is no change", c.Kind)}
		}
		if seen[c.Column] {
			return nil, &query.QueryError{What: fmt.Sprintf("column %s is changed twice", q.Counter.Columns[c.Column].Name)}
		}
		seen[c.Column] = true
		if c.Kind == OpSet && c.Arg > q.Counter.Columns[c.Column].Limit() {
			return nil, ErrOutOfRange
		}
	}
	if ret > ReturnNew {
		return nil, &query.QueryError{What: fmt.Sprintf("returning %d", ret)}
	}
	return u, nil
}

// Step is Find.Step, and changes what it finds. After an error items that were changed before stay so: see Changed.
// Other errors are ErrNotReady, ErrMaxMemory and ErrNoMemory. REQUIRES b to be open; and b.Commit, or Defer, before it
// is told.
func (u *Update) Step(b *Batch) (done bool, err error) {
	query.Clear(&u.rows)
	u.mids = u.mids[:0]
	s := &u.Search
	b.checkState()
	if len(u.Pending) == 0 {
		if u.full() {
			return true, nil
		}
		limit := query.StepRows
		if s.Query.Limit > 0 {
			limit = min(limit, s.Query.Limit-u.changed)
		}
		if err := s.Step((*View)(b), limit, true); err != nil {
			return false, err
		}
		for i := range s.Rows.Len() {
			mid, _ := s.Rows.At(i)
			u.Pending = append(u.Pending, mid)
		}
	} else if err := s.Bind((*View)(b)); err != nil {
		return false, err
	}
	if err := u.bind(); err != nil {
		return false, err
	}
	n := 0
	for began := time.Now(); n < len(u.Pending) && !u.full(); n++ {
		if n&63 == 63 && time.Since(began) > query.StepTime {
			break
		}
		if err = u.updateItem(b, u.Pending[n]); err != nil {
			break
		}
	}
	u.Pending = u.Pending[:copy(u.Pending, u.Pending[n:])]
	if err != nil && len(u.mids) > 0 { // those first: the next step comes here again
		err = nil
	}
	if done = err == nil && (u.full() || s.Over && len(u.Pending) == 0); done {
		s.Leave()
	}
	return done, err
}

// Gather is Step for an update that shall be one change, whole or not made: it finds the items that Apply would change, which
// are those that Limit counts, and changes nothing yet. A call either finds some items or looks at some of those found.
// The error is a *TooManyError where there are more than one change can have.
func (u *Update) Gather(b *Batch) (done bool, err error) {
	s := &u.Search
	most := u.most(s.Query.Counter)
	want := most + 1
	if s.Query.Limit > 0 {
		want = min(want, s.Query.Limit)
	}
	b.checkState()
	if u.fit == len(u.Pending) && u.fit < want {
		if err := s.Step((*View)(b), want-u.fit, true); err != nil {
			return false, err
		}
		for i := range s.Rows.Len() {
			mid, _ := s.Rows.At(i)
			u.Pending = append(u.Pending, mid)
		}
		if err := u.bind(); err != nil {
			return false, err
		}
	} else if err := s.Bind((*View)(b)); err != nil {
		return false, err
	} else if err := u.bind(); err != nil {
		return false, err
	} else if err := u.check(b); err != nil {
		return false, err
	}
	if u.fit > most {
		return false, &TooManyError{most}
	}
	if done = u.fit == len(u.Pending) && (s.Over || u.fit == want); done {
		s.Leave()
		u.mids = slices.Grow(u.mids[:0], u.fit) // now, while nobody waits
		if query.Clear(&u.rows); u.ret != ReturnNothing {
			query.Grow(&u.rows, u.fit)
		}
	}
	return done, nil
}

// A step of Gather finds at most foundItems, or looks at checkedItems: 0.1 ms each.
const foundItems, checkedItems = 1024, 512

// check looks at some items of pending that were found, and drops those that Apply would leave as they are: they must not
// use up what Limit allows.
func (u *Update) check(b *Batch) error {
	u.try = true
	defer func() { u.try = false }()
	n := u.fit
	end := min(len(u.Pending), n+checkedItems)
	for began := time.Now(); n < end; n++ {
		if n&63 == 63 && time.Since(began) > query.StepTime {
			break
		}
		mid := u.Pending[n]
		if err := u.updateItem(b, mid); err != nil {
			return err
		}
		if u.fits {
			u.Pending[u.fit] = mid
			u.fit++
		}
	}
	u.Pending = append(u.Pending[:u.fit], u.Pending[n:]...)
	return nil
}

// TooManyError: an update that shall be one change would change more items than Most. Nothing was changed.
type TooManyError struct{ Most int }

func (e *TooManyError) Error() string {
	return fmt.Sprintf("counter: an update of more than %d items cannot be one change: limit it", e.Most)
}

// Apply changes what Gather found and still meets the query: all of it, or nothing on an error that is known before the
// first change, which is any but ErrNoMemory. Items that do not fit (see Unfit) stay as they are. REQUIRES
// BeginExclusive: then it is one change to readers, replicas and after a crash.
func (u *Update) Apply(b *Batch) error {
	query.Clear(&u.rows)
	u.mids = u.mids[:0]
	b.checkState()
	if len(u.Pending) == 0 {
		return nil
	}
	if err := u.Search.Bind((*View)(b)); err != nil {
		return err
	}
	if err := u.bind(); err != nil {
		return err
	}
	if most := u.most(u.Search.Ks.Def); len(u.Pending) > most { // a window was added since
		return &TooManyError{most}
	}
	if err := u.attempt(b); err != nil {
		return err
	}
	Expect(b, len(u.Pending)*len(u.changes))
	for i := 0; i < len(u.Pending); {
		if n := u.updateNeighbours(b, u.Pending[i:]); n > 0 {
			i += n
			continue
		}
		if err := u.updateItem(b, u.Pending[i]); err != nil {
			return err
		}
		i++
	}
	u.Pending, u.fit = u.Pending[:0], 0
	return nil
}

// attempt finds out whether Apply would fail, and changes nothing. Changes in hot blocks do not fail, unless all changes are refused: to
// look at each of their items takes as long as to change it.
func (u *Update) attempt(b *Batch) error {
	unfit := u.unfit
	u.try = true
	defer func() { u.try, u.unfit = false, unfit }()
	var last *block.Block // is hot
	var of *block.Keyspace
	for _, mid := range u.Pending {
		if b.refused == nil {
			ks := u.Search.Space.Of(mid)
			if ks == of && last != nil && mid >= last.Lo && mid < last.Hi {
				continue
			}
			blk := ks.Lock(mid)
			hot := blk.Cold == nil
			blk.Mu.Unlock()
			if hot {
				last, of = blk, ks
				continue
			}
		}
		if err := u.updateItem(b, mid); err != nil {
			return err
		}
	}
	return nil
}

// full tells whether as many items were changed as shall be.
func (u *Update) full() bool { return u.Search.Query.Limit > 0 && u.changed >= u.Search.Query.Limit }

// bind finds the columns of the changes and of the rows in the schema in force. REQUIRES Search.Bind.
func (u *Update) bind() error {
	def, q := u.Search.Ks.Def, &u.Search.Query
	u.places, u.shown = u.places[:0], u.shown[:0]
	for _, c := range u.changes {
		if c.Kind == OpDelete {
			continue
		}
		i, err := query.Place(q, def, c.Column)
		if err != nil {
			return err
		}
		u.places = append(u.places, i)
	}
	if u.ret == ReturnNothing {
		return nil
	}
	left := u.columns[:0]
	for _, c := range u.columns {
		i, err := query.Place(q, def, c)
		if err == nil {
			left, u.shown = append(left, c), append(u.shown, i)
		} else if u.named {
			return err
		}
	}
	u.columns = left
	query.SetColumns(&u.rows, len(left))
	return nil
}

// updateItem changes one item if it still meets the query.
func (u *Update) updateItem(b *Batch, mid uint64) error {
	s := &u.Search
	if u.fits = false; b.data.Own.Hides(mid) {
		return nil
	}
	was, ks := s.Ks, s.Space.Of(mid)
	s.Ks = ks
	blk := ks.Lock(mid)
	defer func() {
		blk.Mu.Unlock()
		s.Ks = was
	}()
	b.seen.noteSeen(blk.Logged)
	p, err := ks.Find(blk, mid)
	if err != nil {
		return s.Damage(mid, mid, err)
	}
	if !p.Found() {
		return nil
	}
	query.Clear(&s.Rows)
	if err := s.Item(&s.Rows, blk, mid, p); err != nil {
		return s.Damage(mid, mid, err)
	}
	if s.Rows.Len() == 0 {
		return nil
	}
	deletes := u.changes[0].Kind == OpDelete
	known := false
	if keeps := b.old.keeps(ks); !deletes || u.ret == ReturnOld || keeps {
		if u.row, err = ks.AppendRow(u.row[:0], blk, mid, p); err != nil && (!deletes || u.ret == ReturnOld) {
			return s.Damage(mid, mid, err)
		}
		known = keeps && err == nil
	}
	if b.refused != nil {
		return b.refused
	}
	blk.Used = b.now
	blk.Work++
	if u.try {
		if u.fits = deletes || u.compute(); !u.fits {
			u.unfit++
		}
		switch {
		case !deletes && !p.Readable():
			return s.Damage(mid, mid, query.ErrDamaged)
		case !deletes && b.full && p.Where != block.InTable && u.fits:
			return ErrMaxMemory
		}
		return nil
	}
	if deletes {
		if err := b.windows.beginRemoval(blk, ks.Def, mid); err != nil {
			return err
		}
		if err := ks.Remove(blk, mid, p); err != nil {
			b.windows.forget()
			return err
		}
		mark(b, blk, mid)
		b.windows.remove(mid, true)
		if u.records = u.records[:0]; known {
			u.records = b.old.appendRemoved(u.records, ks, mid, u.row)
		} else {
			u.records = format.AppendDelete(u.records, ks.Def.ID, mid)
		}
		b.windows.log(blk, u.records)
		if ks.Tops != nil {
			topGone(b, ks.Tops, mid)
			tellTops(b, b.pos)
		}
	} else {
		if !u.compute() {
			u.unfit++
			return nil
		}
		if b.full && p.Where != block.InTable {
			return ErrMaxMemory
		}
		if !p.Readable() { // all columns that there are now happen to be known
			return s.Damage(mid, mid, query.ErrDamaged)
		}
		if blk, err = u.setColumns(b, ks, blk, mid, p); err != nil {
			return err
		}
	}
	u.note(mid)
	return nil
}

// Rows are those of the items that the last step changed, if they shall be returned.
func (u *Update) Rows() *query.Rows { return &u.rows }

// Columns are those of Rows, indexes in Query.Counter.Columns, until the next step. Where Query.Columns is nil they are all, but
// for those that were dropped meanwhile.
func (u *Update) Columns() []int16 { return u.columns }

// Mids are those of the items that the last step changed.
func (u *Update) Mids() []uint64 { return u.mids }

// Changed is how many items were changed so far.
func (u *Update) Changed() int { return u.changed }

// Unfit is how many items meet the query and stay as they are, as a value would leave its column.
func (u *Update) Unfit() int { return u.unfit }

// View is a batch as queries see it.
type View Batch

func (v *View) Schema() *schema.Schema { return (*Batch)(v).Schema() }

func (v *View) Space(counter uint32) block.Space { return v.data.Spaces[counter] }

func (v *View) Owned() block.Ownership { return v.data.Own }

func (v *View) Time() int64 { return v.data.Time.Seconds() }

func (v *View) NoteSeen(pos uint64) { v.seen.noteSeen(pos) }
