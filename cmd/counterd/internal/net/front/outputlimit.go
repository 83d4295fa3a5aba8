package front

import (
	"errors"
	"sync/atomic"

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

// checkOutput returns errOutputLimit if so many bytes, which the connection of a session did not take, are more than the
// hard limit.
func (f *Front) checkOutput(id int64, unsent int) error {
	limit := f.output.Load()
	if limit == nil || limit.Hard == 0 || uint64(unsent) <= limit.Hard {
		return nil
	}
	f.totals.SlowSubscribers.Add(1)
	f.log.Warn("closing connection", "client", id, "reason", errOutputLimit, "unread", unsent)
	return errOutputLimit
}

// unread is the bytes that a session has still to send outside of its loop.
type unread struct {
	bytes     atomic.Int64 // of replies that the connection has still to take
	overSince int64        // since when they are more than the soft limit; the janitor's
}

// passed tells whether they have passed a limit, at a look of the janitor. limit may be nil: there is none.
func (u *unread) passed(limit *config.OutputLimit, now int64) bool {
	unsent := uint64(max(0, u.bytes.Load()))
	if limit == nil || limit.Soft == 0 || unsent <= limit.Soft {
		u.overSince = 0
	} else if u.overSince == 0 {
		u.overSince = now
	}
	return limit != nil && (limit.Hard > 0 && unsent > limit.Hard || u.overSince != 0 && now-u.overSince > int64(limit.Seconds))
}
