package counter

import (
	"errors"
	"math"
	"time"

	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/counter/internal/window"
	"github.com/counterd/counterd/schema"
)

// ErrDerived refuses an operation that gives a derived column a value. Nothing was changed.
var ErrDerived = core.ErrDerived

// Windows keeps the windows of derived columns going: it moves the time of the log on, and removes what no window counts any more.
type Windows struct{ s *Store }

// Windows are those of the store's derived columns.
func (s *Store) Windows() Windows { return Windows{s} }

// Due tells whether a tick is due at a moment: a bucket of a derived column has ended, or an hour has gone since the last tick. Where the time of the log would move on by more than a day,
// ahead says so.
func (w Windows) Due(now time.Time) (due, ahead bool) {
	d := &w.s.data
	next, ok := d.Time.Next(d.Schema.Load())
	if !ok || now.Unix() < next {
		return false, false
	}
	was := d.Time.Seconds()
	return true, was > 0 && now.Unix()-was > window.FarAhead
}

// Overdue is for how long the next tick has been due at a moment: while it is, no bucket of a window ends. ok is false if no column needs ticks, or
// there was no tick yet.
func (w Windows) Overdue(now time.Time) (d time.Duration, ok bool) {
	next, ok := w.s.data.Time.Next(w.s.data.Schema.Load())
	if !ok || w.Time() == 0 {
		return 0, false
	}
	return max(0, now.Sub(time.Unix(next, 0))), true
}

// Time is that of the log, in seconds since 1970; 0: there was no tick yet.
func (w Windows) Time() int64 { return w.s.data.Time.Seconds() }

// Tick moves the time of the log on to a moment, if may still says so when everything else is kept out. nil: it may. The error is one of changes,
// or of the disk.
func (w Windows) Tick(to time.Time, may func() bool) error {
	if err := w.s.repl.AdmitCursors(); err != nil && !errors.Is(err, ErrInMemory) {
		return err
	}
	b := w.s.NewBatch()
	if err := b.BeginExclusive(); err != nil {
		return err
	}
	var err error
	if may == nil || may() {
		err = b.Whole().Tick(to.Unix())
	}
	b.End()
	return errors.Join(err, b.Commit())
}

// Begin makes the first tick of a log that has derived columns and no time yet, as that of a directory that was built: additions before it count nothing in
// a window. It does nothing where changes are refused; the first tick comes later then.
func (w Windows) Begin() {
	now := w.s.data.Config.Now()
	if due, _ := w.Due(now); due && w.Time() == 0 {
		_ = w.Tick(now, nil) // the keeper of windows tries again, and tells
	}
}

// Sweep removes the items of a derived column that count nothing any more, in small steps, and returns how many. It ends early where may says so.
// nil: it does not. The error is one of changes, or of the disk, or a *DroppedError.
func (w Windows) Sweep(of *schema.Derived, may func() bool) (removed int, err error) {
	for _, where := range staleWhere(of, w.Time()) {
		u, err := core.NewUpdate(Query{Counter: of.Space, To: math.MaxUint64, Where: where}, []Change{{Kind: OpDelete}}, ReturnNothing)
		if err != nil {
			return removed, err
		}
		done := false
		err = w.s.steps(func(b *Batch) (bool, error) {
			var err error
			done, err = u.Step(b)
			return done, err
		}, func() bool { return may == nil || may() })
		removed += u.Changed()
		if err != nil || !done {
			return removed, err
		}
	}
	return removed, nil
}

// staleWhere are the conditions of items that count no more, one list or the other. Those of a column that decays have faded. Of a window, their newest
// bucket is in no window any more: the kept bits of its
// number are not among those of the window and of some buckets to come.
func staleWhere(of *schema.Derived, now int64) [][]Condition {
	if of.Decays() {
		if faded := of.Faded(now); faded > 0 {
			return [][]Condition{{{Column: schema.DecayedSum, Op: LessEqual, Value: faded}}}
		}
		return nil
	}
	const kept = 1 << schema.BucketBits
	today := of.Window.At(now)
	lo := uint64(today-int64(of.Window.Buckets())+1) % kept
	hi := uint64(today+kept/4) % kept
	below := Condition{Column: schema.LastBucket, Op: Less, Value: lo}
	above := Condition{Column: schema.LastBucket, Op: Greater, Value: hi}
	if lo > hi {
		return [][]Condition{{below, above}}
	}
	return [][]Condition{{below}, {above}}
}
