package front

import (
	"errors"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
)

// client-output-buffer-limit of connections that are sent nothing but replies. Such a connection executes nothing while it
// waits for its client to read, so it seldom has more than 64 KiB and one reply unsent. Bytes that the kernel has taken do
// not count. Connections with an Outlet, which are subscribers, have limits there.

// errOutputLimit ends a session that leaves more unsent than the hard limit.
var errOutputLimit = errors.New("replies passed client-output-buffer-limit")

// LimitOutput sets what a session without an outlet may have unsent. It holds from the next look of the janitor on, and
// from the next reply that the connection does not take.
func (f *Front) LimitOutput(l config.OutputLimit) { f.output.Store(&l) }

// checkOutput returns errOutputLimit if so many bytes, which the connection did not take, are more than the hard limit.
func (s *Session) checkOutput(unsent int) error {
	limit := s.front.output.Load()
	if limit == nil || limit.Hard == 0 || uint64(unsent) <= limit.Hard {
		return nil
	}
	s.front.totals.SlowSubscribers.Add(1)
	s.front.log.Warn("closing connection", "client", s.id, "reason", errOutputLimit, "unread", unsent)
	return errOutputLimit
}

// unread tells why the janitor closes a session for what it has unsent, or nothing. REQUIRES Front.mu.
func (s *Session) unread(now int64) string {
	limit, unsent := s.front.output.Load(), uint64(max(0, s.unsent.Load()))
	if limit == nil || limit.Soft == 0 || unsent <= limit.Soft {
		s.overSince = 0
	} else if s.overSince == 0 {
		s.overSince = now
	}
	if limit != nil && (limit.Hard > 0 && unsent > limit.Hard || s.overSince != 0 && now-s.overSince > int64(limit.Seconds)) {
		s.front.totals.SlowSubscribers.Add(1)
		return errOutputLimit.Error()
	}
	return ""
}
