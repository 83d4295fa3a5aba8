package client

import (
	"sync"
	"testing"
)

// TestBudget makes repeats of 10 % of the requests, and a burst.
func TestBudget(t *testing.T) {
	b := newBudget(10, 50)
	took := func() (n int) {
		for b.repeat() {
			n++
		}
		return n
	}
	if n := took(); n != 50 {
		t.Errorf("a new budget has %d repeats, want 50", n)
	}
	for range 9 {
		b.request()
	}
	if n := took(); n != 0 {
		t.Errorf("9 requests give %d repeats", n)
	}
	b.request()
	if n := took(); n != 1 {
		t.Errorf("10 requests give %d repeats", n)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 30 {
				b.request()
			}
		})
	}
	wg.Wait()
	if n := took(); n != 24 {
		t.Errorf("240 requests give %d repeats", n)
	}
	for range 10_000 {
		b.request()
	}
	if n := took(); n != 50 {
		t.Errorf("10,000 requests give %d repeats, want the burst", n)
	}
}
