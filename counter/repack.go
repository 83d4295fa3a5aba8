package counter

import (
	"sync"
	"sync/atomic"
	"time"
)

// repacker brings blocks to their counter's present columns after a change of the schema, and chooses widths again
// (widths.go), one block at a time, in the background. It keeps the gate only for the moment of one block, and pauses
// after each for as long as that took, so it takes half a core at most and never two blocks at once from their writers.
type repacker struct {
	wakeup chan struct{}
	quit   chan struct{}
	done   chan struct{}
	once   sync.Once
	blocks atomic.Int64 // that got another layout, or were looked at for that
	nanos  atomic.Int64 // that this took
}

// Repacks tells how many blocks were packed anew in the background since the start, for columns that came or went or
// for better widths, and how long that took.
func (a Admin) Repacks() (blocks int64, took time.Duration) {
	r := &a.s.repacker
	return r.blocks.Load(), time.Duration(r.nanos.Load())
}

func (r *repacker) start(s *Store) {
	r.wakeup = make(chan struct{}, 1)
	r.quit = make(chan struct{})
	r.done = make(chan struct{})
	go r.run(s)
}

func (r *repacker) stop() {
	r.once.Do(func() { close(r.quit) })
	<-r.done
}

func (r *repacker) wake() {
	select {
	case r.wakeup <- struct{}{}:
	default: // it will look at everything anyway
	}
}

func (r *repacker) run(s *Store) {
	defer close(r.done)
	tick := time.NewTicker(settleTick)
	defer tick.Stop()
	for {
		select {
		case <-r.quit:
			return
		case <-r.wakeup:
		case <-tick.C:
		}
		for n := 0; r.keyspace(s, n); n++ {
		}
	}
}

// keyspace re-packs the blocks of one keyspace, see keyspaceAt. It answers false when there is none of that number or
// above, or on stop.
func (r *repacker) keyspace(s *Store, n int) bool {
	for lo := uint64(0); ; {
		s.gate.RLock()
		ks, more := s.keyspaceAt(n)
		if ks == nil {
			s.gate.RUnlock()
			return more
		}
		began := time.Now()
		b := ks.lock(lo)
		ks.recognize(b)
		// Out of memory: the block keeps its old layout, which is answered correctly all the same.
		worked := true
		switch {
		case !ks.current(b):
			b, _ = ks.repack(b, lo)
		case b.settles(began):
			b, _ = ks.settle(b)
		default:
			worked = false
		}
		hi, last := b.hi, b.open()
		b.mu.Unlock()
		s.gate.RUnlock()
		if last {
			return true
		}
		lo = hi
		pause := time.Duration(0)
		if worked {
			pause = time.Since(began)
			r.blocks.Add(1)
			r.nanos.Add(int64(pause))
		}
		select {
		case <-r.quit:
			return false
		case <-time.After(pause):
		}
	}
}
