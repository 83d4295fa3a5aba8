package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// spec is a test of Ginkgo's report, as far as it is read.
type spec struct {
	ContainerHierarchyTexts []string
	LeafNodeType            string
	LeafNodeText            string
	LeafNodeLocation        struct{ FileName string }
	State                   string
	Failure                 struct{ Message, ForwardedPanic string }
}

// readGinkgo reads a report of Ginkgo. The unit of a test is its file. Tests that the suite itself does not run are left away.
func readGinkgo(content []byte) (found []outcome, err error) {
	var report []struct{ SpecReports []spec }
	if err := json.Unmarshal(content, &report); err != nil {
		return nil, err
	}
	for _, r := range report {
		for _, s := range r.SpecReports {
			if s.State == "skipped" || s.State == "pending" || s.LeafNodeType != "It" && s.State == "passed" {
				continue
			}
			found = append(found, outcome{unit: filepath.Base(s.LeafNodeLocation.FileName), passed: s.State == "passed",
				test: oneLine(strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " ")),
				said: s.Failure.ForwardedPanic + " " + s.Failure.Message})
		}
	}
	return found, nil
}

// event is a line of go test -json.
type event struct{ Action, Package, Test, Output string }

// goTest is a test by the output of go test -json.
type goTest struct {
	outcome
	action             string // how it ended; empty: its process ended before
	subtests, subfails bool   // it has subtests; one of them failed
}

// readGoTest reads the output of go test -json. The unit of a test is its package. A test that has subtests is as good as they are, so
// it counts only if it fails and none of them does.
func readGoTest(module string, output []byte) (found []outcome, err error) {
	tests := map[string]*goTest{}
	var order []*goTest
	lookup := func(pkg, name string) *goTest {
		key := pkg + " " + name
		if tests[key] == nil {
			unit := strings.Trim(strings.TrimPrefix(pkg, module), "/")
			if unit == "" {
				unit = "."
			}
			tests[key] = &goTest{outcome: outcome{unit: unit, test: oneLine(name)}}
			order = append(order, tests[key])
		}
		return tests[key]
	}
	lines := bufio.NewScanner(bytes.NewReader(output))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Test == "" {
			continue // the go command's own words
		}
		t := lookup(e.Package, e.Test)
		switch e.Action {
		case "output":
			if text := strings.TrimSpace(e.Output); text != "" && !strings.HasPrefix(text, "=== ") && !strings.HasPrefix(text, "--- ") && len(t.said) < 1000 {
				t.said += text + " "
			}
		case "pass", "fail", "skip":
			t.action, t.passed = e.Action, e.Action == "pass"
		}
		if i := strings.LastIndexByte(e.Test, '/'); i > 0 {
			parent := lookup(e.Package, e.Test[:i])
			parent.subtests, parent.subfails = true, parent.subfails || e.Action == "fail"
		}
	}
	for _, t := range order {
		switch {
		case t.action == "skip" || t.subtests && (t.passed || t.subfails):
			continue
		case t.action == "":
			t.said += "its process ended"
		case t.passed:
			t.said = ""
		}
		found = append(found, t.outcome)
	}
	if len(found) == 0 && lines.Err() == nil {
		return nil, fmt.Errorf("no test ran:\n%s", output[max(0, len(output)-2000):])
	}
	return found, lines.Err()
}

// tool runs a command in a folder, and returns its output, or its errors without one; that tests failed is no error.
func tool(ctx context.Context, dir string, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	if len(output) == 0 {
		return stderr.Bytes(), nil
	}
	return output, nil
}

// The suite of go-redis knows its servers by their ports.
var (
	goRedisSingle    = []int{6379, 6390, 6391, 6392, 9121, 9122, 9123}
	goRedisSentinels = []int{26379, 26380, 26381}
	goRedisCluster   = []int{16600, 16601, 16602, 16603, 16604, 16605}
)

// goRedisBorders makes the shards of a cluster those that the suite wants. Shards of counterd are whole groups of hash slots, so their
// borders in replies become those of the suite, and goRedisSlot gives the few slots between the two another place.
var goRedisBorders = map[string]string{"5503": "5460", "5504": "5461", "10943": "10922", "10944": "10923"}

func goRedisSlot(s uint16) uint16 {
	if s > 5460 && s < 5504 || s > 10922 && s < 10944 {
		return s + 64
	}
	return s
}

// goRedis runs the suite of go-redis: one server, three of a ring, Sentinel with three, and a cluster of six.
func goRedis(ctx context.Context, o options, list []row) (found []outcome, err error) {
	s, err := newServers(o.counterd)
	if err != nil {
		return nil, err
	}
	defer s.close()
	for _, port := range goRedisSingle {
		if _, err := s.node(ctx, behind{port: port, args: []string{"--replica-announce-port", strconv.Itoa(port)}}); err != nil {
			return nil, err
		}
	}
	for _, port := range goRedisSentinels {
		if err := s.sentinel(ctx, port); err != nil {
			return nil, err
		}
	}
	if err := s.cluster(ctx, 3, goRedisCluster, behind{answered: clusterAnswered, integers: goRedisBorders}, goRedisSlot); err != nil {
		return nil, err
	}
	program := filepath.Join(s.dir, "suite.test")
	if output, err := tool(ctx, o.path, nil, "go", "test", "-c", "-o", program, "."); err != nil || len(output) > 0 {
		return nil, fmt.Errorf("go test -c: %w\n%s", err, output)
	}
	files, err := o.ginkgoFiles()
	if err != nil {
		return nil, err
	}
	table := newIndex(list)
	for _, file := range files {
		if what := table.what(file, ""); what != "" {
			continue // the whole file is left out
		}
		f, err := o.ginkgoFile(ctx, s.dir, program, file, skipped(of(list, file)))
		if err != nil {
			return nil, err
		}
		found = append(found, f...)
		fmt.Printf("%-36s %3d tests ran\n", file, len(f))
	}
	return found, nil
}

// ginkgoFiles are the files of a folder that have tests of Ginkgo.
func (o options) ginkgoFiles() (files []string, err error) {
	if o.only != "" {
		return []string{o.only}, nil
	}
	all, err := filepath.Glob(filepath.Join(o.path, "*_test.go"))
	for _, file := range all {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if bytes.Contains(content, []byte("Describe(")) {
			files = append(files, filepath.Base(file))
		}
	}
	return files, err
}

// ginkgoFile runs the tests of one file: a panic ends the process of a run.
func (o options) ginkgoFile(ctx context.Context, dir, program, file string, skip []string) ([]outcome, error) {
	report := filepath.Join(dir, "report.json")
	_ = os.Remove(report) // that of another file
	args := []string{"-test.run=^TestGinkgoSuite$", "-test.timeout=10m", "-ginkgo.focus-file=" + file, "-ginkgo.json-report=" + report}
	if len(skip) > 0 {
		args = append(args, "-ginkgo.skip=("+strings.Join(skip, "|")+")$")
	}
	output, err := tool(ctx, o.path, nil, program, args...)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(report)
	if err != nil {
		if i := bytes.Index(output, []byte("[1mpanic")); i > 0 {
			output = output[i:]
		}
		fmt.Printf("%s\n", output[max(0, len(output)-4000):])
		return []outcome{{unit: file, test: "the run of the file", said: "its process ended"}}, nil
	}
	return readGinkgo(content)
}
