package server

import (
	"bytes"
	"os"
	"runtime/metrics"
	"strconv"
	"sync"
	"time"
)

// sampler measures what needs two looks: rates, and the peak of the memory used. The janitor samples each second.
type sampler struct {
	mu   sync.Mutex
	at   time.Time
	last [3]int64   // commands, bytes read, bytes written
	rate [3]float64 // of the same a second, over the last one
	peak int64
}

// sample is called about once a second.
func (s *Server) sample() {
	now := time.Now()
	totals := [3]int64{s.commands.Calls(), s.stats.inBytes.Load(), s.stats.outBytes.Load()}
	used := s.memory().used
	m := &s.sampler
	m.mu.Lock()
	defer m.mu.Unlock()
	if past := now.Sub(m.at).Seconds(); !m.at.IsZero() && past > 0 {
		for i := range totals {
			m.rate[i] = float64(max(0, totals[i]-m.last[i])) / past // RESETSTAT turns them back
		}
	}
	m.at, m.last = now, totals
	m.peak = max(m.peak, used)
}

// sampled returns the rates a second of commands, bytes read and bytes written.
func (s *Server) sampled() [3]float64 {
	s.sampler.mu.Lock()
	defer s.sampler.mu.Unlock()
	return s.sampler.rate
}

// memoryUse is what the process takes, in bytes.
type memoryUse struct {
	heap   int64 // objects of the Go heap
	blocks int64 // items, which are kept outside of it
	used   int64 // both
	rss    int64 // resident, as the system sees it
	peak   int64 // of used, looked at each second
}

// memory measures without stopping anybody.
func (s *Server) memory() memoryUse {
	heap := [1]metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap[:])
	m := memoryUse{heap: int64(heap[0].Value.Uint64()), blocks: s.store().Memory()}
	m.used = m.heap + m.blocks
	m.rss = resident()
	if m.rss == 0 { // the system does not tell
		m.rss = m.used
	}
	s.sampler.mu.Lock()
	s.sampler.peak = max(s.sampler.peak, m.used)
	m.peak = s.sampler.peak
	s.sampler.mu.Unlock()
	return m
}

// resident is the memory of the process that is in RAM, 0 if unknown. The second field of statm counts pages.
func resident() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// totalMemory is the machine's RAM in bytes, 0 if unknown. Its line is "MemTotal: 24683840 kB".
var totalMemory = sync.OnceValue(func() int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		if f := bytes.Fields(line); len(f) >= 2 && string(f[0]) == "MemTotal:" {
			kib, err := strconv.ParseInt(string(f[1]), 10, 64)
			if err == nil {
				return kib << 10
			}
		}
	}
	return 0
})
