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
}

// Age is how long ago the session came.
func (a *Activity) Age() time.Duration { return time.Since(a.created) }

// Idle is for how many seconds nothing was read from it.
func (a *Activity) Idle() int64 { return max(0, a.clock.Load()-a.lastRead.Load()) }

// Writing tells whether it waits for the other side to read.
func (a *Activity) Writing() bool { return a.writingSince.Load() != 0 }

// Blocked tells whether it waits in Block.
func (a *Activity) Blocked() bool { return a.blocked.Load() }
