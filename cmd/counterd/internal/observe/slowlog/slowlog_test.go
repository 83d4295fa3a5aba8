package slowlog

import (
	"fmt"
	"testing"
	"time"
)

// TestSlowlogRing compares the ring with a list.
func TestSlowlogRing(t *testing.T) {
	var log Log
	log.Configure(0, 4)
	var model []string
	check := func() {
		t.Helper()
		for _, n := range []int{0, 1, 3, 100} {
			got := log.Newest(n)
			if len(got) != min(n, len(model)) {
				t.Fatalf("Newest(%d) has %d of %d", n, len(got), len(model))
			}
			for i, e := range got {
				if e.Args[0] != model[len(model)-1-i] {
					t.Fatalf("Newest(%d): entry %d is %s, want %s", n, i, e.Args[0], model[len(model)-1-i])
				}
			}
		}
	}
	next := 0
	for _, step := range []struct{ add, length int }{{3, 4}, {1, 4}, {6, 4}, {3, 2}, {5, 2}, {2, 7}, {9, 7}, {2, 0}, {3, 5}} {
		log.Configure(0, step.length)
		model = model[max(0, len(model)-step.length):]
		check()
		for range step.add {
			next++
			name := fmt.Sprint(next)
			log.Add(Entry{Args: []string{name}, Took: time.Second})
			model = append(model, name)
			model = model[max(0, len(model)-step.length):]
			check()
		}
	}
	if int(log.last) != next {
		t.Errorf("last number is %d, want %d", log.last, next)
	}
}
