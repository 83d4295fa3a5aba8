package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// units are the files of the Tcl suites that have tests of something that counterd does.
var units = []string{"unit/type/incr", "unit/type/string", "unit/auth", "unit/acl", "unit/multi", "unit/pubsub", "unit/tracking", "unit/protocol",
	"unit/quit", "unit/introspection", "unit/introspection-2", "unit/info", "unit/info-command", "unit/networking", "unit/keyspace", "unit/slowlog",
	"unit/scan", "unit/wait", "unit/pause", "unit/other", "unit/pubsubshard", "unit/expire", "unit/latency-monitor", "unit/limits",
	"unit/client-eviction", "unit/querybuf", "unit/obuf-limits", "unit/maxmemory", "unit/violations", "unit/oom-score-adj", "unit/info-keysizes",
	"unit/commandlog", "unit/tls"}

// tclSuite runs the suite of Redis or Valkey: each unit with a server of its own.
func tclSuite(ctx context.Context, o options, list []row) (found []outcome, err error) {
	if err := checkTcl(o.path); err != nil {
		return nil, err
	}
	table := newIndex(list)
	for _, unit := range existing(o.path) {
		if o.only != "" && o.only != unit {
			continue
		}
		if table.what(unit, "") != "" {
			continue // the whole file is left out
		}
		skip := slices.DeleteFunc(of(list, unit), func(l row) bool { return l.what == passes })
		f, err := o.unit(ctx, unit, skip)
		if err != nil {
			return nil, err
		}
		found = append(found, f...)
	}
	return found, nil
}

// unit runs one file of the suite against a new server.
func (o options) unit(ctx context.Context, unit string, skip []row) ([]outcome, error) {
	return o.onOneNode(ctx, behind{answered: tclAnswered}, func(_ string, port int) ([]outcome, error) {
		return runUnit(ctx, o.path, port, unit, skip)
	})
}

// runUnit runs one file of a suite against a server. Tests of the list are not run: a test that fails would end the file.
func runUnit(ctx context.Context, path string, port int, unit string, skip []row) ([]outcome, error) {
	file, err := os.CreateTemp("", "left-out-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	for _, l := range skip {
		fmt.Fprintln(file, l.test)
	}
	if err := file.Close(); err != nil {
		return nil, err
	}
	// The suite's own runner forks a server and clients of the suite; one client is enough, and all output is on one stream.
	cmd := exec.CommandContext(ctx, "tclsh", "tests/test_helper.tcl", "--host", "127.0.0.1", "--port", strconv.Itoa(port), "--single", unit, "--singledb",
		"--ignore-encoding", "--ignore-digest", "--clients", "1", "--durable", "--timeout", "120", "--tags", "-needs:debug", "--tags", "-needs:repl", "--skipfile", file.Name())
	cmd.Dir = path
	output, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	found := readOutcomes(unit, string(output))
	// Of some files all tests need a server that the suite starts itself.
	if len(found) == 0 && len(skip) == 0 && !strings.Contains(string(output), "Not supported on external server") && !strings.Contains(string(output), "All tests passed") {
		return nil, fmt.Errorf("%s: no test ran:\n%s", unit, output[max(0, len(output)-2000):])
	}
	return found, nil
}

var (
	passedLine = regexp.MustCompile(`^\[ok\]: (.*) \(\d+ ms\)$`)
	failedLine = regexp.MustCompile(`^\[(err|exception)\]: (.*?)( in tests/\S+)?$`)
	inProgress = regexp.MustCompile(`\(IN PROGRESS\) (.*)$`) // when the suite stops waiting
	colours    = regexp.MustCompile("\x1b\\[[0-9;]*m")
)

// readOutcomes reads the output of a suite: a line for each test, and behind the line of a failed test why it failed.
func readOutcomes(unit, output string) (found []outcome) {
	lines := strings.Split(colours.ReplaceAllString(output, ""), "\n")
	for i, line := range lines {
		if m := passedLine.FindStringSubmatch(line); m != nil {
			found = append(found, outcome{unit: unit, test: m[1], passed: true})
		} else if m := failedLine.FindStringSubmatch(line); m != nil {
			o := outcome{unit: unit, test: m[2]}
			if i+1 < len(lines) {
				o.said = strings.TrimSpace(lines[i+1])
			}
			found = append(found, o)
		} else if m := inProgress.FindStringSubmatch(line); m != nil {
			found = append(found, outcome{unit: unit, test: m[1], said: "waited for a reply that did not come"})
		}
		if strings.Contains(line, "!!! WARNING The following tests failed:") {
			break // all of them again
		}
	}
	return found
}

// checkTcl tells whether a folder has a Tcl suite.
func checkTcl(path string) error {
	if _, err := os.Stat(filepath.Join(path, "tests", "test_helper.tcl")); err != nil {
		return fmt.Errorf("got --path %s, want a checkout of Redis or Valkey: %w", path, err)
	}
	if _, err := exec.LookPath("tclsh"); err != nil {
		return fmt.Errorf("%w (Debian and Ubuntu: apt-get install tcl)", err)
	}
	return nil
}

// existing returns the units that a suite has: they differ between versions.
func existing(path string) []string {
	return slices.DeleteFunc(slices.Clone(units), func(unit string) bool {
		_, err := os.Stat(filepath.Join(path, "tests", unit+".tcl"))
		return err != nil
	})
}
