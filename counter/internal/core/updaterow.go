package core

import (
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/persist/format"
)

// compute makes values of the changes and the row, and tells whether all of them fit their columns.
func (u *Update) compute() bool {
	def := u.Search.Ks.Def
	u.values = u.values[:0]
	for i, c := range u.changes {
		col := &def.Columns[u.places[i]]
		v := c.Arg
		switch c.Kind {
		case OpReset:
			v = col.Default
		case OpAdd:
			var ok bool
			if v, ok = hot.Added(u.row[u.places[i]], int64(c.Arg), col.Limit()); !ok {
				return false
			}
		}
		u.values = append(u.values, format.ColumnValue{Column: col.ID, Value: v})
	}
	return true
}

// additions are those of the changes to columns of the row.
func (u *Update) additions() (list []addition) {
	for i, c := range u.changes {
		if was := u.row[u.places[i]]; c.Kind == OpAdd && u.values[i].Value > was {
			list = append(list, addition{u.places[i], u.values[i].Value - was})
		}
	}
	return list
}

// setColumns gives columns of the item at p, which was found and can be read, their values, and logs that as one
// record. It returns the block that is locked afterwards. On an error nothing was changed.
func (u *Update) setColumns(b *Batch, ks *block.Keyspace, blk *block.Block, mid uint64, p block.Location) (*block.Block, error) {
	places, values := u.places, u.values
	var err error
	if len(ks.Def.Derived) > 0 {
		if err := b.windows.begin(blk, ks.Def, mid, u.additions()); err != nil {
			return blk, err
		}
	}
	for i, c := range places {
		// As for a change of one column: the default is what a block without it answers anyway.
		if blk.Span.Data != nil && values[i].Value != ks.Def.Columns[c].Default && ks.Field(blk, c) < 0 {
			if blk, err = ks.Repack(blk, mid); err == nil {
				p, err = ks.Find(blk, mid)
			}
			if err != nil {
				b.windows.cancel(mid)
				return blk, err
			}
		}
	}
	var ref hot.Ref
	if blk, ref, err = ks.Ensure(blk, mid, p); err != nil {
		b.windows.cancel(mid)
		return blk, err
	}
	for i, c := range places {
		if f := ks.Field(blk, c); f >= 0 {
			blk.Tab.Set(ref, f, values[i].Value)
		}
	}
	mark(b, blk, mid)
	b.windows.apply(mid, true)
	switch u.records = u.records[:0]; {
	case b.data.Log == nil:
	case len(b.windows.records) > 0: // one append, so that a crash keeps both or neither
		u.records = format.AppendSetItem(u.records, ks.Def.ID, mid, values)
	case len(values) == 1:
		b.pos = b.data.Log.AppendSet(ks.Def.ID, values[0].Column, mid, values[0].Value)
		blk.Logged = b.pos
	default:
		if b.pos, err = b.data.Log.AppendItem(ks.Def.ID, mid, values); err != nil {
			panic("counter: BUG: a record that the log does not take: " + err.Error())
		}
		blk.Logged = b.pos
	}
	b.windows.log(blk, u.records)
	if ks.Tops != nil {
		topIs(b, ks, blk, mid)
		tellTops(b, b.pos)
	}
	if blk.Tab.Crowded() {
		blk = ks.Widen(blk, mid)
	}
	return blk, nil
}
