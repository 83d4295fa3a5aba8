package core

import (
	"sync/atomic"

	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/format"
)

// Clock is the time of the log, by which windows are counted: that of its last tick. So all nodes that have the same log have the same time,
// and read the same values. It never goes back: a clock of the machine that is set back leaves it where it is until the clock has
// come there again. 0: there was no tick.
type Clock struct{ seconds atomic.Int64 }

// Seconds is the time, in seconds since 1970.
func (c *Clock) Seconds() int64 { return c.seconds.Load() }

// advance moves the time on.
func (c *Clock) advance(to uint64) { c.seconds.Store(max(c.seconds.Load(), int64(to))) }

// Load takes over the time of a manifest; 0: there was none.
func (c *Clock) Load(seconds uint64) { c.seconds.Store(int64(seconds)) }

// FarAhead is how many seconds a clock may be ahead of the time of the log, and is believed at once.
const FarAhead = 24 * 60 * 60

// tickWithin is how many seconds there are between ticks at most: long buckets must not make a clock that is right look far ahead.
const tickWithin = 60 * 60

// NextTick is when the next tick is due, in seconds since 1970: when a bucket of a derived column ends, or an hour after the one before. ok is false
// if there is no such column.
func (d *Data) NextTick() (seconds int64, ok bool) {
	now := d.Time.Seconds()
	for _, def := range d.Schema.Load().Counters() {
		for i := range def.Derived {
			w := def.Derived[i].Window
			if next := (w.At(now) + 1) * w.Bucket; !ok || next < seconds {
				seconds, ok = next, true
			}
		}
	}
	if ok && now > 0 {
		seconds = min(seconds, now+tickWithin)
	}
	return seconds, ok
}

// Tick moves the time of the log on to a moment, if that is later, and logs it. Where that is so much later that all of a window has gone, its
// items are removed at once: the kept bits of old buckets' numbers would stand for new ones in the end. Else Windows.Sweep removes it in time. REQUIRES the batch to be open by BeginExclusive, and
// Replication.AdmitCursors where there is a log. The error is one of changes; nothing was changed then.
func (w Whole) Tick(seconds int64) error {
	b, d := w.b, w.b.data
	was := d.Time.Seconds()
	if seconds <= was || seconds > format.MaxTick {
		return nil
	}
	if d.Log != nil {
		if err := d.TakesChanges(); err != nil {
			return err
		}
		if !d.Cursors.Admitted.Load() {
			return errNotAdmitted
		}
	}
	for _, def := range d.Schema.Load().Counters() {
		for i := range def.Derived {
			of := &def.Derived[i]
			if was == 0 || of.Window.At(seconds)-of.Window.At(was) < int64(of.Window.Buckets()) {
				continue
			}
			if err := w.clear(of.Space, 0, hot.EndMid, slot.AllGroups().Minus(d.Own.Foreign)); err != nil {
				return err
			}
		}
	}
	if d.Log != nil {
		pos, err := d.Log.Append(format.AppendTick(nil, uint64(seconds)))
		if err != nil {
			return err
		}
		b.pos = pos // not Altered: a read need not wait for a tick. If the tick is lost, only time is, and the next one comes within a second
	}
	d.Time.advance(uint64(seconds))
	return nil
}
