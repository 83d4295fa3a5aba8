// Package human writes for people: sizes, times, ids of posts, and progress bars.
package human

import (
	"fmt"
	"math"
	"time"
)

// Size writes a number of bytes.
func Size(n uint64) string {
	f, unit := float64(n), 0
	for f >= 1024 && unit < 5 {
		f, unit = f/1024, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f %ciB", f, " KMGTP"[unit])
}

// Count is a number of things, "1 shard" and "2 shards". one is a noun whose plural ends in s.
func Count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// Clock writes milliseconds since 1970 as RFC 3339, in UTC. It can be given back as a moment.
func Clock(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

// Mid writes the end of a range: that of the last block is open.
func Mid(mid uint64) string {
	if mid > math.MaxInt64 {
		return "end"
	}
	return fmt.Sprint(mid)
}
