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

	// diskLooks is one more than the looks of the janitor since BeginDiskWait outside of the loop, 0 where the session does not
	// wait for the disk. Of a session that is taken out of its loop meanwhile it is set with the loop's mu held.
	diskLooks atomic.Int32
	hungLooks int32 // those that found that the disk hangs; the janitor's own
}

// A change whose own write or sync hangs cannot be answered, as its goroutine is in that call; its client has to be told, so
// the connection is closed. All who wait for that call are answered by an error before, when the log finds that the disk hangs.
// The janitor counts its looks and takes no time: behind a pause of the whole machine the disk has to be given its time again.
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
