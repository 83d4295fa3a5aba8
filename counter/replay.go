package counter

import (
	"fmt"
	"slices"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/schema"
)

// replayer applies log records, many at once like everything else.
type replayer struct {
	s        *Store
	b        *Batch
	observer func(*Batch) // nil: nobody asked
	merged   bool         // records of producers are made already, as an import made them with their places in the log
	rows     coldstore.Rows
	vals     []uint64
	once     onceRecord // whose result is the value of the next record; pos 0: none
}

// replayBatch is how many operations are run together: enough to hide cache misses.
const replayBatch = 256

func (r *replayer) apply(pos uint64, rec *format.Record) error {
	if r.merged && (rec.Kind == format.KindDefine || rec.Kind == format.KindOnce || rec.Kind == format.KindFloor) {
		return nil
	}
	if r.once.pos > 0 {
		if rec.Kind != format.KindSet {
			return r.corrupt(pos, "a set behind a once without a result", rec.Kind.String(), nil)
		}
		r.once.result, r.once.group = format.Result{Kind: format.ResultInt, N: rec.Value}, slot.Group(rec.Mid)
		r.s.producers.apply(&r.once, r.b.applied)
		r.once.pos = 0
	}
	switch rec.Kind {
	case format.KindDefine:
		if err := r.s.producers.define(pos, rec, r.b.applied); err != nil {
			return r.corrupt(pos, "a producer", err.Error(), err)
		}
	case format.KindOnce:
		if r.once = newOnceRecord(pos, rec); rec.Result != format.ResultNext {
			r.s.producers.apply(&r.once, r.b.applied)
			r.once.pos = 0
		}
	case format.KindFloor:
		r.s.producers.floor(pos, rec, r.b.applied)
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
		if err := r.flush(); err != nil {
			return err
		}
		return r.clearBefore(pos)
	case format.KindRows:
		return r.addRows(pos, rec)
	case format.KindImport, format.KindAccept, format.KindDrop:
		if err := r.flush(); err != nil {
			return err
		}
		return r.s.moveGroups(pos, rec.Kind, string(rec.Text), rec.Groups)
	case format.KindSchema:
		if err := r.flush(); err != nil {
			return err
		}
		next, err := schema.ParseDurable(rec.Text)
		if err != nil {
			return r.corrupt(pos, "a schema", err.Error(), err)
		}
		return r.s.setSchema(next)
	}
	if r.b.Len() >= replayBatch {
		return r.flush()
	}
	return nil
}

func (r *replayer) corrupt(pos uint64, want, got string, err error) error {
	return &format.CorruptError{File: format.LogDir(r.s.dir.Path()), LogOffset: pos, Want: want, Got: got, Err: err}
}

// wanted returns the counter if it is there and the block that holds mid does not contain the change yet.
func (r *replayer) wanted(pos uint64, id uint32, mid uint64) *schema.Counter {
	if int(id) >= len(r.s.spaces) || r.s.spaces[id] == nil {
		return nil
	}
	ks := r.s.spaces[id].Of(mid)
	if ks.Dir.Load().Find(mid).From >= pos {
		return nil
	}
	return ks.Def
}

func (r *replayer) set(pos uint64, id uint32, mid uint64, column uint16, v uint64) {
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
func (r *replayer) addRows(pos uint64, rec *format.Record) error {
	return eachRow(&r.rows, &r.vals, rec, func(mid uint64, row []uint64) error {
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
		if r.b.Len() >= replayBatch {
			return r.flush()
		}
		return nil
	})
}

func (r *replayer) add(op Op) { r.b.Add(op) }

// flush runs what was collected.
func (r *replayer) flush() error {
	r.b.Run()
	for i := range r.b.Len() {
		if op := r.b.Op(i); op.Err != nil {
			return fmt.Errorf("counter: replaying mid %d of %s: %w", op.Mid, op.Counter.Name, op.Err)
		}
	}
	if r.observer != nil {
		r.observer(r.b)
	}
	r.b.Reset()
	return nil
}

// clearBefore empties every block whose image does not contain the FLUSHALL at pos yet.
func (r *replayer) clearBefore(pos uint64) error {
	return r.s.renew(func(ks *block.Keyspace) bool { return ks.Before(pos) })
}
