package gate

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"
)

// TestGate: while a writer is in, no reader is, by whichever of the gate's locks it comes; and those are on lines of
// their own.
func TestGate(t *testing.T) {
	if size := unsafe.Sizeof(Door{}); size%128 != 0 {
		t.Errorf("a door takes %d bytes", size)
	}
	if size := unsafe.Sizeof(Room{}); size%128 != 0 {
		t.Errorf("a room takes %d bytes", size)
	}
	g := New(3)
	var inside atomic.Int64
	written := 0
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			var d sync.Locker = &visitor{door: g.Door()}
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

// visitor is a reader by a door.
type visitor struct {
	door *Door
	room *Room
}

func (v *visitor) Lock()   { v.room = v.door.Enter() }
func (v *visitor) Unlock() { v.room.Leave() }

// TestGateLateReader: a reader that stays keeps a writer waiting and no other reader, however often writers come; when it
// leaves, they get in.
func TestGateLateReader(t *testing.T) {
	g := New(2)
	late := g.Door().Enter()
	var in atomic.Int64
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			g.Lock()
			in.Add(1)
			g.Unlock()
		})
	}
	for late.gate.writers.TryLock() { // until one is at it
		late.gate.writers.Unlock()
		runtime.Gosched()
	}
	for range 100 {
		for range 2 * len(g.doors) {
			g.Door().Enter().Leave()
		}
		if late.shut.Load() && g.doors[0].room.Load() != late { // it was left behind
			break
		}
		time.Sleep(time.Millisecond)
	}
	for range 2 * len(g.doors) {
		g.Door().Enter().Leave()
	}
	if in.Load() != 0 {
		t.Error("a writer is beside a reader")
	}
	late.Leave()
	wg.Wait()
	if in.Load() != 3 {
		t.Errorf("%d writers got in, want 3", in.Load())
	}
	g.Door().Enter().Leave()
}

type locker struct{ lock, unlock func() }

func (l locker) Lock()   { l.lock() }
func (l locker) Unlock() { l.unlock() }
