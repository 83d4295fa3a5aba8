package core

import (
	"testing"

	"github.com/counterd/counterd/counter/internal/gate"
)

// TestUseDoor: batches with different numbers are in different rooms, so that loops do not write each other's cache lines. The same number
// leads to the same room.
func TestUseDoor(t *testing.T) {
	d := NewData(Config{Manual: true}, nil)
	defer d.Release(nil)
	d.Gate = gate.New(2)
	in := func(n int) *gate.Room {
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
