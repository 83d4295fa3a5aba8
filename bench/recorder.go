package bench

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latencies are kept from 100 ns to a minute with three digits: 190 KB a histogram.
const (
	latencyLowest  = 100 * time.Nanosecond
	latencyHighest = time.Minute
	latencyDigits  = 3
)

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(int64(latencyLowest), int64(latencyHighest), latencyDigits)
}

// recorder collects the latencies of some of a run's clients. Clients share it, as 10,000 histograms would be 2 GB;
// they lock it once for a run of equal latencies, which a pipeline answered in one piece has.
type recorder struct {
	mu   sync.Mutex
	hist *hdrhistogram.Histogram
}

// record notes n operations of that latency.
func (r *recorder) record(latency time.Duration, n int64) {
	latency = min(max(latency, latencyLowest), latencyHighest)
	r.mu.Lock()
	r.hist.RecordValues(int64(latency), n)
	r.mu.Unlock()
}

// recorders are the recorders of a side. Client i has the one at i modulo their number.
type recorders []*recorder

const mostRecorders = 16

func newRecorders(clients int) recorders {
	all := make(recorders, min(clients, mostRecorders))
	for i := range all {
		all[i] = &recorder{hist: newHistogram()}
	}
	return all
}

// take returns the latencies recorded since the last take.
func (all recorders) take() *hdrhistogram.Histogram {
	sum := newHistogram()
	for _, r := range all {
		r.mu.Lock()
		sum.Merge(r.hist)
		r.hist.Reset()
		r.mu.Unlock()
	}
	return sum
}
