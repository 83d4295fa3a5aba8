package report

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// Version is the version of the JSON form. It is raised when a field changes its meaning.
const Version = 1

// Report is a run.
type Report struct {
	Version  int       `json:"version"`
	Started  time.Time `json:"started"`
	Host     Host      `json:"host"`
	Settings Settings  `json:"settings"`
	Servers  []Server  `json:"servers"` // one or two
	Phases   []Phase   `json:"phases"`
	Whiles   []While   `json:"whiles,omitempty"`
}

// Host is the machine the load generator ran on.
type Host struct {
	System    string `json:"system"` // "linux/amd64"
	CPUs      int    `json:"cpus"`
	Processor string `json:"processor,omitempty"`
	Go        string `json:"go"`
}

// Settings are the options of the run.
type Settings struct {
	Posts     int           `json:"posts"`
	VsPosts   int           `json:"vs_posts,omitempty"` // of the second server, where it holds another number
	Columns   int           `json:"columns"`
	Seed      uint64        `json:"seed"`
	Page      int           `json:"page"` // posts of a page
	Uniform   bool          `json:"uniform"`
	Clients   int           `json:"clients"`
	Depth     int           `json:"depth"`
	Mode      string        `json:"mode"`
	Rate      float64       `json:"rate"`                // operations per second; 0: as fast as the server answers
	RatePart  float64       `json:"rate_part,omitempty"` // 0.5: half of the most that the last server does, found out for each workload
	Threads   int           `json:"threads"`             // of the generator; 0: as many as processors
	Duration  time.Duration `json:"duration_ns"`
	Warmup    time.Duration `json:"warmup_ns"`
	Slices    int           `json:"slices"`
	PinServer string        `json:"pin_server,omitempty"`
	PinClient string        `json:"pin_client,omitempty"`
}

// Server is one of the servers measured.
type Server struct {
	Addr     string    `json:"addr"`
	Kind     string    `json:"kind"`
	Version  string    `json:"version"`
	Label    string    `json:"label,omitempty"` // a name that distinguishes it from another of its version: "two loops"
	Local    bool      `json:"local"`           // its usage is read from /proc, not from INFO
	Memory   *Memory   `json:"memory,omitempty"`
	Verified *Verified `json:"verified,omitempty"`
}

// Memory is the memory of the posts: the growth of the process while they were loaded.
type Memory struct {
	Bytes   int64 `json:"bytes"`
	Posts   int   `json:"posts"`
	Flushed bool  `json:"flushed"` // there were data before, so the process may have grown less than the posts take
}

// PerPost returns the bytes a post.
func (m Memory) PerPost() float64 { return float64(m.Bytes) / float64(max(m.Posts, 1)) }

// Verified is the result of a check of all counters.
type Verified struct {
	Posts    int      `json:"posts"`
	Counters int      `json:"counters"`
	Wrong    int      `json:"wrong"`
	Examples []string `json:"examples,omitempty"`
}

// Phase is one workload.
type Phase struct {
	Workload string   `json:"workload"`
	Rate     float64  `json:"rate,omitempty"` // operations per second that were asked for; 0: as many as the server answers
	Results  []Result `json:"results"`        // by server
}

// Result is the measurements of one server in a phase.
type Result struct {
	Slices  []Slice `json:"slices"`
	Posts   int64   `json:"posts"`   // that the operations were about
	Absent  int64   `json:"absent"`  // posts read that were not there
	Refused int64   `json:"refused"` // operations answered with an error
	Refusal string  `json:"refusal,omitempty"`
	Latency Latency `json:"latency"`
	RSS     int64   `json:"rss"` // resident bytes at the end
}

// Ops returns the operations of all slices.
func (r *Result) Ops() (n int64) {
	for _, s := range r.Slices {
		n += s.Ops
	}
	return n
}

// Slice is a stretch of time in which one server was measured.
type Slice struct {
	Seconds float64 `json:"seconds"`
	Ops     int64   `json:"ops"`
	User    float64 `json:"server_user"`   // seconds of the server's processor time
	System  float64 `json:"server_system"` // and of the kernel's on its behalf
	Client  float64 `json:"client_cpu"`    // seconds of the generator's

	// Latencies of this slice, in nanoseconds, so that percentiles have a spread.
	P50  int64 `json:"p50_ns,omitempty"`
	P99  int64 `json:"p99_ns,omitempty"`
	P999 int64 `json:"p999_ns,omitempty"`
}

// Throughput returns the operations per second.
func (s Slice) Throughput() float64 { return float64(s.Ops) / s.Seconds }

// ServerCPU returns the server's processor time for an operation, in microseconds.
func (s Slice) ServerCPU() float64 { return (s.User + s.System) * 1e6 / float64(s.Ops) }

// ClientCPU returns the generator's processor time for an operation, in microseconds.
func (s Slice) ClientCPU() float64 { return s.Client * 1e6 / float64(s.Ops) }

// ServerBusy returns how many processors the server kept busy.
func (s Slice) ServerBusy() float64 { return (s.User + s.System) / s.Seconds }

// ClientBusy returns how many processors the generator kept busy. Near the number it may use, it limits the throughput.
func (s Slice) ClientBusy() float64 { return s.Client / s.Seconds }

// SlicePercentiles are the percentiles known for each slice.
var SlicePercentiles = []SlicePercentile{
	{"p50", 50, func(s Slice) float64 { return float64(s.P50) }},
	{"p99", 99, func(s Slice) float64 { return float64(s.P99) }},
	{"p99.9", 99.9, func(s Slice) float64 { return float64(s.P999) }},
}

// SlicePercentile is a percentile that is known for each slice; Of returns it in nanoseconds, 0 where a file has none.
type SlicePercentile struct {
	Name       string
	Percentile float64
	Of         func(Slice) float64
}

// Latency is the distribution of the latencies of a result.
type Latency struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean_ns"`
	Max   int64   `json:"max_ns"`
	Curve []Point `json:"curve"` // ascending
}

// Point says that a part of the operations took at most a time.
type Point struct {
	Percentile float64 `json:"percentile"`
	Nanos      int64   `json:"ns"`
}

// Percentiles are those of a Curve.
var Percentiles = []float64{0, 10, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99, 99.999, 100}

// At returns the latency at one of the Percentiles.
func (l Latency) At(percentile float64) time.Duration {
	for _, point := range l.Curve {
		if point.Percentile >= percentile {
			return time.Duration(point.Nanos)
		}
	}
	return time.Duration(l.Max)
}

// Spread is a measured value over the slices of a result.
type Spread struct{ Median, Low, High float64 }

// SpreadOf returns the Spread of values; the zero Spread of none.
func SpreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return Spread{Median: (sorted[(n-1)/2] + sorted[n/2]) / 2, Low: sorted[0], High: sorted[n-1]}
}

// WideSpread is the Percent above which a number is marked: it says less about the server than about other work of the
// machine.
const WideSpread = 20

// Wide tells whether the values lie so far apart that it must be measured again.
func (s Spread) Wide() bool { return s.Percent() > WideSpread }

// Percent returns how far the values lie from the median at most, in percent of it.
func (s Spread) Percent() float64 {
	if s.Median == 0 {
		return 0
	}
	return max(s.High-s.Median, s.Median-s.Low) / s.Median * 100
}

// Over returns a measured value over the slices of the result.
func (r Result) Over(of func(Slice) float64) Spread {
	var values []float64
	for _, s := range r.Slices {
		if s.Ops > 0 && s.Seconds > 0 {
			values = append(values, of(s))
		}
	}
	return SpreadOf(values)
}

// Ratio returns the ratio of a measured value of the first server to that of the second, slice by slice. It is the zero Spread
// where there are not two.
func (p Phase) Ratio(of func(Slice) float64) Spread {
	if len(p.Results) != 2 {
		return Spread{}
	}
	a, b := p.Results[0].Slices, p.Results[1].Slices
	var ratios []float64
	for i := range min(len(a), len(b)) {
		if a[i].Ops == 0 || b[i].Ops == 0 {
			continue
		}
		if under := of(b[i]); under > 0 {
			ratios = append(ratios, of(a[i])/under)
		}
	}
	return SpreadOf(ratios)
}

// Write writes the report as JSON.
func (r *Report) Write(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

// Read reads a report that Write wrote.
func Read(path string) (*Report, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r, err := parseReport(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

func parseReport(content []byte) (*Report, error) {
	r := &Report{}
	if err := json.Unmarshal(content, r); err != nil {
		return nil, fmt.Errorf("not a report of counterbench: %w", err)
	}
	if r.Version != Version {
		return nil, fmt.Errorf("a report of version %d, want %d", r.Version, Version)
	}
	for _, phase := range r.Phases {
		if len(phase.Results) != len(r.Servers) {
			return nil, fmt.Errorf("workload %q has results of %d servers, want %d", phase.Workload, len(phase.Results), len(r.Servers))
		}
	}
	for _, while := range r.Whiles {
		if len(while.Results) != len(r.Servers) {
			return nil, fmt.Errorf("%q has results of %d servers, want %d", while.What, len(while.Results), len(r.Servers))
		}
	}
	return r, nil
}
