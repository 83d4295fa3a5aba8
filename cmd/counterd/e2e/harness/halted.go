package harness

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

var DownAfterFlag = flag.Duration("down-after", downAfter, "Sentinel's down-after-milliseconds in TestSentinelSoak")

// Freeze stops the process by SIGSTOP and waits until all its threads have stopped: they go on for a moment behind the signal, for
// longer than a replica needs to answer on a busy machine.
func (s *Server) Freeze(t testing.TB) {
	t.Helper()
	if err := s.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	Eventually(t, StartTimeout, "all threads have stopped", s.halted)
}

// halted tells whether every thread of the process is stopped.
func (s *Server) halted() bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.Cmd.Process.Pid))
	for _, path := range threads {
		data, err := os.ReadFile(path)
		if _, state, _ := strings.Cut(string(data), ") "); err != nil || !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return len(threads) > 0
}

func (sum *Tally) Add(more Tally) {
	sum.Safe += more.Safe
	sum.Lone += more.Lone
	sum.Lost += more.Lost
	sum.Refused += more.Refused
	sum.Unknown += more.Unknown
}

// MedianSpread is the median, the least and the most.
func MedianSpread[T any](some []T, of func(T) time.Duration) string {
	var list []time.Duration
	for _, f := range some {
		list = append(list, of(f))
	}
	slices.Sort(list)
	ms := func(i int) string { return strconv.FormatFloat(list[i].Seconds(), 'f', 2, 64) }
	return ms(len(list)/2) + " s (" + ms(0) + "-" + ms(len(list)-1) + ")"
}
