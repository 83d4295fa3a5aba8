package registrytest

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Link is the network between one client and the server. It is safe for concurrent use.
type Link struct {
	mu       sync.Mutex
	rng      *rand.Rand
	faults   Faults
	to, from bool          // cut
	changed  chan struct{} // closed when one of the two changes
}

// Faults is what a link does at random. Parts are of 1.
type Faults struct {
	Delay       time.Duration // each message takes up to this
	Least       time.Duration // and each request this, as with an etcd whose disk is slow
	RequestLost float64       // part of the requests that never arrive
	AnswerLost  float64       // part of those that are done without an answer
	Late        float64       // part that arrives when the client has stopped waiting, up to LateBy later
	LateBy      time.Duration
	WatchLost   float64 // part of the changes at which a watch breaks
}

// NewLink is a link without faults; seed decides those that it gets.
func NewLink(seed uint64) *Link {
	return &Link{rng: rand.New(rand.NewPCG(seed, 1)), changed: make(chan struct{})}
}

// SetFaults replaces the faults.
func (l *Link) SetFaults(f Faults) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = f
}

// Cut loses all requests, all answers (and what watches tell), both, or mends them.
func (l *Link) Cut(requests, answers bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to, l.from = requests, answers
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *Link) isCut(to bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return to && l.to || !to && l.from
}

func (l *Link) changes() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// fate is what becomes of a request and its answer.
type fate struct {
	there, back                        time.Duration
	requestLost, answerLost, watchLost bool
}

func (l *Link) roll() (f fate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.faults == (Faults{}) {
		return f
	}
	part := func(p float64) bool { return l.rng.Float64() < p }
	f = fate{requestLost: part(l.faults.RequestLost), answerLost: part(l.faults.AnswerLost), watchLost: part(l.faults.WatchLost)}
	if l.faults.Delay > 0 {
		f.there, f.back = time.Duration(l.rng.Int64N(int64(l.faults.Delay))), time.Duration(l.rng.Int64N(int64(l.faults.Delay)))
	}
	f.there += l.faults.Least
	if part(l.faults.Late) && l.faults.LateBy > 0 {
		f.there += time.Duration(l.rng.Int64N(int64(l.faults.LateBy)))
	}
	return f
}
