package client

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	mrand "math/rand/v2"
	"sync"
	"sync/atomic"
)

// window is how many numbers of a lane may be unknown at once. A server remembers the 128 highest of a producer, so that
// a number is safe to repeat as long as fewer than 128 above it were used; half of that leaves room for servers whose
// window counts otherwise.
const window = 64

// lane is one producer: it numbers changes and knows which are on their way.
//
//	            next
//	... 7 8 9 ......... 71        held: bit n%64 of each number that was given and is not known yet
//	    ^ unknown: 71 has the bit of 7, so the lane gives no number until 7 is known
//
// Invariant: all numbers that are held are in [next-window, next). So the highest that was ever used is less than
// window above any that is repeated.
type lane struct {
	mu   sync.Mutex // guards next and held; leaf
	next uint64
	held uint64

	producer any // the id, a string; as an argument it is boxed once

	_ [88]byte // the next lane is on a cache line of its own, and not on the pair of this one's
}

func newLane() *lane { return &lane{next: 1, producer: newProducer()} }

// newProducer makes up an id: 16 bytes of text of 96 random bits.
func newProducer() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // it ends the process rather than fail
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// take gives the next number; false where the one a window before it is still unknown.
func (l *lane) take() (seq uint64, ok bool) {
	l.mu.Lock()
	bit := uint64(1) << (l.next % window)
	if l.held&bit == 0 {
		l.held |= bit
		seq, ok = l.next, true
		l.next++
	}
	l.mu.Unlock()
	return seq, ok
}

// known says that nobody will repeat a number again.
func (l *lane) known(seq uint64) {
	l.mu.Lock()
	l.held &^= 1 << (seq % window)
	l.mu.Unlock()
}

// lanes are the producers of a client. A request takes the lane that a random number says, so that goroutines seldom
// meet, and another one where that lane is held up. There are as few as suffice: a server knows 10,000 producers.
type lanes struct {
	list    atomic.Pointer[[]*lane]
	most    int
	mu      sync.Mutex   // held to add a lane
	waiting atomic.Int64 // requests that found all lanes held up
	freed   chan struct{}
}

func newLanes(first, most int) *lanes {
	ls := &lanes{most: most, freed: make(chan struct{}, 1)}
	list := make([]*lane, min(first, most))
	for i := range list {
		list[i] = newLane()
	}
	ls.list.Store(&list)
	return ls
}

// take gives a lane and a number of it. It waits where as many requests are on their way as the lanes allow.
func (ls *lanes) take(ctx context.Context) (*lane, uint64, error) {
	if l, seq := ls.try(); l != nil {
		return l, seq, nil
	}
	ls.waiting.Add(1)
	defer ls.waiting.Add(-1)
	for {
		// Whoever gave a number back before it could see that we wait is found here, and later ones wake us.
		if l, seq := ls.try(); l != nil {
			ls.wake() // one word wakes one: there may be room for the next too
			return l, seq, nil
		}
		select {
		case <-ls.freed:
		case <-ctx.Done():
			ls.wake() // the word that we may have been given is somebody else's
			return nil, 0, unsent(ctx)
		}
	}
}

// try is take without waiting; nil where all are held up and there may be no more.
func (ls *lanes) try() (*lane, uint64) {
	for {
		list := *ls.list.Load()
		first := mrand.IntN(len(list))
		for i := range list {
			l := list[(first+i)%len(list)]
			if seq, ok := l.take(); ok {
				return l, seq
			}
		}
		if !ls.add(len(list)) {
			return nil, 0
		}
	}
}

// add adds a lane, unless somebody else just did; false where there are as many as there may be.
func (ls *lanes) add(had int) bool {
	if had >= ls.most {
		return false
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if list := *ls.list.Load(); len(list) == had {
		list = append(list[:had:had], newLane())
		ls.list.Store(&list)
	}
	return true
}

// known says that nobody will repeat a lane's number again.
func (ls *lanes) known(l *lane, seq uint64) {
	l.known(seq)
	ls.wake()
}

// wake lets one of those that wait try again.
func (ls *lanes) wake() {
	if ls.waiting.Load() > 0 {
		select {
		case ls.freed <- struct{}{}:
		default:
		}
	}
}
