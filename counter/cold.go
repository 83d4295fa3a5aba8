package counter

import (
	"errors"
	"fmt"
	"slices"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/arena"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/schema"
)

// coldRange is the file of a cold block. The file never changes; what was changed since it was written is in the
// block's overlay, a table of whole rows with one column more that says what each row is to the file:
//
//	rowShadow  the row is in the file too: these are its values now
//	rowFresh   the row is not in the file
//	rowGone    the row is in the file, but was deleted; its columns mean nothing
//
// Reads look into the overlay first. A write to a row that is only in the file copies it into the overlay. Where the file's page cannot be
// read, what is changed is kept as a partial row (partial.go).
type coldRange struct {
	file  *coldstore.File
	entry persist.BlockFile // as a manifest names it

	// Guarded by the block's lock; counts of overlay rows by state.
	fresh, gone int
	one         [1]int // room for a list of one column

	partial map[uint64]partialRow // by mid; none of them is in the overlay. nil, but for a damaged file
}

const (
	stateColumn = 0 // column id in overlays; a schema's ids start at 1
	stateBits   = 2

	rowShadow = 0
	rowFresh  = 1
	rowGone   = 2
)

// ErrCold: a page of a cold file is damaged or cannot be read, and what was asked for was not set since. The other items are served.
var ErrCold = errors.New("counter: cold file cannot be read")

// items is the number of items of a block. Of a damaged file it is off by the rows that were set, or deleted, without knowing whether the file
// has them. REQUIRES b.mu held.
func (b *block) items() int {
	if b.cold == nil {
		return b.tab.Len()
	}
	return max(0, int(b.cold.file.Stat().Items)+b.cold.fresh-b.cold.gone)
}

// retire lets the file of a block go that is no more, cold or not: nobody reads it, and the next snapshot that leaves it unnamed in both manifests
// removes it.
func (t *tiers) retire(b *block) {
	if b.cold != nil {
		t.drop(b.cold.entry.Name)
		_ = b.cold.file.Close() // read only: nothing can be lost
	}
}

// place says where an item of a block is.
type place struct {
	where where
	slot  hot.Slot // in the table, for inTable and goneInTable
}

type where uint8

const (
	absent      where = iota
	inTable           // in the table
	inFile            // in the file only
	goneInTable       // deleted: the overlay says so
	inPart            // a partial row
	lost              // nobody knows: the page cannot be read
)

// found tells whether the item exists. One that cannot be read is taken to.
func (p place) found() bool { return p.where != absent && p.where != goneInTable }

// readable tells whether all that was there before is known.
func (p place) readable() bool { return p.where != inPart && p.where != lost }

// noColumns asks a file for the existence of a row only.
var noColumns = []int{}

// find looks an item up. The error comes with the place lost. A partial row whose page can be read again becomes a whole one. REQUIRES b.mu held, as
// all below.
func (ks *keyspace) find(b *block, mid uint64) (place, error) {
	if b.cold == nil {
		if slot, ok := b.tab.Find(mid); ok {
			return place{inTable, slot}, nil
		}
		return place{}, nil
	}
	if b.tab.Len() > 0 {
		if slot, ok := b.tab.Find(mid); ok {
			if b.tab.Get(slot, 0) == rowGone {
				return place{goneInTable, slot}, nil
			}
			return place{inTable, slot}, nil
		}
	}
	p := place{}
	ok, err := b.cold.file.Get(mid, noColumns, nil)
	if ok {
		p.where = inFile
	}
	_, partly := b.cold.partial[mid]
	switch {
	case partly && err != nil:
		return place{where: inPart}, nil
	case err != nil:
		return place{where: lost}, fmt.Errorf("%w: %w", ErrCold, err)
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
	b := ks.lockFor(ks.dir.Load().find(mid), mid)
	defer b.mu.Unlock()
	batch.show(b.logged)
	found, err := ks.has(b, mid)
	return found || err != nil
}

// field returns the index of column c of the counter in the layout of b's table, or -1 where that was made before the column was.
func (ks *keyspace) field(b *block, c int) int {
	switch b.shape {
	case ks.layout:
		return c
	case ks.over:
		return c + 1
	default:
		return b.tab.Layout().Index(ks.def.Columns[c].ID)
	}
}

// value returns column c of the item at p, which was found.
func (ks *keyspace) value(b *block, mid uint64, p place, c int) (uint64, error) {
	col := &ks.def.Columns[c]
	if p.where == inTable {
		if f := ks.field(b, c); f >= 0 {
			return b.tab.Get(p.slot, f), nil
		}
		return col.Default, nil
	}
	if p.where == inPart {
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
func (ks *keyspace) appendRow(dst []uint64, b *block, mid uint64, p place) ([]uint64, error) {
	if p.where == inTable {
		if b.shape == ks.layout { // nearly always
			return b.tab.AppendRow(dst, p.slot), nil
		}
		for c := range ks.def.Columns {
			v, _ := ks.value(b, mid, p, c)
			dst = append(dst, v)
		}
		return dst, nil
	}
	if p.where == inPart {
		at := len(dst)
		for c := range ks.def.Columns {
			v, err := ks.value(b, mid, p, c)
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
	return ks.appendFileRow(dst, b.cold.file.Meta(), vals[:]), nil
}

// readCold is OpGet and OpRead on a cold block: one look into the overlay, and one into the file at most. A row is appended to rows.
func (ks *keyspace) readCold(rows []uint64, b *block, op *Op) ([]uint64, error) {
	if b.tab.Len() > 0 {
		if slot, ok := b.tab.Find(op.Mid); ok {
			if op.Found = b.tab.Get(slot, 0) != rowGone; !op.Found {
				return rows, nil
			}
			p := place{inTable, slot}
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
	if !ks.sameColumns(meta) {
		var vals [coldstore.MaxColumns]uint64
		n := copy(vals[:], rows[at:])
		rows = ks.appendFileRow(rows[:at], meta, vals[:n])
	}
	return rows, nil
}

// sameColumns tells whether a file's rows are the schema's, column by column.
func (ks *keyspace) sameColumns(meta *coldstore.Meta) bool {
	if len(meta.Columns) != len(ks.def.Columns) {
		return false
	}
	for i := range meta.Columns {
		if meta.Columns[i].ID != ks.def.Columns[i].ID {
			return false
		}
	}
	return true
}

// appendFileRow appends the columns of a file's row in schema order.
func (ks *keyspace) appendFileRow(dst []uint64, meta *coldstore.Meta, vals []uint64) []uint64 {
	for i := range ks.def.Columns {
		col := &ks.def.Columns[i]
		v := col.Default
		if i < len(meta.Columns) && meta.Columns[i].ID == col.ID { // nearly always
			v = vals[i]
		} else if pos, ok := meta.Column(col.ID); ok {
			v = vals[pos]
		}
		dst = append(dst, v)
	}
	return dst
}

// note remembers for the goroutine that is writing the block to a file that mid changed.
func (b *block) note(mid uint64) {
	b.dirty = true
	if b.moved != nil {
		b.moved[mid] = struct{}{}
	}
}

// ensure returns the slot of mid in the table, where a change can be made: it makes the item if it is absent, and copies its row from the
// file if it is there only. p is where find found it.
func (ks *keyspace) ensure(b *block, mid uint64, p place) (*block, hot.Slot, error) {
	switch {
	case p.where == inTable:
		return b, p.slot, nil
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
	slot := p.slot
	if p.where != goneInTable {
		if b.span.Data != nil && b.shape != ks.over {
			if err := ks.repackOverlay(b); err != nil {
				return b, 0, err
			}
		}
		if slot, err = ks.insertOverlay(b, mid); err != nil {
			return b, 0, err
		}
	}
	switch p.where {
	case inFile:
		for c, v := range row {
			b.tab.Set(slot, c+1, v)
		}
	case goneInTable:
		b.cold.gone--
		b.edits++
		b.tab.Set(slot, b.tab.Layout().Index(stateColumn), rowShadow)
		for f := range b.tab.Layout().Fields {
			if field := &b.tab.Layout().Fields[f]; field.ID != stateColumn {
				b.tab.Set(slot, f, field.Default)
			}
		}
	default:
		b.cold.fresh++
		b.edits++
		b.tab.Set(slot, 0, rowFresh)
	}
	return b, slot, nil
}

// remove deletes the item at p, which was found.
func (ks *keyspace) remove(b *block, mid uint64, p place) error {
	b.edits++
	if b.cold == nil {
		b.tab.Delete(p.slot)
		return nil
	}
	if p.where != inTable {
		slot, err := ks.insertOverlay(b, mid)
		if err != nil {
			return err
		}
		ks.putPartial(b, mid, nil)
		p = place{inTable, slot}
	} else if b.tab.Get(p.slot, 0) == rowFresh {
		b.cold.fresh--
		b.tab.Delete(p.slot)
		return nil
	}
	b.cold.gone++
	for f := range b.tab.Layout().Fields { // no overflow entries for what means nothing
		b.tab.Set(p.slot, f, 0)
	}
	b.tab.Set(p.slot, 0, rowGone)
	return nil
}

// insertOverlay makes a row in b's overlay, with its columns at their defaults and the state rowShadow.
func (ks *keyspace) insertOverlay(b *block, mid uint64) (hot.Slot, error) {
	if b.span.Data == nil {
		if err := ks.growOverlay(b); err != nil {
			return 0, err
		}
	}
	for try := 0; ; try++ {
		slot, err := b.tab.AddAt(b.tab.Home(mid))
		if err == nil {
			return slot, nil
		}
		if try == roomTries {
			return 0, noPlace(mid, &b.tab, try, err)
		}
		if err := ks.growOverlay(b); err != nil {
			return 0, err
		}
	}
}

// reserveOverlay makes room for rows in b's overlay, which has the counter's present columns then.
func (ks *keyspace) reserveOverlay(b *block, rows int) error {
	if n := b.tab.Len() + rows; b.span.Data == nil || b.shape != ks.over || float64(n) > growLoad*float64(b.tab.Slots()) {
		return ks.remakeOverlay(b, 2*n+4)
	}
	return nil
}

// growOverlay makes b's overlay twice as large. It is done in place: overlays are small, and nobody looks at one without the lock.
func (ks *keyspace) growOverlay(b *block) error {
	return ks.remakeOverlay(b, roomier(&b.tab, 2*b.tab.Len()+4))
}

// repackOverlay gives b's overlay the counter's present columns.
func (ks *keyspace) repackOverlay(b *block) error {
	if b.span.Data == nil {
		return nil
	}
	return ks.remakeOverlay(b, b.tab.Len()+4)
}

// remakeOverlay makes b's overlay anew, with room for so many items. On error it stays as it was.
func (ks *keyspace) remakeOverlay(b *block, items int) error {
	var err error
	for try := range tableTries {
		buckets := hot.BucketsFor(int(tableScale(try)*float64(items)), growLoad)
		c := hot.Config{Lo: b.lo, Hi: b.hi, Buckets: buckets, Layout: ks.over, Seed: ks.tableSeed(), Probes: ks.probes}
		var span arena.Span
		if span, err = ks.arena.Alloc(c.Bytes(), false); err != nil {
			return err
		}
		t := hot.New(c, span.Data)
		if b.span.Data != nil {
			err = b.tab.CopyTo(&t)
		}
		if err == nil {
			old := b.span
			b.tab, b.span, b.shape = t, span, ks.over
			ks.arena.Free(old)
			return nil
		}
		ks.arena.Free(span)
		if !errors.Is(err, hot.ErrFull) {
			return err
		}
	}
	return fmt.Errorf("counter: overlay of [%d,%d) for %d items: none of %d tables holds them: %w", b.lo, b.hi, items, tableTries, err)
}

// appendMids appends the mids of all items, in no order, and returns the ranges of the pages that cannot be read: of those it knows only what was
// changed since.
func (b *block) appendMids(dst []uint64) (mids []uint64, lost []persist.MidRange) {
	if b.cold == nil {
		return b.tab.AppendMids(dst, 0), nil
	}
	lost, _ = coldRows(b.cold.file, func(mid uint64, _ []uint64) error { // fn returns nil
		if b.tab.Len() > 0 {
			if _, ok := b.tab.Find(mid); ok {
				return nil // the overlay knows better
			}
		}
		if _, ok := b.cold.partial[mid]; !ok {
			dst = append(dst, mid)
		}
		return nil
	})
	for mid := range b.cold.partial {
		dst = append(dst, mid)
	}
	if b.tab.Len() == 0 {
		return dst, lost
	}
	for _, mid := range b.tab.AppendMids(nil, 0) {
		if slot, _ := b.tab.Find(mid); b.tab.Get(slot, 0) != rowGone {
			dst = append(dst, mid)
		}
	}
	return dst, lost
}

// countOverlay counts the rows of an overlay that was read back, by state.
func (b *block) countOverlay() error {
	if b.span.Data == nil {
		return nil // there are partial rows only
	}
	l := b.tab.Layout()
	if len(l.Fields) == 0 || l.Fields[0].ID != stateColumn {
		return fmt.Errorf("%w: an overlay image without row states", hot.ErrBadImage)
	}
	b.tab.Each(func(_ uint64, s hot.Slot) {
		switch b.tab.Get(s, 0) {
		case rowFresh:
			b.cold.fresh++
		case rowGone:
			b.cold.gone++
		}
	})
	return nil
}

// recognize notes that b's table has the counter's columns, if it does, so that field need not look them up. REQUIRES b.mu held, or b not
// found by anybody yet.
func (ks *keyspace) recognize(b *block) {
	want := ks.layout
	if b.cold != nil {
		want = ks.over
	}
	if b.span.Data != nil && b.shape != want && b.tab.Layout().SameColumns(want) {
		b.shape = want
	}
}

// current tells whether b has the columns that the schema says now.
func (ks *keyspace) current(b *block) bool {
	return b.span.Data == nil || b.shape == ks.layout || b.shape == ks.over
}
