package core

import (
	"slices"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/counter/internal/query"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/schema"
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
			if blk, err = block.AddColumns(ks, blk, mid); err == nil {
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
	case b.old.keeps(ks):
		u.records = b.old.appendUpdate(u.records, ks, mid, values, places, u.row)
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
	if blk.Crowded() {
		blk = ks.Widen(blk, mid)
	}
	return blk, nil
}

// updateAhead is how many items ahead the bucket of an item is asked for.
const updateAhead = 8

// updateNeighbours is updateItem of the first ones of mids, as far as they are in one hot block whose table has all columns, and nothing
// but the log and the block has to know of their changes. It locks the block once, and appends their records together. It returns how many
// of mids were looked at; 0: the first is none of those.
func (u *Update) updateNeighbours(b *Batch, mids []uint64) int {
	s := &u.Search
	ks := s.Space.Of(mids[0])
	if u.changes[0].Kind == OpDelete || b.refused != nil || b.data.Log == nil || b.data.Own.Some || ks.Noted {
		return 0
	}
	blk := ks.Lock(mids[0])
	defer func() { blk.Mu.Unlock() }()
	if blk.Cold != nil || blk.Shape != ks.Layout {
		return 0
	}
	n := 1
	for n < len(mids) && mids[n] >= blk.Lo && mids[n] < blk.Hi && s.Space.Of(mids[n]) == ks {
		n++
	}
	mids = mids[:n]
	b.seen.noteSeen(blk.Logged)
	blk.Used = b.now
	u.records = u.records[:0]
	var homes [updateAhead]hot.Home
	for i, mid := range mids[:min(updateAhead, n)] {
		homes[i] = blk.Tab.Prefetch(mid)
	}
	for i, mid := range mids {
		home := &homes[i%updateAhead]
		ref, found := blk.Tab.FindAt(*home)
		if next := i + updateAhead; next < n {
			*home = blk.Tab.Prefetch(mids[next])
		}
		if !found || !u.updateAt(b, blk, mid, ref) {
			continue
		}
		crowded := blk.Crowded()
		if crowded || len(u.records) > maxStretchBytes {
			u.logRecords(b, blk)
		}
		if crowded {
			blk = ks.Widen(blk, mid)
			return i + 1
		}
	}
	u.logRecords(b, blk)
	return n
}

// updateAt changes the item at ref of blk, if it meets the query and its values stay in their columns, and makes its record.
func (u *Update) updateAt(b *Batch, blk *block.Block, mid uint64, ref hot.Ref) bool {
	if u.row = blk.Tab.AppendRow(u.row[:0], ref); !query.Meets(&u.Search, mid, u.row) {
		return false
	}
	blk.Work++
	if !u.compute() {
		u.unfit++
		return false
	}
	for i, c := range u.places {
		blk.Tab.Set(ref, c, u.values[i].Value)
	}
	mark(b, blk, mid)
	u.records = appendValues(u.records, u.Search.Ks.Def.ID, mid, u.values)
	u.note(mid)
	return true
}

// note counts an item that was changed, and keeps its row if rows are to be returned.
func (u *Update) note(mid uint64) {
	u.changed++
	u.mids = append(u.mids, mid)
	if u.ret == ReturnNothing {
		return
	}
	if u.ret == ReturnNew {
		for i, c := range u.places {
			u.row[c] = u.values[i].Value
		}
	}
	query.Append(&u.rows, mid, u.row, u.shown)
}

// logRecords appends the records of changes of blk, which is locked, to the log.
func (u *Update) logRecords(b *Batch, blk *block.Block) {
	if len(u.records) == 0 {
		return
	}
	pos, err := b.data.Log.Append(u.records)
	if err != nil {
		panic("counter: BUG: records that the log does not take: " + err.Error())
	}
	b.pos, blk.Logged, u.records = pos, pos, u.records[:0]
}

// MaxGathered is the most items that Update.Gather takes.
const MaxGathered = 10_000

// most is how many items of def an update that is one change may change: their records, with those of derived columns, fit in one frame.
func (u *Update) most(def *schema.Counter) int {
	derived := 0
	for i := range def.Derived {
		of := &def.Derived[i]
		if slices.ContainsFunc(u.changes, func(c Change) bool { return c.Kind == OpAdd && of.Counts(int(c.Column), 1) > 0 }) {
			derived += recordLen(of)
		} else if u.changes[0].Kind == OpDelete {
			derived += format.MaxDeleteLen
		}
	}
	own := 32 + 16*len(u.changes)
	return min(MaxGathered, format.MaxAppend/own, MaxOnceBytes/(own+derived))
}
