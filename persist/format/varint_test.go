package format

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestAppendSetOf: the record has the same bytes as that of AppendSet, for mids of each length, and where there is little room.
func TestAppendSetOf(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for size := range 65 {
		for range 300 {
			mid := uint64(0)
			if size > 0 {
				mid = 1<<(size-1) | rnd.Uint64()>>(64-size)
			}
			counter, column, value := uint32(rnd.IntN(130)), uint16(rnd.IntN(130)), rnd.Uint64()>>rnd.IntN(64)
			dst := make([]byte, 1, 1+rnd.IntN(2*setRoom))
			v := VarintOf(mid)
			got, want := AppendSetOf(dst, counter, column, &v, value), AppendSet(nil, counter, column, mid, value)
			if !bytes.Equal(got[1:], want) {
				t.Fatalf("counter %d, column %d, mid %d, value %d: got %x, want %x", counter, column, mid, value, got[1:], want)
			}
			if len(got) <= cap(dst) && &got[0] != &dst[0] {
				t.Fatalf("%d bytes moved, where %d have room", len(got), cap(dst))
			}
		}
	}
}
