package role

import (
	"context"
	"sync"
)

// life is the time that a node's goroutines have: until Close.
type life struct {
	ctx context.Context // ends with it
	end context.CancelFunc

	mu      sync.Mutex // guards ended, and Add against Wait
	ended   bool
	running sync.WaitGroup
}

func newLife() *life {
	l := &life{}
	l.ctx, l.end = context.WithCancel(context.Background())
	return l
}

// start runs f in a goroutine, unless the end has come: then it returns false.
func (l *life) start(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return false
	}
	l.running.Go(f)
	return true
}

// stop begins the end: ctx ends, and nothing more is started.
func (l *life) stop() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.end()
}
