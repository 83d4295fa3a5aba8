// Package slowlog keeps the commands that took longest to execute.
package slowlog

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Log keeps the commands that took longest to execute, the newest last. Commands that ran in one batch are timed
// together and make one entry, as they are too short to be timed one by one.
type Log struct {
	slower atomic.Int64 // nanoseconds from which a command is kept; all the others cost one load of this

	mu     sync.Mutex
	maxLen int
	last   int64 // number of the last entry
	ring   []Entry
	oldest int // in ring, once it is full
}

// Entry is one of the log. Add gives it its number and its time.
type Entry struct {
	ID   int64
	At   time.Time
	Took time.Duration
	Args []string
	Addr string
	Name string // CLIENT SETNAME's
}

const (
	// MaxArgs and maxArg bound an entry: 32 arguments of 128 bytes, as in Redis.
	MaxArgs = 32
	maxArg  = 128
)

// Configure sets the time in microseconds, -1 for never, and the number of entries kept.
func (s *Log) Configure(slower int64, maxLen int) {
	switch {
	case slower < 0 || slower > math.MaxInt64/1000:
		slower = math.MaxInt64
	default:
		slower *= 1000
	}
	s.slower.Store(slower)
	s.mu.Lock()
	defer s.mu.Unlock()
	if maxLen != s.maxLen {
		s.ring = s.newest(maxLen)
		slices.Reverse(s.ring)
		s.oldest, s.maxLen = 0, maxLen
	}
}

// newest returns up to n entries, the newest first. REQUIRES s.mu held.
func (s *Log) newest(n int) []Entry {
	var list []Entry
	for i := len(s.ring) - 1; i >= 0 && len(list) < n; i-- {
		list = append(list, s.ring[(s.oldest+i)%len(s.ring)])
	}
	return list
}

// Slow tells whether what took so long is to be kept.
func (s *Log) Slow(took time.Duration) bool { return int64(took) >= s.slower.Load() }

// Add keeps one entry, and drops the oldest when there are too many.
func (s *Log) Add(e Entry) {
	e.At = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	e.ID = s.last
	switch {
	case s.maxLen == 0:
	case len(s.ring) < s.maxLen:
		s.ring = append(s.ring, e)
	default:
		s.ring[s.oldest] = e
		s.oldest = (s.oldest + 1) % len(s.ring)
	}
}

// Newest returns up to n entries, the newest first.
func (s *Log) Newest(n int) []Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest(n)
}

// Len is the number of entries.
func (s *Log) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ring)
}

// Total is how many entries were ever added, Reset or not.
func (s *Log) Total() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// Reset forgets all entries.
func (s *Log) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ring, s.oldest = nil, 0
}

// Arguments are those of an entry: not too many, not too long, and none that is secret.
func Arguments(args [][]byte, secret func(i int) bool) []string {
	kept := make([]string, 0, min(len(args), MaxArgs))
	for i, a := range args {
		if i == MaxArgs-1 && len(args) > MaxArgs {
			kept = append(kept, fmt.Sprintf("... (%d more arguments)", len(args)-i))
			break
		}
		text := string(a[:min(len(a), maxArg)])
		if len(a) > maxArg {
			text += fmt.Sprintf("... (%d more bytes)", len(a)-maxArg)
		}
		if secret(i) {
			text = "(redacted)"
		}
		kept = append(kept, text)
	}
	return kept
}
