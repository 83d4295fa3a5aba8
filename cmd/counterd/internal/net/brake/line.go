package brake

import (
	"context"
	"time"
)

// Line is a token bucket with a queue in front of it. It begins with all its tokens, and one comes back every interval.
// Create one with NewLine; it may be used concurrently.
//
// A place in the queue is held by a goroutine that waits, and by nothing else. A client that goes away leaves the queue at
// once, so others never wait for clients that are gone.
type Line struct {
	burst    int
	interval time.Duration

	turn  chan struct{} // held by the first in the queue. Channels are first in, first out
	state chan bucket   // holds one value: a lock around it
}

// bucket holds tokens as they were at a time.
type bucket struct {
	tokens int       // below 0: owed
	at     time.Time // when the token before the next one came back
}

// NewLine returns a line of burst tokens, of which one comes back every interval. burst and interval are at least 1.
func NewLine(burst int, interval time.Duration) *Line {
	l := &Line{burst: burst, interval: interval, turn: make(chan struct{}, 1), state: make(chan bucket, 1)}
	l.state <- bucket{tokens: burst}
	return l
}

// TryTake takes a token if there is one and nobody waits for it.
func (l *Line) TryTake() bool {
	select {
	case l.turn <- struct{}{}:
	default:
		return false
	}
	defer func() { <-l.turn }()
	return l.tryToken(0) == 0
}

// TryOwe takes a token, before all that wait and even if there is none: then those that wait do so for longer. It fails if
// as many tokens are owed as the line can hold.
func (l *Line) TryOwe() bool { return l.tryToken(l.burst) == 0 }

// MustWait tells whether TryTake would fail.
func (l *Line) MustWait() bool {
	b := l.refilled()
	l.state <- b
	return b.tokens <= 0 || len(l.turn) > 0
}

// AwaitToken takes a token, and waits for one behind those that came earlier. If ctx ends first, Take returns the context's
// error and has taken nothing.
func (l *Line) AwaitToken(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.turn }()
	for {
		wait := l.tryToken(0)
		if wait == 0 {
			return nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// Return gives a token back that was taken for something that cost nothing.
func (l *Line) Return() {
	b := <-l.state
	b.tokens = min(b.tokens+1, l.burst)
	l.state <- b
}

// full tells whether all tokens are there.
func (l *Line) full() bool {
	b := l.refilled()
	l.state <- b
	return b.tokens == l.burst
}

// tryToken takes a token and returns 0, or returns how long to wait for the next one. So many tokens may be owed.
func (l *Line) tryToken(owed int) time.Duration {
	b := l.refilled()
	defer func() { l.state <- b }()
	if b.tokens > -owed {
		b.tokens--
		return 0
	}
	return max(time.Until(b.at.Add(l.interval)), 1)
}

// refilled locks the state and returns it with the tokens that have come back. The caller puts it back.
func (l *Line) refilled() bucket {
	b, now := <-l.state, time.Now()
	back := int64(now.Sub(b.at) / l.interval)
	if b.tokens == l.burst || back >= int64(l.burst-b.tokens) {
		return bucket{l.burst, now}
	}
	b.tokens += int(back)
	b.at = b.at.Add(time.Duration(back) * l.interval)
	return b
}
