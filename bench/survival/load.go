package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// load writes records with rising ids until it is stopped.
type load struct {
	cancel  context.CancelFunc
	writers sync.WaitGroup
	mu      sync.Mutex
	acked   map[uint64]bool
	doubt   int          // writes that failed: they may be there
	last    atomic.Int64 // when the latest write was acknowledged, Unix nanoseconds
}

// attempt bounds a write; one that takes longer is in doubt.
const attempt = 2 * time.Second

// startLoad starts writers. next is the last id that was used.
func startLoad(ctx context.Context, s System, writers int, next *atomic.Uint64) *load {
	ctx, cancel := context.WithCancel(ctx)
	l := &load{cancel: cancel, acked: map[uint64]bool{}}
	for range writers {
		l.writers.Go(func() {
			for ctx.Err() == nil {
				id := next.Add(1)
				one, done := context.WithTimeout(ctx, attempt)
				err := s.Write(one, id)
				done()
				l.mu.Lock()
				if err == nil {
					l.acked[id] = true
				} else {
					l.doubt++
				}
				l.mu.Unlock()
				if err == nil {
					l.last.Store(time.Now().UnixNano())
				} else {
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	return l
}

func (l *load) stop() {
	l.cancel()
	l.writers.Wait()
}

// ackedSince tells whether a write was acknowledged after t.
func (l *load) ackedSince(t time.Time) bool { return l.last.Load() > t.UnixNano() }
