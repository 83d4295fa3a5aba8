package replica

import (
	"fmt"
	"slices"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/schema"
)

// A restored backup writes its posts as any client does, which counts nothing in derived columns. Their items come behind the posts, by
// Derived of the backup and SetDerived of the store that has the groups now. Items have absolute times (window.Place, package decay), so an
// item means the same in any store, and may be set again.

// DerivedPiece is some items of a derived column, to be set in a store whose schema may have other ids.
type DerivedPiece struct {
	Counter, Column string // the names of the derived column
	Time            int64  // of the log that the items are from, in seconds since 1970
	Posts           int    // how many items
	Rows            []byte // a KindRows of the column's space
}

// derivedHold is how many items are set while everything else is kept out: clients wait for about a millisecond.
const derivedHold = 64

// Derived calls fn with the items that a derived column has in groups, in pieces of at most 64 KiB or so, until fn returns an error.
// A piece is valid until fn returns.
func (g Groups) Derived(set slot.Set, counter *schema.Counter, of *schema.Derived, fn func(*DerivedPiece) error) error {
	d, b := g.s, g.s.NewBatch()
	p := DerivedPiece{Counter: counter.Name, Column: of.Name}
	var block exportBlock
	for part := range d.Parts() {
		for mid := uint64(0); mid < hot.EndMid && (!d.SlotGroups || set.Has(uint8(part))); {
			if err := b.Begin(); err != nil {
				return err
			}
			p.Time = d.Time.Seconds()
			var err error
			if sp := d.Spaces[of.Space.ID]; sp == nil {
				err = errNoDerived(counter.Name, of.Name)
			} else {
				mid, err = block.copy(sp[part], mid, &set)
			}
			b.End()
			if err != nil {
				return err
			}
			for at := 0; at < len(block.mids); at += p.Posts {
				p.Rows, p.Posts = block.appendRecord(p.Rows[:0], of.Space.ID, at)
				if err := fn(&p); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// SetDerived sets items that Derived of another store has returned about groups that are this store's, and tells how many: those that count
// nothing any more at the time of this log are left out, and so are those of posts that are not here. It may be repeated. end is the log offset
// behind the items; 0: there were none. With an error, some of them may be set. The error is as of Remember.
func (g Groups) SetDerived(set slot.Set, p *DerivedPiece) (taken int, end uint64, err error) {
	s := derivedSetter{t: newTakeover(g, set, memory{g, set}), piece: p}
	if err := s.decode(); err != nil {
		return 0, 0, err
	}
	if err := s.pass(); err != nil {
		return 0, 0, err
	}
	for len(s.mids) > 0 && err == nil {
		err = s.some()
	}
	return s.taken, s.end, err
}

// derivedSetter sets the items of a piece, some at a time. NOT safe for concurrent use.
type derivedSetter struct {
	t     *takeover
	piece *DerivedPiece
	mids  []uint64 // of the items that are still to be set
	rows  []uint64 // of those
	width int      // values of an item
	taken int
	end   uint64
}

// decode reads the piece.
func (s *derivedSetter) decode() error {
	var (
		rec  format.Record
		rows coldstore.Rows
		row  []uint64
	)
	n, err := format.DecodeRecord(s.piece.Rows, &rec)
	if err == nil && (n != len(s.piece.Rows) || rec.Kind != format.KindRows || s.piece.Time < 0 || s.piece.Time > format.MaxTick) {
		err = fmt.Errorf("counter: %s of %d bytes and %d more in the items of a derived column: %w", rec.Kind, n, len(s.piece.Rows)-n, format.ErrCorrupt)
	}
	if err != nil {
		return err
	}
	s.width = len(rec.Columns)
	return core.EachRow(&rows, &row, &rec, func(mid uint64, row []uint64) error {
		if group := slot.Group(mid); mid >= hot.EndMid || !s.t.groups.Has(group) {
			return fmt.Errorf("counter: an item of mid %d, group %d, which is not restored: %w", mid, group, format.ErrCorrupt)
		}
		if len(s.mids) == exportRows {
			return fmt.Errorf("counter: more than %d items of a derived column at once: %w", exportRows, format.ErrCorrupt)
		}
		s.mids, s.rows = append(s.mids, mid), append(s.rows, row...)
		return nil
	})
}

// pass moves the time of the log on to the time of the backup, if the clock here has come there too. The log of a store may be days behind if the store was stopped,
// and all items of a window go when its time moves on by so much (Whole.Tick), newer ones too.
func (s *derivedSetter) pass() error {
	d, to := s.t.s, min(s.piece.Time, s.t.s.Config.Now().Unix())
	if to <= d.Time.Seconds() {
		return nil
	}
	if err := s.t.in.repl.AdmitCursors(); err != nil {
		return err
	}
	b := d.NewBatch()
	if err := b.BeginExclusive(); err != nil {
		return err
	}
	defer b.End()
	if err := s.t.ready(); err != nil {
		return err
	}
	if _, _, err := s.column(d.Schema.Load()); err != nil {
		return err
	}
	return b.Whole().Tick(to)
}

// some sets the first items. Nothing else goes on meanwhile: an addition must not be between the record of an item and its effect, nor the end of the
// post between the look for it and the item.
func (s *derivedSetter) some() error {
	d, b := s.t.s, s.t.play.Batch
	d.Applying.Lock()
	defer d.Applying.Unlock()
	if err := b.BeginExclusive(); err != nil {
		return err
	}
	defer b.End()
	if err := s.t.ready(); err != nil {
		return err
	}
	def, of, err := s.column(d.Schema.Load())
	if err != nil {
		return err
	}
	n := min(derivedHold, len(s.mids))
	out, taken := s.t.out[:0], 0
	for i, mid := range s.mids[:n] {
		row := s.rows[i*s.width : (i+1)*s.width]
		if !of.StillCounts(row, s.piece.Time, d.Time.Seconds()) {
			continue
		}
		there, err := has(d.Spaces[def.ID].Of(mid), mid)
		if err != nil {
			return err
		}
		if there {
			out, err = appendItem(out, of.Space, mid, row)
			taken++
		}
		if err != nil {
			return err
		}
	}
	s.t.out = out
	s.mids, s.rows = s.mids[n:], s.rows[n*s.width:]
	if taken == 0 {
		return nil
	}
	end, err := d.Log.Append(out)
	if err != nil {
		return err
	}
	s.taken, s.end = s.taken+taken, end
	s.t.play.Begin(end, s.t.in.repl.observer)
	if err := walkRecords(out, &s.t.rec, func(at int, _ []byte) error { return s.t.play.Apply(end-uint64(len(out)-at), &s.t.rec) }); err != nil {
		return err
	}
	return s.t.play.Flush()
}

// column finds the column that the piece names.
func (s *derivedSetter) column(now *schema.Schema) (*schema.Counter, *schema.Derived, error) {
	if def := now.Counter(s.piece.Counter); def != nil {
		i := slices.IndexFunc(def.Derived, func(of schema.Derived) bool { return of.Name == s.piece.Column })
		if i >= 0 && len(def.Derived[i].Space.Columns) == s.width {
			return def, &def.Derived[i], nil
		}
	}
	return nil, nil, errNoDerived(s.piece.Counter, s.piece.Column)
}

func errNoDerived(counter, column string) error {
	return fmt.Errorf("%w: counter %q has no derived column %q of this form", ErrBehind, counter, column)
}

// has tells whether there is an item.
func has(ks *block.Keyspace, mid uint64) (bool, error) {
	blk := ks.Lock(mid)
	defer blk.Mu.Unlock()
	at, err := ks.Find(blk, mid)
	return err == nil && at.Found(), err
}

// appendItem appends the record of all columns of an item: those that are 0 too, as the item may be there with others.
func appendItem(dst []byte, space *schema.Counter, mid uint64, row []uint64) ([]byte, error) {
	columns := make([]format.ColumnValue, len(row))
	for i, v := range row {
		columns[i] = format.ColumnValue{Column: space.Columns[i].ID, Value: v}
		if err := checkValue(space, columns[i].Column, v); err != nil {
			return dst, err
		}
	}
	return format.AppendSetItem(dst, space.ID, mid, columns), nil
}
