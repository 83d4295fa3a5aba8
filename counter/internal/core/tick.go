package core

import (
	"slices"

	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/counter/internal/toplist"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/schema"
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
			if !outlives(of, was, seconds) {
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
	d.topsTick(was)
	return nil
}

// outlives tells whether a step of the time of the log takes it past all buckets of a window.
func outlives(of *schema.Derived, was, seconds int64) bool {
	return was > 0 && !of.Decays() && of.Window.At(seconds)-of.Window.At(was) >= int64(of.Window.Buckets())
}

// TimeBehind tells whether a tick of the clock would remove all items of a window: the time of the log stands still for ten minutes where the clock is
// more than a day ahead, as behind a long stop.
func (d *Data) TimeBehind() bool {
	was, now := d.Time.Seconds(), d.Config.Now().Unix()
	return slices.ContainsFunc(d.Schema.Load().Counters(), func(def *schema.Counter) bool {
		return slices.ContainsFunc(def.Derived, func(of schema.Derived) bool { return outlives(&of, was, now) })
	})
}

// topsTick reads the posts of the lists of windows again of which a bucket ended, as the time of the log moved on from was. REQUIRES that nothing else is
// changed meanwhile.
func (d *Data) topsTick(was int64) {
	now := d.Time.Seconds()
	for _, sp := range d.Spaces {
		if sp == nil || sp[0].Tops == nil || sp[0].Tops.Sum == nil || !sp[0].Def.WindowMoves(was, now) {
			continue
		}
		if d.RefreshSums(sp, sp[0].Tops.Sum); sp[0].Tops.Sum.Short() {
			d.wakeLists()
		}
	}
}

// RefreshSums reads the sums of the posts of a list again, until the time stands still meanwhile. REQUIRES Data.Gate held, or a replay.
func (d *Data) RefreshSums(sp block.Space, l *toplist.List) {
	for {
		now := d.Time.Seconds()
		for _, mid := range l.Mids() {
			ks := sp.Of(mid)
			blk := ks.Lock(mid)
			sum, err := SumOf(ks, blk, mid, now)
			if err == nil {
				l.Refresh(toplist.Entry{Value: sum, Mid: mid}, sum == 0)
			}
			blk.Mu.Unlock()
			if err != nil {
				l.Reset()
				d.wakeLists()
				return
			}
		}
		if d.Time.Seconds() == now {
			return
		}
	}
}
