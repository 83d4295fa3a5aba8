package aging

import (
	"time"

	"github.com/counterd/counterd/schema"
)

// newestRank is which of the newest posts tells time. Posts that are newer than the wall clock do not count.
const newestRank = 32

const (
	shortest = time.Second
	longest  = 24 * time.Hour
	parts    = 32 // of retain: a period
)

// grace is how long a node waits with the first cut behind its start, and behind a change of ids or retain: an hour at most.
func grace(retain time.Duration) time.Duration { return min(time.Hour, retain) }

// period is how far two cuts of a counter are apart.
func period(retain time.Duration) time.Duration {
	return max(shortest, min(longest, retain/parts).Truncate(time.Second))
}

// cutAt is the cut at a moment, in unix milliseconds: a multiple of the period, and at most the moment less retain. Negative: there is none.
func cutAt(retain time.Duration, now int64) int64 {
	at, per := now-retain.Milliseconds(), period(retain).Milliseconds()
	if at < 0 {
		return -1
	}
	return at - at%per
}

// nextAt is the moment from which on the cut is behind the given one.
func nextAt(retain time.Duration, cut int64) int64 {
	return cut + (period(retain) + retain).Milliseconds()
}

// cutOf is the cut of a counter as both its clocks have it: the wall clock, and the mid of a post that is nearly the newest.
func cutOf(def *schema.Counter, now int64, newest uint64) int64 {
	return cutAt(retainOf(def), min(now, def.IDs.UnixMilli(newest)))
}

// retainOf is how long posts of a counter are kept.
func retainOf(def *schema.Counter) time.Duration { return time.Duration(def.Retain) * time.Second }
