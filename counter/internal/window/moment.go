package window

import (
	"github.com/counterd/counterd/internal/decay"
	"github.com/counterd/counterd/schema"
)

// Moment is a moment of the log's time, with the numbers that a derived column makes of it. They are computed once for additions in a row, which have the same time and
// mostly the same column. The zero value is the moment 0.
//
// Invariant: the fields behind seconds are those of column at it; nil: of none.
type Moment struct {
	seconds int64
	column  *schema.Derived
	scale   decay.Scale // of a column that decays

	// Of a window.
	buckets int64 // 0: the column decays
	today   int64 // the number of the bucket that the moment is in
	bucket  Bucket
}

// Bucket is the bucket of a window that a moment is in, as items have it.
type Bucket struct {
	Kept  uint64 // the bits of its number that an item keeps
	Count int    // the column with its count
	ID    uint16 // of that column
}

// Set moves the moment.
func (m *Moment) Set(seconds int64) {
	if m.seconds != seconds {
		*m = Moment{seconds: seconds}
	}
}

// Bucket is the one of a window that m is in.
func (m *Moment) Bucket(d *schema.Derived) Bucket { return m.of(d).bucket }

// of is m with the fields of a column.
func (m *Moment) of(d *schema.Derived) *Moment {
	if m.column != d {
		m.set(d)
	}
	return m
}

// set gives m the fields of a column.
func (m *Moment) set(d *schema.Derived) {
	if m.column = d; d.Decays() {
		m.scale, m.buckets = decay.At(m.seconds, d.HalfLife), 0
		return
	}
	m.buckets, m.today = int64(d.Window.Buckets()), d.Window.At(m.seconds)
	count := d.Window.Count(m.today)
	m.bucket = Bucket{Kept: uint64(m.today) & (1<<schema.BucketBits - 1), Count: count, ID: d.Space.Columns[count].ID}
}
