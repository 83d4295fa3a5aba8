// Package bytesize reads and writes numbers of bytes as redis.conf has them: 100, 64mb, 1gb.
package bytesize

import (
	"fmt"
	"strconv"
	"strings"
)

// units are redis.conf's: k is 1000 bytes, kb is 1024.
var units = []struct {
	suffix string
	factor uint64
}{{"kb", 1 << 10}, {"mb", 1 << 20}, {"gb", 1 << 30}, {"tb", 1 << 40}, {"k", 1e3}, {"m", 1e6}, {"g", 1e9}, {"b", 1}, {"", 1}}

// Parse reads a number of bytes, 2^62 at most.
func Parse(s string) (uint64, error) {
	lower := strings.ToLower(s)
	for _, u := range units {
		digits, ok := strings.CutSuffix(lower, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 64)
		if err != nil || n > 1<<62/u.factor {
			break
		}
		return n * u.factor, nil
	}
	return 0, fmt.Errorf("got %q, want a number of bytes such as 1048576, 64mb or 1gb", s)
}

// Format is the shortest exact form that Parse reads.
func Format(n uint64) string {
	for i := 3; i >= 0; i-- {
		if u := units[i]; n > 0 && n%u.factor == 0 {
			return strconv.FormatUint(n/u.factor, 10) + u.suffix
		}
	}
	return strconv.FormatUint(n, 10)
}
