//go:build !linux || noepoll

package front

import "net"

// loop serves each connection by a goroutine of its own, where there is no epoll: no session is ever in it.
type loop struct{}

func newLoop(*Front) (*loop, error) { return &loop{}, nil }

func (l *loop) stop() {}

// takeSpare and keepSpare are not called, as no session is in a loop.
func (l *loop) takeSpare() *scratch { return nil }

func (l *loop) keepSpare(*scratch) bool { return false }

// overslept tells whether l sleeps although it has something to do: no loop does here.
func (l *loop) overslept() bool { return false }

// add starts the goroutine of s.
func (l *loop) add(s *Session) error {
	s.where.Store(away)
	go l.serve(s)
	return nil
}

// rouse ends the read that s waits in: its goroutine sends notices then.
func (l *loop) rouse(s *Session) { s.conn.interrupt() }

// Watch returns nil: there is no loop that could watch a connection.
func (f *Front) Watch(int, net.Conn, func([]byte) (int, error)) (Trunk, error) { return nil, nil }

// Resume is not called: MayHoldReplies is never true.
func (s *Session) Resume() {}

// beginDiskWait is not called, as no session is in a loop.
func (l *loop) beginDiskWait(*Session) {}

// endDiskWait is not called either.
func (l *loop) endDiskWait(*Session) {}

// shift is nothing here.
type shift struct{}

// relief is nothing here: there are no loops.
type relief struct{}

func newRelief() relief { return relief{} }

func (r *relief) run([]*loop) {}
func (r *relief) stop()       {}

func (l *loop) endSession(s *Session, err error) {
	s.where.Store(ended)
	s.close(err)
}

// serve reads, executes and answers until the connection ends.
func (l *loop) serve(s *Session) {
	defer func() {
		if p := recover(); p != nil {
			s.panicked(p)
			l.endSession(s, nil)
		}
	}()
	space, idle := s.space, s.release
	for !s.Closing {
		if s.account.mustWait() {
			s.account.awaitRoom()
		}
		n, free, err := s.conn.receive(space, idle)
		switch {
		case err == nil:
			err = s.received(n, free)
		case s.conn.interrupted(err):
			s.space()
			if err = s.sendAll(); err == nil {
				s.release()
				s.handler.Publish()
				continue
			}
		}
		if err == nil {
			err = s.sendAll()
		}
		if err != nil {
			l.endSession(s, err)
			return
		}
		s.handler.Publish()
	}
	l.endSession(s, nil)
}
