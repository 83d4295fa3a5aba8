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

// fuzzTime is how long a round of a fuzz target lasts. The corpus of generated inputs is kept between rounds.
const fuzzTime = 20 * time.Second

// fuzzShare is the share of all fuzz targets together.
const fuzzShare = 8

func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// choose returns the steps with the given names, or all that this machine can run, fuzz targets included.
func choose(root, only string) ([]Step, error) {
	targets, err := fuzzTargets(root)
	if err != nil {
		return nil, err
	}
	all := append(slices.Clone(steps), targets...)
	if only != "" {
		var chosen []Step
		for name := range strings.SplitSeq(only, ",") {
			i := slices.IndexFunc(all, func(s Step) bool { return s.Name == name })
			if i < 0 {
				return nil, fmt.Errorf("got step %q, want one that --list names", name)
			}
			chosen = append(chosen, all[i])
		}
		return chosen, nil
	}
	return slices.DeleteFunc(all, func(s Step) bool { return s.Root && os.Geteuid() != 0 }), nil
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
			found = append(found, Step{Name: name, Package: "./" + filepath.ToSlash(folder), Run: name, Fuzz: true, Round: fuzzTime + 5*time.Second,
				Flags: []string{"-test.fuzztime=" + fuzzTime.String(), "-test.fuzzminimizetime=10x"}, Unit: "inputs"})
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

// commit is the commit of the work tree.
func commit(root string) string {
	out, err := exec.Command("git", "-C", root, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
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
