package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// reversed reverses the mends of the faults that have a patch, one at a time, and fails unless the tests of each find it then. It adds
// the results to those of an earlier run, which are not run again.
func (r runner) reversed(faults []Fault, results *record) error {
	patches := slices.DeleteFunc(slices.Clone(faults), func(f Fault) bool { return !hasPatch(r.root, f.N) })
	if len(patches) == 0 {
		return errors.New("no patch reverses this mend")
	}
	r.quiet = true
	todo := slices.DeleteFunc(slices.Clone(patches), func(f Fault) bool { _, done := results.got[f.N]; return done })
	fmt.Printf("%d reversals at %s, %d of them in an earlier run\n", len(patches), results.state, len(patches)-len(todo))
	rest, err := r.reverseWoven(todo, results)
	if err == nil && len(rest) > 0 {
		err = r.inCopy(func(copied string) error {
			for _, f := range rest {
				began := time.Now()
				one, err := r.reverse(copied, f)
				if err != nil {
					return fmt.Errorf("fault %d: %w", f.N, err)
				}
				one.Seconds = time.Since(began).Seconds()
				if err := results.add(one); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		return err
	}
	return summary(patches, len(faults), results)
}

// summary prints how many reversals ended how, and fails unless all are found.
func summary(patches []Fault, faults int, results *record) error {
	ends := map[Shown][]string{}
	for _, f := range patches {
		one := results.got[f.N]
		ends[one.Shown] = append(ends[one.Shown], fmt.Sprint(f.N))
	}
	fmt.Printf("\n%d faults, %d reversals of mends at %s:\n", faults, len(patches), results.state)
	for _, end := range []Shown{found, hangs, missed, slow, unfit} {
		list := ""
		if end != found && len(ends[end]) > 0 {
			list = ": " + strings.Join(ends[end], " ")
		}
		fmt.Printf("  %3d %s%s\n", len(ends[end]), end, list)
	}
	if seen := len(ends[found]) + len(ends[hangs]); seen < len(patches) {
		return fmt.Errorf("%d of %d faults are not found without their mend", len(patches)-seen, len(patches))
	}
	return nil
}

// reverse applies the patch of a fault to the copy, runs the tests until one of them finds it, and takes the patch back.
func (r runner) reverse(copied string, f Fault) (one Result, err error) {
	back, err := r.patch(copied, patchFile(r.root, f.N))
	undo := func() error { err := back(); back = func() error { return nil }; return err }
	defer func() { err = errors.Join(err, undo()) }()
	if err != nil {
		return one, err
	}
	one = Result{N: f.N, Shown: missed, By: strings.Join(f.Tests, " ")}
	for _, cell := range f.Tests {
		t, err := find(r.tests, cell)
		if err != nil {
			return one, err
		}
		got, err := r.run(copied, []Test{t})
		if errors.Is(err, errBuild) {
			return Result{N: f.N, Shown: unfit, By: "its reversal " + short(err.Error())}, nil
		}
		if err != nil {
			return one, err
		}
		switch got[t.Dir+" "+t.Name] {
		case failed:
			return Result{N: f.N, Shown: found, By: cell}, nil
		case late:
			if err := undo(); err != nil {
				return one, err
			}
			with, err := r.run(copied, []Test{t})
			if err != nil {
				return one, err
			}
			return hung(f.N, cell, with[t.Dir+" "+t.Name] == passed), nil
		}
	}
	return one, nil
}

// hung is the result of a reversal whose tests exceed their limit. This shows something only if the tests pass in that time with the
// mend: on a busy machine any test may be late.
func hung(n int, tests string, passWithMend bool) Result {
	if passWithMend {
		return Result{N: n, Shown: hangs, By: tests}
	}
	return Result{N: n, Shown: slow, By: tests}
}
