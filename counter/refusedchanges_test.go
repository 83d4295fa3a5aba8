// Scenario: changes are refused while others make them.

package counter

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

// TestRefuse has changes made by several goroutines while they are refused again and again: none is made in between.
func TestRefuse(t *testing.T) {
	s, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.AlterScript("add counter c\nadd column c n hint=16 max=48 suffix=n"); err != nil {
		t.Fatal(err)
	}
	halt := errors.New("halt")
	var stop atomic.Bool
	var group sync.WaitGroup
	var made, refused atomic.Int64
	for range 4 {
		group.Go(func() {
			for !stop.Load() {
				switch _, err := s.Incr("7.n", 1); {
				case err == nil:
					made.Add(1)
				case errors.Is(err, halt):
					refused.Add(1)
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	r := s.Replication()
	for round := 0; round < 200 || refused.Load() == 0 && !t.Failed(); round++ {
		r.Refuse(halt)
		before := r.Position()
		if _, _, err := s.Get("7.n"); err != nil {
			t.Errorf("a read: %v", err)
		}
		if after := r.Position(); after != before {
			t.Fatalf("round %d: the log grew from %d to %d while changes are refused", round, before, after)
		}
		r.Refuse(nil)
	}
	stop.Store(true)
	group.Wait()
	if n, _, err := s.Get("7.n"); err != nil || int64(n) != made.Load() {
		t.Errorf("got %d, %v, want %d", n, err, made.Load())
	}
}
