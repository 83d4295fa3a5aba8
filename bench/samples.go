package bench

import (
	"cmp"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/counterd/counterd/bench/report"
)

// samples are the operations of a client: when each was due, and how long it took. Which of them belong to an
// activity of the server is known only later, when that is over; a histogram could not tell them apart any more.
//
// They take 16 bytes each, in pieces, as one growing slice would be copied again and again in the middle of a
// measurement.
type samples struct{ pieces [][]sample }

// sample is one operation.
type sample struct{ due, latency time.Duration }

const samplePiece = 1 << 14

func (s *samples) add(due, latency time.Duration) {
	n := len(s.pieces)
	if n == 0 || len(s.pieces[n-1]) == samplePiece {
		s.pieces = append(s.pieces, make([]sample, 0, samplePiece))
		n++
	}
	s.pieces[n-1] = append(s.pieces[n-1], sample{due, latency})
}

// take returns all of them, and forgets them.
func (s *samples) take() []sample {
	all := slices.Concat(s.pieces...)
	s.pieces = nil
	return all
}

// span is a stretch of time, its end not in it.
type span struct {
	what     string
	from, to time.Duration
}

// spans are in order of time and do not overlap.
type spans []span

// hold tells whether a time is within one of them.
func (all spans) hold(at time.Duration) bool {
	i, found := slices.BinarySearchFunc(all, at, func(s span, at time.Duration) int { return cmp.Compare(s.from, at) })
	if !found {
		i--
	}
	return i >= 0 && at < all[i].to
}

// within returns the spans that lie between two times, cut to them.
func (all spans) within(from, to time.Duration) spans {
	var cut spans
	for _, s := range all {
		if s.from, s.to = max(s.from, from), min(s.to, to); s.from < s.to {
			cut = append(cut, s)
		}
	}
	return cut
}

// timeline collects windows of one server on an axis of its own, which stands still between them.
type timeline struct {
	result      *report.Beside
	quiet, busy *hdrhistogram.Histogram
	axis        time.Duration // where the next window begins
}

func newTimeline(result *report.Beside) *timeline {
	return &timeline{result: result, quiet: newHistogram(), busy: newHistogram()}
}

// add adds a window from one time to another. Of a quiet one the operations due while none of the marks was under way
// count, of a busy one those due while one was.
func (t *timeline) add(busy bool, from, to time.Duration, all []sample, marks spans) {
	marks = marks.within(from, to)
	own := newHistogram()
	instants := make([][]time.Duration, max(1, (to-from)/report.InstantLength)) // the last one has the rest, too
	for _, s := range all {
		if s.due < from || s.due >= to {
			continue
		}
		i := min(int((s.due-from)/report.InstantLength), len(instants)-1)
		instants[i] = append(instants[i], s.latency)
		if marks.hold(s.due) == busy {
			own.RecordValue(int64(min(max(s.latency, latencyLowest), latencyHighest)))
		}
	}
	at := func(moment time.Duration) float64 { return (t.axis + moment - from).Seconds() }
	for i, latencies := range instants {
		instant := report.Instant{At: at(from + time.Duration(i)*report.InstantLength), Ops: int64(len(latencies))}
		if n := len(latencies); n > 0 {
			slices.Sort(latencies)
			instant.P99, instant.Max = int64(latencies[(n*99+99)/100-1]), int64(latencies[n-1])
		}
		t.result.Timeline = append(t.result.Timeline, instant)
	}
	for _, m := range marks {
		t.result.Marks = append(t.result.Marks, report.Mark{What: m.what, From: at(m.from), To: at(m.to)})
	}
	w := report.Window{Busy: busy, From: at(from), To: at(to), Ops: own.TotalCount()}
	if w.Ops > 0 {
		w.P50, w.P99, w.P999, w.Max = own.ValueAtPercentile(50), own.ValueAtPercentile(99), own.ValueAtPercentile(99.9), own.Max()
	}
	t.result.Windows = append(t.result.Windows, w)
	if busy {
		t.busy.Merge(own)
	} else {
		t.quiet.Merge(own)
	}
	t.axis += to - from
}

// end puts the sums in the result.
func (t *timeline) end() {
	t.result.Quiet, t.result.Busy = summarize(t.quiet), summarize(t.busy)
}
