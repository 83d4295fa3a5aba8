package format

import (
	"math"
	"testing"
)

func TestParseImageName(t *testing.T) {
	for _, want := range []uint64{0, 1, math.MaxUint64} {
		if at, ok := ParseImageName(ImageName(7, want)); !ok || at != want {
			t.Errorf("%s: %d, %t", ImageName(7, want), at, ok)
		}
	}
	for _, name := range []string{"", ".hot", "7.hot", "7-.hot", "-9.hot", "7-9", ColdName(7, 9), CopyName(TierHot, "a", 3), "7-9.hot.tmp", "7-9-8.hot"} {
		if at, ok := ParseImageName(name); ok {
			t.Errorf("%q: %d", name, at)
		}
	}
}
