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
	n := flag.Int("n", 0, "the number of the fault; 0 is all of them")
	reverse := flag.Bool("break", false, "reverse the mend, and show that a test fails")
	timeout := flag.Duration("timeout", 10*time.Minute, "time for the tests of one package")
	planted := flag.Bool("planted", false, "plant faults in a temporary copy, and look for them with the simulation of the whole system")
	only := flag.String("only", "", "with -planted: the patches to plant, comma-separated; empty is all")
	runs := flag.Int("runs", 2000, "with -planted: runs of the simulation for a fault, at most")
	within := flag.Duration("within", 10*time.Minute, "with -planted: time of the simulation for a fault, at most")
	flag.Parse()
	root, err := programs.Root()
	switch {
	case err != nil:
	case *planted:
		err = runner{root: root}.plant(*only, *runs, *within)
	default:
		err = run(root, *n, *reverse, *timeout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

func run(root string, n int, reverse bool, timeout time.Duration) error {
	faults, err := Read(root)
	if err != nil {
		return err
	}
	tests, err := Tests(root)
	if err != nil {
		return err
	}
	if n != 0 {
		i := slices.IndexFunc(faults, func(f Fault) bool { return f.N == n })
		if i < 0 {
			return fmt.Errorf("there is no fault %d: faults have the numbers 1 to %d", n, len(faults))
		}
		faults = faults[i : i+1]
		fmt.Printf("fault %d, %s\n%s\nCause: %s\n\n", n, faults[0].Subject, faults[0].Users, faults[0].Cause)
	}
	r := runner{root: root, tests: tests, timeout: timeout, quiet: n == 0}
	if reverse {
		return r.reversed(faults)
	}
	return r.plain(faults)
}

// A runner runs tests of the repository at root.
type runner struct {
	root    string
	tests   map[string][]Test
	timeout time.Duration
	quiet   bool // print only what fails
}

// An outcome is the result of one test in a run.
type outcome string

const (
	passed  outcome = "pass"
	failed  outcome = "FAIL"
	skipped outcome = "skipped"
	absent  outcome = "not run"
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

// reversed reverses the mends of the faults that have a patch, one at a time, and fails unless a test of each fails then.
func (r runner) reversed(faults []Fault) error {
	patches := slices.DeleteFunc(slices.Clone(faults), func(f Fault) bool { return !hasPatch(r.root, f.N) })
	if len(patches) == 0 {
		return errors.New("no patch reverses this mend")
	}
	r.quiet = true
	rest, unseen, err := r.reverseWoven(patches)
	if err == nil && len(rest) > 0 {
		err = r.inCopy(func(copied string) error {
			for _, f := range rest {
				by, err := r.reverse(copied, f)
				if err != nil {
					return fmt.Errorf("fault %d: %w", f.N, err)
				}
				if tell(f, by); len(by) == 0 {
					unseen++
				}
			}
			return nil
		})
	}
	if err != nil {
		return err
	}
	fmt.Printf("%d reversals, %d found\n", len(patches), len(patches)-unseen)
	if unseen > 0 {
		return fmt.Errorf("%d of %d faults are not found without their mend", unseen, len(patches))
	}
	return nil
}

// tell prints which tests have found a fault without its mend.
func tell(f Fault, by []string) {
	if len(by) == 0 {
		fmt.Printf("%4d  NOT FOUND without its mend by %s\n", f.N, strings.Join(f.Tests, " "))
		return
	}
	fmt.Printf("%4d  found without its mend by %s\n", f.N, strings.Join(by, " "))
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

// reverse applies the patch of a fault to the copy, runs the tests, and takes the patch back. It returns the tests that failed.
func (r runner) reverse(copied string, f Fault) (by []string, err error) {
	back, err := r.patch(copied, patchFile(r.root, f.N))
	defer func() { err = errors.Join(err, back()) }()
	if err != nil {
		return nil, err
	}
	for _, cell := range f.Tests {
		t, err := find(r.tests, cell)
		if err != nil {
			return nil, err
		}
		got, err := r.run(copied, []Test{t})
		if err != nil {
			return nil, err
		}
		if got[t.Dir+" "+t.Name] == failed {
			by = append(by, cell)
		}
	}
	return by, nil
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
		cmd := exec.Command("go", "test", "-trimpath", "-vet=off", "-count=1", "-v", "-timeout", r.timeout.String(), "-tags", tags[dir], "-run", "^("+names+")$", ".")
		cmd.Dir = filepath.Join(root, filepath.FromSlash(dir))      // a folder of another module is tested in that module
		cmd.Env = append(os.Environ(), "PWD="+cmd.Dir, "SEEDS=120") // clusters that TestSimulation and TestRollBack play
		out, err := cmd.CombinedOutput()
		if bytes.Contains(out, []byte("[build failed]")) || bytes.Contains(out, []byte("[setup failed]")) {
			return nil, fmt.Errorf("%s does not compile:\n%s", dir, out)
		}
		for _, m := range verdict.FindAllStringSubmatch(string(out), -1) {
			got[dir+" "+m[2]] = map[string]outcome{"PASS": passed, "FAIL": failed, "SKIP": skipped}[m[1]]
		}
		if err != nil { // a test that ends the process has no verdict
			for _, name := range byDir[dir] {
				if got[dir+" "+name] == absent {
					got[dir+" "+name] = failed
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
