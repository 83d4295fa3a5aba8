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

// takeover logs and applies records of another store about groups of hash slots. The records are this log's own behind it, with
// this store's numbers of producers, and are applied as a replica applies its primary's: log and effect are one for a reader
// that copies a block. NOT safe for concurrent use.
type takeover struct {
	s      *core.Data
	in     Groups
	of     takeoverRules
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

// takeoverRules are what a takeover may take: a GroupImport, or a memory of producers.
type takeoverRules interface {
	// ready tells why nothing can be taken over at this moment. REQUIRES Data.Gate held.
	ready() error
	// takes tells why a record is not one of those that may come.
	takes(rec *format.Record) error
}

// sourceProducer is the producer that a source's number stands for.
type sourceProducer struct {
	id          string
	epoch, base uint64
}

// maxImport is how many bytes of records some logs at a time.
const maxImport = 256 << 10

func newTakeover(in Groups, set slot.Set, of takeoverRules) *takeover {
	return &takeover{s: in.s, in: in, of: of, groups: set, names: make(map[uint32]sourceProducer), play: in.s.NewFollower(true)}
}

// some takes the first of records over, and tells how many bytes they are: none with an error, but for one of memory.
func (t *takeover) some(records []byte) (n int, end uint64, err error) {
	s := t.s
	s.Applying.Lock()
	defer s.Applying.Unlock()
	b := t.play.Batch
	if err := b.Begin(); err != nil {
		return 0, 0, err
	}
	defer b.End()
	if err := t.ready(); err != nil {
		return 0, 0, err
	}
	if n, err = t.check(records); n == 0 {
		return 0, 0, err
	}
	if n, end, err = t.log(records[:n]); n == 0 {
		return 0, 0, err
	}
	t.play.Begin(end, nil)
	err = walkRecords(t.out, &t.rec, func(at int, _ []byte) error { return t.play.Apply(end-uint64(len(t.out)-at), &t.rec) })
	if err == nil {
		err = t.play.Flush()
	}
	return n, end, err
}

// ready tells why nothing can be taken over. REQUIRES Data.Gate held.
func (t *takeover) ready() error {
	s := t.s
	if err := s.TakesChanges(); err != nil {
		return err
	}
	if err := t.in.leads(); err != nil {
		return err
	}
	if s.Full.Load() {
		return core.ErrMaxMemory
	}
	return t.of.ready()
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
func (t *takeover) check(records []byte) (size int, err error) {
	now, next := t.s.Schema.Load(), false
	err = walkRecords(records, &t.rec, func(end int, raw []byte) error {
		rec := &t.rec
		if err := t.of.takes(rec); err != nil {
			return err
		}
		if next && rec.Kind != format.KindSet {
			return fmt.Errorf("counter: %s behind a once without a result, want a set: %w", rec.Kind, format.ErrCorrupt)
		}
		if end > maxImport && size > 0 && !next || rec.Kind == format.KindFlush || rec.Kind == format.KindDropRange {
			return errLater
		}
		group := rec.Group
		switch rec.Kind {
		case format.KindSet, format.KindSetItem, format.KindDelete:
			group = slot.Group(rec.Mid)
		case format.KindRows, format.KindDefine, format.KindFloor:
		case format.KindOnce:
			if rec.Result == format.ResultNext {
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
			if err := t.checkRows(rec); err != nil {
				return err
			}
		} else if rec.Kind != format.KindDefine && rec.Kind != format.KindFloor && !t.groups.Has(group) {
			return fmt.Errorf("counter: %s of group %d, which is not moved: %w", rec.Kind, group, format.ErrCorrupt)
		}
		if err := known(now, rec); err != nil {
			return err
		}
		size, next = end, false
		return nil
	})
	if size > 0 {
		return size, nil
	}
	if err == nil { // the caller would come back to the same record for ever
		err = fmt.Errorf("counter: a once without a result at the end, want a set behind it: %w", format.ErrCorrupt)
	}
	return 0, err
}

// checkRows tells whether all posts of a record are of the groups. checkRecord has read it.
func (t *takeover) checkRows(rec *format.Record) error {
	return core.EachRow(&t.rows, &t.vals, rec, func(mid uint64, _ []uint64) error {
		t.posts++
		if group := slot.Group(mid); !t.groups.Has(group) {
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
func (t *takeover) log(records []byte) (n int, end uint64, err error) {
	l := &t.s.Producers
	// The lock covers both the checks of the table and the append. The next numbered change then finds the table and the log in step.
	l.Mu.Lock()
	defer l.Mu.Unlock()
	t.out, t.now = t.out[:0], l.Seconds()
	kept := 0
	err = walkRecords(records, &t.rec, func(at int, raw []byte) error {
		if err := t.translate(&t.rec, raw); err != nil {
			return err
		}
		if t.once.Pos == 0 { // none waits for the record behind it
			n, kept = at, len(t.out)
		}
		return nil
	})
	t.once.Pos = 0
	if t.out = t.out[:kept]; n == 0 {
		return 0, 0, err
	}
	if len(t.out) == 0 { // numbers of producers, which change nothing yet
		return n, t.s.Log.Position(), nil
	}
	if end, err = t.s.Log.Append(t.out); err == nil { // not too long: check sees to that
		_, err = t.s.Log.AppendWhole(nil) // a once at the end says nothing of the records that follow
	}
	l.Dirty, l.Logged = true, max(l.Logged, end)
	return n, end, err
}

// translate appends this log's form of a record to out. A record of producers changes the table of producers too.
func (t *takeover) translate(rec *format.Record, raw []byte) error {
	switch rec.Kind {
	case format.KindDefine:
		if len(rec.Text) == 0 {
			delete(t.names, rec.Number)
			return nil
		}
		t.names[rec.Number] = sourceProducer{string(rec.Text), rec.Epoch, rec.Seq}
		if rec.Epoch == 0 {
			return nil // it may never do anything here
		}
		_, err := t.merge(rec.Number, rec.Seq, 0, 0)
		return err
	case format.KindFloor:
		number := rec.Number
		if _, err := t.merge(number, rec.Seq, 0, 0); err != nil {
			return err
		}
		t.s.Producers.Table.Floor(t.try.Number, rec.Seq)
		t.out = format.AppendFloor(t.out, t.try.Number, rec.Seq)
		return nil
	case format.KindOnce:
		o := core.NewOnceRecord(1, rec)
		if rec.Result == format.ResultNext {
			t.once = o
			return nil
		}
		return t.keep(&o, o.Result)
	case format.KindSet:
		if t.once.Pos > 0 {
			o := t.once
			o.Result, o.Group = format.Result{Kind: format.ResultInt, N: rec.Value}, slot.Group(rec.Mid)
			if err := t.keep(&o, format.Result{}); err != nil {
				return err
			}
			t.once.Pos = 0
		}
	}
	t.out = append(t.out, raw...)
	return nil
}

// keep makes an entry of what a once of the source says, and logs it with a result, unless the number is known.
func (t *takeover) keep(o *core.OnceRecord, logged format.Result) error {
	src, ok := t.names[o.Number]
	if !ok {
		return fmt.Errorf("counter: a once of producer %d, which was not named: %w", o.Number, format.ErrCorrupt)
	}
	fresh, err := t.merge(o.Number, src.base+o.Seq, o.Hash, len(o.Result.Blob))
	if err != nil || !fresh {
		return err
	}
	y := &t.try
	t.s.Producers.Table.Apply(y.Number, src.base+o.Seq-y.Base, o.Hash, o.Group, o.Result, t.now)
	t.out = format.AppendOnce(t.out, y.Number, src.base+o.Seq-y.Base, o.Hash, o.Group, logged)
	return nil
}

// merge makes a producer of the source known here, if it is not, and tells whether a number of it is new.
func (t *takeover) merge(number uint32, seq uint64, hash uint32, room int) (fresh bool, err error) {
	src, ok := t.names[number]
	if !ok {
		return false, fmt.Errorf("counter: producer %d, which was not named: %w", number, format.ErrCorrupt)
	}
	y, table := &t.try, t.s.Producers.Table
	t.req = producers.Request{ID: []byte(src.id), Epoch: src.epoch, Seq: seq, Hash: hash, Room: room, Now: t.now}
	if table.BeginMerge(&t.req, y); y.Verdict == producers.Full {
		return false, &core.ProducersFullError{Bytes: y.OfBytes}
	}
	for _, f := range y.Shed {
		t.out = format.AppendFloor(t.out, f.Number, f.From)
		table.Floor(f.Number, f.From)
	}
	for _, forget := range y.Forget {
		t.out = format.AppendDefine(t.out, forget, 0, 0, nil)
		_ = table.Define(forget, 0, 0, nil, t.now) // without an id it cannot fail
	}
	if y.Define {
		t.out = format.AppendDefine(t.out, y.Number, y.Epoch, y.Base, t.req.ID)
		err = table.Define(y.Number, y.Epoch, y.Base, t.req.ID, t.now)
	}
	return y.Verdict == producers.Fresh, err
}

// dropRange takes the first of records over, the drop of a range of mids at the source: here it is one of the groups that come alone.
func (t *takeover) dropRange(records []byte) (n int, end uint64, err error) {
	s, b := t.s, t.play.Batch
	if n, err = format.DecodeRecord(records, &t.rec); err != nil {
		return 0, 0, err
	}
	s.Applying.Lock()
	defer s.Applying.Unlock()
	if err := t.in.repl.admitCursors(); err != nil {
		return 0, 0, err
	}
	if err := b.BeginExclusive(); err != nil {
		return 0, 0, err
	}
	defer b.End()
	if err := t.ready(); err != nil {
		return 0, 0, err
	}
	rec := &t.rec
	if now := s.Schema.Load(); now.CounterByID(rec.Counter) == nil && rec.Counter > now.LastCounter() {
		return 0, 0, fmt.Errorf("%w: counter %d", ErrBehind, rec.Counter)
	}
	rec.Groups = rec.Groups.Both(t.groups)
	if end, err = s.Log.Append(format.AppendDropRange(nil, rec.Counter, rec.Mid, rec.Value, rec.Groups)); err != nil {
		return 0, 0, err
	}
	s.Altered = end
	t.play.Begin(end, nil)
	return n, end, t.play.Apply(end, rec)
}
