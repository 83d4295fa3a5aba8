package page

import (
	"math"
	"time"
)

// History is kept in two rings: of each second of the last five minutes, and of each ten seconds of the last hour. They
// take (300 + 360) * 20 bytes.
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

// sample is what was done in a stretch of time.
type sample struct {
	ops, writes, errors uint32 // a second
	p50, p99, p999      uint8  // buckets plus one, 0: nothing was done
	level               Level  // the worst
	known               bool   // false: the process stood still, or it is longer ago than the start
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
	tenth  int64 // of the stretch of ten seconds that is not complete
	worst  Level // in it
}

// add takes the totals of a moment. It returns false if the second has a sample already.
func (h *history) add(now time.Time, t Totals, level Level) bool {
	if h.began.IsZero() {
		h.began, h.last, h.ten, h.lastAt, h.tenAt = now, t, t, now, now
		return false
	}
	second := int64(now.Sub(h.began) / time.Second)
	if second <= h.second {
		return false
	}
	for s := max(h.second+1, second-fineSpan+1); s < second; s++ {
		h.fine[s%fineSpan] = sample{}
	}
	h.fine[second%fineSpan] = between(h.last, t, now.Sub(h.lastAt), level)
	h.second, h.last, h.lastAt = second, t, now
	if tenth := second / coarseStep; tenth > h.tenth {
		h.coarse[h.tenth%coarseSpan] = between(h.ten, t, now.Sub(h.tenAt), max(h.worst, level))
		for s := max(h.tenth+1, tenth-coarseSpan+1); s < tenth; s++ {
			h.coarse[s%coarseSpan] = sample{}
		}
		h.ten, h.tenAt, h.tenth, h.worst = t, now, tenth, OK
	}
	h.worst = max(h.worst, level)
	return true
}

// between is what was done between two looks.
func between(a, b Totals, past time.Duration, level Level) sample {
	rate := func(a, b int64) uint32 {
		return uint32(min(math.Round(float64(since(a, b))/past.Seconds()), math.MaxUint32))
	}
	s := sample{ops: rate(a.Commands, b.Commands), writes: rate(a.Writes, b.Writes), errors: rate(a.Errors, b.Errors), level: level, known: true}
	var times [Buckets]int64
	total := int64(0)
	for i := range times {
		times[i] = since(a.Times[i], b.Times[i])
		total += times[i]
	}
	if total > 0 {
		s.p50, s.p99, s.p999 = bucket(&times, total, 0.5), bucket(&times, total, 0.99), bucket(&times, total, 0.999)
	}
	return s
}

// since is the growth of a total. One that was reset in between began at 0.
func since(a, b int64) int64 {
	if b < a {
		return max(0, b)
	}
	return b - a
}

// bucket is the number, plus one, of the bucket that p of total executions do not exceed: as command.Histogram has it.
func bucket(times *[Buckets]int64, total int64, p float64) uint8 {
	rest := int64(math.Ceil(p * float64(total)))
	for i, n := range times {
		if rest -= n; n > 0 && rest <= 0 {
			return uint8(i + 1)
		}
	}
	return Buckets
}

// micros is the bound of a bucket, which is given plus one, in microseconds; 0: nothing was done.
func micros(bucket uint8) int64 {
	if bucket == 0 {
		return 0
	}
	return 1 << (bucket - 1)
}

// values are a sample as the page reads it: ops, writes and errors a second, p50, p99 and p99.9 in microseconds, level.
// Nil where nothing is known.
func (s *sample) values() []int64 {
	if !s.known {
		return nil
	}
	return []int64{int64(s.ops), int64(s.writes), int64(s.errors), micros(s.p50), micros(s.p99), micros(s.p999), int64(s.level)}
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
