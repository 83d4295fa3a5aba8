package bench

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/counterd/counterd/bench/postgen"
)

// WorkloadOptions say how a workload goes about it.
type WorkloadOptions struct {
	Data    *Dataset
	Seed    uint64
	Page    int            // posts of a page
	Uniform bool           // incr and get choose among all posts alike, not as a site's users do
	Trace   *postgen.Trace // what replay plays
	Touched int            // column that replay adds to
}

// Workloads lists the names of the workloads, with a line on each.
func Workloads() [][2]string {
	return [][2]string{
		{"load", "set all counters of every post, oldest first"},
		{"incr", "add one to a counter"},
		{"get", "read one counter"},
		{"timeline", "read all counters of a page of posts, young and popular ones more often"},
		{"mixed", "a site: 95 % pages, 5 % increments, and new posts"},
		{"cold", "pages of old posts, all alike, and 2 % increments of them"},
		{"replay", "the reposts of a real trace, in their order"},
		{"firehose", "new posts as they arrive: mostly in order, some late, a few very late"},
	}
}

// NewWorkload returns the workload of that name.
func NewWorkload(name string, opts WorkloadOptions) (Workload, error) {
	base := workload{name: name, WorkloadOptions: opts, seed: postgen.NewRNG(opts.Seed, postgen.StreamClient, nameSeed(name)).State, first: opts.Data.Loaded + opts.Data.Arrived}
	switch name {
	case "load":
		return &loadWorkload{workload: base}, nil
	case "incr", "get":
		w := &counterWorkload{workload: base, kind: OpIncr}
		if name == "get" {
			w.kind = OpGet
		}
		if !opts.Uniform {
			w.picker = postgen.NewPicker(opts.Data.Loaded)
		}
		return w, nil
	case "timeline":
		return &siteWorkload{workload: base, picker: postgen.NewPicker(opts.Data.Loaded)}, nil
	case "mixed":
		return &siteWorkload{workload: base, picker: postgen.NewPicker(opts.Data.Loaded), incr: 0.05, every: newPostEvery}, nil
	case "cold":
		return &siteWorkload{workload: base, incr: 0.02}, nil
	case "firehose":
		return &firehoseWorkload{workload: base}, nil
	case "replay":
		if opts.Trace == nil || opts.Trace.Len() == 0 {
			return nil, fmt.Errorf("workload replay needs a trace with events")
		}
		return &replayWorkload{trace: opts.Trace, col: opts.Touched}, nil
	}
	var names []string
	for _, w := range Workloads() {
		names = append(names, w[0])
	}
	return nil, fmt.Errorf("no workload is called %q; there are %s", name, strings.Join(names, ", "))
}

// newPostEvery is how many operations of a site, pages mostly, come to one new post.
const newPostEvery = 400

// IsWorkload tells whether there is a workload of that name.
func IsWorkload(name string) bool {
	return slices.ContainsFunc(Workloads(), func(w [2]string) bool { return w[0] == name })
}

// nameSeed makes the streams of different workloads different.
func nameSeed(name string) uint64 {
	h := uint64(0)
	for _, c := range []byte(name) {
		h = postgen.Mix(h ^ uint64(c))
	}
	return h
}

// workload is what all workloads on generated posts share.
type workload struct {
	WorkloadOptions
	name  string
	seed  uint64
	first int // index of the first post that the workload may add
}

func (w *workload) Name() string                { return w.name }
func (w *workload) Posts() postgen.Posts        { return w.Data.Posts() }
func (w *workload) Fill(post int, row []uint64) { w.Data.Fill(post, row) }

// loadWorkload sets every post once. The clients take the next few posts from one counter, so that posts come
// nearly in order whichever client is slow; which client sends a post differs from run to run.
type loadWorkload struct {
	workload
	next atomic.Int64
}

// loadTake is how many posts a client takes at once.
const loadTake = 16

func (w *loadWorkload) Stream(int, int) Stream { return &rowStream{w: w} }

type rowStream struct {
	w        *loadWorkload
	at, stop int
}

func (s *rowStream) Next(op *Op) bool {
	if s.at == s.stop {
		s.at = int(s.w.next.Add(loadTake)) - loadTake
		s.stop = min(s.at+loadTake, s.w.Data.Loaded)
		if s.at >= s.stop {
			s.at = s.stop
			return false
		}
	}
	op.Kind, op.Post = OpRow, s.at
	s.at++
	return true
}

// counterWorkload touches one counter of one post at a time.
type counterWorkload struct {
	workload
	kind   OpKind
	picker *postgen.Picker // nil: uniform
}

func (w *counterWorkload) Stream(client, _ int) Stream {
	return &counterStream{w: w, random: postgen.NewRNG(w.seed, uint64(client))}
}

type counterStream struct {
	w      *counterWorkload
	random postgen.RNG
}

func (s *counterStream) Next(op *Op) bool {
	op.Kind = s.w.kind
	op.Col = int(s.random.Below(uint64(s.w.Data.Columns)))
	if s.w.picker != nil {
		op.Post = s.w.picker.PickFrom(&s.random, s.w.Data.Loaded)
	} else {
		op.Post = int(s.random.Below(uint64(s.w.Data.Loaded)))
	}
	return true
}

// replayWorkload plays a trace over and over. Client c of n has the events c, c+n, ... The posts, which are those of
// the trace, start from nothing.
type replayWorkload struct {
	trace *postgen.Trace
	col   int
}

func (w *replayWorkload) Name() string             { return "replay" }
func (w *replayWorkload) Posts() postgen.Posts     { return w.trace.Posts() }
func (w *replayWorkload) Fill(_ int, row []uint64) { clear(row) }

func (w *replayWorkload) Stream(client, clients int) Stream {
	return &replayStream{events: w.trace.Events(), col: w.col, at: client, step: clients}
}

type replayStream struct {
	events   []uint32
	col      int
	at, step int
}

func (s *replayStream) Next(op *Op) bool {
	op.Kind, op.Col, op.Post = OpIncr, s.col, int(s.events[s.at%len(s.events)])
	s.at += s.step
	return true
}
