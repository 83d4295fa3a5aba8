package block

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/schema"
)

// A page of a cold file that cannot be read takes its rows with it, but not the values set since. Those come from the log at
// the start, from a primary, or from a client that puts a value back. A row that is changed while its page cannot be read,
// and is not in the overlay, is a partial row: the columns that were set, each with its value; the values of the others are
// in the file only, and unknown. So
//
//   - a column that was set is served, and counted on; the others answer ErrCold. Nothing is ever guessed;
//   - a row whose columns are all set is whole, and so is a deleted row: it goes to the overlay and needs the
//     file no more;
//   - when the page can be read again, as the disk is well or the file was put back, the row is completed from it and
//     goes to the overlay;
//   - it is listed by SCAN, and in every snapshot (appendPartial).
//
// A block with partial rows is neither merged nor promoted, and has no digest, until all its pages can be read.
//
// Invariant: no mid is both in ColdRange.Partial and in the overlay.
type PartialRow []format.ColumnValue // by column, each once, rising ids

// known returns the value of a column of mid, which is a partial row, if it was set.
func (c *ColdRange) known(mid uint64, col *schema.Column) (uint64, bool) {
	for _, v := range c.Partial[mid] {
		if v.Column == col.ID {
			return v.Value, true
		}
	}
	return 0, false
}

// SetPartial gives a column of mid, whose page cannot be read, a value.
func (ks *Keyspace) SetPartial(b *Block, mid uint64, column uint16, value uint64) error {
	old, there := b.Cold.Partial[mid]
	// The old one stays as it is should the overlay have no room.
	row := slices.Clone(old)
	// Of columns that were dropped: so none has too many.
	row = slices.DeleteFunc(row, func(v format.ColumnValue) bool {
		return !slices.ContainsFunc(ks.Def.Columns, func(c schema.Column) bool { return c.ID == v.Column })
	})
	i, found := slices.BinarySearchFunc(row, column, func(v format.ColumnValue, id uint16) int { return int(v.Column) - int(id) })
	if found {
		row[i].Value = value
	} else {
		row = slices.Insert(row, i, format.ColumnValue{Column: column, Value: value})
	}
	if !there {
		b.Edits++
	}
	if ks.whole(b, row) {
		return ks.Complete(b, mid, Location{Where: lost}, row)
	}
	ks.Files.PutPartial(b, mid, row)
	return nil
}

// whole tells whether a row has every column that the file could have.
func (cs *Columns) whole(b *Block, row PartialRow) bool {
	for i := range cs.Def.Columns {
		id := cs.Def.Columns[i].ID
		if _, ok := b.Cold.File.Meta().Column(id); !ok && b.Cold.File.Err() == nil {
			continue // it was made after the file
		}
		if !slices.ContainsFunc(row, func(v format.ColumnValue) bool { return v.Column == id }) {
			return false
		}
	}
	return true
}

// Complete puts the columns of a row over the values at p, in the overlay; lost: of nothing, as the row is whole.
func (ks *Keyspace) Complete(b *Block, mid uint64, p Location, row PartialRow) error {
	var ref hot.Ref
	var err error
	if p.Where == lost {
		if b.Span.Data != nil && b.Shape != ks.Over {
			if err := ks.Builder.RepackOverlay(b, ks.Over); err != nil {
				return err
			}
		}
		// A shadow: nobody knows whether the file has it, and a deletion must leave a trace.
		ref, err = ks.Builder.insertOverlay(b, ks.Over, mid)
	} else {
		_, ref, err = ks.Ensure(b, mid, p)
	}
	if err != nil {
		return err
	}
	for _, v := range row {
		if f := b.Tab.Layout().Index(v.Column); f >= 0 { // or the column was dropped
			b.Tab.Set(ref, f, v.Value)
		}
	}
	ks.Files.PutPartial(b, mid, nil)
	b.Dirty = true
	return nil
}

// fold makes a partial row whole. Its row in the file, at p, can be read again.
func (ks *Keyspace) fold(b *Block, mid uint64, p Location) (Location, error) {
	if err := ks.Complete(b, mid, p, b.Cold.Partial[mid]); err != nil {
		return Location{Where: lost}, err
	}
	ref, _ := b.Tab.Find(mid)
	return Location{InTable, ref}, nil
}

// FoldAll makes all partial rows whole, or says why that cannot be.
func (ks *Keyspace) FoldAll(b *Block) error {
	if b.Cold == nil {
		return nil
	}
	for mid := range b.Cold.Partial {
		if _, err := ks.Find(b, mid); err != nil {
			return err
		}
		if _, still := b.Cold.Partial[mid]; still {
			_, err := b.Cold.File.Get(mid, noColumns, nil)
			return fmt.Errorf("%w: mid %d, of which only some columns are known: %w", ErrCold, mid, err)
		}
	}
	return nil
}

// A partial image is the image of an overlay with partial rows:
//
//	 0          8                 8+n
//	+----------+-----------------+----------+---------+------------+--------+-----------+-- --+
//	| n u64    | overlay's image | rows u64 | mid u64 | columns u8 | id u16 | value u64 | ... |
//	|          | n bytes, or none|          |         |            |        |           |     |
//	+----------+-----------------+----------+---------+------------+--------+-----------+-- --+
//
// Little-endian. Mids rise, and within a row ids do. n is 0 if the overlay has no rows.

// AppendPartial appends the image of b's overlay and its partial rows. REQUIRES b.Mu held.
func (b *Block) AppendPartial(dst []byte) []byte {
	le := binary.LittleEndian
	at := len(dst)
	dst = append(dst, make([]byte, 8)...)
	if b.Tab.Len() > 0 {
		dst = b.Tab.AppendImage(dst)
	}
	le.PutUint64(dst[at:], uint64(len(dst)-at-8))
	dst = le.AppendUint64(dst, uint64(len(b.Cold.Partial)))
	for _, mid := range b.Cold.PartialMids() {
		row := b.Cold.Partial[mid]
		dst = append(le.AppendUint64(dst, mid), byte(len(row)))
		for _, v := range row {
			dst = le.AppendUint64(le.AppendUint16(dst, v.Column), v.Value)
		}
	}
	return dst
}

// PartialMids returns the mids of partial rows in order.
func (c *ColdRange) PartialMids() []uint64 {
	mids := make([]uint64, 0, len(c.Partial))
	for mid := range c.Partial {
		mids = append(mids, mid)
	}
	slices.Sort(mids)
	return mids
}

// DecodePartial splits a partial image into the overlay's image, which refers to b and may be empty, and the rows of
// mids in [lo, hi). The error matches hot.ErrBadImage.
func DecodePartial(b []byte, lo, hi uint64) (overlay []byte, rows map[uint64]PartialRow, err error) {
	le := binary.LittleEndian
	bad := func(what string, got uint64) error {
		return fmt.Errorf("%w: partial rows: %s %d with %d bytes left", hot.ErrBadImage, what, got, len(b))
	}
	if len(b) < 8 || le.Uint64(b) > uint64(len(b)-8) {
		return nil, nil, bad("an overlay's image of bytes", uint64(len(b)))
	}
	overlay, b = b[8:8+le.Uint64(b)], b[8+le.Uint64(b):]
	if len(b) < 8 || le.Uint64(b) > uint64(len(b)/9) {
		return nil, nil, bad("rows", uint64(len(b)))
	}
	n := le.Uint64(b)
	b = b[8:]
	rows = make(map[uint64]PartialRow, n)
	next := lo
	for range n {
		if len(b) < 9 || len(b)-9 < 10*int(b[8]) {
			return nil, nil, bad("a row behind mid", next)
		}
		mid, columns := le.Uint64(b), int(b[8])
		if mid < next || mid >= hi || columns > schema.MaxColumns {
			return nil, nil, bad("mid", mid)
		}
		b = b[9:]
		row := make(PartialRow, columns)
		for i := range row {
			row[i] = format.ColumnValue{Column: le.Uint16(b), Value: le.Uint64(b[2:])}
			if i > 0 && row[i].Column <= row[i-1].Column {
				return nil, nil, bad("column", uint64(row[i].Column))
			}
			b = b[10:]
		}
		rows[mid] = row
		next = mid + 1
	}
	if len(b) > 0 {
		return nil, nil, bad("rows", n)
	}
	return overlay, rows, nil
}
