//go:build linux && !noepoll

package front

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// How others have a loop give a session a turn, or go on with its replies.

// rouse gives s a turn as soon as the connection takes something. The descriptor may be another's by now, which has
// a turn in vain then.
func (l *loop) rouse(s *Session) {
	if fd := s.conn.descriptor(); fd >= 0 && s.InLoop() {
		_ = l.control(unix.EPOLL_CTL_MOD, fd, interest|unix.EPOLLOUT)
	}
}

// ring is one step of an eventfd's counter. It is never read: edge-triggered, each step is an event.
var ring = binary.NativeEndian.AppendUint64(nil, 1)

// Resume ends HoldReplies. Anybody may call it, once for each, and it does not wait.
func (s *Session) Resume() {
	l := s.loop
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.resumed = append(l.resumed, s); len(l.resumed) == 1 && l.bell >= 0 && !l.reading {
		_, _ = unix.Write(l.bell, ring)
	}
}

// silence closes the bell: a session that has ended may still be resumed.
func (l *loop) silence() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = unix.Close(l.bell)
	l.bell = -1
}

// takeResumed takes the sessions that Resume was called for.
func (l *loop) takeResumed() {
	l.mu.Lock()
	l.resuming, l.resumed, l.reading = l.resumed, l.resuming[:0], false
	l.mu.Unlock()
}

// goOnHeld asks again for the sessions that were taken. It tells whether the goroutine still runs the loop.
func (l *loop) goOnHeld() (mine bool) {
	for i, s := range l.resuming {
		if s == nil || !s.InLoop() { // done, or it has ended
			continue
		}
		l.resuming[i] = nil
		s.held = false
		if !l.deliver(s) {
			return false
		}
		if s.held || !s.InLoop() {
			continue
		}
		if s.account.holds.Load() > 0 {
			s.account.set(s.holding())
		}
		if s.missed {
			s.missed = false
			l.lanes.push(s)
		}
	}
	clear(l.resuming)
	return true
}
