package harness

import (
	"errors"
	"time"

	"github.com/counterd/counterd/internal/testkit/jumpclock"
)

// SetClock sets the wall clock of the running process apart from that of the machine; its monotonic clock goes on. A process that is
// started again has the machine's clock. ok is false where a process cannot have a clock of its own, which has then been said.
func (s *Server) SetClock(by time.Duration) (ok bool) {
	s.T.Helper()
	var err error
	if s.clock == nil {
		if s.clock, err = jumpclock.Attach(s.Cmd.Process.Pid); errors.Is(err, jumpclock.ErrNotHere) {
			LeftOut(s.T, err.Error())
			return false
		}
	}
	if err == nil {
		err = s.clock.Set(by)
	}
	if err != nil {
		s.T.Fatal(err)
	}
	return true
}
