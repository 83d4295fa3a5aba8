package front

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"
)

// Why a wait ended early: causes of its context.
var (
	errConnectionEnded = errors.New("the connection has ended")
	errServerEnds      = errors.New("the server ends")
)

// Block runs wait, which returns when the command may go on, or ctx ends: with the connection, with the server, or by
// cancel. A connection that has ended meanwhile executes nothing more: its client has long tried elsewhere. Earlier
// replies are sent first. It returns how long it took. REQUIRES not InLoop.
func (s *Session) Block(ctx context.Context, wait func(ctx context.Context)) time.Duration {
	f := s.front
	began := time.Now()
	ended := s.watched(ctx, &s.Activity.blocked, 0, func(ctx context.Context) {
		f.blocked.Add(1)
		defer f.blocked.Add(-1)
		wait(ctx)
	})
	if ended {
		s.Closing = true
	}
	return time.Since(began)
}

// halfClosed is how long Busy goes on for a client that has said all it had to say: it may want the answer still, as in
// printf | nc.
const halfClosed = time.Second

// Busy runs work, which may take as long as it has something to do: it does not count as waiting. Its ctx ends with the
// server, or a second after the connection: a command executed until then is answered like any other. Earlier replies are
// sent first; where that fails, work is not run. REQUIRES not InLoop.
func (s *Session) Busy(work func(ctx context.Context)) {
	s.watched(context.Background(), &s.Activity.busy, halfClosed, work)
}

// watched runs f with a ctx that ends with the server, or some time after the connection, and a mark set meanwhile: the
// session is not idle. It tells whether the connection has ended.
func (s *Session) watched(ctx context.Context, mark *atomic.Bool, after time.Duration, f func(ctx context.Context)) (ended bool) {
	if s.Send() != nil {
		return true
	}
	s.handler.Publish()
	mark.Store(true)
	if mark == &s.Activity.blocked {
		s.park(true)
		defer s.park(false)
	}
	defer func() {
		mark.Store(false)
		s.Activity.lastRead.Store(s.front.clock.Load())
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// A goroutine that waits for these ends would be started and woken up by each command.
	defer context.AfterFunc(s.front.life, func() { cancel(errServerEnds) })()
	s.conn.watch(func() {
		if after > 0 {
			time.AfterFunc(after, func() { cancel(errConnectionEnded) })
		} else {
			cancel(errConnectionEnded)
		}
	})
	defer func() { ended = s.conn.unwatch() }()
	f(ctx)
	return false
}

// BeginDiskWait says that the session's goroutine may have to wait for the disk until EndDiskWait. In a loop the two cost two
// atomic operations each. Behind EndDiskWait the session may be out of its loop.
func (s *Session) BeginDiskWait() {
	if s.InLoop() {
		s.loop.beginDiskWait(s)
	} else {
		s.limitDiskWait()
	}
}

// limitDiskWait has the janitor close the connection if it waits for the disk for too long: see Activity.diskOverdue.
func (s *Session) limitDiskWait() { s.Activity.diskLooks.Store(1) }

// EndDiskWait ends BeginDiskWait.
func (s *Session) EndDiskWait() {
	if s.shift != nil {
		s.loop.endDiskWait(s)
	}
	if s.Activity.diskLooks.Load() != 0 {
		s.Activity.diskLooks.Store(0)
	}
}

// nap is long enough for the runtime to poll the network.
const nap = 20 * time.Microsecond

// GiveWay lets others have their turn. A command that works for long outside of its loop calls it every 0.1 ms. The
// runtime looks at the network only when a processor has nothing else to do, and otherwise each 10 ms: a loop that sleeps
// would have all its connections wait so long where goroutines that work keep all processors. REQUIRES not InLoop.
func (f *Front) GiveWay() {
	runtime.Gosched()
	for _, l := range f.loops {
		if l.overslept() {
			time.Sleep(nap)
			return
		}
	}
}
