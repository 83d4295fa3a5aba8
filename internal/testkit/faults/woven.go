package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/counterd/counterd/internal/testkit/weave"
)

// All mends whose reversals change functions alone are reversed together (package weave): the tests of a package are compiled once.

// reverseWoven reverses mends and adds the results. rest are left for a copy of the tree: the patch changes more than functions, or only
// a test that compiles programs itself may find the fault.
func (r runner) reverseWoven(faults []Fault, results *record) (rest []Fault, err error) {
	var versions []weave.Version
	var woven []Fault
	for _, f := range faults {
		v, err := r.versionOf(f.N, patchFile(r.root, f.N))
		switch {
		case errors.Is(err, weave.ErrOutside):
			rest = append(rest, f)
		case err != nil:
			if err := results.add(Result{N: f.N, Shown: unfit, By: short(err.Error())}); err != nil {
				return nil, err
			}
		default:
			versions, woven = append(versions, v), append(woven, f)
		}
	}
	if len(woven) == 0 {
		return rest, nil
	}
	temp, err := os.MkdirTemp("", "counterd-woven-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	tree, left, err := r.compilable(temp, versions)
	if err != nil {
		return nil, err
	}
	for _, f := range woven {
		began := time.Now()
		one := Result{N: f.N, Shown: unfit, By: "its reversal does not compile"}
		var programs []string
		if !slices.Contains(left, f.N) {
			if one, programs, err = r.runWoven(tree, f); err != nil {
				return nil, fmt.Errorf("fault %d: %w", f.N, err)
			}
		}
		if one.Shown == missed && len(programs) > 0 {
			f.Tests = programs
			rest = append(rest, f)
			continue
		}
		one.Seconds = time.Since(began).Seconds()
		if err := results.add(one); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// versionOf is the tree with a patch, which reverses a mend or plants a fault.
func (r runner) versionOf(n int, patch string) (v weave.Version, err error) {
	made, err := patched(r.root, patch)
	if err != nil {
		return v, err
	}
	v = weave.Version{N: n, Files: map[string][]byte{}}
	for file, text := range made {
		v.Files[file] = []byte(text)
	}
	return v, weave.Check(r.root, v)
}

// compilable weaves the versions. If they do not compile together, it leaves out those that do not compile alone.
func (r runner) compilable(temp string, all []weave.Version) (tree *weave.Tree, left []int, err error) {
	tree, err = weave.New(r.root, temp, all)
	if err == nil {
		return tree, nil, nil
	}
	fit := slices.DeleteFunc(all, func(v weave.Version) bool {
		dir := filepath.Join(temp, fmt.Sprint(v.N))
		if err := os.Mkdir(dir, 0o700); err != nil {
			return false
		}
		if _, err := weave.New(r.root, dir, []weave.Version{v}); err != nil {
			left = append(left, v.N)
			return true
		}
		return false
	})
	if len(left) == 0 {
		return nil, nil, err
	}
	tree, err = weave.New(r.root, temp, fit)
	return tree, left, err
}

// runWoven runs the tests of a fault, each package once, until those of one package find it. programs are end-to-end tests, which run
// programs that are not woven.
func (r runner) runWoven(tree *weave.Tree, f Fault) (one Result, programs []string, err error) {
	byDir := map[string][]string{}
	var tests []Test
	for _, cell := range f.Tests {
		t, err := find(r.tests, cell)
		if err != nil {
			return one, nil, err
		}
		if strings.Contains(t.Dir, "/e2e/") {
			programs = append(programs, cell)
			continue
		}
		if byDir[t.Dir] == nil {
			tests = append(tests, t)
		}
		byDir[t.Dir] = append(byDir[t.Dir], t.Name)
	}
	for _, t := range tests {
		names := byDir[t.Dir]
		end, by, err := r.runVersion(tree, f.N, t, names)
		switch {
		case err != nil:
			return one, nil, err
		case end == failed:
			return Result{N: f.N, Shown: found, By: strings.Join(by, " ")}, programs, nil
		case end == late:
			with, _, err := r.runVersion(tree, 0, t, names)
			return hung(f.N, strings.Join(names, " "), with == passed), programs, err
		}
	}
	return Result{N: f.N, Shown: missed, By: strings.Join(f.Tests, " ")}, programs, nil
}

// runVersion runs tests of one package in a version of the tree. by are the tests that failed.
func (r runner) runVersion(tree *weave.Tree, n int, t Test, names []string) (end outcome, by []string, err error) {
	cmd, err := tree.Test(n, t.Tag, "./"+path.Clean(t.Dir), "-test.v", "-test.timeout", r.limit.String(), "-test.run", "^("+strings.Join(names, "|")+")$")
	if err != nil {
		return "", nil, err
	}
	cmd.Env = append(cmd.Env, "SEEDS=120")
	out, killed, err := within(cmd, r.limit+time.Minute)
	var exit *exec.ExitError
	if err != nil && !killed && !errors.As(err, &exit) {
		return "", nil, err
	}
	for _, m := range verdict.FindAllSubmatch(out, -1) {
		if string(m[1]) == "FAIL" {
			by = append(by, string(m[2]))
		}
	}
	switch {
	case err == nil:
		return passed, nil, nil
	case len(by) == 0 && (killed || ranOut(out)):
		return late, nil, nil
	case len(by) == 0: // the process ended within a test
		by = names
	}
	return failed, by, nil
}

// within runs a command, and kills it after the limit: some tests no longer listen to their own time limit.
func within(cmd *exec.Cmd, limit time.Duration) (out []byte, killed bool, err error) {
	cmd.WaitDelay = 10 * time.Second // for its children, which may hold its output open
	kill := time.AfterFunc(limit, func() { _ = cmd.Process.Kill() })
	out, err = cmd.CombinedOutput()
	return out, !kill.Stop(), err
}
