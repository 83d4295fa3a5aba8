package replication

import (
	"math"
	"slices"
	"testing"
	"time"
)

// A reading is the size of something at a time.
type reading struct {
	at   time.Duration
	size float64
}

// slope estimates how fast a size grows, per hour: the median of the slopes of all pairs of readings (Theil 1950, Sen 1968), which a few
// readings taken at a bad moment do not change. least is the lower end of its confidence interval at three standard deviations: a
// size that does not grow is above zero there once in 700 times.
func slope(readings []reading) (median, least float64) {
	var all []float64
	for i, a := range readings {
		for _, b := range readings[i+1:] {
			all = append(all, (b.size-a.size)/(b.at-a.at).Hours())
		}
	}
	if len(all) == 0 {
		return 0, math.Inf(-1)
	}
	slices.Sort(all)
	n := float64(len(readings))
	spread := 3 * math.Sqrt(n*(n-1)*(2*n+5)/18)
	rank := int(math.Floor((float64(len(all)) - spread) / 2))
	if rank < 0 {
		return all[len(all)/2], math.Inf(-1)
	}
	return all[len(all)/2], all[rank]
}

func TestSlope(t *testing.T) {
	var flat, rising []reading
	for i := range 60 {
		at, noise := time.Duration(i)*time.Minute, float64(i*7919%13) // 0 to 12, without a trend
		flat = append(flat, reading{at, 100 + noise})
		rising = append(rising, reading{at, 100 + noise + 30*at.Hours()})
	}
	if median, least := slope(flat); math.Abs(median) > 2 || least > 0 {
		t.Errorf("flat readings grow by %.1f, at least %.1f", median, least)
	}
	if median, least := slope(rising); math.Abs(median-30) > 3 || least < 15 {
		t.Errorf("readings that grow by 30 an hour grow by %.1f, at least %.1f", median, least)
	}
	if _, least := slope(flat[:3]); !math.IsInf(least, -1) {
		t.Errorf("three readings prove a growth of %v", least)
	}
}
