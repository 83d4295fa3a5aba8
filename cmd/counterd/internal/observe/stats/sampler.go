package stats

import (
	"runtime/metrics"
	"sync"
	"time"
)

// Rates are those of the time between the last two looks, a second.
type Rates struct{ Commands, InBytes, OutBytes float64 }

// Sampler measures what needs two looks. The zero Sampler is ready; its owner calls Sample about once a second.
type Sampler struct {
	mu    sync.Mutex // guards the rest
	at    time.Time
	last  [3]int64 // commands, bytes read, bytes written
	rates Rates
	peak  int64
}

// Sample takes a sample: commands and t are the totals until now. Totals that were reset count as no progress.
func (s *Sampler) Sample(now time.Time, commands int64, t *Totals) {
	totals := [3]int64{commands, t.InBytes.Load(), t.OutBytes.Load()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if past := now.Sub(s.at).Seconds(); !s.at.IsZero() && past > 0 {
		rate := func(i int) float64 { return float64(max(0, totals[i]-s.last[i])) / past }
		s.rates = Rates{rate(0), rate(1), rate(2)}
	}
	s.at, s.last = now, totals
}

// Rates returns those of the last look; 0 before the second.
func (s *Sampler) Rates() Rates {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rates
}

// Memory is the memory of the process, in bytes.
type Memory struct {
	Heap  int64 // objects of the Go heap
	Items int64 // items, which are kept outside of it
	Used  int64 // both
	RSS   int64 // resident, as the system sees it
	Peak  int64 // of Used, at any Memory so far
}

// Memory measures without stopping anybody. items is the memory of the items.
func (s *Sampler) Memory(items int64) Memory {
	heap := [1]metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap[:])
	m := Memory{Heap: int64(heap[0].Value.Uint64()), Items: items}
	m.Used = m.Heap + m.Items
	m.RSS = resident()
	if m.RSS == 0 { // the system does not tell
		m.RSS = m.Used
	}
	s.mu.Lock()
	s.peak = max(s.peak, m.Used)
	m.Peak = s.peak
	s.mu.Unlock()
	return m
}
