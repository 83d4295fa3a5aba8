package page

import "time"

// clock is how mids carry the time when they were given out; empty: they do not.
type clock string

const (
	noClock    clock = ""
	weiboClock clock = "weibo"     // seconds since weiboEpoch above the low 22 bits
	snowClock  clock = "snowflake" // milliseconds since snowEpoch above the low 22 bits
)

const (
	weiboEpoch = 515483463     // s since 1970
	snowEpoch  = 1288834974657 // ms since 1970: Twitter's
)

// clockOf guesses by the newest mid, as nobody says: one that was given out since the service with such ids began, and not
// later than a day from now. Mids of the one kind are never taken for the other's, but for those of Twitter's first two
// weeks, and plain numbers from 1 on for neither.
func clockOf(newest uint64, now time.Time) clock {
	for _, k := range []struct {
		clock
		from time.Time
	}{
		{weiboClock, time.Date(2009, 8, 1, 0, 0, 0, 0, time.UTC)},
		{snowClock, time.Date(2010, 11, 18, 0, 0, 0, 0, time.UTC)},
	} {
		if at := time.UnixMilli(k.of(newest)); at.After(k.from) && at.Before(now.Add(24*time.Hour)) {
			return k.clock
		}
	}
	return noClock
}

// of is when a mid was given out, in ms since 1970.
func (c clock) of(mid uint64) int64 {
	switch c {
	case weiboClock:
		return int64(mid>>22)*1000 + weiboEpoch*1000
	case snowClock:
		return int64(mid>>22) + snowEpoch
	}
	return 0
}
