package front

import (
	"context"
	"errors"
	"time"
)

// Why a wait ended early: causes of its context.
var (
	errConnectionEnded = errors.New("the connection has ended")
	errServerEnds      = errors.New("the server ends")
)

// Block runs wait, which returns when the command may go on, or ctx ends: with the connection, with the server, or by
// cancel. A connection that has ended meanwhile executes nothing more: whoever sent what it held has long tried
// elsewhere. What was answered before it is sent first. It returns how long it took. REQUIRES not InLoop.
func (s *Session) Block(ctx context.Context, wait func(ctx context.Context)) time.Duration {
	if s.Send() != nil {
		s.Closing = true
		return 0
	}
	f := s.front
	s.handler.Publish()
	s.blocked.Store(true)
	f.blocked.Add(1)
	began := time.Now()
	defer func() {
		f.blocked.Add(-1)
		s.blocked.Store(false)
		s.lastRead.Store(f.clock.Load()) // it was not idle
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	gone, stop := s.conn.watch()
	defer stop()
	go func() {
		select {
		case <-gone:
			cancel(errConnectionEnded)
		case <-f.quit:
			cancel(errServerEnds)
		case <-ctx.Done():
		}
	}()
	wait(ctx)
	select {
	case <-gone:
		s.Closing = true
	default:
	}
	return time.Since(began)
}
