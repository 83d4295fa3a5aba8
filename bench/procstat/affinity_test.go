package procstat

import (
	"slices"
	"testing"
)

func TestParseCPUs(t *testing.T) {
	if got, err := ParseCPUs("0,2-4"); err != nil || !slices.Equal(got, []int{0, 2, 3, 4}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "a", "3-1", "-1", "1,", "5000"} {
		if got, err := ParseCPUs(bad); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
}
