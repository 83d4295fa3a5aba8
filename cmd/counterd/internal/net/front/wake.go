package front

// Wake has the session told soon what waits for it: Handler.Notices is called when all replies before are made, and what
// it appends is sent. Anybody may call it, and it does not wait.
//
// In its loop the session has a turn as soon as the connection takes something. One that is away sends notices with its
// replies, or when it is back, and one that waits in a command (Block) at once. Who is woken twice before that is told
// once.
func (s *Session) Wake() {
	if s.notified.Swap(true) {
		return // who set it sees to it
	}
	switch {
	case s.InLoop():
		s.loop.rouse(s)
	case s.Activity.blocked.Load():
		go s.sendBlocked()
	default: // coming back it looks at notified
		s.loop.rouse(s)
	}
}

// notices appends what Wake was called for. REQUIRES: whoever owns the session, with all replies made.
func (s *Session) notices() {
	if s.notified.Load() {
		s.notified.Store(false) // before: what comes now wakes again
		s.handler.Notices()
	}
}

// sendBlocked sends notices to a session that waits in a command: what was answered before is sent by then, and its
// owner does not go on meanwhile.
func (s *Session) sendBlocked() {
	s.parking.Lock()
	defer s.parking.Unlock()
	if s.parked && !s.conn.closed() {
		_ = s.Send() // an error is the next send's too
	}
}

// park lets sendBlocked use the session, or no more.
func (s *Session) park(on bool) {
	s.parking.Lock()
	s.parked = on
	s.parking.Unlock()
	if on && s.notified.Load() {
		go s.sendBlocked()
	}
}
