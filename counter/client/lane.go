package client

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"math/bits"
	mrand "math/rand/v2"
	"sync"
	"sync/atomic"
)

// window is how many numbers of a lane may be unknown at once. A server keeps the answers to the 128 highest of a producer, so
// that a number is safe to repeat as long as fewer than 128 above it were used; half of that leaves room for servers
// whose window counts otherwise.
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

// take gives the next n numbers, the first of them; false where the ones a window before them are not all known.
func (l *lane) take(n int) (seq uint64, ok bool) {
	l.mu.Lock()
	mask := bits.RotateLeft64(1<<n-1, int(l.next%window))
	if l.held&mask == 0 {
		l.held |= mask
		seq, ok = l.next, true
		l.next += uint64(n)
	}
	l.mu.Unlock()
	return seq, ok
}

// known says that nobody will repeat n numbers again.
func (l *lane) known(seq uint64, n int) {
	l.mu.Lock()
	l.held &^= bits.RotateLeft64(1<<n-1, int(seq%window))
	l.mu.Unlock()
}

// lanes are the producers of a client. A request takes the lane that a random number says, so that goroutines seldom
// meet, and another one where that lane is held up. There are as few as suffice: each takes memory of the server.
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

// atOnce is how many numbers are taken together at most. All are of one lane and are taken at the same time, so that
// nobody holds some and waits for others. With a whole window nobody but an idle lane could give them.
const atOnce = window / 2

// take gives a lane and n numbers of it, by the first. It waits where as many requests are on their way as the lanes
// allow.
func (ls *lanes) take(ctx context.Context, n int) (*lane, uint64, error) {
	if l, seq := ls.try(n); l != nil {
		return l, seq, nil
	}
	ls.waiting.Add(1)
	defer ls.waiting.Add(-1)
	for {
		// A number given back before we were seen waiting is found here; later ones wake us.
		if l, seq := ls.try(n); l != nil {
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
func (ls *lanes) try(n int) (*lane, uint64) {
	for {
		list := *ls.list.Load()
		first := mrand.IntN(len(list))
		for i := range list {
			l := list[(first+i)%len(list)]
			if seq, ok := l.take(n); ok {
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

// known says that nobody will repeat n numbers of a lane again.
func (ls *lanes) known(l *lane, seq uint64, n int) {
	l.known(seq, n)
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
