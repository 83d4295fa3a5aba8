package front

// retainOut is the largest reply buffer that an idle connection keeps.
const retainOut = 16 << 10

// maxWrite is how much is written at once outside of a loop: a system call of 1 MB is 0.4 ms, in which the runtime does not
// look for others.
const maxWrite = 128 << 10

// sendAll executes what was planned, makes safe what the replies tell, and sends them. Nothing is left planned: sending
// may take as long as the client likes, and what is planned may keep everybody from a lock.
func (s *Session) sendAll() error {
	if s.handler.Commit(); s.waits {
		return errWaits
	}
	if s.held {
		return errHeld
	}
	return s.Send()
}

// Send sends the replies. In a loop it does not wait: what the connection does not take is sent elsewhere.
func (s *Session) Send() error {
	s.hush()
	s.notices()
	if s.out.Len() == 0 && (s.InLoop() || !s.conn.unsent()) {
		return nil
	}
	err := s.transmit()
	s.muteFrom = s.out.Len()
	return err
}

// transmit is Send with something to be sent.
func (s *Session) transmit() error {
	if s.outlet != nil {
		err := s.outlet.Push(s.out.From(0))
		s.out.Cut(0)
		return err
	}
	if s.InLoop() {
		n, err := s.conn.offer(s.out.From(0))
		s.front.totals.OutBytes.Add(s.Lane(), int64(n))
		s.front.totals.Writes.Add(s.Lane(), 1)
		s.out.Sent(n)
		if err == nil && (s.out.Len() > 0 || s.conn.unsent()) {
			if err := s.checkOutput(s.out.Len()); err != nil {
				return err
			}
			s.waits = true
			return errWaits
		}
		return err
	}
	s.handler.Publish()
	s.unsent.Store(int64(s.out.Len()))
	_, err := s.Write(s.out.From(0))
	s.unsent.Store(0)
	if s.out.Cut(0); s.out.Cap() > retainOut {
		s.out.Drop()
	}
	return err
}

// Write writes to the connection, past the replies, and waits where it must: for as long as a Send of one piece may.
// REQUIRES not InLoop, and that all replies were sent.
func (s *Session) Write(p []byte) (int, error) {
	s.writingSince.Store(s.front.clock.Load())
	n, err := 0, error(nil)
	for first := true; err == nil && (first || n < len(p)); first = false {
		if !first {
			s.GiveWay()
		}
		var m int
		m, err = s.conn.Write(p[n:min(len(p), n+maxWrite)])
		n += m
		s.unsent.Add(int64(-m))
	}
	s.writingSince.Store(0)
	s.front.totals.OutBytes.Add(s.Lane(), int64(n))
	s.front.totals.Writes.Add(s.Lane(), 1)
	return n, err
}

// Mute makes replies from now on be left out: they are made and not sent. A second Mute does nothing.
func (s *Session) Mute() {
	if !s.mute {
		s.mute, s.muteFrom = true, s.out.Len()
	}
}

// Unmute ends Mute.
func (s *Session) Unmute() {
	s.hush()
	s.mute = false
}

// Say appends what is sent in spite of Mute.
func (s *Session) Say(p []byte) {
	s.hush()
	s.out.Raw(p)
	s.muteFrom = s.out.Len()
}

// hush drops what Mute leaves out.
func (s *Session) hush() {
	if s.mute {
		s.out.Cut(s.muteFrom)
	}
}
