package schema

import (
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/counterd/counterd/internal/decay"
)

// Derived is a column that follows from the additions to other columns of the same counter: it counts those to one column in a window of time,
// or adds up those to some, each of which loses half of its worth in a half-life:
//
//	add column weibo repost1h window=1h/5m of=repost
//	add column weibo heat decay=6h of=repost*2+comment top=1000
//
// It is stored apart from the counter's own columns: Space is a counter of its own, which only programs see. Its items are the posts with
// additions that still count, so other posts take no memory. Derived columns come behind the counter's own ones, wherever columns
// are listed: their indexes go on behind those of Columns (Counter.Col).
type Derived struct {
	Column            // its name, its suffix and, where it decays, Top. Its id is one of the counter's columns; no layout has it
	Sources  []Source // the columns whose additions count: one of a window
	Window   Window   // which of them; zero: they decay
	HalfLife int64    // in seconds: after which they count half; 0: it has a window
	Space    *Counter // where they are counted
}

// Source is a column whose additions count in a derived one.
type Source struct {
	ID     uint16 // of the column
	At     int    // its index in Columns
	Weight uint64 // by which its additions are multiplied, 1 to MaxWeight
}

// Decays tells whether additions lose their worth in half-lives. Else they are counted in a window.
func (d *Derived) Decays() bool { return d.HalfLife > 0 }

// Counts is how much an addition of n to column number col of the counter adds; 0: nothing.
func (d *Derived) Counts(col int, n uint64) uint64 {
	for i := range d.Sources {
		if src := &d.Sources[i]; src.At == col {
			hi, lo := bits.Mul64(n, src.Weight)
			if hi > 0 {
				return MaxValue
			}
			return min(lo, MaxValue)
		}
	}
	return 0
}

// source is the index in Sources of the column with that id, or -1.
func (d *Derived) source(id uint16) int {
	return slices.IndexFunc(d.Sources, func(s Source) bool { return s.ID == id })
}

// Window is the length of a window, in seconds, and the part of it that comes and goes at a time.
type Window struct{ Length, Bucket int64 }

// Limits of windows.
const (
	// MaxBuckets is how many buckets a window has at most: there is a column of each.
	MaxBuckets = 60
	// MaxDerived is how many derived columns a counter has at most: an addition may change all of them.
	MaxDerived = 8
	// BucketBits are the bits of a bucket's number that are kept of an item.
	BucketBits = 16
	// bucketHint is the width of a bucket's count. Most posts have one or two additions in a bucket.
	bucketHint = 2
	maxWindow  = 366 * day
)

// Buckets is how many buckets the window has.
func (w Window) Buckets() int { return int(w.Length / w.Bucket) }

// At is the number of the bucket that a moment is in, in seconds since 1970.
func (w Window) At(seconds int64) int64 { return seconds / w.Bucket }

// Columns of Derived.Space, of a window.
const (
	LastBucket  = 0 // the number of the newest bucket with additions, of which the lowest BucketBits are kept
	FirstBucket = 1 // the additions in bucket number n are in column FirstBucket + n%Buckets
)

// Count is the column with the count of a bucket.
func (w Window) Count(bucket int64) int { return FirstBucket + int(bucket%int64(w.Buckets())) }

// NearestBucket is the number of a bucket whose lowest BucketBits are kept: of those with these bits, the one nearest to today's.
func NearestBucket(kept uint64, today int64) int64 {
	return today - int64(int16(uint16(today)-uint16(kept)))
}

// Sum is the count of an item of Space at a moment, in seconds since 1970: row are its columns. Where the item has a newer bucket, it is counted
// at that one's time: the item comes from a node whose clock is ahead.
func (d *Derived) Sum(row []uint64, now int64) (sum uint64) {
	if d.Decays() {
		return decay.At(now, d.HalfLife).Value(row[DecayedSum])
	}
	return d.Window.sum(row, now)
}

// sum is Derived.Sum of a window.
func (w Window) sum(row []uint64, now int64) (sum uint64) {
	n := int64(w.Buckets())
	today := w.At(now)
	last := NearestBucket(row[LastBucket], today)
	for at := max(max(last, today)-n+1, 0); at <= last; at++ { // a clock that was not set begins at 1970
		sum = min(sum+row[FirstBucket+at%n], MaxValue)
	}
	return sum
}

// StillCounts tells whether an item of Space, as it was at a moment, counts anything at a later one.
func (d *Derived) StillCounts(row []uint64, then, now int64) bool {
	if d.Decays() {
		return row[DecayedSum] > d.Faded(now)
	}
	return NearestBucket(row[LastBucket], d.Window.At(then)) > d.Window.At(now)-int64(d.Window.Buckets())
}

// String is the window as a statement has it.
func (w Window) String() string {
	return string(appendRetain(append(appendRetain(nil, w.Length), '/'), w.Bucket))
}

// parseWindow reads the value of the attribute window.
func parseWindow(value string) (w Window, err error) {
	length, bucket, both := strings.Cut(value, "/")
	if both {
		if w.Length, err = parseRetain(length); err == nil {
			w.Bucket, err = parseRetain(bucket)
		}
	}
	if !both || err != nil || w.Length == 0 || w.Bucket == 0 {
		return Window{}, fail(ErrAttribute, "window", "window=%s is no window: want LENGTH/BUCKET, each a number of s, m, h or d (as 1h/5m)", quote(value))
	}
	return w, w.check()
}

// check returns an error for a window that is out of range.
func (w Window) check() error {
	switch {
	case w.Length < 1 || w.Bucket < 1 || w.Length > maxWindow || w.Length%w.Bucket != 0:
		return fail(ErrAttribute, "window", "window=%s is out of range: want at most %dd, and a length that is a multiple of the bucket", w, maxWindow/day)
	case w.Length/w.Bucket > MaxBuckets:
		return fail(ErrAttribute, "window", "window=%s has %d buckets: want at most %d", w, w.Length/w.Bucket, MaxBuckets)
	}
	return nil
}

// Derives tells whether the statement adds a derived column.
func (st *Statement) Derives() bool { return st.Window != Window{} || st.HalfLife != 0 }

// checkDerived holds st, which has the attributes of a derived column, to the rules that need no schema.
func (st *Statement) checkDerived() error {
	attribute := "window"
	if st.HalfLife != 0 {
		attribute = "decay"
	}
	switch {
	case st.Op != AddColumn || st.PrimaryKey:
		return fail(ErrAttribute, attribute, "only a column that is added can have window=, decay= and of=")
	case st.Suffix == "":
		return fail(ErrAttribute, "suffix", "column %s is derived: it needs a suffix", st.Column)
	case !st.Derives() || st.Of == "":
		return fail(ErrAttribute, attribute, "column %s needs window= or decay=, and of=", st.Column)
	case st.Window != Window{} && st.HalfLife != 0:
		return fail(ErrAttribute, attribute, "column %s has window= and decay=: want one of them", st.Column)
	case st.Hint != 0 || st.Max != 0 || st.Default != 0:
		return fail(ErrAttribute, attribute, "column %s is derived: it has no hint, max or default", st.Column)
	}
	if err := st.checkTop(); err != nil {
		return err
	}
	if st.HalfLife != 0 {
		return st.checkDecay()
	}
	if err := checkName("column", st.Of); err != nil {
		return err
	}
	return st.Window.check()
}

// appendDerived appends the attributes of a derived column.
func (st *Statement) appendDerived(dst []byte) []byte {
	if st.HalfLife > 0 {
		dst = appendRetain(append(dst, " decay="...), st.HalfLife)
	} else {
		dst = append(append(dst, " window="...), st.Window.String()...)
	}
	dst = append(append(dst, " of="...), st.Of...)
	return st.appendTop(append(append(dst, " suffix="...), st.Suffix...))
}

// newDerived makes the derived column of a statement, and its space. Statement.Of names columns of c.
func newDerived(c *Counter, st *Statement) Derived {
	d := Derived{Column: Column{ID: st.id, Name: st.Column, Suffix: st.Suffix, Hint: 63, Max: 63, Top: st.Top}, Window: st.Window, HalfLife: st.HalfLife}
	s := &Counter{ID: st.space, Name: c.Name + "/" + st.Column, Key: DefaultKey, derivedOf: true}
	if d.Decays() {
		terms, _ := parseTerms(st.Of)
		for _, t := range terms {
			d.Sources = append(d.Sources, Source{ID: c.Columns[c.column(t.column)].ID, Weight: t.weight})
		}
		s.Columns = append(s.Columns, Column{ID: 1, Name: "sum", Hint: d.sumHint(), Max: 63, Top: st.Top})
	} else {
		d.Sources = []Source{{ID: c.Columns[c.column(st.Of)].ID, Weight: 1}}
		s.window = d.Window
		s.Columns = append(s.Columns, Column{ID: 1, Name: "last", Hint: BucketBits, Max: BucketBits, Top: st.Top}) // the list is one of sums
		for n := range st.Window.Buckets() {
			name := "b" + strconv.Itoa(n)
			s.Columns = append(s.Columns, Column{ID: uint16(2 + n), Name: name, Suffix: name, Hint: bucketHint, Max: 63})
		}
	}
	s.lastColumn = uint16(len(s.Columns))
	s.finish()
	d.Space = s
	return d
}

// of is the attribute of= of the column, which is one of c.
func (d *Derived) of(c *Counter) string {
	terms := make([]term, len(d.Sources))
	for i, src := range d.Sources {
		terms[i] = term{c.Columns[c.columnByID(src.ID)].Name, src.Weight}
	}
	return termsText(terms)
}

// statement adds the column to a counter.
func (d *Derived) statement(c *Counter) Statement {
	return Statement{
		Op: AddColumn, Counter: c.Name, Column: d.Name, Suffix: d.Suffix, Window: d.Window, HalfLife: d.HalfLife, Of: d.of(c), Top: d.Top, SaysTop: d.Top != 0,
		space: d.Space.ID,
	}
}

// Width is how many columns the counter has, derived ones too.
func (c *Counter) Width() int { return len(c.Columns) + len(c.Derived) }

// Col is the column with an index below Width: derived ones come behind the others.
func (c *Counter) Col(i int) *Column {
	if i < len(c.Columns) {
		return &c.Columns[i]
	}
	return &c.Derived[i-len(c.Columns)].Column
}

// IsDerived tells whether column i is derived: only additions to another column change it.
func (c *Counter) IsDerived(i int) bool { return i >= len(c.Columns) }

// IsWindow tells whether the counter is the space of a column that counts in a window.
func (c *Counter) IsWindow() bool { return c.window != Window{} }

// WindowSum is Derived.Sum of the column whose space the counter is. REQUIRES IsWindow.
func (c *Counter) WindowSum(row []uint64, now int64) uint64 { return c.window.sum(row, now) }

// WindowMoves tells whether a bucket of the column ends between two moments. REQUIRES IsWindow.
func (c *Counter) WindowMoves(from, to int64) bool { return c.window.At(from) != c.window.At(to) }

// IsSpace tells whether the counter is the space of a derived column, which no user sees.
func (c *Counter) IsSpace() bool { return c.derivedOf }

// Bits are the columns that change with those of a set, a bit for each, derived ones included.
func (c *Counter) Bits(columns uint64) uint64 {
	for i := range c.Derived {
		for _, src := range c.Derived[i].Sources {
			if columns&(1<<src.At) != 0 {
				columns |= 1 << (len(c.Columns) + i)
			}
		}
	}
	return columns
}

// addDerived adds a derived column to counter i. Its name is new.
func (d *draft) addDerived(i int, st Statement) error {
	c := d.counters[i]
	terms := []term{{column: st.Of}}
	if st.HalfLife != 0 {
		terms, _ = parseTerms(st.Of) // checkDecay did
	}
	for _, t := range terms {
		switch {
		case c.derived(t.column) >= 0:
			return fail(ErrAttribute, "of", "column %s cannot be of %s, which is derived itself", st.Column, t.column)
		case c.column(t.column) < 0:
			return fail(ErrUnknown, t.column, "counter %s has no column %s", st.Counter, t.column)
		}
	}
	st.SaysTop = st.Top > 0 // as the text of the schema has it
	if st.Top > 0 {
		if err := roomForTop(c, st.Column); err != nil {
			return err
		}
	}
	switch {
	case len(c.Derived) >= MaxDerived:
		return fail(ErrLimit, st.Column, "cannot add column %s: counter %s has %d derived columns, the most there may be", st.Column, st.Counter, MaxDerived)
	}
	if st.space == 0 && d.lastCounter == math.MaxUint32 {
		return fail(ErrLimit, st.Column, "cannot add column %s: all %d counter ids have been used", st.Column, uint32(math.MaxUint32))
	}
	if err := d.grow(st); err != nil {
		return err
	}
	c = d.own(i)
	if st.space == 0 {
		c.lastColumn++
		d.lastCounter++
		st.space, st.id = d.lastCounter, c.lastColumn
	}
	c.Derived = append(c.Derived, newDerived(c, &st))
	if st.Suffix != "" {
		d.suffixes[st.Suffix] = owner{c.Name, st.Column}
	}
	return nil
}

// checkDerivedIDs returns an error for ids of derived columns, or of their spaces, that statements never give.
func (s *Schema) checkDerivedIDs() error {
	for i, c := range s.all {
		if c.ID > s.lastCounter || i > 0 && s.all[i-1].ID == c.ID {
			return fail(ErrAttribute, "space", "space=%d is out of order: want an id of its own, at most %d", c.ID, s.lastCounter)
		}
	}
	for _, c := range s.counters {
		last := uint16(0)
		for i := range c.Derived {
			v := &c.Derived[i]
			if v.ID <= last || v.ID > c.lastColumn || c.Index(v.ID) >= 0 || v.Space.ID <= c.ID {
				return fail(ErrAttribute, "id", "id=%d and space=%d of column %s are out of order", v.ID, v.Space.ID, v.Name)
			}
			last = v.ID
		}
	}
	return nil
}

// setDerivedIDs takes over the ids that a line of the durable form has.
func (st *Statement) setDerivedIDs(space, id uint64) error {
	if id < 1 || id > math.MaxUint16 || space < 1 || space > math.MaxUint32 {
		return fail(ErrAttribute, "space", "space=%d id=%d of column %s is out of range", space, id, st.Column)
	}
	st.space, st.id = uint32(space), uint16(id)
	return nil
}

// sameDerived returns a *MismatchError if the statement st defines another derived column than have, and nil if it defines the same.
func sameDerived(c *Counter, have *Derived, st Statement) error {
	var diff []Difference
	note := func(attribute, have, want string) {
		if have != want {
			diff = append(diff, Difference{attribute, have, want})
		}
	}
	note("window", windowText(have.Window), windowText(st.Window))
	note("decay", decayText(have.HalfLife), decayText(st.HalfLife))
	if st.Derives() {
		note("of", have.of(c), st.Of)
		note("suffix", have.Suffix, st.Suffix)
		if st.SaysTop {
			note("top", topText(have.Top), topText(st.Top))
		}
	}
	if diff == nil {
		return nil
	}
	return &MismatchError{st.Counter, st.Column, diff}
}

// windowText is the attribute window, or none.
func windowText(w Window) string {
	if w == (Window{}) {
		return "none"
	}
	return w.String()
}

// HasDerived tells whether a name, or a suffix, is a derived column's.
func (c *Counter) HasDerived(name string) bool {
	i, ok := c.Field([]byte(name))
	return ok && c.IsDerived(i)
}

// derived is the index in Derived of the column called name, or -1.
func (c *Counter) derived(name string) int {
	for i := range c.Derived {
		if c.Derived[i].Name == name {
			return i
		}
	}
	return -1
}
