package counter

import (
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"
)

// TestGate: while a writer is in, no reader is, by whichever of the gate's locks it comes; and those are on lines of
// their own.
func TestGate(t *testing.T) {
	if size := unsafe.Sizeof(door{}); size%128 != 0 {
		t.Errorf("a door takes %d bytes", size)
	}
	g := gate{doors: make([]door, 3)}
	var inside atomic.Int64
	written := 0
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			var d sync.Locker = g.door().RLocker()
			if i == 7 { // who comes seldom
				d = locker{g.RLock, g.RUnlock}
			}
			for range 1000 {
				d.Lock()
				inside.Add(1)
				_ = written // the race detector looks
				inside.Add(-1)
				d.Unlock()
			}
		})
	}
	for range 2 {
		wg.Go(func() {
			for range 200 {
				g.Lock()
				if n := inside.Load(); n != 0 {
					t.Errorf("%d readers beside a writer", n)
				}
				written++
				g.Unlock()
			}
		})
	}
	wg.Wait()
	if written != 400 {
		t.Errorf("written %d times", written)
	}
}

type locker struct{ lock, unlock func() }

func (l locker) Lock()   { l.lock() }
func (l locker) Unlock() { l.unlock() }
