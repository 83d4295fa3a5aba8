package block

import (
	"fmt"
	"slices"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/schema"
)

// Location says where an item of a block is.
type Location struct {
	Where where
	Ref   hot.Ref // in the table, for inTable and goneInTable
}

type where uint8

const (
	absent      where = iota
	InTable           // in the table
	InFile            // in the file only
	goneInTable       // deleted: the overlay says so
	InPartial         // a partial row
	lost              // nobody knows: the page cannot be read
)

// Found tells whether the item exists. An item that cannot be read counts as existing.
func (p Location) Found() bool { return p.Where != absent && p.Where != goneInTable }

// Readable tells whether all that was there before is known.
func (p Location) Readable() bool { return p.Where != InPartial && p.Where != lost }

// Find looks an item up. The error comes with the place lost. A partial row whose page can be read again becomes a
// whole one. REQUIRES b.Mu held, as all below.
func (ks *Keyspace) Find(b *Block, mid uint64) (Location, error) {
	if b.Cold == nil {
		if ref, ok := b.Tab.Find(mid); ok {
			return Location{InTable, ref}, nil
		}
		return Location{}, nil
	}
	if b.Tab.Len() > 0 {
		if ref, ok := b.Tab.Find(mid); ok {
			if b.Tab.Get(ref, 0) == RowGone {
				return Location{goneInTable, ref}, nil
			}
			return Location{InTable, ref}, nil
		}
	}
	p := Location{}
	ok, err := b.Cold.File.Get(mid, noColumns, nil)
	if ok {
		p.Where = InFile
	}
	_, partly := b.Cold.Partial[mid]
	switch {
	case partly && err != nil:
		return Location{Where: InPartial}, nil
	case err != nil:
		return Location{Where: lost}, fmt.Errorf("%w: %w", ErrCold, err)
	case partly:
		return ks.fold(b, mid, p)
	}
	return p, nil
}

// Has tells whether an item exists in b.
func (ks *Keyspace) Has(b *Block, mid uint64) (bool, error) {
	p, err := ks.Find(b, mid)
	return p.Found(), err
}

// Value returns column c of the item at p, which was found.
func (cs *Columns) Value(b *Block, mid uint64, p Location, c int) (uint64, error) {
	col := &cs.Def.Columns[c]
	if p.Where == InTable {
		if f := cs.Field(b, c); f >= 0 {
			return b.Tab.Get(p.Ref, f), nil
		}
		return col.Default, nil
	}
	if p.Where == InPartial {
		if v, ok := b.Cold.known(mid, col); ok {
			return v, nil
		}
	}
	pos, ok := b.Cold.File.Meta().Column(col.ID)
	if !ok && b.Cold.File.Err() == nil {
		return col.Default, nil
	}
	v := [1]uint64{col.Default} // of a partial row that the file turns out not to have
	cols := [1]int{pos}
	if _, err := b.Cold.File.Get(mid, cols[:], v[:]); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrCold, err)
	}
	return v[0], nil
}

// AppendRow appends all columns of the item at p, which was found, in schema order.
func (cs *Columns) AppendRow(dst []uint64, b *Block, mid uint64, p Location) ([]uint64, error) {
	if p.Where == InTable {
		if b.Shape == cs.Layout { // nearly always
			return b.Tab.AppendRow(dst, p.Ref), nil
		}
		for c := range cs.Def.Columns {
			v, _ := cs.Value(b, mid, p, c)
			dst = append(dst, v)
		}
		return dst, nil
	}
	if p.Where == InPartial {
		at := len(dst)
		for c := range cs.Def.Columns {
			v, err := cs.Value(b, mid, p, c)
			if err != nil {
				return dst[:at], err
			}
			dst = append(dst, v)
		}
		return dst, nil
	}
	var vals [coldstore.MaxColumns]uint64
	if _, err := b.Cold.File.Get(mid, nil, vals[:]); err != nil {
		return dst, fmt.Errorf("%w: %w", ErrCold, err)
	}
	return cs.appendFileRow(dst, b.Cold.File.Meta(), vals[:]), nil
}

// ColdValue is value of an item of a cold block: one look into the overlay, and one into the file at most. at is the item's
// place in the file.
func (ks *Keyspace) ColdValue(b *Block, mid uint64, at coldstore.Place, c int) (v uint64, found bool, err error) {
	if p, ok, err := ks.aboveFile(b, mid); ok {
		if found = p.Found(); err != nil || !found {
			return 0, found, err
		}
		v, err = ks.Value(b, mid, p, c)
		return v, true, err
	}
	file := b.Cold.File
	col := &ks.Def.Columns[c]
	cols := noColumns
	vals := [1]uint64{col.Default}
	if pos, ok := file.Meta().Column(col.ID); ok {
		cols = append(b.Cold.one[:0], pos)
	}
	if found, err = file.GetAt(at, mid, cols, vals[:]); err != nil {
		return 0, false, fmt.Errorf("%w: %w", ErrCold, err)
	}
	if !found {
		return 0, false, nil
	}
	return vals[0], true, nil
}

// AppendColdRow is coldValue of all columns: it appends them to rows, in schema order.
func (ks *Keyspace) AppendColdRow(rows []uint64, b *Block, mid uint64, place coldstore.Place) (_ []uint64, found bool, err error) {
	if p, ok, err := ks.aboveFile(b, mid); ok {
		if found = p.Found(); err != nil || !found {
			return rows, found, err
		}
		rows, err = ks.AppendRow(rows, b, mid, p)
		return rows, true, err
	}
	// The file's row is read to where the answer goes, and put in the schema's order there if that is another.
	file := b.Cold.File
	meta := file.Meta()
	at := len(rows)
	rows = slices.Grow(rows, len(meta.Columns))[:at+len(meta.Columns)]
	if found, err = file.GetAt(place, mid, nil, rows[at:]); err != nil {
		return rows[:at], false, fmt.Errorf("%w: %w", ErrCold, err)
	}
	if !found {
		return rows[:at], false, nil
	}
	if !ks.sameAs(meta) {
		var vals [coldstore.MaxColumns]uint64
		n := copy(vals[:], rows[at:])
		rows = ks.appendFileRow(rows[:at], meta, vals[:n])
	}
	return rows, true, nil
}

// aboveFile finds an item of a cold block where that takes no look into the file: in the overlay, or as a partial row. ok is
// false where the file has to tell. The error is that of a partial row.
func (ks *Keyspace) aboveFile(b *Block, mid uint64) (p Location, ok bool, err error) {
	if b.Tab.Len() > 0 {
		if ref, ok := b.Tab.Find(mid); ok {
			if b.Tab.Get(ref, 0) == RowGone {
				return Location{goneInTable, ref}, true, nil
			}
			return Location{InTable, ref}, true, nil
		}
	}
	if len(b.Cold.Partial) > 0 {
		if _, ok := b.Cold.Partial[mid]; ok {
			p, err = ks.Find(b, mid)
			return p, true, err
		}
	}
	return Location{}, false, nil
}

// Ensure returns the slot of mid in the table, where a change can be made: it makes the item if it is absent, and
// copies its row from the file if it is there only. p is where find found it.
func (ks *Keyspace) Ensure(b *Block, mid uint64, p Location) (*Block, hot.Ref, error) {
	switch {
	case p.Where == InTable:
		return b, p.Ref, nil
	case b.Cold == nil:
		return ks.insert(b, mid)
	}
	var vals [schema.MaxColumns]uint64
	row := vals[:0]
	var err error
	if p.Where == InFile {
		if row, err = ks.AppendRow(row, b, mid, p); err != nil {
			return b, 0, err
		}
	}
	ref := p.Ref
	if p.Where != goneInTable {
		if b.Span.Data != nil && b.Shape != ks.Over {
			if err := ks.Builder.RepackOverlay(b, ks.Over); err != nil {
				return b, 0, err
			}
		}
		if ref, err = ks.Builder.insertOverlay(b, ks.Over, mid); err != nil {
			return b, 0, err
		}
	}
	switch p.Where {
	case InFile:
		for c, v := range row {
			b.Tab.Set(ref, c+1, v)
		}
	case goneInTable:
		b.Cold.gone--
		b.Edits++
		b.Tab.Set(ref, b.Tab.Layout().Index(StateColumn), RowShadow)
		for f := range b.Tab.Layout().Fields {
			if field := &b.Tab.Layout().Fields[f]; field.ID != StateColumn {
				b.Tab.Set(ref, f, field.Default)
			}
		}
	default:
		b.Cold.fresh++
		b.Edits++
		b.Tab.Set(ref, 0, RowFresh)
	}
	return b, ref, nil
}

// insert makes the item mid, which is absent, in blk or in the block that replaces it. It returns the block that is locked
// then, in any case.
func (ks *Keyspace) insert(blk *Block, mid uint64) (*Block, hot.Ref, error) {
	for try := 0; ; try++ {
		ref, err := blk.Tab.AddAt(blk.Tab.Home(mid))
		if err == nil {
			added(ks, blk, mid)
			return blk, ref, nil
		}
		if try == roomTries {
			return blk, 0, noRoom(mid, &blk.Tab, try, err)
		}
		if blk, err = ks.makeRoom(blk, mid); err != nil {
			return blk, 0, err
		}
	}
}

// added notes that the item mid was made in the table of blk, which is hot.
func added(ks *Keyspace, blk *Block, mid uint64) {
	blk.Edits++
	if blk.Open() {
		blk.arrived(mid)
		if ks.SlotGroups {
			blk.noteNewest(mid)
		}
		ks.ahead(blk)
	}
}

// TryAdd makes the item mid, which is absent, in the table of blk as it is. home is its home there. ok is false if there is no place for it, or blk is cold:
// nothing was changed then, and Ensure makes room.
func TryAdd(ks *Keyspace, blk *Block, mid uint64, home hot.Home) (ref hot.Ref, ok bool) {
	if blk.Cold != nil {
		return 0, false
	}
	ref, err := blk.Tab.AddAt(home)
	if err != nil {
		return 0, false
	}
	added(ks, blk, mid)
	return ref, true
}

// noRoom is the error of an item that no table had a place for, however often room was made.
func noRoom(mid uint64, tab *hot.Table, times int, err error) error {
	return fmt.Errorf("counter: no place for %d among %d items in %d slots, after room was made %d times: %w",
		mid, tab.Len(), tab.Slots(), times, err)
}

// Remove deletes the item at p, which was found.
func (ks *Keyspace) Remove(b *Block, mid uint64, p Location) error {
	b.Edits++
	if b.Cold == nil {
		b.Tab.Delete(p.Ref)
		return nil
	}
	if p.Where != InTable {
		ref, err := ks.Builder.insertOverlay(b, ks.Over, mid)
		if err != nil {
			return err
		}
		ks.Files.PutPartial(b, mid, nil)
		p = Location{InTable, ref}
	} else if b.Tab.Get(p.Ref, 0) == RowFresh {
		b.Cold.fresh--
		b.Tab.Delete(p.Ref)
		return nil
	}
	b.Cold.gone++
	for f := range b.Tab.Layout().Fields { // no overflow entries for values without a meaning
		b.Tab.Set(p.Ref, f, 0)
	}
	b.Tab.Set(p.Ref, 0, RowGone)
	return nil
}

// Lacking tells whether blk's table has no field for a column that is to get another value than its default.
func (ks *Keyspace) Lacking(blk *Block, columns []int16, values []uint64) bool {
	if blk.Shape == ks.Layout || blk.Shape == ks.Over { // nearly always
		return false
	}
	for i, c := range columns {
		if values[i] != ks.Def.Columns[c].Default && ks.Field(blk, int(c)) < 0 {
			return true
		}
	}
	return false
}

// SetFields sets columns of the item at p, which is in blk's table. A column without a field has its default already, and
// gets no other value.
func (ks *Keyspace) SetFields(blk *Block, p Location, columns []int16, values []uint64) {
	for i, c := range columns {
		if f := ks.Field(blk, int(c)); f >= 0 {
			blk.Tab.Set(p.Ref, f, values[i])
		}
	}
}
