package console

import (
	"math"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/observe/stats"
)

// History is kept in two rings: of each second of the last five minutes, and of each ten seconds of the last hour. They
// take (300 + 360) * 48 bytes.
const (
	fineSpan   = 300 // seconds
	coarseStep = 10  // seconds
	coarseSpan = 360 // of coarseStep
)

// Level is how bad something is.
type Level uint8

// Levels.
const (
	OK   Level = iota // nothing has to be done
	Note              // to be known
	Warn              // somebody should look, today
	Bad               // clients notice, or are about to: somebody must look now
)

// sample is the work of a stretch of time.
type sample struct {
	gauges
	ops, writes, errors, coldReads uint32 // a second
	p50, p99, p999                 uint8  // buckets plus one, 0: nothing was done
	known                          bool   // false: the process stood still, or it is longer ago than the start
}

// gauges are values of one moment. Of a stretch of time the highest of each is kept.
type gauges struct {
	memory uint64 // bytes of the process
	lag    uint64 // bytes of log that this node lacks, or that its furthest replica lacks
	level  Level
}

func (g gauges) max(o gauges) gauges {
	return gauges{max(g.memory, o.memory), max(g.lag, o.lag), max(g.level, o.level)}
}

// history is the last hour. The zero history is empty.
type history struct {
	fine   [fineSpan]sample
	coarse [coarseSpan]sample
	began  time.Time
	second int64 // of the newest sample of fine, since began; sample s is at s % fineSpan

	last   Totals // at the newest sample
	lastAt time.Time
	ten    Totals // at the end of the newest sample of coarse
	tenAt  time.Time
	tenth  int64  // of the stretch of ten seconds that is not complete
	worst  gauges // in it
}

// add takes the totals and gauges of a moment. It returns false if the second has a sample already.
//
// A moment belongs to the second that it is nearest to, as a ticker's moments come some milliseconds early or late: cut
// off to whole seconds, a quarter of them had no sample on a busy machine. A moment that is late by more than half a
// second stands for the second before it, too. Further missing seconds are a gap: the process stood still.
func (h *history) add(now time.Time, t Totals, g gauges) bool {
	if h.began.IsZero() {
		h.began, h.last, h.ten, h.lastAt, h.tenAt = now, t, t, now, now
		return false
	}
	second := int64(now.Sub(h.began).Round(time.Second) / time.Second)
	if second <= h.second {
		return false
	}
	newest := between(&h.last, &t, now.Sub(h.lastAt), g)
	for s := max(h.second+1, second-fineSpan+1); s < second; s++ {
		h.fine[s%fineSpan] = sample{}
	}
	if second == h.second+2 {
		h.fine[(second-1)%fineSpan] = newest
	}
	h.fine[second%fineSpan] = newest
	h.second, h.last, h.lastAt = second, t, now
	if tenth := second / coarseStep; tenth > h.tenth {
		h.coarse[h.tenth%coarseSpan] = between(&h.ten, &t, now.Sub(h.tenAt), h.worst.max(g))
		for s := max(h.tenth+1, tenth-coarseSpan+1); s < tenth; s++ {
			h.coarse[s%coarseSpan] = sample{}
		}
		h.ten, h.tenAt, h.tenth, h.worst = t, now, tenth, gauges{}
	}
	h.worst = h.worst.max(g)
	return true
}

// between is the work between two readings.
func between(a, b *Totals, past time.Duration, g gauges) sample {
	rate := func(a, b int64) uint32 {
		return uint32(min(math.Round(float64(since(a, b))/past.Seconds()), math.MaxUint32))
	}
	s := sample{gauges: g, ops: rate(a.Commands, b.Commands), writes: rate(a.Writes, b.Writes), errors: rate(a.Errors, b.Errors),
		coldReads: rate(a.ColdReads, b.ColdReads), known: true}
	var times stats.Histogram
	for i := range times {
		times[i] = since(a.Times[i], b.Times[i])
	}
	s.p50, s.p99, s.p999 = bucket(&times, 0.5), bucket(&times, 0.99), bucket(&times, 0.999)
	return s
}

// since is the growth of a total. A total that was reset in between began at 0.
func since(a, b int64) int64 {
	if b < a {
		return max(0, b)
	}
	return b - a
}

// bucket is the number, plus one, of the bucket that p of all executions do not exceed; 0: there were none.
func bucket(times *stats.Histogram, p float64) uint8 {
	if i, ok := times.Bucket(p); ok {
		return uint8(i + 1)
	}
	return 0
}

// bound is the longest time of a bucket, which is given plus one, in nanoseconds; 0: nothing was done.
func bound(bucket uint8) int64 {
	if bucket == 0 {
		return 0
	}
	return int64(stats.Bound(int(bucket) - 1))
}

// values are a sample as the page reads it: ops, writes and errors a second, p50, p99 and p99.9 in nanoseconds, level,
// memory and lag in bytes, cold reads a second. Nil where nothing is known.
func (s *sample) values() []int64 {
	if !s.known {
		return nil
	}
	return []int64{int64(s.ops), int64(s.writes), int64(s.errors), bound(s.p50), bound(s.p99), bound(s.p999), int64(s.level),
		int64(s.memory), int64(s.lag), int64(s.coldReads)}
}

// Past is the history as the page reads it, oldest first. The newest of Fine is of Second; the newest of Coarse ended with
// second Tenth*10.
type Past struct {
	Began  int64     `json:"began"` // ms since 1970: of second 0
	Second int64     `json:"second"`
	Tenth  int64     `json:"tenth"`
	Fine   [][]int64 `json:"fine"`
	Coarse [][]int64 `json:"coarse"`
}

// past returns a copy.
func (h *history) past() Past {
	p := Past{Began: h.began.UnixMilli(), Second: h.second, Tenth: h.tenth}
	for s := max(1, h.second-fineSpan+1); s <= h.second; s++ {
		p.Fine = append(p.Fine, h.fine[s%fineSpan].values())
	}
	for s := max(0, h.tenth-coarseSpan); s < h.tenth; s++ {
		p.Coarse = append(p.Coarse, h.coarse[s%coarseSpan].values())
	}
	return p
}

// newest returns the samples of the last second, and of the last ten seconds that are complete.
func (h *history) newest() (fine, coarse []int64) {
	if h.second > 0 {
		fine = h.fine[h.second%fineSpan].values()
	}
	if h.tenth > 0 {
		coarse = h.coarse[(h.tenth-1)%coarseSpan].values()
	}
	return fine, coarse
}
