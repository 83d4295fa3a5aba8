package persist

import (
	"testing"
	"time"
)

// TestHold: what is appended between Hold and Release is one frame with what was not written before, whatever others wait for meanwhile and however
// large it gets; above MaxFramePayload it is several frames.
func TestHold(t *testing.T) {
	for _, size := range []int{3, 3 << 10, 300 << 10, MaxFramePayload - 100, 2*MaxFramePayload + 100} {
		c := newClock()
		opts := smallLog(newFS(t), c)
		opts.SegmentBytes = 32 << 20
		l, _, err := OpenLog(opts, 0, nil)
		must(t, err)
		l.AppendSet(1, 1, 1, 1)
		must(t, l.Sync())
		written := l.Written()
		before := l.AppendSet(1, 1, 2, 2)
		l.Hold()
		done := make(chan error, 2)
		records, pos := 1, before
		for i := 0; pos < before+uint64(size); i++ {
			pos = l.AppendSet(1, 1, 1<<62+uint64(i), 1<<60)
			if records++; i%1000 == 0 {
				c.now = c.now.Add(time.Second)
			}
			if i == 0 {
				go func() { done <- l.Commit(before) }()
				go func() { done <- l.Sync() }()
				time.Sleep(time.Millisecond)
			}
		}
		if now := l.Written(); now != written && size < MaxFramePayload {
			t.Errorf("%d bytes: held, and written up to %d, before %d", size, now, written)
		}
		l.Release()
		must(t, <-done)
		must(t, <-done)
		must(t, l.Sync())
		r, err := l.NewReader(written)
		must(t, err)
		frames, got := 0, 0
		for {
			f, err := r.TryNext()
			must(t, err)
			if f == nil {
				break
			}
			frames++
			var rec Record
			must(t, f.Records(&rec, 0, func(uint64, *Record) error { got++; return nil }))
		}
		if want := 1 + size/MaxFramePayload; frames != want || got != records {
			t.Errorf("%d bytes: %d records in %d frames, want %d in %d", size, got, frames, records, want)
		}
		must(t, r.Close())
		must(t, l.Close())
	}
}
