package report

import "time"

// While is a load that was measured with and without something else that the server does meanwhile, in turns: first a
// quiet window, then a busy one, and so on, first with one server, then with the other.
type While struct {
	What     string   `json:"what"`           // "bgsave", "flood"
	Case     string   `json:"case,omitempty"` // "10 connections, 1,000 deep", where one thing was measured in several ways
	Workload string   `json:"workload"`       // whose latencies these are
	Rate     float64  `json:"rate,omitempty"` // of its operations, per second, started on time; 0: one after the other
	Results  []Beside `json:"results"`        // by server
}

// Beside is the results of one server.
type Beside struct {
	None    string    `json:"none,omitempty"` // why this server has no such thing; all else is empty then
	How     string    `json:"how,omitempty"`  // how it was made to happen: the command
	Seconds []float64 `json:"seconds"`        // how long it took, each time
	Work    float64   `json:"work,omitempty"` // of floods and heavy commands: their commands per second

	// Latencies of operations due while nothing else happened, and of those due while it did.
	Quiet Latency `json:"quiet"`
	Busy  Latency `json:"busy"`

	Windows  []Window  `json:"windows"` // a quiet one, a busy one, and so on
	Marks    []Mark    `json:"marks"`
	Timeline []Instant `json:"timeline"`

	RSS     int64  `json:"rss"`      // resident bytes before
	PeakRSS int64  `json:"peak_rss"` // most while it happened, with the private pages of a forked process
	Forked  int64  `json:"forked"`   // that part of it
	Refused int64  `json:"refused"`  // operations answered with an error
	Refusal string `json:"refusal,omitempty"`
}

// Window is a stretch of time with one kind of operations. Times are seconds on the server's own axis, which stands
// still while the other server is measured.
type Window struct {
	Busy bool    `json:"busy"`
	From float64 `json:"from"`
	To   float64 `json:"to"`
	Ops  int64   `json:"ops"` // of a busy one: due while it happened
	P50  int64   `json:"p50_ns"`
	P99  int64   `json:"p99_ns"`
	P999 int64   `json:"p999_ns"`
	Max  int64   `json:"max_ns"`
}

// Mark says that something happened.
type Mark struct {
	What string  `json:"what"`
	From float64 `json:"from"` // seconds on the server's axis
	To   float64 `json:"to"`
}

// Instant is a tenth of a second.
type Instant struct {
	At  float64 `json:"at"` // its beginning, in seconds on the server's axis
	Ops int64   `json:"ops"`
	P99 int64   `json:"p99_ns"`
	Max int64   `json:"max_ns"`
}

// InstantLength is how long an Instant is.
const InstantLength = 100 * time.Millisecond

// WhilePercentiles are those shown of a While; the last is the slowest operation.
var WhilePercentiles = []struct {
	Name string
	At   float64
}{{"p50", 50}, {"p99", 99}, {"p99.9", 99.9}, {"p99.99", 99.99}, {"max", 100}}

// Ratio returns by how much longer operations took beside it: a measured value of each busy window over that of the quiet one
// before it.
func (b *Beside) Ratio(of func(Window) int64) Spread {
	var ratios []float64
	for i := 0; i+1 < len(b.Windows); i++ {
		quiet, busy := b.Windows[i], b.Windows[i+1]
		if quiet.Busy || !busy.Busy || quiet.Ops == 0 || busy.Ops == 0 {
			continue
		}
		if under := of(quiet); under > 0 {
			ratios = append(ratios, float64(of(busy))/float64(under))
		}
	}
	return SpreadOf(ratios)
}

// quietRate is how many operations a second were due in quiet windows.
func (b *Beside) quietRate() float64 {
	ops, seconds := int64(0), 0.0
	for _, i := range b.Timeline {
		for _, w := range b.Windows {
			if !w.Busy && i.At >= w.From && i.At+InstantLength.Seconds() <= w.To {
				ops, seconds = ops+i.Ops, seconds+InstantLength.Seconds()
			}
		}
	}
	return float64(ops) / max(seconds, 1e-9)
}

// Growth returns by how much more memory it takes while it happens, 0.02 for 2 %.
func (b *Beside) Growth() float64 {
	if b.RSS <= 0 {
		return 0
	}
	return float64(b.PeakRSS)/float64(b.RSS) - 1
}

// aboutWhile says what happens, in words.
func aboutWhile(what string) string {
	switch what {
	case "bgsave":
		return "a snapshot is made"
	case "demote":
		return "ranges of posts move to files"
	case "rewrite":
		return "files are written anew"
	case "seal":
		return "new posts arrive and fill ranges"
	case "fullsync":
		return "a replica takes a full copy"
	case "repack":
		return "a column comes, and posts are packed anew"
	case "scrub":
		return "files are read and verified"
	case "check":
		return "the directory is verified by a program of its own"
	case "flood":
		return "other connections flood the server"
	case "heavy":
		return "another connection sends very large commands"
	}
	return what
}
