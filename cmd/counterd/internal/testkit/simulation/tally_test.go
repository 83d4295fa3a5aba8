// Scenario: sums of many runs.

//go:build noepoll || !linux

package simulation

import (
	"fmt"
	"syscall"
	"time"
)

// tally adds up runs of one kind: an hour in which a cluster rests says less than one full of faults.
type tally struct {
	runs, steps, acks int
	simulated         time.Duration
	used              time.Duration // of a processor
}

func (y *tally) add(r result, used time.Duration) {
	y.runs++
	y.steps += r.steps
	y.acks += r.acks
	y.simulated += r.simulated
	y.used += used
}

func (y *tally) String() string {
	hours := max(y.simulated.Hours(), 1e-9)
	return fmt.Sprintf("%d runs, %.2f simulated hours, %.0f faults and %.0f answers in each, %.4f hours in a second of a processor",
		y.runs, y.simulated.Hours(), float64(y.steps)/hours, float64(y.acks)/hours, hours/max(y.used.Seconds(), 1e-9))
}

// processor is the time of processors that this process has used.
func processor() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
