//go:build linux && !noepoll

package front

import (
	"golang.org/x/sys/unix"
)

// serve gives s a turn, if it can have one.
func (l *loop) serve(s *Session) (mine bool) {
	switch {
	case !s.InLoop(): // away; back, it will be heard of again
	case s.held && s.conn.closed():
		l.endSession(s, nil) // nobody is there to be answered
	case s.held:
		s.missed = true
	default:
		return l.turn(s)
	}
	return true
}

// turn reads the bytes that have arrived at s, as many as one buffer takes, and executes them. Replies that wait for
// a commit stay in s.out.
func (l *loop) turn(s *Session) (mine bool) {
	defer l.recovered(s, &mine)
	l.out.Lend(s.out)
	err := error(nil)
	if s.cut { // before anything is read: it is behind that
		l.lanes.took(s, inputSize)
		l.lanes.push(s)
		err = s.goOn()
	} else if s.account.mustWait() {
		s.crowded = true
		err = errWaits
	} else {
		room := s.space()
		room = room[:min(len(room), l.lanes.room(s))]
		n, failed := s.conn.receive(room)
		l.lanes.took(s, n)
		if failed != nil {
			l.endSession(s, failed)
			return true
		}
		if n == 0 {
			s.hup = false // it was about data that was read
			s.release()
			if s.notified.Load() {
				return l.deliverNow(s)
			}
			s.out.Drop()
			return true
		}
		if n == len(room) || s.hup || s.conn.more() {
			l.lanes.push(s)
		}
		err = s.received(n, len(room)-n)
	}
	if !s.InLoop() {
		l.relieved(s, err)
		return false
	}
	if err != nil {
		l.letGo(s, err)
		return true
	}
	if s.cut {
		l.lanes.push(s)
	}
	if !s.handler.Asking() {
		s.release()
		if s.handler.Committed() {
			return l.deliverNow(s)
		}
	}
	l.unsent += s.out.Len()
	s.answering = true
	l.answered = append(l.answered, s)
	return true
}

// answer ends the turns: the first client's commit writes the log for all. Those of the short lane come first.
func (l *loop) answer() (mine bool) {
	for _, s := range l.answered {
		if s.answering && s.seat.short() && !l.deliver(s) {
			return false
		}
	}
	for _, s := range l.answered {
		if s.answering && !l.deliver(s) {
			return false
		}
	}
	clear(l.answered)
	l.answered, l.unsent = l.answered[:0], 0
	l.lanes.answered()
	return true
}

// deliver commits and sends the replies of s.
func (l *loop) deliver(s *Session) (mine bool) {
	defer l.recovered(s, &mine)
	return l.deliverNow(s)
}

// deliverNow is deliver in a turn, which recovers from a panic itself.
func (l *loop) deliverNow(s *Session) (mine bool) {
	s.answering, s.committing = false, true
	err := s.sendAll()
	s.committing = false
	if !s.InLoop() {
		l.relieved(s, err)
		return false
	}
	if err == errHeld {
		if keepReplies(s); s.out.Cap() > retainOut {
			s.account.set(s.holding())
		}
		return true
	}
	if err != nil || s.Closing {
		l.letGo(s, err)
		return true
	}
	giveReplies(s)
	s.release()
	s.out.Drop()
	s.handler.Publish()
	return true
}

// letGo lets s go: to wait, or for ever.
func (l *loop) letGo(s *Session, err error) {
	if err != errWaits {
		l.endSession(s, err)
		return
	}
	s.out.Own()
	s.waits, s.kept = false, false
	s.where.Store(away)
	select {
	case l.leaving <- s:
	default:
		go l.goOnMany(s)
	}
}

// spareGoroutines is how many goroutines of sessions that were away wait for others in a loop. A client that follows the feed leaves its loop 200 times a
// second, and each time the stack of a new goroutine was copied three times as it grew: 20 to 40 us.
const spareGoroutines = 2

// goOnMany goes on with s, and then with other sessions that leave the loop.
func (l *loop) goOnMany(s *Session) {
	for {
		l.goOn(s)
		if l.spares.Add(1) > spareGoroutines {
			l.spares.Add(-1)
			return
		}
		select {
		case s = <-l.leaving:
			l.spares.Add(-1)
		case <-l.stopped:
			return
		}
	}
}

// endSession ends s, in the background if there is something to be waited for.
func (l *loop) endSession(s *Session, err error) {
	s.where.Store(ended)
	s.out.Drop()
	l.mu.Lock()
	l.sessions[s.conn.fd] = nil
	l.mu.Unlock()
	_ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_DEL, s.conn.fd, nil) // a copy of the descriptor would keep it in
	if s.shared || l.front.ending() {
		go s.close(err)
	} else {
		s.close(err)
	}
}

// recovered ends s when its code panics. mine becomes whether the goroutine still runs the loop.
func (l *loop) recovered(s *Session, mine *bool) {
	if p := recover(); p != nil {
		s.EndDiskWait()
		*mine = s.InLoop()
		s.panicked(p)
		l.endSession(s, nil)
	}
}

// recoveredAway is recovered for a goroutine that does not run the loop.
func (l *loop) recoveredAway(s *Session) {
	if p := recover(); p != nil {
		s.panicked(p)
		l.endSession(s, nil)
	}
}

// goOn does for s what could not be done in the loop, and brings it back.
func (l *loop) goOn(s *Session) {
	defer l.recoveredAway(s)
	if s.crowded {
		s.crowded = false
		s.account.awaitRoom()
	}
	err := s.process()
	if err == nil {
		err = s.sendAll()
	}
	if err != nil || s.Closing {
		l.endSession(s, err)
		return
	}
	s.processed()
	l.comeBack(s)
}

// beginSecure has s execute what TLS has read of it before it comes to its loop.
func (l *loop) beginSecure(s *Session) {
	defer l.recoveredAway(s)
	l.comeBack(s)
}

// comeBack brings s back, when it has executed what epoll would not tell of.
func (l *loop) comeBack(s *Session) {
	for s.conn.more() && !s.Closing {
		room := s.space()
		n, err := s.conn.receive(room)
		if err == nil && n > 0 {
			if err = s.received(n, len(room)-n); err == nil {
				err = s.sendAll()
			}
		}
		if err != nil {
			l.endSession(s, err)
			return
		}
	}
	if s.Closing {
		l.endSession(s, nil)
		return
	}
	s.release()
	s.out.Drop()
	s.handler.Publish()
	if !s.shared {
		s.conn.forgetWaiter()
	}
	fd := s.conn.fd
	s.where.Store(inLoop)
	// From here on s is the loop's. Should it have ended, and fd be another's by now, that one has a turn in vain.
	events := uint32(interest)
	if s.notified.Load() {
		events |= unix.EPOLLOUT
	}
	_ = l.control(unix.EPOLL_CTL_MOD, fd, events)
}
