package client

import (
	"context"
	"math"
	"sync"
	"time"
)

// cell is a column of a post that has a sum. The column is given by the Aggregator's number.
type cell struct {
	mid    uint64
	column uint32
}

// table is sums by cell. most is how many it had since it was made: a Go map keeps room for that many, and has to go
// through all of it to be cleared.
type table struct {
	sums map[cell]int64
	most int
}

func newTable() table { return table{sums: make(map[cell]int64)} }

// clear empties a table. A map that was far larger once is made anew.
func (t *table) clear() {
	n := len(t.sums)
	if t.most = max(t.most, n); t.most > 1024 && t.most > 8*n {
		*t = newTable()
		return
	}
	clear(t.sums)
}

// shard sums the additions to a part of the posts, and sends them as one producer.
//
// Two tables take turns: one is added to, the other one is on its way and belongs to the goroutine that sends.
//
// Invariant: len(now.sums)+sending <= limit. known <= ticks, and all sums of the first known ticks were answered.
type shard struct {
	a     *Aggregator
	limit int

	mu      sync.Mutex    // leaf
	now     table         // being added to
	sending int           // how many are on their way
	ticks   uint64        // how often sums were taken to be sent
	known   uint64        // how many of these ticks were answered
	changed chan struct{} // closed when known rises or room is made; nil while nobody waits
	closed  bool          // the last tick was taken
	stats   AggregatorStats
	pieces  []*SumsError // of commands that Close did not wait for

	first chan struct{} // there is a sum again; holds one element
	hurry chan struct{} // somebody waits; holds one element

	// Of the goroutine that sends.
	out      table
	producer string
	seq      uint64    // the last that was used
	doubtful bool      // the refused change may still be made: the producer must be left
	lost     bool      // the server does not know the producer any more
	heard    time.Time // when the server last answered a command of this producer, or its first was made
}

func newShard(a *Aggregator, limit int) *shard {
	return &shard{a: a, limit: limit, now: newTable(), out: newTable(),
		first: make(chan struct{}, 1), hurry: make(chan struct{}, 1), producer: newProducer()}
}

// Single additions up to small are not checked for overflow: 2^41 of them fit on top of the largest sum.
const (
	small  = 1 << 20
	maxSum = 1 << 62
)

// add adds to a sum, or waits until there is room for one more.
func (s *shard) add(ctx context.Context, at cell, n int64) error {
	for {
		s.mu.Lock()
		had := len(s.now.sums)
		switch {
		case s.closed:
			s.mu.Unlock()
			return ErrClosed
		case (n > small || n < -small) && !fits(s.now.sums[at], n):
			s.mu.Unlock()
			return ErrRange
		}
		s.now.sums[at] += n
		if len(s.now.sums) == had || had+s.sending < s.limit {
			s.stats.Added++
			s.mu.Unlock()
			if had == 0 {
				signal(s.first)
			}
			return nil
		}
		delete(s.now.sums, at)
		wait := s.waiting()
		s.mu.Unlock()
		if s.a.options.NoWait {
			return ErrFull
		}
		signal(s.hurry)
		select {
		case <-wait:
		case <-ctx.Done():
			return unsent(ctx)
		}
	}
}

// fits reports whether a sum stays far enough from the ends of an int64.
func fits(sum, n int64) bool {
	return n >= -maxSum && n <= maxSum && sum <= maxSum && sum >= -maxSum && sum+n <= maxSum && sum+n >= -maxSum
}

// waiting returns a channel that is closed at the next change. s.mu is held.
func (s *shard) waiting() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// wake closes it. s.mu is held.
func (s *shard) wake() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// flush begins to send the present sums, and returns the number of their tick.
func (s *shard) flush() (tick uint64) {
	s.mu.Lock()
	tick = s.ticks
	if len(s.now.sums) > 0 {
		tick++
		signal(s.hurry)
	}
	s.mu.Unlock()
	return tick
}

// await waits until a tick is known.
func (s *shard) await(ctx context.Context, tick uint64) error {
	for {
		s.mu.Lock()
		known := s.known >= tick
		over := s.closed && s.a.ctx.Err() != nil
		wait := s.waiting()
		s.mu.Unlock()
		if known {
			return nil
		}
		if over {
			return ErrClosed
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// run sends ticks until Close, and then the last one.
func (s *shard) run() {
	timer := time.NewTimer(math.MaxInt64)
	defer timer.Stop()
	for closing := false; !closing; {
		select {
		case <-s.first:
			timer.Reset(s.a.options.Interval)
			select {
			case <-timer.C:
			case <-s.hurry:
			case <-s.a.closing:
				closing = true
			}
		case <-s.hurry:
		case <-s.a.closing:
			closing = true
		}
		s.tick(closing)
	}
}

// tick sends the sums of a tick.
func (s *shard) tick(last bool) {
	s.mu.Lock()
	s.now, s.out = s.out, s.now
	s.sending = len(s.out.sums)
	s.closed = last
	if s.sending > 0 {
		s.ticks++
	}
	s.mu.Unlock()
	commands := s.send()
	s.mu.Lock()
	if s.a.ctx.Err() == nil { // else sums with an unknown result stay counted as pending
		s.stats.Commands += uint64(commands)
		s.stats.Sums += uint64(s.sending)
		s.sending, s.known = 0, s.ticks
		s.out.clear()
	}
	s.wake()
	s.mu.Unlock()
}
