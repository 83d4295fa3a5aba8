package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/counterd/counterd/internal/testkit/programs"
)

func main() {
	n := flag.String("n", "", "the numbers of the faults, as in 17 or 270-309; empty: all")
	reverse := flag.Bool("break", false, "reverse the mend, and show that a test fails")
	limit := flag.Duration("limit", 5*time.Minute, "time for the tests of one package")
	record := flag.String("record", "", "with -break: the file that keeps the results; a second run at the same state of the tree resumes")
	planted := flag.Bool("planted", false, "plant faults in a temporary copy, and look for them with the simulation of the whole system")
	only := flag.String("only", "", "with -planted: the patches to plant, or mends of the ledger to reverse, comma-separated, as in no-sync,349@flushes,300-367; empty is all of planted.tsv")
	runs := flag.Int("runs", 2000, "with -planted: runs of the simulation for a fault, at most")
	within := flag.Duration("within", 10*time.Minute, "with -planted: time of the simulation for a fault, at most")
	flag.Parse()
	root, err := programs.Root()
	switch {
	case err != nil:
	case *planted:
		err = runner{root: root}.plant(*only, *runs, *within)
	default:
		err = run(root, *n, *reverse, *limit, *record)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

func run(root, n string, reverse bool, limit time.Duration, record string) error {
	faults, err := Read(root)
	if err != nil {
		return err
	}
	tests, err := Tests(root)
	if err != nil {
		return err
	}
	if faults, err = chosen(faults, n); err != nil {
		return err
	}
	if len(faults) == 1 {
		fmt.Printf("fault %d, %s\n%s\nCause: %s\n\n", faults[0].N, faults[0].Subject, faults[0].Users, faults[0].Cause)
	}
	r := runner{root: root, tests: tests, limit: limit, quiet: len(faults) > 1}
	if reverse {
		state, err := treeState(root)
		if err != nil {
			return err
		}
		results, err := openRecord(record, state)
		if err != nil {
			return err
		}
		return errors.Join(r.reversed(faults, results), results.close())
	}
	return r.plain(faults)
}

// chosen returns the faults with a number, or with the numbers from one to another.
func chosen(faults []Fault, numbers string) ([]Fault, error) {
	if numbers == "" {
		return faults, nil
	}
	var from, to int
	if k, _ := fmt.Sscanf(numbers, "%d-%d", &from, &to); k < 2 {
		to = from
	}
	some := slices.DeleteFunc(slices.Clone(faults), func(f Fault) bool { return f.N < from || f.N > to })
	if len(some) == 0 {
		return nil, fmt.Errorf("there is no fault %q: faults have the numbers 1 to %d; want one, or two as in 10-20", numbers, len(faults))
	}
	return some, nil
}

// A runner runs tests of the repository at root.
type runner struct {
	root  string
	tests map[string][]Test
	limit time.Duration // for the tests of one package
	quiet bool          // print failures only
}

// An outcome is the result of one test in a run.
type outcome string

const (
	passed  outcome = "pass"
	failed  outcome = "FAIL"
	skipped outcome = "skipped"
	absent  outcome = "not run"
	late    outcome = "out of time"
)

// plain runs the tests of the faults, each package once, and fails unless all tests pass.
func (r runner) plain(faults []Fault) error {
	var wanted []Test
	for _, f := range faults {
		for _, cell := range f.Tests {
			t, err := find(r.tests, cell)
			if err != nil {
				return fmt.Errorf("fault %d: %w", f.N, err)
			}
			wanted = append(wanted, t)
		}
	}
	got, err := r.run(r.root, wanted)
	if err != nil {
		return err
	}
	bad := 0
	fmt.Println("   N  result   tests")
	for _, f := range faults {
		result, not := "pass", ""
		for _, cell := range f.Tests {
			if t, _ := find(r.tests, cell); got[t.Dir+" "+t.Name] != passed {
				result = "FAIL"
				not += fmt.Sprintf("  %s: %s", cell, got[t.Dir+" "+t.Name])
			}
		}
		if result != "pass" {
			bad++
		}
		fmt.Printf("%4d  %-7s  %s%s\n", f.N, result, strings.Join(f.Tests, " "), not)
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d faults: their tests do not pass", bad, len(faults))
	}
	return nil
}

// inCopy calls f with a copy of the source tree, and removes the copy.
func (r runner) inCopy(f func(copied string) error) (err error) {
	copied, err := os.MkdirTemp("", "counterd-faults-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(copied)) }()
	if err := r.copyTo(copied); err != nil {
		return err
	}
	return f(copied)
}

// patch changes a copy of the tree as a patch says. back undoes it, also after an error.
func (r runner) patch(copied, patch string) (back func() error, err error) {
	before := map[string][]byte{}
	back = func() (err error) {
		for name, text := range before {
			err = errors.Join(err, os.WriteFile(name, text, 0o644))
		}
		return err
	}
	made, err := patched(r.root, patch)
	if err != nil {
		return back, err
	}
	for file, text := range made {
		name := filepath.Join(copied, filepath.FromSlash(file))
		was, err := os.ReadFile(name)
		if err != nil {
			return back, err
		}
		before[name] = was
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return back, err
		}
	}
	return back, nil
}

// copyTo copies the source tree to an empty directory.
func (r runner) copyTo(to string) error {
	return eachFile(r.root, func(rel string) error {
		from, into := filepath.Join(r.root, filepath.FromSlash(rel)), filepath.Join(to, filepath.FromSlash(rel))
		if err := os.MkdirAll(filepath.Dir(into), 0o755); err != nil {
			return err
		}
		info, err := os.Stat(from)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		return os.WriteFile(into, data, info.Mode().Perm()|0o200)
	})
}

// errBuild: the tests of a package do not compile.
var errBuild = errors.New("does not compile")

// ranOut tells by the output of tests whether they ran out of time.
func ranOut(out []byte) bool { return bytes.Contains(out, []byte("panic: test timed out after")) }

var verdict = regexp.MustCompile(`(?m)^--- (PASS|FAIL|SKIP): (\w+) `)

// run runs tests in the tree at root, each package once, and returns an outcome for "dir name" of each.
func (r runner) run(root string, wanted []Test) (map[string]outcome, error) {
	byDir, tags := map[string][]string{}, map[string]string{}
	var dirs []string
	got := map[string]outcome{}
	for _, t := range wanted {
		if byDir[t.Dir] == nil {
			dirs = append(dirs, t.Dir)
		}
		if t.Tag != "" {
			tags[t.Dir] = t.Tag
		}
		if !slices.Contains(byDir[t.Dir], t.Name) {
			byDir[t.Dir] = append(byDir[t.Dir], t.Name)
			got[t.Dir+" "+t.Name] = absent
		}
	}
	slices.Sort(dirs)
	for _, dir := range dirs {
		names := strings.Join(byDir[dir], "|")
		cmd := exec.Command("go", "test", "-trimpath", "-vet=off", "-count=1", "-v", "-timeout", r.limit.String(), "-tags", tags[dir], "-run", "^("+names+")$", ".")
		cmd.Dir = filepath.Join(root, filepath.FromSlash(dir))      // a folder of another module is tested in that module
		cmd.Env = append(os.Environ(), "PWD="+cmd.Dir, "SEEDS=120") // clusters that TestSimulation and TestRollBack play
		if root != r.root {
			cmd.Env = append(cmd.Env, "COUNTERD_PROGRAMS=", "COUNTERD_BINARY=", "GOFLAGS=-trimpath") // the copy's own programs
		}
		out, err := cmd.CombinedOutput()
		if bytes.Contains(out, []byte("[build failed]")) || bytes.Contains(out, []byte("[setup failed]")) {
			return nil, fmt.Errorf("%w: %s:\n%s", errBuild, dir, out)
		}
		for _, m := range verdict.FindAllStringSubmatch(string(out), -1) {
			got[dir+" "+m[2]] = map[string]outcome{"PASS": passed, "FAIL": failed, "SKIP": skipped}[m[1]]
		}
		if err != nil { // a test that ends the process has no verdict
			end := failed
			if ranOut(out) {
				end = late
			}
			for _, name := range byDir[dir] {
				if got[dir+" "+name] == absent {
					got[dir+" "+name] = end
				}
			}
		}
		if !r.quiet || err != nil && root == r.root {
			fmt.Printf("%s: %s\n%s\n", dir, names, tail(out, 4000))
		}
	}
	return got, nil
}

func tail(out []byte, n int) []byte {
	if len(out) > n {
		return append([]byte("...\n"), out[len(out)-n:]...)
	}
	return out
}
