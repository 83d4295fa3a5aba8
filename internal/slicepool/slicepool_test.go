package slicepool

import "testing"

// TestPool: a slice that is taken is empty and has the room that was asked for; a shorter one is not taken. Which slices the pool still has is
// the collector's choice, so nil is right at any time.
func TestPool(t *testing.T) {
	var p Pool[int]
	if got := p.Take(1); got != nil {
		t.Fatalf("an empty pool gave %v", got)
	}
	for taken, round := 0, 0; taken < 10; round++ {
		if round == 10_000 {
			t.Fatalf("%d of %d slices were taken again", taken, round)
		}
		p.Give(append(make([]int, 0, 8), 1, 2, 3))
		if got := p.Take(9); got != nil {
			t.Fatalf("a slice of %d was taken for 9 elements", cap(got))
		}
		p.Give(append(make([]int, 0, 8), 1, 2, 3))
		if got := p.Take(8); got != nil {
			taken++
			if len(got) != 0 || cap(got) < 8 {
				t.Fatalf("taken: %d elements, room for %d, want none and room for 8", len(got), cap(got))
			}
		}
	}
}
