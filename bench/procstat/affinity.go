package procstat

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseCPUs reads a list of processors, such as "0", "0,2" or "1-3".
func ParseCPUs(s string) ([]int, error) {
	var cpus []int
	for _, part := range strings.Split(s, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		from, err1 := strconv.Atoi(low)
		to, err2 := strconv.Atoi(high)
		if err1 != nil || err2 != nil || from < 0 || to < from || to > 1023 {
			return nil, fmt.Errorf("processors %q, want numbers and ranges of 0..1023, such as 0,2-3", s)
		}
		for cpu := from; cpu <= to; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}
