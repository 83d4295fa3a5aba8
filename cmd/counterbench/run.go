package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/bench"
	"github.com/counterd/counterd/bench/heavy"
	"github.com/counterd/counterd/bench/postgen"
	"github.com/counterd/counterd/bench/procstat"
	"github.com/counterd/counterd/bench/report"
	"github.com/counterd/counterd/internal/tsv"
)

var runCommand = command{
	Name:    "run",
	Summary: "measure one server, or two in turns",
	Details: `Generates posts, loads them, and measures what the workloads ask for: operations per second, the server's
processor time for each, latencies, memory. With --vs a second server takes turns with the first.

` + kindsList(bench.Workloads()) + `
With --while the latencies of the workloads are measured with and without something that the server does meanwhile, in
windows that take turns, at a fixed rate (--rate, or half of the most that B answers); one after the other:

` + kindsList(bench.WhileKinds()) + `
With --flood and --heavy it is what one client waits that asks one command at a time, with and without others:

` + kindsList(heavy.Kinds()) + `
  counterbench run --server 127.0.0.1:6379 --workloads load,incr,timeline --posts 1000000 --verify
  counterbench run --server 127.0.0.1:6379 --vs 127.0.0.1:6380,redis-hash --depth 64 --html report.html
  counterbench run --server 127.0.0.1:6379 --vs 127.0.0.1:6380 --while bgsave,fullsync --rate 50000 --depth 16 --html tails.html
  counterbench run --server 127.0.0.1:6379 --flood 10,100 --heavy pipeline,counter.mget`,
	Setup: func(flags *pflag.FlagSet) action {
		var o runOptions
		o.declare(flags)
		o.workloadsGiven = func() bool { return flags.Changed("workloads") }
		return func(ctx context.Context, out output, args []string) error {
			if len(args) != 0 {
				return misuse("takes no arguments, only flags")
			}
			config, err := o.config()
			if err != nil {
				return err
			}
			return o.run(ctx, out, config)
		}
	},
}

// runOptions are the flags as given; those that need no thought go into the Config at once.
type runOptions struct {
	bench.Config
	server, kind, vs     string
	password, vsPassword string
	mode, rate           string
	trace, traceColumn   string
	traceColumns         []string
	threads              int
	pids                 []int
	pinServer, pinClient string
	json, html           string
	progress             bool
	workloadsGiven       func() bool // nil: they were
}

func (o *runOptions) declare(flags *pflag.FlagSet) {
	flags.StringVar(&o.server, "server", "127.0.0.1:6379", "`HOST:PORT` or socket of the server, A")
	flags.StringVar(&o.kind, "kind", "", "its `data model`: "+kindList()+"\n(default: ask the server)")
	flags.StringVar(&o.vs, "vs", "", "`HOST:PORT[,KIND]` of a second server, B, that takes turns with A")
	flags.StringArrayVar(&o.Labels, "label", nil, "`name` of A in tables and on pages; the second --label names B")
	flags.StringVar(&o.password, "password", "", "password of A for AUTH")
	flags.StringVar(&o.vsPassword, "vs-password", "", "password of B for AUTH")
	flags.StringVar(&o.Counter, "counter", "", "`name` of the counter of a counterd (default: makes one called weibo)")
	flags.StringSliceVar(&o.Workloads, "workloads", []string{"load", "incr", "get", "timeline"}, "`what` to measure, in order")
	flags.IntVar(&o.Posts, "posts", 1_000_000, "posts to generate")
	flags.BoolVar(&o.Built, "built", false, "the server has the posts: its directory was made by counterbench build with as many, and this seed")
	flags.IntVar(&o.VsPosts, "vs-posts", 0, "posts of B (default: as many as A)")
	flags.Uint64Var(&o.Seed, "seed", 1, "seed of the random numbers: the same seed gives the same posts and operations")
	flags.IntVar(&o.Page, "page", 20, "posts on a page")
	flags.BoolVar(&o.Uniform, "uniform", false, "incr and get choose all posts equally often (default: young and popular posts more often)")
	flags.IntVar(&o.Clients, "clients", 50, "connections")
	flags.IntVar(&o.Depth, "depth", 1, "operations in flight on each connection")
	flags.StringVar(&o.mode, "mode", string(bench.Sync), "sync: wait for all of a pipeline's replies; async: refill it as they come")
	flags.StringVar(&o.rate, "rate", "", "`operations` per second in all, started on time whatever the server does (default: as fast as\nit answers); 50% is half of the most that B (A alone) answers, measured before each workload;\n--depth is then the most in flight on each connection")
	flags.IntVar(&o.threads, "threads", 0, "processors the generator uses (default: all)")
	flags.DurationVar(&o.Duration, "duration", 10*time.Second, "duration of each workload except load, for each server")
	flags.DurationVar(&o.Warmup, "warmup", time.Second, "time before each workload that is not counted")
	flags.IntVar(&o.Slices, "slices", 5, "turns the duration is cut into")
	flags.StringVar(&o.trace, "trace", "", "`FILE` of events for the workload replay: lines with the mid of the post touched")
	flags.StringSliceVar(&o.traceColumns, "trace-columns", nil, "`names` of its columns in order (default: its first line)")
	flags.StringVar(&o.traceColumn, "trace-mid", "target", "`name` of the column with the mid; 0 there is no event")
	flags.StringSliceVar(&o.While, "while", nil, "`what` the server does meanwhile, one after the other; the workloads are load and incr then,\nunless they are given")
	flags.IntSliceVar(&o.Flood, "flood", nil, "`connections` that flood the server beside one polite client, one number after the other")
	flags.IntVar(&o.FloodDepth, "flood-depth", 1000, "increments in each of their pipelines")
	flags.StringSliceVar(&o.Heavy, "heavy", nil, "`commands` that another connection sends beside one polite client, one after the other")
	flags.StringVar(&o.Check, "counterctl", "", "`program` for --while check (default: beside this one, or in the path)")
	flags.BoolVar(&o.Flush, "flush", false, "delete all data of the servers before load")
	flags.BoolVar(&o.Verify, "verify", false, "check at the end that every counter has the value that was sent")
	flags.IntSliceVar(&o.pids, "server-pid", nil, "`process` of A, and of B, where INFO does not tell")
	flags.StringVar(&o.pinServer, "pin-server", "", "`processors` the servers run on, such as 0 or 0,2-3")
	flags.StringVar(&o.pinClient, "pin-client", "", "`processors` the generator runs on")
	flags.StringVar(&o.json, "json", "", "`FILE` to write the results to; - is the standard output, instead of the table")
	flags.StringVar(&o.html, "html", "", "`FILE` to write a page with charts to")
	flags.BoolVar(&o.progress, "progress", true, "show progress: a bar on a terminal, lines elsewhere")
}

// kindsList lists names with a line on each, for the help text.
func kindsList(kinds [][2]string) string {
	var list strings.Builder
	for _, k := range kinds {
		fmt.Fprintf(&list, "  %-13s %s\n", k[0], k[1])
	}
	return list.String()
}

// memoryRest is how long servers rest before their memory is read: counterd gives unused memory back after two seconds.
const memoryRest = 4 * time.Second

// config makes the Config from the flags.
func (o *runOptions) config() (bench.Config, error) {
	config := o.Config
	var err error
	if config.Targets, err = parseTargets(o.server, o.kind, o.password, o.vs, o.vsPassword); err != nil {
		return config, err
	}
	config.Mode = bench.Mode(o.mode)
	config.PIDs, config.Rest = o.pids, memoryRest
	if config.Rate, config.RatePart, err = parseRate(o.rate); err != nil {
		return config, err
	}
	if o.threads < 0 || o.threads > 1024 {
		return config, misuse("--threads: %d is not 0..1024", o.threads)
	}
	if o.trace != "" {
		if config.Trace, err = readTrace(o.trace, o.traceColumns, o.traceColumn); err != nil {
			return config, err
		}
	}
	if len(o.While)+len(o.Flood)+len(o.Heavy) > 0 {
		if o.workloadsGiven != nil && !o.workloadsGiven() {
			config.Workloads = []string{"load", "incr"}
		}
		if config.Check == "" {
			config.Check = findCounterctl()
		}
		config.Apart = apart
	}
	if o.pinServer != "" {
		if config.ServerCPUs, err = procstat.ParseCPUs(o.pinServer); err != nil {
			return config, misuse("--pin-server: %v", err)
		}
	}
	if err := config.Validate(); err != nil {
		return config, misuse("%v", err)
	}
	return config, nil
}

// parseRate reads operations per second, or a part of a server's highest rate as "50%"; nothing is
// neither.
func parseRate(s string) (perSecond, part float64, err error) {
	if s == "" {
		return 0, 0, nil
	}
	number, isPart := strings.CutSuffix(s, "%")
	v, err := strconv.ParseFloat(number, 64)
	// v > 0 is false for NaN.
	if err != nil || !(v >= 0) || math.IsInf(v, 0) || isPart && (v == 0 || v > 100) {
		return 0, 0, misuse("--rate: %q is neither operations per second nor a part such as 50%%, above 0%% and up to 100%%", s)
	}
	if isPart {
		return 0, v / 100, nil
	}
	return v, 0, nil
}

func readTrace(path string, columns []string, column string) (*postgen.Trace, error) {
	r, err := tsv.Open(path, tsv.Options{Columns: columns})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return postgen.ReadTrace(r, column)
}

// run measures, and writes the results.
func (o *runOptions) run(ctx context.Context, out output, config bench.Config) error {
	if o.threads > 0 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(o.threads))
	}
	unpin, err := o.pin(config)
	if err != nil {
		return err
	}
	defer unpin()
	var shown progress
	config.Progress = func(step, steps int, what string) {
		if step == 0 {
			shown = newProgress(out.Stderr, o.progress, "measuring", "steps", steps)
		} else {
			shown.add(1)
		}
		shown.describe(what)
	}
	config.Loading = func(posts, of int) { shown.note(report.Int(posts) + " of " + report.Int(of) + " posts loaded") }
	result, err := bench.Run(ctx, config)
	shown.finish()
	if err != nil {
		return err
	}
	result.Settings.Threads, result.Settings.PinServer, result.Settings.PinClient = o.threads, o.pinServer, o.pinClient
	if err := o.write(out, result); err != nil {
		return err
	}
	for _, server := range result.Servers {
		if v := server.Verified; v != nil && v.Wrong > 0 {
			return fmt.Errorf("%s: %s counters differ from what was sent", server.Addr, report.Int(v.Wrong))
		}
	}
	return nil
}

// write writes the table and the files asked for.
func (o *runOptions) write(out output, result *report.Report) error {
	if o.json != "-" {
		if err := result.Table(out.Stdout); err != nil {
			return err
		}
	}
	if o.json == "-" {
		if err := result.Write(out.Stdout); err != nil {
			return err
		}
	} else if o.json != "" {
		if err := writeTo(o.json, result.Write); err != nil {
			return err
		}
	}
	if o.html == "" {
		return nil
	}
	if len(result.Whiles) > 0 {
		return writeTo(o.html, (&report.Collected{Reports: []*report.Report{result}}).HTML)
	}
	return writeTo(o.html, result.HTML)
}

// writeTo writes a file.
func writeTo(path string, write func(io.Writer) error) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
	}()
	return write(f)
}

// pin pins servers and generator to their processors, and returns what undoes it.
func (o *runOptions) pin(config bench.Config) (unpin func(), err error) {
	var undos []func() error
	undo := func() {
		for _, undo := range slices.Backward(undos) {
			undo() // best effort: a server that has ended needs none
		}
	}
	defer func() {
		if err != nil {
			undo()
		}
	}()
	add := func(pid int, list, flag string) error {
		cpus, err := procstat.ParseCPUs(list)
		if err != nil {
			return misuse("--%s: %v", flag, err)
		}
		restore, err := procstat.Pin(pid, cpus)
		if err == nil {
			undos = append(undos, restore)
		}
		return err
	}
	if o.pinServer != "" {
		for i, target := range config.Targets {
			pid, err := target.FindPID(config.PIDs, i)
			if err != nil {
				return nil, err
			}
			if err := add(pid, o.pinServer, "pin-server"); err != nil {
				return nil, err
			}
		}
	}
	if o.pinClient != "" {
		if err := add(os.Getpid(), o.pinClient, "pin-client"); err != nil {
			return nil, err
		}
	}
	return undo, nil
}
