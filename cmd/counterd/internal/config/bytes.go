package config

import (
	"fmt"
	"strconv"
	"strings"
)

// byteUnits are redis.conf's: k is 1000 bytes, kb is 1024.
var byteUnits = []struct {
	suffix string
	factor uint64
}{{"kb", 1 << 10}, {"mb", 1 << 20}, {"gb", 1 << 30}, {"tb", 1 << 40}, {"k", 1e3}, {"m", 1e6}, {"g", 1e9}, {"b", 1}, {"", 1}}

// parseBytes reads a number of bytes as redis.conf writes it: 100, 64mb, 1gb.
func parseBytes(s string) (uint64, error) {
	lower := strings.ToLower(s)
	for _, u := range byteUnits {
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

// formatBytes is the shortest exact form that parseBytes reads.
func formatBytes(n uint64) string {
	for i := 3; i >= 0; i-- {
		if u := byteUnits[i]; n > 0 && n%u.factor == 0 {
			return strconv.FormatUint(n/u.factor, 10) + u.suffix
		}
	}
	return strconv.FormatUint(n, 10)
}
