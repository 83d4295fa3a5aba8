//go:build linux && !noepoll

package front

import (
	"sync/atomic"
	"time"
)

// shift is the time for which one goroutine runs a loop. A handler says that it may have to wait for the disk (BeginDiskWait),
// and that this is over (EndDiskWait). Where that takes long, the relief relieves the goroutine: another one goes on with the
// loop, and the first keeps the session that stands, which is away from then on.
//
// state is even while the goroutine works, odd while it stands, and another number each time; relieved at the end. Only
// the goroutine changes it, but for relieved, which the relief sets with loop.mu held: all that it has to change of the
// loop is changed before the goroutine goes on.
type shift struct {
	state   atomic.Uint64
	session *Session // that stands; set before state
}

const relieved = ^uint64(0)

// beginDiskWait is BeginDiskWait in a loop.
func (l *loop) beginDiskWait(s *Session) {
	w := l.shift
	s.shift, w.session = w, s
	w.state.Store(w.state.Load() + 1)
	l.front.relief.wake()
}

// endDiskWait ends beginDiskWait.
func (l *loop) endDiskWait(s *Session) {
	w := s.shift
	s.shift = nil
	if state := w.state.Load(); state == relieved || !w.state.CompareAndSwap(state, state+1) {
		l.mu.Lock() // waits until the relief has done its part
		//lint:ignore SA2001 the wait is all that is wanted
		l.mu.Unlock()
	}
}

// relieve makes another goroutine run l, if the present one has stood still since its state was seen.
func (l *loop) relieve(state uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.shift
	if !w.state.CompareAndSwap(state, relieved) {
		return
	}
	w.session.out.Own()
	for _, s := range l.answered {
		if s.answering {
			s.out.Own()
		}
	}
	w.session.where.Store(away)
	w.session.limitDiskWait()
	l.shift = new(shift)
	l.front.log.Debug("a connection waits for the disk; its event loop continues without it", "client", w.session.id)
	go l.takeOver()
}

// takeOver goes on with the work that a relieved goroutine left.
func (l *loop) takeOver() {
	if l.goOnHeld() && l.answer() && l.serveAll() {
		l.run()
	}
}

// relieved goes on with s in the goroutine that was relieved while s stood. err is the error of its turn, or of sending
// its replies.
func (l *loop) relieved(s *Session, err error) {
	s.waits = false
	if err != nil && err != errWaits {
		l.endSession(s, err)
		return
	}
	l.goOn(s)
}

// reliefLook is the interval at which the relief looks at loops while some of them stand now and then. A goroutine that
// stands still is relieved after this time at the earliest, and twice as long at the latest.
const reliefLook = 20 * time.Millisecond

// relief looks after the loops of a front. It sleeps while none stands.
type relief struct {
	awake atomic.Bool
	bell  chan struct{}
	quit  chan struct{}
}

func newRelief() relief { return relief{bell: make(chan struct{}, 1), quit: make(chan struct{})} }

// wake has it look.
func (r *relief) wake() {
	if !r.awake.Load() && r.awake.CompareAndSwap(false, true) {
		r.bell <- struct{}{} // has room: it was taken before awake became false
	}
}

// run looks after loops until stop.
func (r *relief) run(loops []*loop) {
	seen := make([]uint64, len(loops))
	for {
		select {
		case <-r.quit:
			return
		case <-r.bell:
		}
		for quiet := false; !quiet; {
			time.Sleep(reliefLook)
			quiet = true
			for i, l := range loops {
				state := l.shift.state.Load()
				if stands := state%2 == 1; stands && state == seen[i] {
					l.relieve(state)
					state, quiet = 0, false // of the next one
				} else if stands || state != seen[i] {
					quiet = false
				}
				seen[i] = state
			}
		}
		r.awake.Store(false)
		for i, l := range loops { // a turn that began before it could wake the relief
			if l.shift.state.Load() != seen[i] {
				r.wake()
			}
		}
	}
}

// stop ends run. REQUIRES: no loop runs any more.
func (r *relief) stop() { close(r.quit) }
