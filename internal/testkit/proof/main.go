package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
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
	pflag.BoolVar(&o.page, "page", false, "write the page of the rounds so far and end")
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
	page   bool
}

// runner is one run of the command.
type runner struct {
	options
	root     string // of the module
	all      []Step // for the page
	binaries *binaries
	journal  *Journal
	began    time.Time // moved back by the time of earlier runs
	mu       sync.Mutex
	plan     *plan
}

func run(ctx context.Context, o options) (findings int, err error) {
	root, err := moduleRoot()
	if err != nil {
		return 0, err
	}
	all, err := allSteps(root)
	if err != nil {
		return 0, err
	}
	chosen, leftOut, err := choose(all, o.only)
	if err != nil {
		return 0, err
	}
	if o.list {
		for _, s := range chosen {
			fmt.Printf("%-28s %s\n", s.Name, s.What)
		}
		for _, why := range leftOut {
			fmt.Println("LEFT OUT", why)
		}
		return 0, nil
	}
	if o.folder, err = filepath.Abs(o.folder); err != nil {
		return 0, err
	}
	if o.page {
		return rewritePages(o.folder, all)
	}
	for _, why := range leftOut {
		fmt.Println("LEFT OUT", why)
	}
	header := Header{Commit: commit(root), Go: runtime.Version(), Machine: machine(), Began: time.Now().UTC(), LeftOut: leftOut}
	r := &runner{options: o, root: root, all: all}
	if r.journal, err = openJournal(o.folder, header); err != nil {
		return 0, err
	}
	defer r.journal.Close()
	rounds := r.journal.Rounds()
	r.plan = newPlan(fitted(chosen, o.time*time.Duration(o.jobs)), rounds)
	if r.binaries, err = newBinaries(root, o.folder, r.journal); err != nil {
		return 0, err
	}
	r.began = time.Now().Add(-elapsed(rounds, o.jobs))
	err = r.search(ctx)
	findings, pageErr := writePages(o.folder, r.journal.Header, r.all, r.journal.Rounds())
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
func (r *runner) search(ctx context.Context) error {
	end := r.began.Add(r.time)
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
	seed := uint64(time.Now().UnixNano()) & (1<<40 - 1)
	binary, seeded, err := r.binaries.of(ctx, step)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	round, output, err := step.runRound(ctx, r.root, binary, seeded, seed)
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
	fmt.Printf("%5.1f of %.0f minutes  %-28s %7.1f s  %d %s  seed %d  %s\n", time.Since(r.began).Minutes(), r.time.Minutes(), step.Name, round.Took.Seconds(), round.Counted, step.Unit, seed, state)
	r.mu.Lock()
	r.plan.finish(step, expected, round)
	r.mu.Unlock()
	if err := r.journal.Add(round); err != nil {
		return err
	}
	_, err = writePages(r.folder, r.journal.Header, r.all, r.journal.Rounds())
	return err
}
