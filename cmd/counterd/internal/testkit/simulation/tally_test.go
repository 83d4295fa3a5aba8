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
	Runs, Steps, Acks int
	Simulated         time.Duration
	Used              time.Duration // of a processor
}

func (y *tally) add(r result, used time.Duration) {
	y.Runs++
	y.Steps += r.steps
	y.Acks += r.acks
	y.Simulated += r.simulated
	y.Used += used
}

// join adds what another process has counted.
func (y *tally) join(other tally) {
	y.Runs += other.Runs
	y.Steps += other.Steps
	y.Acks += other.Acks
	y.Simulated += other.Simulated
	y.Used += other.Used
}

func (y *tally) String() string {
	hours := max(y.Simulated.Hours(), 1e-9)
	return fmt.Sprintf("%d runs, %.2f simulated hours, %.0f faults and %.0f answers in each, %.4f hours in a second of a processor",
		y.Runs, y.Simulated.Hours(), float64(y.Steps)/hours, float64(y.Acks)/hours, hours/max(y.Used.Seconds(), 1e-9))
}

// processor is the time of processors that this process has used.
func processor() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
