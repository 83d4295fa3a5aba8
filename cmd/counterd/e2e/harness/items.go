package harness

import (
	"testing"
)

// MidOf returns the i-th of many mids that grow with gaps of 4000 on average, as those of a real stream do.
func MidOf(i int) uint64 {
	h := uint64(i) * 0x9E3779B97F4A7C15
	return 1<<40 + uint64(i)*4000 + h>>53 // up to 2047 more, so all differ
}

// LoadItems makes n items whose comment column holds the index, on four connections.
func LoadItems(t testing.TB, s *Server, n int) {
	t.Helper()
	// Neighbours go to different connections, so that ids arrive nearly in order.
	BulkParallel(t, s, 4, n, func(dst []byte, i int) []byte {
		return AppendCall(dst, "SET", "", MidOf(spread(i, n)), ".cntcm", int64(spread(i, n)))
	}, WantReply("+OK"))
}

// spread maps the index that bulkParallel hands out, a quarter to each connection, to one that interleaves the
// quarters.
func spread(i, n int) int {
	for k := range 4 {
		if lo, hi := k*n/4, (k+1)*n/4; i < hi {
			if j := (i-lo)*4 + k; j < n {
				return j
			}
			return i
		}
	}
	return i
}
