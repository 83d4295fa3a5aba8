package core

import (
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/format"
)

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
			if was == 0 || of.Decays() || of.Window.At(seconds)-of.Window.At(was) < int64(of.Window.Buckets()) {
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
	d.Time.Advance(uint64(seconds))
	return nil
}
