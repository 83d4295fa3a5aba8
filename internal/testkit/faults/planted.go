package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/counterd/counterd/internal/testkit/weave"
)

// A Planted fault is a mistake in the code for the simulation of the whole system to find. planted.tsv has a row for each.
type Planted struct {
	Patch string // in breaks, a number; or in planted, a name
	Scene string // the scenes of the simulation that it is looked for with; none: single faults alone
	Note  string // why it is not found; empty: it must be
}

// file is the patch's.
func (p Planted) file(root string) string {
	if n, err := strconv.Atoi(p.Patch); err == nil {
		return patchFile(root, n)
	}
	return filepath.Join(root, filepath.FromSlash(dir), "planted", p.Patch+".patch")
}

// sentence returns the first line of the patch, a sentence about the fault.
func (p Planted) sentence(root string) (string, error) {
	text, err := os.ReadFile(p.file(root))
	line, _, _ := strings.Cut(string(text), "\n")
	return line, err
}

// ReadPlanted reads planted.tsv.
func ReadPlanted(root string) (list []Planted, err error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(dir), "planted.tsv"))
	if err != nil {
		return nil, err
	}
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		cells := strings.Split(line, "\t")
		if len(cells) != 3 {
			return nil, fmt.Errorf("planted.tsv:%d: %d columns, want 3", i+1, len(cells))
		}
		if i > 0 {
			list = append(list, Planted{cells[0], cells[1], cells[2]})
		}
	}
	return list, nil
}

// wholeSystem is the folder of the simulation.
const wholeSystem = "cmd/counterd/internal/testkit/simulation"

// wholeTags and wholeLinkFlags are those with which make compiles it.
const (
	wholeTags      = "noepoll,hangs"
	wholeLinkFlags = "-checklinkname=0"
)

// plant plants faults, one at a time, and plays simulated systems until one fails. It prints a table. It fails if a fault that must be
// found is not. only are the patches to plant, comma-separated; empty: all.
func (r runner) plant(only string, runs int, within time.Duration) error {
	list, err := ReadPlanted(r.root)
	if err != nil {
		return err
	}
	if only != "" {
		faults, err := Read(r.root)
		if err != nil {
			return err
		}
		reversed := func(n int) bool {
			_, err := os.Stat(patchFile(r.root, n))
			return err == nil
		}
		if list, err = wanted(list, faults, reversed, only); err != nil {
			return err
		}
	}
	fmt.Println("| planted fault | patch | scenes | found | first failure |")
	fmt.Println("|---|---|---|---|---|")
	unseen := 0
	report := func(p Planted, came played) error {
		what, err := p.sentence(r.root)
		if !came.found && p.Note == "" {
			unseen++
		}
		fmt.Printf("| %s | %s | %s | %s | %s |\n", what, p.Patch, p.Scene, came, came.first)
		return err
	}
	rest, err := r.plantWoven(list, runs, within, report)
	if err == nil && len(rest) > 0 {
		err = r.plantCopied(rest, runs, within, report)
	}
	if err == nil && unseen > 0 {
		err = fmt.Errorf("%d of %d planted faults are not found", unseen, len(list))
	}
	return err
}

// plantWoven compiles the faults that change functions alone together, once, and plays the simulation with each. rest are the others.
func (r runner) plantWoven(list []Planted, runs int, within time.Duration, report func(Planted, played) error) (rest []Planted, err error) {
	var versions []weave.Version
	var woven []Planted
	for i, p := range list {
		v, err := r.versionOf(i+1, p.file(r.root))
		switch {
		case errors.Is(err, weave.ErrOutside):
			rest = append(rest, p)
		case err != nil && p.Note == unlisted:
			if err := report(p, played{unfit: true, first: short(err.Error())}); err != nil {
				return nil, err
			}
		case err != nil:
			return nil, fmt.Errorf("%s: %w", p.Patch, err)
		default:
			versions, woven = append(versions, v), append(woven, p)
		}
	}
	if len(woven) == 0 {
		return rest, nil
	}
	temp, err := os.MkdirTemp("", "counterd-planted-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	tree, left, err := r.compilable(temp, versions)
	if err != nil {
		return nil, err
	}
	tree.LinkFlags = wholeLinkFlags
	for i, p := range woven {
		if slices.Contains(left, versions[i].N) {
			if p.Note != unlisted {
				return nil, fmt.Errorf("%s does not compile", p.Patch)
			}
			if err := report(p, played{unfit: true, first: "it does not compile"}); err != nil {
				return nil, err
			}
			continue
		}
		cmd, err := tree.Test(versions[i].N, wholeTags, "./"+wholeSystem, p.args(runs, within)...)
		if err != nil {
			return nil, err
		}
		came, err := play(cmd, within)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Patch, err)
		}
		if err := report(p, came); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// plantCopied plants faults in a copy of the tree, one at a time, and compiles the simulation with each.
func (r runner) plantCopied(list []Planted, runs int, within time.Duration, report func(Planted, played) error) error {
	return r.inCopy(func(copied string) error {
		for _, p := range list {
			came, err := r.simulate(copied, p, runs, within)
			if err != nil && p.Note == unlisted {
				came, err = played{unfit: true, first: short(err.Error())}, nil
			}
			if err == nil {
				err = report(p, came)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", p.Patch, err)
			}
		}
		return nil
	})
}

// played is the outcome of the simulation with a planted fault.
type played struct {
	found     bool
	seed, run string // of the failure; empty: the process ended, and said neither
	first     string // the failure
	runs      int    // without one
	unfit     bool   // the patch does not fit the code any more, and nothing was played; first is the reason
}

func (p played) String() string {
	switch {
	case p.unfit:
		return "does not fit"
	case !p.found:
		return fmt.Sprintf("not in %d runs", p.runs)
	case p.run == "":
		return "the process ended"
	}
	return fmt.Sprintf("run %s, seed %s", p.run, p.seed)
}

var errSilent = errors.New("the simulation does not say how it ended")

var (
	failure = regexp.MustCompile(`seed (\d+), run (\d+): (.*)`)
	stuck   = regexp.MustCompile(`(?m)^(?:panic|fatal error): (.*)`)
	number  = regexp.MustCompile(`(\d+) runs from seed`)
)

// simulate compiles the simulation in a copy of the tree with a fault planted, and plays it.
func (r runner) simulate(copied string, p Planted, runs int, within time.Duration) (came played, err error) {
	back, err := r.patch(copied, p.file(r.root))
	defer func() { err = errors.Join(err, back()) }()
	if err != nil {
		return came, err
	}
	binary := filepath.Join(copied, "simulation.test")
	build := exec.Command("go", "test", "-trimpath", "-vet=off", "-tags", wholeTags, "-ldflags="+wholeLinkFlags, "-c", "-o", binary, "./"+wholeSystem)
	build.Dir = copied
	if out, err := build.CombinedOutput(); err != nil {
		return came, fmt.Errorf("it does not compile: %s", out)
	}
	cmd := exec.Command(binary, p.args(runs, within)...)
	cmd.Dir = filepath.Join(copied, filepath.FromSlash(wholeSystem))
	return play(cmd, within)
}

// args are the flags of the simulation's tests.
func (p Planted) args(runs int, within time.Duration) []string {
	return []string{"-test.run", "^TestWholeSystem$", "-test.v", "-test.timeout", "0", "-seed", "1", "-runs", strconv.Itoa(runs), "-scene", p.Scene, "-within", within.String()}
}

// play plays simulated systems until one fails.
func play(cmd *exec.Cmd, limit time.Duration) (came played, err error) {
	out, _, err := within(cmd, limit+10*time.Minute) // it ends by itself
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return came, err
	}
	return judge(out, err != nil)
}

// judge reads the output of the simulation.
func judge(out []byte, failed bool) (came played, err error) {
	text := string(out)
	if m := failure.FindStringSubmatch(text); m != nil {
		return played{found: true, seed: m[1], run: m[2], first: short(m[3])}, nil
	}
	if failed {
		m := stuck.FindStringSubmatch(text)
		if m == nil {
			return came, fmt.Errorf("%w: %s", errSilent, tail(out, 2000))
		}
		return played{found: true, first: short(m[1])}, nil
	}
	m := number.FindStringSubmatch(text)
	if m == nil {
		return came, fmt.Errorf("%w: %s", errSilent, tail(out, 2000))
	}
	came.runs, err = strconv.Atoi(m[1])
	return came, err
}

// short is the beginning of a text, as a cell of a table.
func short(text string) string {
	text = strings.ReplaceAll(strings.TrimSpace(text), "|", "/")
	if len(text) > 120 {
		return text[:120] + "…"
	}
	return text
}
