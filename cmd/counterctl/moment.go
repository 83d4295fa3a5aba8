package main

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/counter/datadir"
)

// momentHelp explains what parseMoment reads.
const momentHelp = `A moment is a log offset (digits), a time (RFC 3339: 2026-01-02T15:04:05Z, 2026-01-02T15:04:05.123+08:00),
or an @ followed by Unix seconds (@1767366245, @1767366245.5).`

// parseMoment reads a log offset or a time.
func parseMoment(s string) (datadir.Target, error) {
	if unix, ok := strings.CutPrefix(s, "@"); ok {
		seconds, err := strconv.ParseFloat(unix, 64)
		if err != nil || seconds < 0 || seconds > 1<<40 {
			return datadir.Target{}, misuse("%q: want unix seconds behind the @", s)
		}
		return datadir.Target{Time: time.UnixMilli(int64(math.Round(seconds * 1000)))}, nil
	}
	if offset, err := strconv.ParseUint(s, 10, 64); err == nil {
		return datadir.Target{Offset: offset}, nil
	}
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return datadir.Target{}, misuse("%q is neither a log offset, nor a time as 2026-01-02T15:04:05Z, nor unix seconds as @1767366245", s)
	}
	return datadir.Target{Time: at}, nil
}
