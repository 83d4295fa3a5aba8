package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// A round of a fuzz target lasts from leastFuzz to mostFuzz. The corpus of generated inputs is kept between rounds.
const (
	leastFuzz = 6 * time.Second
	mostFuzz  = time.Minute
)

// fuzzShare is the share of all fuzz targets together.
const fuzzShare = 8

func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// allSteps returns all steps, fuzz targets included.
func allSteps(root string) ([]Step, error) {
	targets, err := fuzzTargets(root)
	return append(slices.Clone(steps), targets...), err
}

// choose returns the steps with the given names, or all. It leaves out steps that this machine cannot run, and says why.
func choose(all []Step, only string) (chosen []Step, leftOut []string, err error) {
	if only != "" {
		for name := range strings.SplitSeq(only, ",") {
			i := slices.IndexFunc(all, func(s Step) bool { return s.Name == name })
			if i < 0 {
				return nil, nil, fmt.Errorf("got step %q, want one that --list names", name)
			}
			chosen = append(chosen, all[i])
		}
		all, chosen = chosen, nil
	}
	for _, s := range all {
		if why := s.missing(); why != "" {
			leftOut = append(leftOut, s.Name+": "+why)
		} else {
			chosen = append(chosen, s)
		}
	}
	return chosen, leftOut, nil
}

var fuzzFunction = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)

// fuzzTargets finds the fuzz targets of the module's own packages.
func fuzzTargets(root string) (found []Step, err error) {
	err = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, other := os.Stat(filepath.Join(path, "go.mod"))
			if name := d.Name(); path != root && (strings.HasPrefix(name, ".") || name == "bin" || name == "testdata" || other == nil) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		for _, match := range fuzzFunction.FindAllSubmatch(content, -1) {
			name := string(match[1])
			found = append(found, Step{Name: name, Package: "./" + filepath.ToSlash(folder), Run: name, Fuzz: true, Round: mostFuzz, Least: leastFuzz,
				Flags: []string{"-test.fuzztime=" + length, "-test.fuzzminimizetime=10x", "-test.parallel=1"}, Unit: "inputs"})
		}
		return nil
	})
	for i := range found {
		found[i].Share = fuzzShare / float64(len(found))
		found[i].What = "Fuzzing of " + found[i].Package[2:] + "."
		if slices.ContainsFunc(found[:i], func(s Step) bool { return s.Name == found[i].Name }) {
			found[i].Name += "-" + filepath.Base(found[i].Package)
		}
	}
	return found, err
}

const unknownCommit = "unknown"

// commit is the commit of the work tree.
func commit(root string) string {
	out, err := exec.Command("git", "-C", root, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*").Output()
	if err != nil {
		return unknownCommit
	}
	return strings.TrimSpace(string(out))
}

// load is the load average of the last minute: how many threads ran or waited for a processor. It is 0 where /proc does not tell.
func load() (average float64) {
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		_, _ = fmt.Sscan(string(text), &average) // 0 is "unknown"
	}
	return average
}

var cpuModel = regexp.MustCompile(`model name\s*: (.*)`)

func machine() string {
	name := "unknown processor"
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if match := cpuModel.FindSubmatch(info); match != nil {
			name = string(match[1])
		}
	}
	return fmt.Sprintf("%s/%s, %d processors (%s)", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), name)
}
