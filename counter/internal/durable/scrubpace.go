package durable

import (
	"sync/atomic"
	"time"
)

// ScrubBudget bounds the verification of files. It may change at any time.
type ScrubBudget struct {
	Rate atomic.Int64 // bytes a second; 0: nothing is verified by itself
	CPU  atomic.Int64 // processor time a second, in ns
}

const (
	// scrubTurn is how many bytes are read in a turn: to wake costs about 20 us, and clients wait for a turn's work at most.
	scrubTurn = 128 << 10
	// scrubTurnCost is what a turn takes beside its measured work: to sleep and to wake.
	scrubTurnCost = 50 * time.Microsecond
	// maxScrubSleep bounds a sleep between two turns.
	maxScrubSleep = 10 * time.Second
)

// pacer keeps a verification within a budget. NOT safe for concurrent use.
type pacer struct {
	budget *ScrubBudget
	quit   <-chan struct{}
	free   *atomic.Bool // processor time does not count; nil: it does
	bytes  int          // of this turn
	began  time.Time
	cpu    time.Duration // of the thread, when the turn began
}

func newPacer(b *ScrubBudget, quit <-chan struct{}) *pacer {
	p := &pacer{budget: b, quit: quit}
	p.turn()
	return p
}

// turn begins a turn.
func (p *pacer) turn() {
	p.bytes, p.began, p.cpu = 0, time.Now(), threadTime()
}

// pace is told of bytes that were verified, and sleeps behind a turn. The error is errStopped.
func (p *pacer) pace(n int) error {
	if p.bytes += n; p.bytes < scrubTurn {
		return nil
	}
	return p.rest()
}

// rest sleeps for the work of this turn.
func (p *pacer) rest() error {
	err := sleep(min(p.due(), maxScrubSleep), p.quit)
	p.turn()
	return err
}

// due is how long the work of this turn has to be paid for.
func (p *pacer) due() time.Duration {
	d := time.Duration(float64(p.bytes) / float64(max(p.budget.Rate.Load(), 1<<20)) * float64(time.Second))
	if share := float64(p.budget.CPU.Load()) / float64(time.Second); share > 0 && share < 1 && (p.free == nil || !p.free.Load()) {
		// A goroutine that has come to another thread measures nonsense: more than by the clock it cannot be.
		spent := min(max(threadTime()-p.cpu, 0), time.Since(p.began)) + scrubTurnCost
		d = max(d, time.Duration(float64(spent)*(1-share)/share))
	}
	return d
}
