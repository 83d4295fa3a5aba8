package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/counterd/counterd/bench/heavy"
	"github.com/counterd/counterd/bench/postgen"
	"github.com/counterd/counterd/bench/report"
)

// Config says what to measure. All fields are to be set but those marked optional.
type Config struct {
	Targets   []Target // one, or two that take turns
	PIDs      []int    // their processes; 0 or missing: found out
	Workloads []string // in order
	Labels    []string // optional: names that distinguish them from others of their versions
	Counter   string   // optional: a counter to use instead of making WeiboSchema

	Posts   int
	VsPosts int // optional: of the second server, where it holds another number
	Seed    uint64
	Page    int            // posts of a page
	Uniform bool           // incr and get choose among all posts alike
	Trace   *postgen.Trace // of replay
	Built   bool           // the posts are ComputedPosts, and there already

	Clients  int // connections
	Depth    int // operations in flight on each
	Mode     Mode
	Rate     float64       // operations per second over all clients; 0: as fast as the server answers
	RatePart float64       // in place of Rate: 0.5 is half of the most that the last server answers, measured before each workload
	Duration time.Duration // of each workload but load, for each server
	Warmup   time.Duration // before it, not counted
	Slices   int           // that the duration is cut into
	Rest     time.Duration // before the memory of the servers is read, behind their start and behind the load: see load

	While      []string // of WhileKinds: each workload but load is measured with and without each, in windows
	Flood      []int    // connections that flood the server, beside one client that is measured, one number after the other
	FloodDepth int      // operations in each of their pipelines
	Heavy      []string // of heavy.Kinds: commands that another connection sends, beside one client that is measured
	Apart      Apart    // optional: starts the process that floods; nil: it is this one
	Check      string   // optional: counterctl, for the check
	ServerCPUs []int    // optional: those of the servers, for the check

	Flush  bool // remove what the servers hold before load
	Verify bool // check all counters at the end

	// Progress is told each step as it begins; Loading, once a second, how far a load is. They may be nil.
	Progress func(step, steps int, what string)
	Loading  func(posts, of int)

	leadIn time.Duration // before each window; 0: leadIn
}

// A synchronous client sends all of a pipeline before it reads the first reply. The replies must fit into the sockets'
// buffers, a few MB, or a server that waits for room to write would wait for the client, and the client for it.
const (
	maxDepth    = 16384   // replies of up to 20 bytes
	maxInFlight = 100_000 // posts of the pages in a pipeline, with replies of about 20 bytes
	maxRate     = 1e9     // operations a second: more than any generator starts
)

// Validate returns all that is wrong with the Config.
func (c *Config) Validate() error {
	var wrong []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	check(len(c.Targets) == 1 || len(c.Targets) == 2, "%d servers, want one or two", len(c.Targets))
	check(len(c.Workloads) > 0, "no workloads")
	for _, name := range c.Workloads {
		check(IsWorkload(name), "no workload is called %q", name)
		check(name != "replay" || c.Trace != nil, "workload replay needs a trace")
	}
	if i := slices.Index(c.Workloads, "load"); i > 0 || slices.Contains(c.Workloads[min(1, len(c.Workloads)):], "load") {
		check(false, "load must come first, and once")
	}
	most := postgen.MaxPosts
	if c.Built {
		most = postgen.MaxComputedPosts
	}
	check(c.Posts >= 1 && c.Posts <= most, "%d posts, want 1..%d", c.Posts, most)
	check(c.VsPosts >= 0 && c.VsPosts <= most, "%d posts of the second server, want 0..%d", c.VsPosts, most)
	check(!c.Built || !slices.Contains(c.Workloads, "load"), "load, of posts that were built")
	check(c.VsPosts == 0 || len(c.Targets) == 2, "posts of a second server, and no second server")
	check(c.Page >= 1 && c.Page <= 10000, "pages of %d posts, want 1..10000", c.Page)
	check(c.Clients >= 1 && c.Clients <= 50000, "%d clients, want 1..50000", c.Clients)
	check(c.Depth >= 1 && c.Depth <= maxDepth, "%d operations in flight, want 1..%d", c.Depth, maxDepth)
	check(c.Depth*c.Page <= maxInFlight, "%d pages of %d posts in flight on a connection, want at most %d posts", c.Depth, c.Page, maxInFlight)
	check(c.Mode == Sync || c.Mode == Async, "mode %q, want %s or %s", c.Mode, Sync, Async)
	check(c.Rate >= 0 && c.Rate <= maxRate, "a rate of %g, want 0..%g", c.Rate, float64(maxRate))
	check(c.RatePart >= 0 && c.RatePart <= 1, "%g of the most a server answers, want 0..1", c.RatePart)
	check(c.Rate == 0 || c.RatePart == 0, "a rate of %g and of %g of the most a server answers, want one of them", c.Rate, c.RatePart)
	for _, what := range c.While {
		check(isKind(WhileKinds(), what), "nothing to happen meanwhile is called %q", what)
	}
	for _, what := range c.Heavy {
		check(isKind(heavy.Kinds(), what), "no heavy command is called %q", what)
	}
	for _, n := range c.Flood {
		check(n >= 1 && n <= 10_000, "a flood from %d connections, want 1..10000", n)
	}
	check(len(c.Flood) == 0 || c.FloodDepth >= 1 && c.FloodDepth <= maxDepth, "a flood of pipelines of %d, want 1..%d", c.FloodDepth, maxDepth)
	// The clients' streams do not include floods, and a column that is added and dropped takes its numbers with it.
	check(!c.Verify || len(c.disturbances()) == 0, "a run in which something else happens cannot be verified")
	check(c.Slices >= 1, "%d slices, want 1 or more", c.Slices)
	check(c.Duration > 0, "a duration of %s, want more than 0", c.Duration)
	check(c.Warmup >= 0, "a warm-up of %s, want 0 or more", c.Warmup)
	check(c.Rest >= 0, "a rest of %s, want 0 or more", c.Rest)
	check(!c.Verify || slices.Contains(c.Workloads, "load"), "only a run that begins with load can be verified: what was there before is not known")
	return errors.Join(wrong...)
}

// Run measures. The servers must be up. A Config that is not valid, a server that does not answer, and bytes that are
// no reply are errors; an error reply to an operation is counted.
func Run(ctx context.Context, config Config) (*report.Report, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	r := &run{Config: config, result: &report.Report{Version: report.Version, Started: time.Now().UTC().Truncate(time.Second),
		Host: host(), Settings: config.settings()}}
	for i, target := range config.Targets {
		s, err := newSide(ctx, target, &config, i)
		if err != nil {
			return nil, err
		}
		defer s.conn.Close()
		r.sides = append(r.sides, s)
	}
	// Both sides hold the same posts with as many counters.
	columns := len(r.sides[0].schema.Columns)
	for _, s := range r.sides {
		if len(s.schema.Columns) != columns {
			return nil, fmt.Errorf("%s has %d columns and %s %d; they cannot be compared", r.sides[0].target.Addr, columns,
				s.target.Addr, len(s.schema.Columns))
		}
	}
	r.result.Settings.Columns = columns
	data, err := NewDataset(config.Posts, columns, config.Seed, config.Built)
	if err != nil {
		return nil, err
	}
	for _, s := range r.sides {
		s.data = data
	}
	if config.VsPosts > 0 {
		if r.sides[1].data, err = NewDataset(config.VsPosts, columns, config.Seed, config.Built); err != nil {
			return nil, err
		}
	}
	for _, name := range config.Workloads {
		measure := r.phase
		if name != "load" && len(config.disturbances()) > 0 {
			measure = r.whiles
		}
		if err := measure(ctx, name); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, s := range r.sides {
		if config.Verify {
			r.step("verify " + s.target.Addr)
			if s.report.Verified, err = s.verify(ctx, columns); err != nil {
				return nil, fmt.Errorf("verify: %s: %w", s.target.Addr, err)
			}
		}
		r.result.Servers = append(r.result.Servers, s.report)
	}
	return r.result, nil
}

// run is a Run under way.
type run struct {
	Config
	sides  []*side
	result *report.Report
	steps  int     // begun
	rate   float64 // operations per second asked for in the phase; 0: as many as the server answers
}

// phase measures one workload on all sides.
func (r *run) phase(ctx context.Context, name string) error {
	err := r.measure(ctx, name)
	phase := report.Phase{Workload: name, Rate: r.rate}
	for _, s := range r.sides {
		phase.Results = append(phase.Results, s.end())
		s.data.Arrived = max(s.data.Arrived, s.newest+1-s.data.Loaded)
	}
	r.result.Phases = append(r.result.Phases, phase)
	return err
}

// begin connects the clients of all sides for a workload.
func (r *run) begin(ctx context.Context, name string, config *Config) error {
	opts := WorkloadOptions{Seed: r.Seed, Page: r.Page, Uniform: r.Uniform, Trace: r.Trace}
	opts.Touched = max(0, slices.Index(r.sides[0].schema.Names(), "repost"))
	for _, s := range r.sides {
		opts.Data = s.data
		w, err := NewWorkload(name, opts)
		if err != nil {
			return err
		}
		if err := s.begin(ctx, w, config); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) measure(ctx context.Context, name string) error {
	if err := r.begin(ctx, name, &r.Config); err != nil {
		return err
	}
	r.rate = 0
	if name == "load" {
		return r.load(ctx)
	}
	r.rate = r.Rate
	return r.slices(ctx, name)
}

// load loads one side after the other, each without a break. The memory of posts is by how much a server at rest has grown: counterd
// gives back what only its start or the load needed, pages of the program included, when it has been at rest for two seconds.
func (r *run) load(ctx context.Context) error {
	// All at first: that B is not empty is better known before A was loaded for an hour.
	for _, s := range r.sides {
		if err := s.prepareLoad(r.Flush); err != nil {
			return err
		}
	}
	before, err := r.resident(ctx)
	if err != nil {
		return err
	}
	for _, s := range r.sides {
		r.step("load " + s.target.Addr)
		told := r.tellLoading(s)
		err := s.slice(ctx, forever, true)
		told()
		if err != nil {
			return err
		}
	}
	after, err := r.resident(ctx)
	if err != nil {
		return err
	}
	for i, s := range r.sides {
		s.report.Memory = &report.Memory{Bytes: after[i] - before[i], Posts: s.data.Loaded, Flushed: s.flushed}
	}
	return nil
}

// resident returns the memory of all servers after a rest.
func (r *run) resident(ctx context.Context) ([]int64, error) {
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(r.Rest):
	}
	bytes := make([]int64, len(r.sides))
	for i, s := range r.sides {
		usage, err := s.meter.Usage()
		if err != nil {
			return nil, err
		}
		bytes[i] = usage.RSS
	}
	return bytes, nil
}

// tellLoading tells Loading how far the side's load is, until the function it returns is called.
func (r *run) tellLoading(s *side) (stop func()) {
	load, isLoad := s.workload.(*loadWorkload)
	if r.Loading == nil || !isLoad {
		return func() {}
	}
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
				r.Loading(min(int(load.next.Load()), s.data.Loaded), s.data.Loaded)
			}
		}
	}()
	return func() {
		close(ended)
		<-done
	}
}

// slices measures the sides in turns. The side that begins changes from slice to slice, so that neither always follows
// the other.
func (r *run) slices(ctx context.Context, name string) error {
	for _, s := range r.sides {
		r.step(name + ": warm-up of " + s.target.Addr)
		if err := s.slice(ctx, r.Warmup, false); err != nil {
			return err
		}
	}
	if r.RatePart > 0 {
		if err := r.calibrate(ctx, name, r.RatePart); err != nil {
			return err
		}
	}
	for i := range r.Slices {
		for k := range r.sides {
			s := r.sides[(k+i)%len(r.sides)]
			r.step(fmt.Sprintf("%s: slice %d of %d of %s", name, i+1, r.Slices, s.target.Addr))
			if err := s.slice(ctx, r.Duration/time.Duration(r.Slices), true); err != nil {
				return err
			}
		}
	}
	return nil
}

// calibrate measures the highest rate of the last side, and sets the rate of all sides to the requested part of it.
func (r *run) calibrate(ctx context.Context, name string, part float64) error {
	last := r.sides[len(r.sides)-1]
	r.step(name + ": the most that " + last.target.Addr + " answers")
	most, err := last.most(ctx, r.Duration/time.Duration(r.Slices))
	if err != nil {
		return err
	}
	if r.rate = most * part; r.rate <= 0 {
		return fmt.Errorf("%s answered nothing within %s, so that there is no rate to take a part of", last.target.Addr,
			calibrationTurns*r.Duration/time.Duration(r.Slices))
	}
	for _, s := range r.sides {
		s.setRate(r.rate)
	}
	return nil
}

// step tells the Progress that the next step begins.
func (r *run) step(what string) {
	if r.Progress == nil {
		return
	}
	steps := 0
	for _, name := range r.Workloads {
		if name == "load" {
			steps += len(r.Targets)
			continue
		}
		if all := r.disturbances(); len(all) > 0 {
			steps += len(all) * (2 + 2*r.Slices) * len(r.Targets)
			if r.Rate == 0 && len(r.While) > 0 {
				steps++
			}
			continue
		}
		steps += (1 + r.Slices) * len(r.Targets)
		if r.RatePart > 0 {
			steps++
		}
	}
	if r.Verify {
		steps += len(r.Targets)
	}
	r.Progress(r.steps, steps, what)
	r.steps++
}

func (c *Config) settings() report.Settings {
	return report.Settings{Posts: c.Posts, VsPosts: c.VsPosts, Seed: c.Seed, Page: c.Page, Uniform: c.Uniform, Clients: c.Clients, Depth: c.Depth,
		Mode: string(c.Mode), Rate: c.Rate, RatePart: c.RatePart, Duration: c.Duration, Warmup: c.Warmup, Slices: c.Slices}
}

func host() report.Host {
	h := report.Host{System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()}
	info, _ := os.ReadFile("/proc/cpuinfo") // the name is a courtesy: without, the report lacks it
	for line := range strings.Lines(string(info)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			h.Processor = strings.TrimSpace(value)
			break
		}
	}
	return h
}
