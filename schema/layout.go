package schema

import (
	"fmt"
	"slices"
)

// Layout is how the columns of one item are packed in bits. It never changes.
//
// Columns lie one behind the other, without gaps, the first at bit 0, which is
// the lowest bit of the first word or byte of the item:
//
//	bit  0              16              32      40 = Bits
//	     +---------------+---------------+-------+
//	     | comment       | repost        | atti- |    hint 16, 16, 8
//	     | Off 0 Width 16| Off 16        | tude  |    max  32, 32, 32
//	     +---------------+---------------+-------+
//
// A packed value is the value itself, except that a column which can hold more
// than its width has a mark:
//
//	Width <  Max   0 .. 2^Width-2   the value
//	               2^Width-1        the mark: the value is in the overflow table
//	Width == Max   0 .. 2^Width-1   the value; there is no mark, and no overflow
//
// So a column of Width 1 and Max above 1 has room for the value 0 alone.
//
// Invariant: the ids of Fields rise, each field starts where the one before it
// ends, and Bits is where the last one ends. At most MaxFields fields of 64
// bits make at most 4160 bits.
type Layout struct {
	Fields []Field // in rising order of ID; not to be changed
	Bits   int     // of a whole item, 0 if there are no columns

	// position[id-low] is the index in Fields, or none. Ids are dense but for
	// dropped columns, so this is a few bytes; 64 KiB if one column is kept
	// while 65,534 others come and go.
	low      uint16
	position []uint8
}

const none = 0xff // no index: MaxFields is below

// Field is one column of a layout.
type Field struct {
	ID      uint16 // the column's
	Off     uint16 // where it starts, in bits from the start of the item
	Width   uint8  // bits, 1 to Max
	Max     uint8  // bits of the largest value, 1 to 64
	Default uint64 // the value while none was set, when this layout was made
}

// Limit is the largest value the column holds, packed or in the overflow table.
func (f *Field) Limit() uint64 { return Limit(f.Max) }

// Overflows reports whether the column has a mark, and values that do not fit.
func (f *Field) Overflows() bool { return f.Width < f.Max }

// Mark is the packed value that stands for "in the overflow table". It means
// nothing for a column that does not overflow.
func (f *Field) Mark() uint64 { return 1<<f.Width - 1 }

// Inline is the largest value that is packed.
func (f *Field) Inline() uint64 {
	if f.Width < f.Max {
		return 1<<f.Width - 2
	}
	return Limit(f.Max)
}

// NewLayout packs every column as wide as its hint. The columns are a counter's:
// their ids rise.
func NewLayout(cols []Column) (*Layout, error) {
	fields := make([]Field, len(cols))
	for i, c := range cols {
		fields[i] = Field{ID: c.ID, Width: c.Hint, Max: c.Max, Default: c.Default}
	}
	return newLayout(fields)
}

// NewLayoutWidths packs column i in widths[i] bits, 1 to its max, whatever its
// hint: a block that will not change any more knows what its values need.
func NewLayoutWidths(cols []Column, widths []uint8) (*Layout, error) {
	if len(widths) != len(cols) {
		return nil, fail(ErrAttribute, "width", "a layout of %d columns with %d widths", len(cols), len(widths))
	}
	fields := make([]Field, len(cols))
	for i, c := range cols {
		fields[i] = Field{ID: c.ID, Width: widths[i], Max: c.Max, Default: c.Default}
	}
	return newLayout(fields)
}

// newLayout checks fields, keeps them, and lays them out.
func newLayout(fields []Field) (*Layout, error) {
	if len(fields) > MaxFields {
		return nil, fail(ErrLimit, "", "a layout of %d columns: want at most %d", len(fields), MaxFields)
	}
	l := &Layout{Fields: fields}
	for i := range fields {
		f := &fields[i]
		switch {
		case f.Width < 1 || f.Width > f.Max || f.Max > 64:
			return nil, fail(ErrAttribute, "width", "column id %d has width %d and max %d: want 1 <= width <= max <= 64", f.ID, f.Width, f.Max)
		case f.Default > f.Limit():
			return nil, fail(ErrAttribute, "default", "column id %d has default %d: want at most %d", f.ID, f.Default, f.Limit())
		case i > 0 && f.ID <= fields[i-1].ID:
			return nil, fail(ErrAttribute, "id", "column id %d follows %d: ids must rise", f.ID, fields[i-1].ID)
		}
		f.Off = uint16(l.Bits)
		l.Bits += int(f.Width)
	}
	if len(fields) > 0 {
		l.low = fields[0].ID
		l.position = make([]uint8, int(fields[len(fields)-1].ID-l.low)+1)
		for i := range l.position {
			l.position[i] = none
		}
		for i := range fields {
			l.position[fields[i].ID-l.low] = uint8(i)
		}
	}
	return l, nil
}

// Index is the position in Fields of the column with that id, or -1 if the
// layout has no such column. It takes one look-up and allocates nothing.
func (l *Layout) Index(id uint16) int {
	i := int(id) - int(l.low)
	if uint(i) >= uint(len(l.position)) || l.position[i] == none {
		return -1
	}
	return int(l.position[i])
}

// Equal reports whether both lay out the same columns in the same way.
func (l *Layout) Equal(o *Layout) bool {
	return l == o || slices.Equal(l.Fields, o.Fields)
}

// SameColumns reports whether both hold the same columns, with the same maxima and
// defaults, whatever their widths. Then a column's index in Fields is the same too.
func (l *Layout) SameColumns(o *Layout) bool {
	return l == o || slices.EqualFunc(l.Fields, o.Fields, func(a, b Field) bool {
		return a.ID == b.ID && a.Max == b.Max && a.Default == b.Default
	})
}

// String is the layout for people: "3:8/32 4:16" is column id 3, 8 bits packed
// of at most 32, then column id 4 of 16 bits, all packed.
func (l *Layout) String() string {
	var b []byte
	for i := range l.Fields {
		f := &l.Fields[i]
		if i > 0 {
			b = append(b, ' ')
		}
		b = fmt.Appendf(b, "%d:%d", f.ID, f.Width)
		if f.Overflows() {
			b = fmt.Appendf(b, "/%d", f.Max)
		}
	}
	return string(b)
}
