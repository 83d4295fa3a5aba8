package core

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
	if size := unsafe.Sizeof(door{}); size%128 != 0 {
		t.Errorf("a door takes %d bytes", size)
	}
	if size := unsafe.Sizeof(room{}); size%128 != 0 {
		t.Errorf("a room takes %d bytes", size)
	}
	g := newGate(3)
	var inside atomic.Int64
	written := 0
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			var d sync.Locker = &visitor{door: g.door()}
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
	door *door
	room *room
}

func (v *visitor) Lock()   { v.room = v.door.enter() }
func (v *visitor) Unlock() { v.room.leave() }

// TestGateLateReader: a reader that stays keeps a writer waiting and no other reader, however often writers come; when it
// leaves, they get in.
func TestGateLateReader(t *testing.T) {
	g := newGate(2)
	late := g.door().enter()
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
			g.door().enter().leave()
		}
		if late.shut.Load() && g.doors[0].room.Load() != late { // it was left behind
			break
		}
		time.Sleep(time.Millisecond)
	}
	for range 2 * len(g.doors) {
		g.door().enter().leave()
	}
	if in.Load() != 0 {
		t.Error("a writer is beside a reader")
	}
	late.leave()
	wg.Wait()
	if in.Load() != 3 {
		t.Errorf("%d writers got in, want 3", in.Load())
	}
	g.door().enter().leave()
}

type locker struct{ lock, unlock func() }

func (l locker) Lock()   { l.lock() }
func (l locker) Unlock() { l.unlock() }

// TestUseDoor: batches with different numbers are in different rooms, so that loops do not write each other's cache lines. The same number
// leads to the same room.
func TestUseDoor(t *testing.T) {
	d := NewData(Config{Manual: true}, nil)
	defer d.Release(nil)
	d.Gate = newGate(2)
	in := func(n int) *room {
		b := d.NewBatch()
		for range 2 { // a batch that had another door before
			UseDoor(b, n+1)
			UseDoor(b, n)
		}
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		defer b.End()
		return b.room
	}
	if a, b := in(0), in(1); a == b || a != in(0) || b != in(1) || a != in(2) {
		t.Errorf("numbers 0, 1, 2 of two doors: got rooms %p, %p, %p", a, b, in(2))
	}
}
