package front

// retainOut is the largest reply buffer that an idle connection keeps.
const retainOut = 16 << 10

// maxWrite is how much is written at once outside of a loop: a system call of 1 MB is 0.4 ms and more, in which the runtime does not
// look for others. The last piece may be half as large again: the reply to a client that follows 100,000 changes a second, 80 KiB, is one piece.
const maxWrite = 64 << 10

// sendAll executes the planned operations, commits the changes that the replies confirm, and sends the replies.
// Nothing is left planned: sending may take as long as the client likes, and planned operations may hold a lock that others
// need.
func (s *Session) sendAll() error {
	if s.handler.Commit(); s.waits {
		return errWaits
	}
	if s.held {
		return errHeld
	}
	return s.Send()
}

// Send sends the replies. In a loop it does not wait: bytes that the connection does not take are sent elsewhere.
func (s *Session) Send() error {
	s.Muting.drop()
	s.notices()
	if s.out.Len() == 0 && (s.InLoop() || !s.conn.unsent()) {
		return nil
	}
	err := s.transmit()
	s.Muting.sent()
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
			if err := s.front.checkOutput(s.id, s.out.Len()); err != nil {
				return err
			}
			s.waits = true
			return errWaits
		}
		return err
	}
	s.handler.Publish()
	s.unread.bytes.Store(int64(s.out.Len()))
	_, err := s.Write(s.out.From(0))
	s.unread.bytes.Store(0)
	if s.out.Cut(0); s.out.Cap() > retainOut {
		s.out.DropLarge()
	}
	return err
}

// Write writes to the connection, past the replies, and waits where it must: for as long as a Send of one piece may.
// REQUIRES not InLoop, and that all replies were sent.
func (s *Session) Write(p []byte) (int, error) {
	s.Activity.writingSince.Store(s.front.clock.Load())
	n, err := 0, error(nil)
	for first := true; err == nil && (first || n < len(p)); first = false {
		if s.written >= maxWrite { // in pieces of any size: a file that is sent comes in some of 32 KiB
			s.written = 0
			s.front.GiveWay()
		}
		end := n + maxWrite
		if len(p)-end < maxWrite/2 {
			end = len(p)
		}
		var m int
		m, err = s.conn.Write(p[n:end])
		n += m
		s.written += m
		s.unread.bytes.Add(int64(-m))
	}
	s.Activity.writingSince.Store(0)
	s.front.totals.OutBytes.Add(s.Lane(), int64(n))
	s.front.totals.Writes.Add(s.Lane(), 1)
	return n, err
}
