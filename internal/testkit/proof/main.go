package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"
)

func main() {
	var o options
	pflag.DurationVar(&o.time, "time", 30*time.Minute, "time of all runs in the folder together")
	pflag.StringVar(&o.folder, "folder", "bin/proof", "`FOLDER` of the journal, the findings and the page")
	pflag.IntVar(&o.jobs, "jobs", max(1, runtime.NumCPU()), "rounds beside each other")
	pflag.StringVar(&o.only, "only", "", "names of steps, separated by commas; all without it")
	pflag.BoolVar(&o.list, "list", false, "list the steps and end")
	pflag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	findings, err := run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "proof:", err)
		os.Exit(2)
	}
	if findings > 0 {
		os.Exit(1)
	}
}

type options struct {
	time   time.Duration
	folder string
	jobs   int
	only   string
	list   bool
}

// runner is one run of the command.
type runner struct {
	options
	root    string          // of the module
	seeded  map[string]bool // test binaries that know -seed, of those built
	journal *Journal
	mu      sync.Mutex
	plan    *plan
}

func run(ctx context.Context, o options) (findings int, err error) {
	root, err := moduleRoot()
	if err != nil {
		return 0, err
	}
	chosen, err := choose(root, o.only)
	if err != nil {
		return 0, err
	}
	if o.list {
		for _, s := range chosen {
			fmt.Printf("%-28s %s\n", s.Name, s.What)
		}
		return 0, nil
	}
	if o.folder, err = filepath.Abs(o.folder); err != nil {
		return 0, err
	}
	header := Header{Commit: commit(root), Go: runtime.Version(), Machine: machine(), Began: time.Now().UTC()}
	r := &runner{options: o, root: root}
	if r.journal, err = openJournal(o.folder, header); err != nil {
		return 0, err
	}
	defer r.journal.Close()
	rounds := r.journal.Rounds()
	r.plan = newPlan(chosen, rounds)
	if err := r.compile(ctx, chosen); err != nil {
		return 0, err
	}
	err = r.search(ctx, elapsed(rounds, o.jobs))
	findings, pageErr := writePages(o.folder, r.journal.Header, steps, r.journal.Rounds())
	if err == nil {
		err = pageErr
	}
	fmt.Printf("%d findings; the page is %s\n", findings, filepath.Join(o.folder, "proof.md"))
	return findings, err
}

// elapsed is how much of the time earlier runs have used.
func elapsed(rounds []Round, jobs int) (sum time.Duration) {
	for _, r := range rounds {
		sum += r.Took
	}
	return sum / time.Duration(jobs)
}

// search runs rounds until the time is used up, or ctx ends.
func (r *runner) search(ctx context.Context, used time.Duration) error {
	end := time.Now().Add(r.time - used)
	var workers sync.WaitGroup
	errs := make(chan error, r.jobs)
	for range r.jobs {
		workers.Go(func() {
			for ctx.Err() == nil {
				r.mu.Lock()
				step, ok := r.plan.next(time.Until(end))
				expected := r.plan.expected(step)
				r.mu.Unlock()
				if !ok {
					return
				}
				if err := r.round(ctx, step, expected); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	workers.Wait()
	close(errs)
	return <-errs // nil if there is none
}

func (r *runner) round(ctx context.Context, step Step, expected time.Duration) error {
	seed, binary := uint64(time.Now().UnixNano())&(1<<40-1), r.binary(step)
	round, output, err := step.runRound(ctx, r.root, binary, r.seeded[binary], seed)
	if ctx.Err() != nil {
		return nil // an interrupted round is neither a success nor a finding
	}
	if err != nil {
		return err
	}
	state := "ok"
	if round.Failed {
		state = "FAILED"
		name := fmt.Sprintf("%s-%d.txt", step.Name, seed)
		if err := os.WriteFile(filepath.Join(r.folder, "findings", name), output, 0o644); err != nil {
			return err
		}
	}
	fmt.Printf("%s  %-28s %7.1f s  %d %s  seed %d  %s\n", time.Now().Format("15:04:05"), step.Name, round.Took.Seconds(), round.Counted, step.Unit, seed, state)
	r.mu.Lock()
	r.plan.finish(step, expected, round)
	r.mu.Unlock()
	if err := r.journal.Add(round); err != nil {
		return err
	}
	_, err = writePages(r.folder, r.journal.Header, steps, r.journal.Rounds())
	return err
}

// binary is the path of a step's test binary. Fuzzing needs a binary that counts coverage.
func (r *runner) binary(s Step) string {
	name := strings.NewReplacer("./", "", "/", "-").Replace(s.Package)
	if s.Fuzz {
		name += "-fuzz"
	}
	return filepath.Join(r.folder, "tests", name+".test")
}

// compile builds the test binaries, each once, and the programs that end-to-end tests run.
func (r *runner) compile(ctx context.Context, chosen []Step) error {
	r.seeded = map[string]bool{}
	for _, s := range chosen {
		binary := r.binary(s)
		if _, built := r.seeded[binary]; built {
			continue
		}
		args := []string{"test", "-c", "-vet=off", "-o", binary}
		if s.Tags != "" {
			args = append(args, "-tags", s.Tags)
		}
		if s.Fuzz {
			args = append(args, "-fuzz="+s.Run)
		}
		if err := r.goTool(ctx, append(args, s.Package)...); err != nil {
			return err
		}
		r.seeded[binary] = !s.Fuzz && hasSeedFlag(binary)
	}
	programs := filepath.Join(r.folder, "programs")
	os.Setenv("COUNTERD_PROGRAMS", programs)
	if err := os.MkdirAll(programs, 0o755); err != nil {
		return err
	}
	return r.goTool(ctx, "build", "-o", programs+"/", "./cmd/...")
}

func (r *runner) goTool(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = r.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}
