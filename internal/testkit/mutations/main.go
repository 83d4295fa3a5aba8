package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/counterd/counterd/internal/testkit/programs"
	"github.com/counterd/counterd/internal/testkit/weave"
)

// patience is how long tests may take, on a busy machine too. Where a row says that tests hang, waiting is all that there is to see.
const (
	patience     = 5 * time.Minute
	hangPatience = 30 * time.Second
)

func main() {
	n := flag.String("n", "", "the numbers of the mutations, as in 3,10-14; empty: all")
	only := flag.String("only", "", "only mutations of files whose path contains this")
	timeout := flag.Duration("timeout", patience, "time for one run of tests")
	flag.Parse()
	if err := run(*n, *only, *timeout); err != nil {
		fmt.Fprintln(os.Stderr, "mutations:", err)
		os.Exit(1)
	}
}

func run(numbers, only string, timeout time.Duration) error {
	root, err := programs.Root()
	if err != nil {
		return err
	}
	all, err := Read(root)
	if err != nil {
		return err
	}
	wanted, err := chosen(numbers)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "counterd-mutations-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	p := planter{root: root, temp: temp, timeout: timeout}
	var planted []*Mutation
	killed, equivalent, bad := 0, 0, 0
	for i := range all {
		if m := &all[i]; !wanted(m.N) || !strings.Contains(m.File, only) {
			continue
		} else if m.Reason != "" {
			equivalent++
			fmt.Printf("%4d  equivalent          %s %s\n", m.N, m.File, m.Function)
		} else {
			planted = append(planted, m)
		}
	}
	if err := p.prepare(planted); err != nil {
		return err
	}
	for _, m := range planted {
		began := time.Now()
		by, hung, err := p.plant(m)
		took := time.Since(began).Round(100 * time.Millisecond)
		switch {
		case err != nil:
			bad++
			fmt.Printf("%4d  ERROR               %v\n", m.N, err)
		case by == "":
			bad++
			fmt.Printf("%4d  SURVIVED %9s  %s %s: %s\n", m.N, took, m.File, m.Function, m.Breaks)
		case hung:
			bad++
			fmt.Printf("%4d  HUNG     %9s  %s %s, in %s: its row does not say so; is the machine busy?\n", m.N, took, m.File, m.Function, by)
		default:
			killed++
			fmt.Printf("%4d  killed   %9s  %s %s, by %s\n", m.N, took, m.File, m.Function, by)
		}
	}
	fmt.Printf("%d killed, %d equivalent, %d not found\n", killed, equivalent, bad)
	if bad > 0 {
		return fmt.Errorf("%d mutations were not found", bad)
	}
	return nil
}

// chosen reads numbers and ranges of numbers.
func chosen(numbers string) (func(n int) bool, error) {
	type span struct{ from, to int }
	var spans []span
	for _, word := range strings.FieldsFunc(numbers, func(r rune) bool { return r == ',' || r == ' ' }) {
		var s span
		if k, _ := fmt.Sscanf(word, "%d-%d", &s.from, &s.to); k < 1 {
			return nil, fmt.Errorf("%q is neither a number nor a range such as 10-14", word)
		}
		s.to = max(s.from, s.to)
		spans = append(spans, s)
	}
	return func(n int) bool {
		return len(spans) == 0 || slices.ContainsFunc(spans, func(s span) bool { return s.from <= n && n <= s.to })
	}, nil
}

// A planter plants mutations in the tree at root, which it does not change.
type planter struct {
	root, temp string
	timeout    time.Duration
	tree       *weave.Tree
}

// prepare compiles all mutations together.
func (p *planter) prepare(all []*Mutation) error {
	var versions []weave.Version
	for _, m := range all {
		changed, err := m.Apply(p.root)
		if err != nil {
			return err
		}
		versions = append(versions, weave.Version{N: m.N, Files: map[string][]byte{m.File: changed}})
	}
	tree, err := weave.New(p.root, p.temp, versions)
	p.tree = tree
	return err
}

// plant runs the tests of a mutation until one of them fails, and returns its name; empty: all pass. hung: the tests did not fail, they
// ran out of time, and the row does not expect that. A busy machine makes any test run out of time, so this shows nothing.
func (p *planter) plant(m *Mutation) (by string, hung bool, err error) {
	for _, r := range m.Kills {
		tests := r.Tests
		if tests != "" {
			tests = "^(" + tests + ")$"
		}
		timeout := p.timeout
		if r.Hangs {
			timeout = min(timeout, hangPatience)
		}
		cmd, err := p.tree.Test(m.N, r.Tags, r.Package, "-test.failfast", "-test.timeout", timeout.String(), "-test.run", tests)
		if err != nil {
			return "", false, err
		}
		cmd.Env = append(cmd.Env, "SEEDS=120")
		if os.Getenv("SEED") == "" && !strings.Contains(r.Tests, "TestSimulation") { // it plays many seeds unless one is given
			cmd.Env = append(cmd.Env, "SEED=1") // the same mutation has the same outcome
		}
		out, err := cmd.CombinedOutput()
		switch {
		case bytes.Contains(out, []byte("no tests to run")):
			return "", false, fmt.Errorf("%s has no such tests", r)
		case err != nil:
			late := bytes.Contains(out, []byte("panic: test timed out after"))
			return culprit(out), late && !r.Hangs, nil
		}
	}
	return "", false, nil
}

var failed = regexp.MustCompile(`(?m)^--- FAIL: (\w+)|^\s+(Test\w+) \([\d.ms]+\)$|^(panic: .*)|^(fatal error: .*)|^(WARNING: DATA RACE)`)

// culprit names the first test that failed, or how the process ended.
func culprit(out []byte) string {
	found := ""
	for _, m := range failed.FindAllStringSubmatch(string(out), -1) {
		for _, name := range m[1:] {
			if name != "" && (found == "" || strings.HasPrefix(found, "panic") && strings.HasPrefix(name, "Test")) {
				found = name
			}
		}
	}
	if found == "" {
		return "the end of the process"
	}
	return found
}
