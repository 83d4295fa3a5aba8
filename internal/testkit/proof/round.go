package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Round is one run of a step, and a line of the journal.
type Round struct {
	Step    string        `json:"step"`
	Seed    uint64        `json:"seed"`
	Began   time.Time     `json:"began"`
	Took    time.Duration `json:"took"` // wall time in nanoseconds
	Counted int           `json:"counted"`
	Hours   float64       `json:"hours,omitempty"`    // of virtual time
	Load    float64       `json:"load,omitempty"`     // average of the machine when the round began
	LeftOut []string      `json:"left_out,omitempty"` // tests that could not run, each with the reason
	Failed  bool          `json:"failed,omitempty"`
	Replay  []string      `json:"replay,omitempty"` // lines of the output that tell how to replay a failure
}

// runRound runs a step's binary in the folder of its package; seeded: the binary knows -seed. A failing test is a result; the error is
// that the binary could not run.
func (s Step) runRound(ctx context.Context, root, binary string, seeded bool, seed uint64) (r Round, output []byte, err error) {
	args := []string{"-test.count=1", "-test.v", "-test.timeout=3h"}
	if s.Fuzz {
		args = append(args, "-test.run=^$", "-test.fuzz=^"+s.Run+"$", "-test.fuzzcachedir="+filepath.Join(filepath.Dir(binary), "fuzz"))
	} else {
		args = append(args, "-test.run="+s.Run)
	}
	cmd := exec.CommandContext(ctx, binary, append(args, s.Flags...)...)
	cmd.Dir = filepath.Join(root, s.Package)
	cmd.Env = append(os.Environ(), s.Env...)
	if seeded {
		cmd.Args = append(cmd.Args, "-seed", strconv.FormatUint(seed, 10))
	}
	r = Round{Step: s.Name, Seed: seed, Began: time.Now().UTC(), Load: load()}
	output, err = cmd.CombinedOutput()
	r.Took = time.Since(r.Began)
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		r.Failed, err = true, nil
		r.Replay = replayLines(string(output))
	}
	if err != nil {
		return r, output, fmt.Errorf("%s: %w", s.Name, err)
	}
	for _, line := range leftOut.FindAllStringSubmatch(string(output), -1) {
		r.LeftOut = append(r.LeftOut, line[1])
	}
	r.Counted, r.Hours = s.counted(string(output)), simulatedHours(string(output))
	return r, output, nil
}

// fuzzed matches the lines that the go command prints while it fuzzes: the last line has the sum.
var fuzzed = regexp.MustCompile(`execs: (\d+)`)

// counted sums what the tests of a round say that they did.
func (s Step) counted(output string) (n int) {
	if s.Fuzz {
		if all := fuzzed.FindAllStringSubmatch(output, -1); len(all) > 0 {
			n, _ = strconv.Atoi(all[len(all)-1][1])
		}
		return n
	}
	if s.Count == "" {
		return 1
	}
	for _, match := range regexp.MustCompile(s.Count).FindAllStringSubmatch(output, -1) {
		for _, group := range match[1:] {
			if k, err := strconv.Atoi(group); err == nil {
				n += k
			}
		}
	}
	return n
}

// leftOut matches the line that a test prints if the machine lacks a program.
var leftOut = regexp.MustCompile(`(?m)LEFT OUT: (.*)$`)

var simulated = regexp.MustCompile(`in (\S+): ([\d.]+) simulated hours a second`)

// simulatedHours sums the virtual time that simulations say they played.
func simulatedHours(output string) (sum float64) {
	for _, match := range simulated.FindAllStringSubmatch(output, -1) {
		took, err := time.ParseDuration(match[1])
		rate, err2 := strconv.ParseFloat(match[2], 64)
		if err == nil && err2 == nil {
			sum += took.Seconds() * rate
		}
	}
	return sum
}

var replays = regexp.MustCompile(`(?m)^.*(-seed \d|SEED=\d|--- FAIL|panic:|DATA RACE|testdata/fuzz).*$`)

// maxReplayLines bounds what the page quotes of a failure; the file of the finding has all.
const maxReplayLines = 12

func replayLines(output string) []string {
	lines := replays.FindAllString(output, maxReplayLines)
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return lines
}

// hasSeedFlag tells whether a test binary knows -seed.
func hasSeedFlag(binary string) bool {
	out, _ := exec.Command(binary, "-help").CombinedOutput() // ends with status 2
	return strings.Contains(string(out), "\n  -seed ")
}
