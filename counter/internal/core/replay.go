package core

import (
	"fmt"
	"slices"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/schema"
)

// Replayer applies log records, many at once like everything else.
type Replayer struct {
	s        *Data
	Batch    *Batch
	observer func(*Batch) // nil: nobody asked
	merged   bool         // records of producers are made already, as an import made them with their places in the log
	rows     coldstore.Rows
	vals     []uint64
	once     OnceRecord // whose result is the value of the next record; pos 0: none
}

// NewReplayer replays this store's own log.
func (d *Data) NewReplayer() *Replayer {
	r := &Replayer{s: d, Batch: d.NewCarrier()}
	r.Batch.follows = true
	return r
}

// NewFollower applies records that the log has already, as another store made them. merged: those of producers are made.
func (d *Data) NewFollower(merged bool) *Replayer {
	return &Replayer{s: d, Batch: d.NewSilent(0), merged: merged}
}

// NewCarrier returns a batch that may touch groups of hash slots that are not owned.
func (d *Data) NewCarrier() *Batch {
	b := d.NewBatch()
	b.carrier = true
	return b
}

// NewSilent returns a batch for changes that the log has already, or gets in another way: it makes them in any case.
// applied is the log offset behind them; 0: the log is replayed.
func (d *Data) NewSilent(applied uint64) *Batch {
	b := d.NewBatch()
	b.silent, b.follows, b.applied = true, true, applied
	return b
}

// Begin says that the records that come are of what the log has up to an offset, and who is told of each batch of them.
func (r *Replayer) Begin(end uint64, observer func(*Batch)) {
	r.Batch.applied, r.observer = end, observer
}

// replayBatch is how many operations are run together: enough to hide cache misses.
const replayBatch = 256

func (r *Replayer) Apply(pos uint64, rec *format.Record) error {
	if r.merged && (rec.Kind == format.KindDefine || rec.Kind == format.KindOnce || rec.Kind == format.KindFloor) {
		if rec.Kind == format.KindDefine {
			r.s.Producers.noteDefine(pos, rec)
		}
		return nil
	}
	if r.once.Pos > 0 {
		if rec.Kind != format.KindSet {
			return r.corrupt(pos, "a set behind a once without a result", rec.Kind.String(), nil)
		}
		r.once.Result, r.once.Group = format.Result{Kind: format.ResultInt, N: rec.Value}, slot.Group(rec.Mid)
		r.s.Producers.apply(&r.once, r.Batch.applied)
		r.once.Pos = 0
	}
	switch rec.Kind {
	case format.KindDefine:
		if err := r.s.Producers.define(pos, rec, r.Batch.applied); err != nil {
			return r.corrupt(pos, "a producer", err.Error(), err)
		}
	case format.KindOnce:
		if r.once = NewOnceRecord(pos, rec); rec.Result != format.ResultNext {
			r.s.Producers.apply(&r.once, r.Batch.applied)
			r.once.Pos = 0
		}
	case format.KindFloor:
		r.s.Producers.floor(pos, rec, r.Batch.applied)
	case format.KindCursor:
		r.s.Cursors.apply(rec, r.Batch.applied)
	case format.KindTick:
		was := r.s.Time.Seconds()
		r.s.Time.Advance(rec.Value)
		r.s.topsTick(was)
	case format.KindSet:
		r.set(pos, rec.Counter, rec.Mid, rec.Column, rec.Value)
	case format.KindSetItem:
		for _, c := range rec.Columns {
			r.set(pos, rec.Counter, rec.Mid, c.Column, c.Value)
		}
	case format.KindDelete:
		if def := r.wanted(pos, rec.Counter, rec.Mid); def != nil {
			r.add(Op{Kind: OpDelete, Counter: def, Mid: rec.Mid})
		}
	case format.KindFlush:
		if err := r.Flush(); err != nil {
			return err
		}
		return r.clearBefore(pos)
	case format.KindDropRange:
		if err := r.Flush(); err != nil {
			return err
		}
		return r.dropRange(pos, rec)
	case format.KindRows:
		return r.addRows(pos, rec)
	case format.KindImport, format.KindAccept, format.KindDrop:
		if err := r.Flush(); err != nil {
			return err
		}
		return r.s.MoveGroups(pos, rec.Kind, string(rec.Text), rec.Groups)
	case format.KindSchema:
		if err := r.Flush(); err != nil {
			return err
		}
		next, err := schema.ParseDurable(rec.Text)
		if err != nil {
			return r.corrupt(pos, "a schema", err.Error(), err)
		}
		return r.s.SetSchema(next)
	}
	if r.Batch.Len() >= replayBatch {
		return r.Flush()
	}
	return nil
}

func (r *Replayer) corrupt(pos uint64, want, got string, err error) error {
	return &format.CorruptError{File: format.LogDir(r.s.Dir.Path()), LogOffset: pos, Want: want, Got: got, Err: err}
}

// wanted returns the counter if it is there and the block that holds mid does not contain the change yet.
func (r *Replayer) wanted(pos uint64, id uint32, mid uint64) *schema.Counter {
	if int(id) >= len(r.s.Spaces) || r.s.Spaces[id] == nil {
		return nil
	}
	ks := r.s.Spaces[id].Of(mid)
	if ks.Dir.Load().Find(mid).From >= pos {
		return nil
	}
	return ks.Def
}

func (r *Replayer) set(pos uint64, id uint32, mid uint64, column uint16, v uint64) {
	def := r.wanted(pos, id, mid)
	if def == nil {
		return
	}
	if c := def.Index(column); c >= 0 {
		r.add(Op{Kind: OpSet, Counter: def, Mid: mid, Column: int16(c), Arg: v})
	}
}

// addRows adds the posts of a KindRows. A post that is made by it has the defaults of what it does not say, so only other
// values are set: those that come behind it are set again by what made them.
func (r *Replayer) addRows(pos uint64, rec *format.Record) error {
	return EachRow(&r.rows, &r.vals, rec, func(mid uint64, row []uint64) error {
		def := r.wanted(pos, rec.Counter, mid)
		if def == nil || len(def.Columns) == 0 {
			return nil
		}
		if !slices.ContainsFunc(rec.Columns, func(c format.ColumnValue) bool { return c.Column == def.Columns[0].ID }) {
			r.add(Op{Kind: OpSet, Counter: def, Mid: mid, Arg: def.Columns[0].Default, Cond: IfAbsent})
		}
		for i, c := range rec.Columns {
			if k := def.Index(c.Column); k >= 0 && (k == 0 || row[i] != def.Columns[k].Default) {
				r.add(Op{Kind: OpSet, Counter: def, Mid: mid, Column: int16(k), Arg: row[i]})
			}
		}
		if r.Batch.Len() >= replayBatch {
			return r.Flush()
		}
		return nil
	})
}

func (r *Replayer) add(op Op) { r.Batch.Add(op) }

// Flush runs what was collected.
func (r *Replayer) Flush() error {
	r.Batch.Run()
	for i := range r.Batch.Len() {
		if op := r.Batch.Op(i); op.Err != nil {
			return fmt.Errorf("counter: replaying mid %d of %s: %w", op.Mid, op.Counter.Name, op.Err)
		}
	}
	if r.observer != nil {
		r.observer(r.Batch)
	}
	r.Batch.Reset()
	return nil
}

// clearBefore empties every block whose image does not contain the FLUSHALL at pos yet.
func (r *Replayer) clearBefore(pos uint64) error {
	return r.s.renew(func(ks *block.Keyspace) bool { return ks.Before(pos) })
}

// EachRow calls fn for each post of a KindRows.
func EachRow(rows *coldstore.Rows, vals *[]uint64, rec *format.Record, fn func(mid uint64, row []uint64) error) error {
	if err := rows.Reset(rec.Text, len(rec.Columns)); err != nil {
		return fmt.Errorf("rows: %w: %w", err, format.ErrCorrupt)
	}
	*vals = slices.Grow((*vals)[:0], len(rec.Columns))[:len(rec.Columns)]
	for {
		mid, ok, err := rows.Next(*vals)
		if err != nil {
			return fmt.Errorf("rows: %w: %w", err, format.ErrCorrupt)
		}
		if !ok {
			return nil
		}
		if err := fn(mid, *vals); err != nil {
			return err
		}
	}
}
