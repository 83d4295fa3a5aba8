// Scenario: the runs of a test are played by several processes beside each other, and added up.

//go:build noepoll || !linux

package simulation

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A run is played on one processor, because goroutines keep their order there, and the random bytes of servers are those of a process.
// So several processors play by several processes.

var playedInto = flag.String("played", "", "the file for the result of one process of -jobs")

// played counts the runs of a process.
type played struct {
	Dense, Quiet tally
	Met          map[string]int // messages in the log, and how often each came
}

func (p *played) join(other played) {
	p.Dense.join(other.Dense)
	p.Quiet.join(other.Quiet)
	for message, n := range other.Met {
		p.Met[message] += n
	}
}

// report logs the result, and a process of -jobs writes it to its file.
func (p *played) report(t *testing.T, first uint64, took time.Duration) {
	t.Helper()
	if *playedInto != "" {
		text, err := json.Marshal(p)
		if err == nil {
			err = os.WriteFile(*playedInto, text, 0o600)
		}
		if err != nil {
			t.Error(err)
		}
	}
	if testing.Verbose() {
		for _, message := range slices.Sorted(maps.Keys(p.Met)) {
			t.Logf("%6d %s", p.Met[message], message)
		}
	}
	hours := (p.Dense.Simulated + p.Quiet.Simulated).Hours()
	t.Logf("%d runs from seed %d in %s: %.4f simulated hours a second", p.Dense.Runs+p.Quiet.Runs, first, took.Round(time.Millisecond), hours/took.Seconds())
	t.Logf("dense: %s", &p.Dense)
	t.Logf("quiet: %s", &p.Quiet)
}

// playBeside splits the runs among several processes. A process ends at its first failure, and the others play on.
func playBeside(t *testing.T, first uint64, many int) played {
	all := played{Met: map[string]int{}}
	folder := t.TempDir()
	var mu sync.Mutex // guards all, and the output
	var working sync.WaitGroup
	for job, from := 0, 0; job < *jobs; job++ {
		share := (many - from) / (*jobs - job)
		seed, into := first+uint64(from), filepath.Join(folder, fmt.Sprint(job))
		from += share
		if share == 0 {
			continue
		}
		working.Go(func() {
			out, err := command(t.Name(), seed, share, into).CombinedOutput()
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				fmt.Fprintf(os.Stderr, "%s\n", out)
				t.Errorf("%d runs from seed %d: %v", share, seed, err)
			}
			var p played
			text, err := os.ReadFile(into)
			if err == nil {
				err = json.Unmarshal(text, &p)
			}
			if err != nil { // it ended within a run
				t.Error(err)
				return
			}
			all.join(p)
		})
	}
	working.Wait()
	return all
}

// command is a process that plays a share of the runs with the flags of this one.
func command(name string, seed uint64, share int, into string) *exec.Cmd {
	var args []string
	flag.Visit(func(f *flag.Flag) {
		if f.Name != "test.testlogfile" && !strings.HasSuffix(f.Name, "profile") { // files of this process
			args = append(args, fmt.Sprintf("-%s=%s", f.Name, f.Value))
		}
	})
	args = append(args, "-test.run=^"+name+"$", fmt.Sprintf("-seed=%d", seed), fmt.Sprintf("-runs=%d", share), "-jobs=1", "-played="+into)
	return exec.Command(os.Args[0], args...)
}

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
