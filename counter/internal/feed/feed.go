package feed

import (
	"errors"

	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/counter/internal/replica"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/schema"
)

// Feed reads the changes of a store's log, one after the other. It belongs to one goroutine and must be closed. It takes no
// lock of the store while the caller holds a change.
type Feed struct {
	log    Source
	reader *persist.Reader // nil: the log has not come to the position yet
	held   *format.Frame   // read, and not safe when it was
	sure   bool            // a frame was read: the position was one of the log
	needs  uint64          // log offset that was not safe yet when it was last looked for a change
	decoder
}

// Source is a store's log as feeds see it.
type Source struct {
	data *core.Data
	repl *replica.Replication
}

// NewSource returns the source of a store's feeds.
func NewSource(d *core.Data, r *replica.Replication) Source { return Source{d, r} }

// moves tells whether groups of hash slots may be on their way here.
func (l Source) moves() bool { return l.data.SlotGroups || l.data.Config.Elected }

// Open opens a feed of the changes behind a position. The error is a *GoneError, *HistoryError or *MalformedError, ErrInMemory
// where there is no log, or one of package persist.
//
// A position that is ahead of this log is no error: the feed gives nothing until the log has come to it. Open reads no file if the position
// is Kept: Next opens the log when there is something to give.
func (l Source) Open(at Position, filter Filter) (*Feed, error) {
	if l.data.Log == nil {
		return nil, core.ErrInMemory
	}
	f := &Feed{log: l}
	f.numbers.data = l.data
	f.at, f.filter = at, filter
	ahead, err := f.check()
	if err == nil && !ahead && !l.Kept(at) {
		err = l.gone(format.ErrGone)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Kept tells whether the log behind a position is kept. It reads no file. Where it is not kept, Open reads the log to name the oldest position.
func (l Source) Kept(at Position) bool { return l.data.Log == nil || at.Frame >= l.repl.First() }

// check tells whether the position is of this log: see Position.check.
func (f *Feed) check() (ahead bool, err error) {
	end := f.log.repl.Written() // before the lineage, which then has the terms of all written log
	past := f.log.repl.Lineage()
	return f.at.check(&past, end, f.log.moves())
}

// open opens the log at the position, if it has come to it.
func (f *Feed) open() error {
	ahead, err := f.check()
	if ahead || err != nil {
		return err
	}
	r, err := f.log.repl.NewReaderAt(f.at.Frame)
	switch {
	case errors.Is(err, format.ErrGone):
		return f.log.gone(err)
	case errors.Is(err, format.ErrAhead):
		return nil
	case err != nil:
		return unreadable(err)
	}
	f.reader = r
	return nil
}

// Next returns the next change that ends at or before the offset safe. It returns nil if there is none yet, or if it has read a number
// of bytes of log without a change that is shown: then Position is another than before. Changes that a crash or another node may
// take back must lie behind safe. Errors are those of Open; a *format.CorruptError where the log is damaged; or matches
// format.ErrClosed.
func (f *Feed) Next(safe uint64, most int) (*Change, error) {
	for end := f.at.Offset() + uint64(most); f.frame != nil || f.at.Offset() < end; {
		if ok, err := f.load(safe); !ok || err != nil {
			return nil, err
		}
		for f.frame != nil {
			if err := f.next(); err != nil {
				return nil, err
			}
			if len(f.change.Parts) > 0 {
				return &f.change, nil
			}
		}
	}
	return nil, nil
}

// Position is behind the last change, and behind all changes after it that are not shown.
func (f *Feed) Position() Position { return f.at }

// Offset is the log offset of Position.
func (f *Feed) Offset() uint64 { return f.at.Offset() }

// Needs is the log offset that must be safe before there can be another change: behind Offset, and where Next has given nothing, perhaps behind
// a later change of the schema.
func (f *Feed) Needs() uint64 { return max(f.at.Offset()+1, f.needs) }

// Close closes the feed. It may be called twice.
func (f *Feed) Close() error {
	f.drop()
	return f.Rest()
}

// Rest gives the file and the memory with which the log is read to others, while the caller waits for changes: 256 KiB of each client that waits for
// changes of a few posts would be 2.5 GB of 10,000 clients. Next opens the log again. Within a frame Rest does nothing.
func (f *Feed) Rest() error {
	if f.frame != nil || f.reader == nil {
		return nil
	}
	err := f.reader.Release()
	f.reader, f.held = nil, nil
	return err
}

// load makes the next frame the one to decode, if all of it is safe.
func (f *Feed) load(safe uint64) (ok bool, err error) {
	if f.frame != nil {
		return true, nil
	}
	if f.at.Offset() >= safe {
		return false, nil
	}
	if f.reader == nil {
		if err := f.open(); f.reader == nil || err != nil {
			return false, err
		}
	}
	if f.held == nil {
		if f.held, err = f.reader.TryNext(); f.held == nil || err != nil {
			return false, f.failure(err)
		}
		f.sure = true
	}
	names, altered := f.log.names()
	if f.needs = max(f.held.End(), altered); f.needs > safe {
		return false, nil
	}
	frame := f.held
	f.held = nil
	if err := f.begin(frame, names); err != nil {
		return false, err
	}
	past := f.log.repl.Lineage()
	f.at.name(&past, frame.Start+1)
	return true, nil
}

// names is the schema that names come from, and the log offset up to which all must be safe for that: a record that drops a column,
// and with it values that were not shown yet, might be taken back. It may have been replayed by the last start, too.
func (l Source) names() (s *schema.Schema, altered uint64) {
	d := l.data
	d.Gate.RLock()
	defer d.Gate.RUnlock()
	return d.Schema.Load(), max(d.Altered, d.Replayed)
}

// failure tells a position that is none from damage of the log: a reader at a place where no frame begins finds no frame there
// either.
func (f *Feed) failure(err error) error {
	if errors.Is(err, format.ErrGone) {
		return f.log.gone(err)
	}
	if !errors.Is(err, format.ErrCorrupt) || f.sure {
		return unreadable(err)
	}
	r, slow := f.log.repl.NewReader(f.at.Frame) // which reads all frames of the segment before it
	if slow != nil {
		return err
	}
	at := r.Pos()
	if err := r.Close(); err != nil {
		return err
	}
	if at != f.at.Frame {
		return f.malformed()
	}
	return err
}

// Oldest is the oldest position that can be read. Where groups of hash slots may be on their way here, that is one where a
// snapshot tells of these.
func (l Source) Oldest() (Position, error) {
	if l.data.Log == nil {
		return Position{}, core.ErrInMemory
	}
	first, past := l.repl.First(), l.repl.Lineage()
	if first == 0 || !l.moves() {
		return positionAt(&past, first), nil
	}
	manifests := l.repl.Manifests()
	for i := len(manifests) - 1; i >= 0; i-- {
		m := manifests[i]
		if m.Replay < first {
			continue
		}
		var moving core.Moves
		moving.Load(m.Moving)
		return l.within(m.Replay, moving.Imported())
	}
	return Position{}, format.ErrGone // the log is never dropped behind the newest snapshot
}

// within is the position at a log offset where a record ends.
func (l Source) within(offset uint64, coming slot.Set) (Position, error) {
	r, err := l.repl.NewReader(offset)
	if err != nil {
		return Position{}, unreadable(err)
	}
	past := l.repl.Lineage()
	p := Position{Frame: r.Pos(), Into: uint32(offset - r.Pos()), Coming: coming}
	p.name(&past, offset)
	return p, r.Close()
}

// gone makes the error of a position that is no longer kept.
func (l Source) gone(err error) error {
	oldest, failed := l.Oldest()
	if failed != nil {
		return errors.Join(err, failed)
	}
	return &GoneError{oldest}
}

// Now is the position at the offset safe, which is as Next's. The error is ErrInMemory, or ErrUnsettled.
func (l Source) Now(safe uint64) (Position, error) {
	d := l.data
	if d.Log == nil {
		return Position{}, core.ErrInMemory
	}
	if safe < l.repl.First() || safe == 0 && l.repl.Written() > 0 { // the safe offset is not known yet
		return Position{}, ErrUnsettled
	}
	if !l.moves() {
		past := l.repl.Lineage()
		return positionAt(&past, safe), nil
	}
	d.Applying.RLock() // all of the log is applied
	d.Gate.RLock()
	coming, altered := d.Moving.Imported(), d.Altered
	d.Gate.RUnlock()
	d.Applying.RUnlock()
	if altered > safe {
		return Position{}, ErrUnsettled
	}
	past := l.repl.Lineage()
	p := positionAt(&past, safe)
	p.Coming = coming
	return p, nil
}
