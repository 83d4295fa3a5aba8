package replica

import (
	"errors"
	"fmt"

	"github.com/counterd/counterd/counter/internal/core"

	"github.com/counterd/counterd/coldstore"
	"github.com/counterd/counterd/counter/internal/producers"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/schema"
)

// GroupImport takes groups of hash slots over from another store: it applies the records of a GroupExport, in order. The
// records are this log's own behind it, with this store's numbers of producers, and are applied as a replica applies its
// primary's: log and effect are one for who copies a block. NOT safe for concurrent use.
type GroupImport struct {
	s      *core.Data
	in     Groups
	move   string
	groups slot.Set

	names map[uint32]sourceProducer // the source's, by its numbers
	rec   format.Record
	rows  coldstore.Rows
	vals  []uint64
	play  *core.Replayer
	posts uint64 // that came in rows

	// Of the records that are being taken over.
	out  []byte          // as they are logged here
	once core.OnceRecord // whose result is the value of the next record; pos 0: none
	req  producers.Request
	try  producers.Try
	now  int64
}

// sourceProducer is the producer that a source's number stands for.
type sourceProducer struct {
	id          string
	epoch, base uint64
}

// maxImport is how many bytes of records Apply logs at a time.
const maxImport = 256 << 10

// Import begins to take groups over by a move: what is here of them is removed, and nobody sees them until Accept. It may
// be begun anew at any time, which forgets what came before, what producers did in the groups included. Own must not name
// the groups. Errors as of changes.
func (g Groups) Import(move string, set slot.Set) (*GroupImport, error) {
	s := g.s
	if err := g.deleteGroups(set); err != nil {
		return nil, err
	}
	if failed := set.Both(g.imported()); failed != (slot.Set{}) {
		if _, err := g.logMove(format.KindDrop, move, failed); err != nil {
			return nil, err
		}
	}
	if _, err := g.logMove(format.KindImport, move, set); err != nil {
		return nil, err
	}
	i := &GroupImport{s: s, in: g, move: move, groups: set, names: make(map[uint32]sourceProducer)}
	i.play = s.NewFollower(true)
	return i, nil
}

// Posts is how many posts came in rows.
func (i *GroupImport) Posts() uint64 { return i.posts }

// Apply takes records of the source's GroupExport over. end is the log offset behind them, and done how many bytes of them
// were taken over: with an error those before the record that it speaks of, whose others may be given again. The error
// matches ErrBehind, ErrMaxMemory, ErrNotReady, ErrReplica, ErrDeposed, ErrClosed or ErrNotImporting, is a *ProducersFullError, or
// matches format.ErrCorrupt where they are no records of these groups. After any other memory may lack what the log has:
// the groups are to be dropped.
func (i *GroupImport) Apply(records []byte) (end uint64, done int, err error) {
	for done < len(records) && err == nil {
		var n int
		if format.Kind(records[done]) == format.KindFlush {
			n, end, err = i.flush()
		} else {
			n, end, err = i.some(records[done:])
		}
		done += n
	}
	return end, done, err
}

// flush removes the posts that came so far: the source removed all posts.
func (i *GroupImport) flush() (n int, end uint64, err error) {
	if err = i.in.deleteGroups(i.groups); err == nil {
		end, err = i.in.logMove(format.KindImport, i.move, i.groups)
	}
	if err != nil {
		return 0, 0, err
	}
	return 1, end, nil
}

// some takes the first of records over, and tells how many bytes they are: none with an error, but for one of memory.
func (i *GroupImport) some(records []byte) (n int, end uint64, err error) {
	s := i.s
	s.Applying.Lock()
	defer s.Applying.Unlock()
	b := i.play.Batch
	if err := b.Begin(); err != nil {
		return 0, 0, err
	}
	defer b.End()
	if err := i.ready(); err != nil {
		return 0, 0, err
	}
	if n, err = i.check(records); n == 0 {
		return 0, 0, err
	}
	if n, end, err = i.log(records[:n]); n == 0 {
		return 0, 0, err
	}
	i.play.Begin(end, nil)
	err = walkRecords(i.out, &i.rec, func(at int, _ []byte) error { return i.play.Apply(end-uint64(len(i.out)-at), &i.rec) })
	if err == nil {
		err = i.play.Flush()
	}
	return n, end, err
}

// ready tells why nothing can be taken over.
func (i *GroupImport) ready() error {
	s := i.s
	if err := s.TakesChanges(); err != nil {
		return err
	}
	if err := i.in.leads(); err != nil {
		return err
	}
	if s.Full.Load() {
		return core.ErrMaxMemory
	}
	of := s.Moving.Importing[i.move]
	for w := range of {
		if i.groups[w]&^of[w] != 0 {
			return ErrNotImporting
		}
	}
	return nil
}

// walkRecords decodes records, and calls fn for each with its end and its bytes.
func walkRecords(records []byte, rec *format.Record, fn func(end int, raw []byte) error) error {
	for at := 0; at < len(records); {
		n, err := format.DecodeRecord(records[at:], rec)
		if err != nil {
			return err
		}
		if err := fn(at+n, records[at:at+n]); err != nil {
			return err
		}
		at += n
	}
	return nil
}

// errLater ends a walk before a record that is for the next one.
var errLater = errors.New("later")

// check returns how many bytes of records can be taken over together. The error says why not the first.
func (i *GroupImport) check(records []byte) (size int, err error) {
	now, next := i.s.Schema.Load(), false
	err = walkRecords(records, &i.rec, func(end int, raw []byte) error {
		rec := &i.rec
		if end > maxImport && size > 0 && !next || rec.Kind == format.KindFlush {
			return errLater
		}
		group := rec.Group
		switch rec.Kind {
		case format.KindSet, format.KindSetItem, format.KindDelete:
			group = slot.Group(rec.Mid)
		case format.KindRows, format.KindDefine, format.KindFloor:
		case format.KindOnce:
			if rec.Result == format.ResultNext && !next {
				next = true
				return nil
			}
		default:
			return fmt.Errorf("counter: %s from the source of a move: %w", rec.Kind, format.ErrCorrupt)
		}
		if _, err := checkRecord(now, rec); err != nil {
			return err
		}
		if rec.Kind == format.KindRows {
			if err := i.checkRows(rec); err != nil {
				return err
			}
		} else if rec.Kind != format.KindDefine && rec.Kind != format.KindFloor && !i.groups.Has(group) {
			return fmt.Errorf("counter: %s of group %d, which is not moved: %w", rec.Kind, group, format.ErrCorrupt)
		}
		if next && rec.Kind != format.KindSet {
			return fmt.Errorf("counter: %s behind a once without a result: %w", rec.Kind, format.ErrCorrupt)
		}
		if err := known(now, rec); err != nil {
			return err
		}
		size, next = end, false
		return nil
	})
	if size > 0 || err == errLater {
		return size, nil
	}
	return 0, err
}

// checkRows tells whether all posts of a record are of the groups. checkRecord has read it.
func (i *GroupImport) checkRows(rec *format.Record) error {
	return core.EachRow(&i.rows, &i.vals, rec, func(mid uint64, _ []uint64) error {
		i.posts++
		if group := slot.Group(mid); !i.groups.Has(group) {
			return fmt.Errorf("counter: rows of group %d, which is not moved: %w", group, format.ErrCorrupt)
		}
		return nil
	})
}

// known returns ErrBehind where a record has a counter or a column that the schema has not given an id yet. A counter or
// column that it has given before, and no longer has, was dropped.
func known(now *schema.Schema, rec *format.Record) error {
	switch rec.Kind {
	case format.KindSet, format.KindSetItem, format.KindDelete, format.KindRows:
	default:
		return nil
	}
	def := now.CounterByID(rec.Counter)
	if def == nil {
		if rec.Counter > now.LastCounter() {
			return fmt.Errorf("%w: counter %d", ErrBehind, rec.Counter)
		}
		return nil
	}
	highest := rec.Column
	for _, c := range rec.Columns {
		highest = max(highest, c.Column)
	}
	if highest > def.LastColumn() {
		return fmt.Errorf("%w: column %d of %s", ErrBehind, highest, def.Name)
	}
	return nil
}

// log makes this log's records of those that check let through, and appends them. It ends before one for whose producer
// there is no place, and tells how many bytes it took.
func (i *GroupImport) log(records []byte) (n int, end uint64, err error) {
	l := &i.s.Producers
	// Held from the first look at the table until the records are in the log: who numbers a change next sees both.
	l.Mu.Lock()
	defer l.Mu.Unlock()
	i.out, i.now = i.out[:0], l.Seconds()
	kept := 0
	err = walkRecords(records, &i.rec, func(at int, raw []byte) error {
		if err := i.translate(&i.rec, raw); err != nil {
			return err
		}
		if i.once.Pos == 0 { // none waits for the record behind it
			n, kept = at, len(i.out)
		}
		return nil
	})
	i.once.Pos = 0
	if i.out = i.out[:kept]; n == 0 {
		return 0, 0, err
	}
	if len(i.out) == 0 { // numbers of producers, which change nothing yet
		return n, i.s.Log.Position(), nil
	}
	end, err = i.s.Log.Append(i.out) // not too long: check sees to that
	l.Dirty, l.Logged = true, max(l.Logged, end)
	return n, end, err
}

// translate appends this log's form of a record to out, and makes what it says of producers.
func (i *GroupImport) translate(rec *format.Record, raw []byte) error {
	switch rec.Kind {
	case format.KindDefine:
		if len(rec.Text) == 0 {
			delete(i.names, rec.Number)
			return nil
		}
		i.names[rec.Number] = sourceProducer{string(rec.Text), rec.Epoch, rec.Seq}
		if rec.Epoch == 0 {
			return nil // it may never do anything here
		}
		_, err := i.merge(rec.Number, rec.Seq, 0, 0)
		return err
	case format.KindFloor:
		number := rec.Number
		if _, err := i.merge(number, rec.Seq, 0, 0); err != nil {
			return err
		}
		i.s.Producers.Table.Floor(i.try.Number, rec.Seq, i.now)
		i.out = format.AppendFloor(i.out, i.try.Number, rec.Seq)
		return nil
	case format.KindOnce:
		o := core.NewOnceRecord(1, rec)
		if rec.Result == format.ResultNext {
			i.once = o
			return nil
		}
		return i.keep(&o, o.Result)
	case format.KindSet:
		if i.once.Pos > 0 {
			o := i.once
			o.Result, o.Group = format.Result{Kind: format.ResultInt, N: rec.Value}, slot.Group(rec.Mid)
			if err := i.keep(&o, format.Result{}); err != nil {
				return err
			}
			i.once.Pos = 0
		}
	}
	i.out = append(i.out, raw...)
	return nil
}

// keep makes an entry of what a once of the source says, and logs it with a result, unless the number is known.
func (i *GroupImport) keep(o *core.OnceRecord, logged format.Result) error {
	src, ok := i.names[o.Number]
	if !ok {
		return fmt.Errorf("counter: a once of producer %d, which was not named: %w", o.Number, format.ErrCorrupt)
	}
	fresh, err := i.merge(o.Number, src.base+o.Seq, o.Hash, len(o.Result.Blob))
	if err != nil || !fresh {
		return err
	}
	y := &i.try
	i.s.Producers.Table.Apply(y.Number, src.base+o.Seq-y.Base, o.Hash, o.Group, o.Result, i.now)
	i.out = format.AppendOnce(i.out, y.Number, src.base+o.Seq-y.Base, o.Hash, o.Group, logged)
	return nil
}

// merge makes a producer of the source known here, if it is not, and tells whether a number of it is new.
func (i *GroupImport) merge(number uint32, seq uint64, hash uint32, room int) (fresh bool, err error) {
	src, ok := i.names[number]
	if !ok {
		return false, fmt.Errorf("counter: producer %d, which was not named: %w", number, format.ErrCorrupt)
	}
	y, t := &i.try, i.s.Producers.Table
	i.req = producers.Request{ID: []byte(src.id), Epoch: src.epoch, Seq: seq, Hash: hash, Room: room, Now: i.now}
	if t.BeginMerge(&i.req, y); y.Verdict == producers.Full {
		return false, &core.ProducersFullError{Bytes: y.OfBytes}
	}
	for _, forget := range y.Forget {
		i.out = format.AppendDefine(i.out, forget, 0, 0, nil)
		_ = t.Define(forget, 0, 0, nil, i.now) // without an id it cannot fail
	}
	if y.Define {
		i.out = format.AppendDefine(i.out, y.Number, y.Epoch, y.Base, i.req.ID)
		err = t.Define(y.Number, y.Epoch, y.Base, i.req.ID, i.now)
	}
	return y.Verdict == producers.Fresh, err
}
