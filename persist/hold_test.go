// Scenario: a change of many records is one frame

package persist

import (
	"testing"
	"time"

	"github.com/counterd/counterd/persist/format"
)

// TestHold: what is appended between HoldFrame and ReleaseFrame is one frame and nothing else is in it, whatever others wait for
// meanwhile and however large it gets; above MaxFramePayload it is several frames. It says that it is one change, and
// the frames around it do not.
func TestHold(t *testing.T) {
	for _, size := range []int{3, 3 << 10, 300 << 10, format.MaxFramePayload - 100, 2*format.MaxFramePayload + 100} {
		c := newClock()
		opts := smallLog(newFS(t), c)
		opts.SegmentBytes = 32 << 20
		l, _, err := OpenLog(opts, 0, nil)
		must(t, err)
		l.AppendSet(1, 1, 1, 1)
		must(t, l.Sync())
		written := l.Written()
		before := l.AppendSet(1, 1, 2, 2)
		l.HoldFrame()
		done := make(chan error, 2)
		records, pos := 1, before
		for i := 0; pos < before+uint64(size); i++ {
			pos = l.AppendSet(1, 1, 1<<62+uint64(i), 1<<60)
			if records++; i%1000 == 0 {
				c.At = c.At.Add(time.Second)
			}
			if i == 0 {
				go func() { done <- l.Commit(before) }()
				go func() { done <- l.Sync() }()
				time.Sleep(time.Millisecond)
			}
		}
		if now := l.Written(); now > before && size < format.MaxFramePayload {
			t.Errorf("%d bytes: held, and written up to %d, before %d", size, now, before)
		}
		l.ReleaseFrame()
		l.AppendSet(1, 1, 3, 3)
		records++
		must(t, <-done)
		must(t, <-done)
		must(t, l.Sync())
		r, err := l.NewReader(written)
		must(t, err)
		frames, got, whole := 0, 0, uint64(0)
		for {
			f, err := r.TryNext()
			must(t, err)
			if f == nil {
				break
			}
			if frames++; f.Whole {
				whole += f.End() - f.Start
			}
			if plain := f.Start < before || f.Start >= pos; f.Whole == plain {
				t.Errorf("%d bytes: frame %d to %d, one change: %t; held from %d to %d", size, f.Start, f.End(), f.Whole, before, pos)
			}
			var rec format.Record
			must(t, f.Records(&rec, 0, func(uint64, *format.Record) error { got++; return nil }))
		}
		if want := 3 + size/format.MaxFramePayload; frames != want || got != records || whole != pos-before {
			t.Errorf("%d bytes: %d records in %d frames, want %d in %d; %d of %d bytes in whole ones", size, got, frames, records, want, whole, pos-before)
		}
		must(t, r.Close())
		must(t, l.Close())
	}
}
