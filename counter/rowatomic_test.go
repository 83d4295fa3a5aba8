// Scenario: a row of several columns is seen whole.

package counter

import (
	"sync"
	"sync/atomic"
	"testing"
)

// TestRowAtomic: a row of several columns that is in no change set is seen whole by change sets of reads, although they read
// another post between two of its columns.
func TestRowAtomic(t *testing.T) {
	newRand(t)
	s := open(t, Options{}, "add counter a\nadd column a v hint=2 max=40 suffix=v\nadd column a w hint=2 max=40 suffix=w\nadd counter b\nadd column b x hint=2 max=40")
	def, other := s.Schema().Counter("a"), s.Schema().Counter("b")
	var done atomic.Bool
	var both sync.WaitGroup
	run := func(add func(b *Batch, round uint64)) {
		b := s.NewBatch()
		for round := uint64(1); !done.Load() && round < 100_000; round++ {
			if err := b.Begin(); err != nil {
				t.Error(err)
				return
			}
			b.Reset()
			add(b, round)
			b.Run()
			b.End()
			if b.Len() > 1 && b.Op(0).Value != b.Op(2).Value {
				t.Errorf("got %d and %d, want a row as it was given", b.Op(0).Value, b.Op(2).Value)
				return
			}
		}
	}
	both.Go(func() {
		defer done.Store(true)
		run(func(b *Batch, round uint64) {
			values := b.SetRow(def, 1, b.Shape([]int16{0, 1}, 1))
			values[0], values[1] = round, round
		})
	})
	both.Go(func() {
		defer done.Store(true)
		run(func(b *Batch, _ uint64) {
			for _, op := range []Op{{Counter: def}, {Counter: other}, {Counter: def, Column: 1}} {
				op.Kind, op.Mid = OpGet, 1
				b.Add(op)
			}
			b.ChangeSet(0)
		})
	})
	both.Wait()
}
