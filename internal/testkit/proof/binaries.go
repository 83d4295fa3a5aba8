package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// compiling is the name of the rounds that compile.
const compiling = "compile"

// binaries compiles the test binary of a step when its first round begins, so that a short search does not wait for all of them. The
// folder keeps them for later runs.
//
// Lock order: the once of an entry, then compiling.
type binaries struct {
	root, folder string
	journal      *Journal
	keep         bool // the binaries in the folder are of this commit
	compiling    sync.Mutex
	mu           sync.Mutex
	built        map[string]*built // by path
}

// built is a binary, or the programs of end-to-end tests.
type built struct {
	once   sync.Once
	seeded bool // it knows -seed
	err    error
}

func newBinaries(root, folder string, journal *Journal) (*binaries, error) {
	b := &binaries{root: root, folder: folder, journal: journal, built: map[string]*built{}}
	b.keep = !strings.HasSuffix(journal.Header.Commit, "-dirty") && journal.Header.Commit != unknownCommit
	if err := os.Setenv("COUNTERD_PROGRAMS", filepath.Join(folder, "programs")); err != nil {
		return nil, err
	}
	return b, os.MkdirAll(filepath.Join(folder, "programs"), 0o755)
}

// path is where a step's test binary is. Fuzzing needs a binary that counts coverage.
func (b *binaries) path(s Step) string {
	name := strings.NewReplacer("./", "", "/", "-").Replace(s.Package)
	if s.Fuzz {
		name += "-fuzz"
	}
	return filepath.Join(b.folder, "tests", name+".test")
}

// of returns the test binary of a step, and tells whether it knows -seed.
func (b *binaries) of(ctx context.Context, s Step) (path string, seeded bool, err error) {
	if strings.HasPrefix(s.Package, "./cmd/counterd/e2e") {
		programs := filepath.Join(b.folder, "programs", "counterd")
		if made := b.make(ctx, programs, "build", "-o", filepath.Dir(programs)+"/", "./cmd/..."); made.err != nil {
			return "", false, made.err
		}
	}
	args := []string{"test", "-c", "-vet=off"}
	if s.Tags != "" {
		args = append(args, "-tags", s.Tags)
		if strings.Contains(s.Tags, "hangs") { // the whole-system simulation changes a table of the runtime
			args = append(args, "-ldflags=-checklinkname=0")
		}
	}
	if s.Fuzz {
		args = append(args, "-fuzz="+s.Run)
	}
	path = b.path(s)
	made := b.make(ctx, path, append(args, "-o", path+".new", s.Package)...)
	return path, made.seeded && !s.Fuzz, made.err
}

// make runs the go command unless path is there already.
func (b *binaries) make(ctx context.Context, path string, args ...string) *built {
	b.mu.Lock()
	made := b.built[path]
	if made == nil {
		made = &built{}
		b.built[path] = made
	}
	b.mu.Unlock()
	made.once.Do(func() {
		made.err = b.compile(ctx, path, args)
		made.seeded = made.err == nil && strings.HasSuffix(path, ".test") && hasSeedFlag(path)
	})
	return made
}

// compile compiles one binary at a time: the go command uses all processors, and two of them would compile the same packages.
func (b *binaries) compile(ctx context.Context, path string, args []string) error {
	b.compiling.Lock()
	defer b.compiling.Unlock()
	if _, err := os.Stat(path); err == nil && b.keep {
		return nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	began := time.Now().UTC()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = b.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	if err := os.Rename(path+".new", path); err != nil && !errors.Is(err, fs.ErrNotExist) { // go build names the programs itself
		return err
	}
	r := Round{Step: compiling, Began: began, Took: time.Since(began), Counted: 1, Load: load()}
	fmt.Printf("compiled %s in %.0f s\n", filepath.Base(path), r.Took.Seconds())
	return b.journal.Add(r)
}
