package front

import (
	"sync/atomic"
	"time"
)

// Activity is the present activity of a session, and its start. Anybody may ask it. Times are in seconds of
// Front.clock; 0 = not so.
type Activity struct {
	clock   *atomic.Int64 // the front's
	created time.Time

	blocked atomic.Bool // it waits in Block
	busy    atomic.Bool // it is in Busy

	lastRead, partialSince, writingSince atomic.Int64
	arrived                              atomic.Int64 // bytes of the command that is not complete
	delivered                            int64        // of its socket at the janitor's last look

	// diskLooks counts the looks of the janitor since BeginDiskWait, plus one; 0: the session does not wait for the disk. Only sessions
	// outside of the loop are counted. A session that leaves its loop while it waits gets its count with the loop's mu held.
	diskLooks atomic.Int32
	hungLooks int32 // looks that found that the disk hangs; the janitor alone uses it
}

// A write or a sync that hangs keeps the goroutine that called it. That goroutine cannot answer its client, so the janitor closes the
// connection. Other clients that wait for the same call get an error earlier, when the log finds that the disk hangs.
// The janitor counts its looks instead of reading a clock: after a pause of the whole machine the disk gets its full time again.
const (
	mostHungLooks = 2
	mostDiskLooks = 30 // under appendfsync no a sync may take as long as it likes, and the log does not call that a hang
)

// diskOverdue counts one look of the janitor, which says whether the disk hangs, and tells whether the connection has waited for the
// disk for too long.
func (a *Activity) diskOverdue(hangs bool) bool {
	n := a.diskLooks.Load()
	if n == 0 || !a.diskLooks.CompareAndSwap(n, n+1) {
		return false
	}
	if n == 1 {
		a.hungLooks = 0
	}
	if hangs {
		a.hungLooks++
	}
	return a.hungLooks >= mostHungLooks || n >= mostDiskLooks
}

// Age is how long ago the session came.
func (a *Activity) Age() time.Duration { return time.Since(a.created) }

// Idle is for how many seconds nothing was read from it.
func (a *Activity) Idle() int64 { return max(0, a.clock.Load()-a.lastRead.Load()) }

// Writing tells whether it waits for the other side to read.
func (a *Activity) Writing() bool { return a.writingSince.Load() != 0 }

// Blocked tells whether it waits in Block.
func (a *Activity) Blocked() bool { return a.blocked.Load() }
