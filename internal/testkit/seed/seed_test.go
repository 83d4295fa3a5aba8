package seed

import "testing"

// TestSeed: a given seed is used, and all generators of a run begin at the same place.
func TestSeed(t *testing.T) {
	if a, b := Rand(t).Uint64(), Rand(t).Uint64(); a != b || Of(t) != *Value || Next(t)+1 != Next(t) {
		t.Errorf("one seed gave %d and %d", a, b)
	}
}
