package counter

import (
	"fmt"
	"slices"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/schema"
)

// location says where an item of a block is.
type location struct {
	where where
	ref   hot.Ref // in the table, for inTable and goneInTable
}

type where uint8

const (
	absent      where = iota
	inTable           // in the table
	inFile            // in the file only
	goneInTable       // deleted: the overlay says so
	inPartial         // a partial row
	lost              // nobody knows: the page cannot be read
)

// found tells whether the item exists. One that cannot be read is taken to.
func (p location) found() bool { return p.where != absent && p.where != goneInTable }

// readable tells whether all that was there before is known.
func (p location) readable() bool { return p.where != inPartial && p.where != lost }

// find looks an item up. The error comes with the place lost. A partial row whose page can be read again becomes a
// whole one. REQUIRES b.mu held, as all below.
func (ks *keyspace) find(b *block, mid uint64) (location, error) {
	if b.cold == nil {
		if ref, ok := b.tab.Find(mid); ok {
			return location{inTable, ref}, nil
		}
		return location{}, nil
	}
	if b.tab.Len() > 0 {
		if ref, ok := b.tab.Find(mid); ok {
			if b.tab.Get(ref, 0) == rowGone {
				return location{goneInTable, ref}, nil
			}
			return location{inTable, ref}, nil
		}
	}
	p := location{}
	ok, err := b.cold.file.Get(mid, noColumns, nil)
	if ok {
		p.where = inFile
	}
	_, partly := b.cold.partial[mid]
	switch {
	case partly && err != nil:
		return location{where: inPartial}, nil
	case err != nil:
		return location{where: lost}, fmt.Errorf("%w: %w", ErrCold, err)
	case partly:
		return ks.fold(b, mid, p)
	}
	return p, nil
}

// has tells whether an item exists in b.
func (ks *keyspace) has(b *block, mid uint64) (bool, error) {
	p, err := ks.find(b, mid)
	return p.found(), err
}

// exists tells whether an item exists; one that cannot be read is taken to.
func (ks *keyspace) exists(batch *Batch, mid uint64) bool {
	b := ks.lock(mid)
	defer b.mu.Unlock()
	batch.noteSeen(b.logged)
	found, err := ks.has(b, mid)
	return found || err != nil
}

// value returns column c of the item at p, which was found.
func (cs *columns) value(b *block, mid uint64, p location, c int) (uint64, error) {
	col := &cs.def.Columns[c]
	if p.where == inTable {
		if f := cs.field(b, c); f >= 0 {
			return b.tab.Get(p.ref, f), nil
		}
		return col.Default, nil
	}
	if p.where == inPartial {
		if v, ok := b.cold.known(mid, col); ok {
			return v, nil
		}
	}
	pos, ok := b.cold.file.Meta().Column(col.ID)
	if !ok && b.cold.file.Err() == nil {
		return col.Default, nil
	}
	v := [1]uint64{col.Default} // of a partial row that the file turns out not to have
	cols := [1]int{pos}
	if _, err := b.cold.file.Get(mid, cols[:], v[:]); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrCold, err)
	}
	return v[0], nil
}

// appendRow appends all columns of the item at p, which was found, in schema order.
func (cs *columns) appendRow(dst []uint64, b *block, mid uint64, p location) ([]uint64, error) {
	if p.where == inTable {
		if b.shape == cs.layout { // nearly always
			return b.tab.AppendRow(dst, p.ref), nil
		}
		for c := range cs.def.Columns {
			v, _ := cs.value(b, mid, p, c)
			dst = append(dst, v)
		}
		return dst, nil
	}
	if p.where == inPartial {
		at := len(dst)
		for c := range cs.def.Columns {
			v, err := cs.value(b, mid, p, c)
			if err != nil {
				return dst[:at], err
			}
			dst = append(dst, v)
		}
		return dst, nil
	}
	var vals [coldstore.MaxColumns]uint64
	if _, err := b.cold.file.Get(mid, nil, vals[:]); err != nil {
		return dst, fmt.Errorf("%w: %w", ErrCold, err)
	}
	return cs.appendFileRow(dst, b.cold.file.Meta(), vals[:]), nil
}

// readCold is OpGet and OpRead on a cold block: one look into the overlay, and one into the file at most. A row is
// appended to rows.
func (ks *keyspace) readCold(rows []uint64, b *block, op *Op) ([]uint64, error) {
	if b.tab.Len() > 0 {
		if ref, ok := b.tab.Find(op.Mid); ok {
			if op.Found = b.tab.Get(ref, 0) != rowGone; !op.Found {
				return rows, nil
			}
			p := location{inTable, ref}
			if op.Kind == OpRead {
				return ks.appendRow(rows, b, op.Mid, p)
			}
			var err error
			op.Value, err = ks.value(b, op.Mid, p, int(op.Column))
			return rows, err
		}
	}
	if len(b.cold.partial) > 0 {
		if _, ok := b.cold.partial[op.Mid]; ok {
			return ks.readPartial(rows, b, op)
		}
	}
	file := b.cold.file
	meta := file.Meta()
	if op.Kind == OpGet {
		col := &ks.def.Columns[op.Column]
		cols := noColumns
		vals := [1]uint64{col.Default}
		if pos, ok := meta.Column(col.ID); ok {
			cols = append(b.cold.one[:0], pos)
		}
		found, err := file.GetAt(op.at, op.Mid, cols, vals[:])
		if err != nil {
			return rows, fmt.Errorf("%w: %w", ErrCold, err)
		}
		if op.Found = found; found {
			op.Value = vals[0]
		}
		return rows, nil
	}
	// The file's row is read to where the answer goes, and put in the schema's order there if that is another.
	at := len(rows)
	rows = slices.Grow(rows, len(meta.Columns))[:at+len(meta.Columns)]
	found, err := file.GetAt(op.at, op.Mid, nil, rows[at:])
	if err != nil {
		return rows[:at], fmt.Errorf("%w: %w", ErrCold, err)
	}
	if op.Found = found; !found {
		return rows[:at], nil
	}
	if !ks.sameAs(meta) {
		var vals [coldstore.MaxColumns]uint64
		n := copy(vals[:], rows[at:])
		rows = ks.appendFileRow(rows[:at], meta, vals[:n])
	}
	return rows, nil
}

// ensure returns the slot of mid in the table, where a change can be made: it makes the item if it is absent, and
// copies its row from the file if it is there only. p is where find found it.
func (ks *keyspace) ensure(b *block, mid uint64, p location) (*block, hot.Ref, error) {
	switch {
	case p.where == inTable:
		return b, p.ref, nil
	case b.cold == nil:
		return ks.insert(b, mid)
	}
	var vals [schema.MaxColumns]uint64
	row := vals[:0]
	var err error
	if p.where == inFile {
		if row, err = ks.appendRow(row, b, mid, p); err != nil {
			return b, 0, err
		}
	}
	ref := p.ref
	if p.where != goneInTable {
		if b.span.Data != nil && b.shape != ks.over {
			if err := ks.repackOverlay(b); err != nil {
				return b, 0, err
			}
		}
		if ref, err = ks.insertOverlay(b, mid); err != nil {
			return b, 0, err
		}
	}
	switch p.where {
	case inFile:
		for c, v := range row {
			b.tab.Set(ref, c+1, v)
		}
	case goneInTable:
		b.cold.gone--
		b.edits++
		b.tab.Set(ref, b.tab.Layout().Index(stateColumn), rowShadow)
		for f := range b.tab.Layout().Fields {
			if field := &b.tab.Layout().Fields[f]; field.ID != stateColumn {
				b.tab.Set(ref, f, field.Default)
			}
		}
	default:
		b.cold.fresh++
		b.edits++
		b.tab.Set(ref, 0, rowFresh)
	}
	return b, ref, nil
}

// insert makes the item mid, which is absent, in blk or in what takes its place. It returns the block that is locked
// then, in any case.
func (ks *keyspace) insert(blk *block, mid uint64) (*block, hot.Ref, error) {
	for try := 0; ; try++ {
		ref, err := blk.tab.AddAt(blk.tab.Home(mid))
		if err == nil {
			blk.edits++
			if blk.open() {
				blk.arrived(mid)
				ks.ahead(blk)
			}
			return blk, ref, nil
		}
		if try == roomTries {
			return blk, 0, noRoom(mid, &blk.tab, try, err)
		}
		if blk, err = ks.makeRoom(blk, mid); err != nil {
			return blk, 0, err
		}
	}
}

// noRoom is the error of an item that no table had a place for, however often room was made.
func noRoom(mid uint64, tab *hot.Table, times int, err error) error {
	return fmt.Errorf("counter: no place for %d among %d items in %d slots, after room was made %d times: %w",
		mid, tab.Len(), tab.Slots(), times, err)
}

// remove deletes the item at p, which was found.
func (ks *keyspace) remove(b *block, mid uint64, p location) error {
	b.edits++
	if b.cold == nil {
		b.tab.Delete(p.ref)
		return nil
	}
	if p.where != inTable {
		ref, err := ks.insertOverlay(b, mid)
		if err != nil {
			return err
		}
		ks.putPartial(b, mid, nil)
		p = location{inTable, ref}
	} else if b.tab.Get(p.ref, 0) == rowFresh {
		b.cold.fresh--
		b.tab.Delete(p.ref)
		return nil
	}
	b.cold.gone++
	for f := range b.tab.Layout().Fields { // no overflow entries for what means nothing
		b.tab.Set(p.ref, f, 0)
	}
	b.tab.Set(p.ref, 0, rowGone)
	return nil
}
