package query

import (
	"fmt"
	"math"
	"slices"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/schema"
)

// Compare is how a condition compares a column with its value.
type Compare uint8

const (
	Equal Compare = iota
	NotEqual
	Less
	LessEqual
	Greater
	GreaterEqual
)

// Condition is one on a column: column Op Value.
type Condition struct {
	Column int16 // index for Query.Counter.Col
	Op     Compare
	Value  uint64
}

// Query says which items of a counter are meant: those with mids in the range, and the list if there is one, that meet
// all conditions. A column that an item never set, or that was made after the item, has its default.
//
// A query may be older than the schema in force: its columns are found again by their ids. Where one of them, or the
// counter, was dropped, a step returns a *DroppedError. Columns that it does not use come and go as they like.
type Query struct {
	Counter  *schema.Counter
	From, To uint64      // mids, both inclusive; From above To: nothing
	Mids     []uint64    // not nil: only these, in any order
	NotMids  []uint64    // none of these
	Where    []Condition // all must hold
	Desc     bool        // from To down to From
	Limit    int         // rows at most, or items changed; 0: all
	Offset   int         // rows passed over first
	Columns  []int16     // of the rows, indexes for Counter.Col; nil: all of them
}

// all tells whether the query asks for all posts, of which a top list has the best. Its columns have no part in that.
func (q *Query) all() bool {
	return len(q.Where) == 0 && q.Mids == nil && len(q.NotMids) == 0 && q.From == 0 && q.To >= schema.MaxMid
}

// MaxQueryList bounds Mids, NotMids and Where, so that their sorted copies take at most 16 MiB.
const MaxQueryList = 1 << 20

// QueryError says what is wrong with a query. Nothing was done.
type QueryError struct{ What string }

func (e *QueryError) Error() string { return "counter: query: " + e.What }

// DroppedError says that the counter of a query, or a column that it uses, was dropped after the query was made. It matches
// block.ErrNoKey.
type DroppedError struct {
	Counter string
	Column  string // empty: it is the counter
}

func (e *DroppedError) Error() string {
	what := "counter " + e.Counter
	if e.Column != "" {
		what = "column " + e.Column + " of counter " + e.Counter
	}
	return fmt.Sprintf("%v: %s was dropped meanwhile", block.ErrNoKey, what)
}

// Is makes errors.Is(err, block.ErrNoKey) true.
func (e *DroppedError) Is(target error) bool { return target == block.ErrNoKey }

// Place is the index of column c of q in def, which is the query's counter as the schema in force has it.
func Place(q *Query, def *schema.Counter, c int16) (int, error) {
	col := &q.Counter.Columns[c]
	i := def.Index(col.ID)
	if i < 0 {
		return 0, &DroppedError{q.Counter.Name, col.Name}
	}
	return i, nil
}

// RangeError says that a step came to items that cannot be read, as a cold file is damaged. The items before them, in the
// order of the query, were given. It matches ErrCold.
type RangeError struct {
	Counter *schema.Counter
	snapfile.MidRange
	Err error
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("%v: %s from %d to %d: %v", block.ErrCold, e.Counter.Name, e.Lo, e.Hi-1, e.Err)
}

func (e *RangeError) Unwrap() error { return e.Err }

// Is makes errors.Is(err, ErrCold) true.
func (e *RangeError) Is(target error) bool { return target == block.ErrCold }

// GoOn has the query begin at mid, which Find.Next returned.
func (q *Query) GoOn(mid uint64) {
	if q.Desc {
		q.To = mid
	} else {
		q.From = mid
	}
}

// check returns a *QueryError for an impossible query.
func (q *Query) check() error {
	switch {
	case q.Counter == nil:
		return &QueryError{"no counter"}
	case q.Limit < 0 || q.Offset < 0:
		return &QueryError{fmt.Sprintf("limit %d, offset %d: want 0 or more", q.Limit, q.Offset)}
	case len(q.Mids) > MaxQueryList || len(q.NotMids) > MaxQueryList || len(q.Where) > MaxQueryList:
		return &QueryError{fmt.Sprintf("a list of more than %d", MaxQueryList)}
	}
	for _, c := range q.Columns {
		if err := CheckColumn(q, c); err != nil {
			return err
		}
	}
	for _, c := range q.Where {
		if err := CheckColumn(q, c.Column); err != nil {
			return err
		}
		if c.Op > GreaterEqual {
			return &QueryError{fmt.Sprintf("comparison %d", c.Op)}
		}
	}
	return nil
}

// CheckStored returns a *QueryError where c is no column of the query's counter, or a derived one, of which posts have no value.
func CheckStored(q *Query, c int16) error {
	err := CheckColumn(q, c)
	if err == nil && q.Counter.IsDerived(int(c)) {
		err = &QueryError{fmt.Sprintf("column %s of %s is derived, and cannot be used to update posts", q.Counter.Col(int(c)).Name, q.Counter.Name)}
	}
	return err
}

// checkWhereStored is CheckStored for the columns of all conditions.
func checkWhereStored(q *Query) error {
	for _, c := range q.Where {
		if err := CheckStored(q, c.Column); err != nil {
			return err
		}
	}
	return nil
}

// CheckColumn returns a *QueryError where c is no column of the query's counter.
func CheckColumn(q *Query, c int16) error {
	if c < 0 || int(c) >= q.Counter.Width() {
		return &QueryError{fmt.Sprintf("column %d of %s, which has %d", c, q.Counter.Name, q.Counter.Width())}
	}
	return nil
}

// span is the set of values that the conditions on a column allow: from lo to hi, without those of not. Conditions in this
// form are one comparison a value, and tell of a page's least and largest value whether it can have a match.
type span struct {
	column int // index in Query.Counter.Columns
	lo, hi uint64
	not    []uint64
}

// holds tells whether a value meets the conditions.
func (s *span) holds(v uint64) bool { return v-s.lo <= s.hi-s.lo && !slices.Contains(s.not, v) }

// spans returns the conditions by column, and whether any value can meet them.
func (q *Query) spans() (spans []span, any bool) {
	for _, c := range q.Where {
		i := slices.IndexFunc(spans, func(s span) bool { return s.column == int(c.Column) })
		if i < 0 {
			i = len(spans)
			spans = append(spans, span{column: int(c.Column), hi: math.MaxUint64})
		}
		if s := &spans[i]; !s.add(c.Op, c.Value) {
			return nil, false
		}
	}
	return spans, true
}

// add narrows s by one more condition, and tells whether something is left.
func (s *span) add(op Compare, v uint64) bool {
	switch op {
	case Equal:
		s.lo, s.hi = max(s.lo, v), min(s.hi, v)
	case NotEqual:
		s.not = append(s.not, v)
	case Less:
		if v == 0 {
			return false
		}
		s.hi = min(s.hi, v-1)
	case LessEqual:
		s.hi = min(s.hi, v)
	case Greater:
		if v == math.MaxUint64 {
			return false
		}
		s.lo = max(s.lo, v+1)
	case GreaterEqual:
		s.lo = max(s.lo, v)
	}
	// The ends move over values that are left out, so that the span says least and largest exactly.
	for slices.Contains(s.not, s.lo) && s.lo < s.hi {
		s.lo++
	}
	for slices.Contains(s.not, s.hi) && s.hi > s.lo {
		s.hi--
	}
	return s.lo < s.hi || s.lo == s.hi && !slices.Contains(s.not, s.lo)
}

// Rows are items that were found: mids and values of the columns asked for, in the order of the query.
type Rows struct {
	width int      // 1 + columns
	flat  []uint64 // mid and values of each
}

// Len is how many there are.
func (r *Rows) Len() int {
	if r.width == 0 {
		return 0
	}
	return len(r.flat) / r.width
}

// At returns row i. values is valid as long as the rows are.
func (r *Rows) At(i int) (mid uint64, values []uint64) {
	row := r.flat[i*r.width : (i+1)*r.width : (i+1)*r.width]
	return row[0], row[1:]
}

// Clear removes all rows and keeps their memory.
func Clear(r *Rows) { r.flat = r.flat[:0] }

// SetColumns says how many values each row has. REQUIRES rows to be empty.
func SetColumns(r *Rows, n int) { r.width = 1 + n }

// Append adds a row: mid and the values of columns, which are indexes in row.
func Append(r *Rows, mid uint64, row []uint64, columns []int) {
	r.flat = append(r.flat, mid)
	for _, c := range columns {
		r.flat = append(r.flat, row[c])
	}
}

// Grow makes room for n rows more.
func Grow(r *Rows, n int) { r.flat = slices.Grow(r.flat, n*r.width) }

// Room is how many rows the memory that r has is enough for.
func Room(r *Rows) int { return cap(r.flat) / r.width }

// reverse turns the order of the rows from number from on.
func (r *Rows) reverse(from int) {
	for i, j := from, r.Len()-1; i < j; i, j = i+1, j-1 {
		a, b := r.flat[i*r.width:(i+1)*r.width], r.flat[j*r.width:(j+1)*r.width]
		for k := range a {
			a[k], b[k] = b[k], a[k]
		}
	}
}

// drop removes n of the first rows.
func (r *Rows) drop(n int) { r.flat = r.flat[:copy(r.flat, r.flat[n*r.width:])] }

// cut leaves the first n rows.
func (r *Rows) cut(n int) { r.flat = r.flat[:n*r.width] }
