package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/counterd/counterd/internal/testkit/weave"
)

// All mends whose reversals change functions alone are reversed together (package weave): the tests of a package are compiled once.

// reverseWoven reverses mends, and returns how many no test finds. rest are left for a copy of the tree: the patch changes more than
// functions, or only a test that compiles programs itself may find the fault.
func (r runner) reverseWoven(faults []Fault) (rest []Fault, unseen int, err error) {
	var versions []weave.Version
	var woven []Fault
	for _, f := range faults {
		made, err := patched(r.root, patchFile(r.root, f.N))
		if err != nil {
			unseen++
			fmt.Printf("%4d  its reversal no longer applies: %v\n", f.N, err)
			continue
		}
		v := weave.Version{N: f.N, Files: map[string][]byte{}}
		for file, text := range made {
			v.Files[file] = []byte(text)
		}
		switch err := weave.Check(r.root, v); {
		case errors.Is(err, weave.ErrOutside):
			rest = append(rest, f)
		case err != nil:
			return nil, 0, err
		default:
			versions, woven = append(versions, v), append(woven, f)
		}
	}
	temp, err := os.MkdirTemp("", "counterd-woven-")
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	tree, err := weave.New(r.root, temp, versions)
	if err != nil {
		return nil, 0, err
	}
	for _, f := range woven {
		by, left, err := r.runWoven(tree, f)
		if err != nil {
			return nil, 0, fmt.Errorf("fault %d: %w", f.N, err)
		}
		if len(by) == 0 && len(left) > 0 {
			f.Tests = left
			rest = append(rest, f)
			continue
		}
		if tell(f, by); len(by) == 0 {
			unseen++
		}
	}
	return rest, unseen, nil
}

// runWoven runs the tests of a fault until those of one package find it. by are the tests that fail; left are end-to-end tests, which run
// programs that are not woven. Tests that run out of time show nothing: on a busy machine any may.
func (r runner) runWoven(tree *weave.Tree, f Fault) (by, left []string, err error) {
	byDir := map[string][]string{}
	var tests []Test
	for _, cell := range f.Tests {
		t, err := find(r.tests, cell)
		if err != nil {
			return nil, nil, err
		}
		if strings.Contains(t.Dir, "/e2e/") {
			left = append(left, cell)
			continue
		}
		if byDir[t.Dir] == nil {
			tests = append(tests, t)
		}
		byDir[t.Dir] = append(byDir[t.Dir], t.Name)
	}
	for _, t := range tests {
		names := strings.Join(byDir[t.Dir], "|")
		cmd, err := tree.Test(f.N, t.Tag, "./"+path.Clean(t.Dir), "-test.v", "-test.timeout", r.timeout.String(), "-test.run", "^("+names+")$")
		if err != nil {
			return nil, nil, err
		}
		cmd.Env = append(cmd.Env, "SEEDS=120")
		out, err := cmd.CombinedOutput()
		if err == nil || bytes.Contains(out, []byte("panic: test timed out after")) {
			continue
		}
		for _, m := range verdict.FindAllSubmatch(out, -1) {
			if string(m[1]) == "FAIL" {
				by = append(by, string(m[2]))
			}
		}
		if len(by) == 0 { // the process ended within a test
			by = slices.Clone(byDir[t.Dir])
		}
		return by, left, nil
	}
	return nil, left, nil
}
