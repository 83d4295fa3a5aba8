package front

// Wake makes the session fetch its notices soon: Handler.Notices is called when all replies before are made, and its
// bytes are sent. Anybody may call it, and it does not wait.
//
// In its loop the session has a turn as soon as the connection takes something. A session that is away sends notices
// with its replies, or when it is back. A session that waits in a command (Block) sends them at once. A session that is
// woken twice before that sends once.
func (s *Session) Wake() {
	if s.notified.Swap(true) {
		return // the goroutine that set it does the work
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

// notices appends what Wake was called for. REQUIRES: the caller owns the session, and all replies are made.
func (s *Session) notices() {
	if s.notified.Load() {
		s.notified.Store(false) // before: a notice from now on wakes again
		s.handler.Notices()
	}
}

// sendBlocked sends notices to a session that waits in a command: earlier replies are sent by then, and its owner does
// not go on meanwhile.
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
