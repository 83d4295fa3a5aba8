package freeport

import "testing"

// TestTake takes more ports than the kernel offers before it repeats one.
func TestTake(t *testing.T) {
	seen := map[int]bool{}
	for range 3000 {
		port := Take(t)
		if seen[port] {
			t.Fatalf("port %d was given twice", port)
		}
		seen[port] = true
	}
}
