package feedload

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/bench/procstat"
	"github.com/counterd/counterd/internal/wire"
)

const (
	suffix      = "fl" // of the column
	atOnce      = 10_000
	phaseWithin = 10 * time.Minute
)

// Config has the server and the sizes of the phases.
type Config struct {
	Addr   string
	PID    int // of the server; 0: INFO tells
	Posts  int
	Depth  int
	Count  int           // INCRs of a phase that is not paced
	Rate   int           // INCRs a second of a phase that is
	Paced  time.Duration // length of it
	Rounds int
	Each   func(r *Round) // called behind each round
}

// Round has the measurements of one round: nanoseconds of the server's processor time, by INCR or by change.
type Round struct {
	Alone, Read, Fed, Paced, Beside float64
	Replies                         int             // in beside
	Lags                            []time.Duration // of the changes of beside, in order of length
	Replied                         []time.Duration // the time until a batch was answered in beside, in order of length: the time of any command on this machine
}

// Result is all rounds.
type Result struct {
	Config
	Rounds []Round
}

// Run measures a server, which must be empty. It makes a counter.
func Run(ctx context.Context, c Config) (*Result, error) {
	var conns [3]*wire.Conn
	for i := range conns {
		conn, err := wire.Dial(ctx, c.Addr, wire.Options{Buffer: 256 << 10})
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		conns[i] = conn
	}
	meter, err := procstat.NewMeter(conns[2], c.PID)
	if err != nil {
		return nil, err
	}
	for _, words := range [][]string{{"ADD", "COUNTER", "feedload"}, {"ADD", "COLUMN", "feedload", "n", "hint=16", "max=63", "suffix=" + suffix}} {
		if _, err := conns[2].Do(words...); err != nil {
			return nil, err
		}
	}
	b := &bench{Config: c, meter: meter, writer: writer{conn: conns[0], first: 1 << 40, posts: uint64(c.Posts), depth: c.Depth}, reader: reader{conn: conns[1]}}
	res := &Result{Config: c}
	if _, err := b.phase(c.Posts/c.Depth, 0); err != nil { // the posts are there
		return nil, err
	}
	for range c.Rounds {
		r, err := b.round()
		if err != nil {
			return nil, err
		}
		res.Rounds = append(res.Rounds, *r)
		if c.Each != nil {
			c.Each(r)
		}
	}
	return res, nil
}

// bench is a run.
type bench struct {
	Config
	meter  *procstat.Meter
	writer writer
	reader reader
}

// phase writes, and returns the server's processor time of an INCR.
func (b *bench) phase(batches int, rate float64) (float64, error) {
	before, err := b.meter.Usage()
	if err != nil {
		return 0, err
	}
	b.prepare(batches)
	if err := b.writer.phase(batches, rate); err != nil {
		return 0, err
	}
	return b.since(before, batches)
}

func (b *bench) prepare(batches int) {
	b.writer.sent, b.writer.began = make([]atomic.Int64, batches), time.Now()
}

// since is the processor time of one of the INCRs, or of one of their changes.
func (b *bench) since(before procstat.Usage, batches int) (float64, error) {
	after, err := b.meter.Usage()
	return float64(after.CPU()-before.CPU()) / float64(batches*b.Depth), err
}

// with writes while the feed is read, calls seen with the number of each change in this phase, and returns the server's processor time of both. It ends when the last change was read.
func (b *bench) with(batches int, rate float64, seen func(n uint64)) (ns float64, replies int, err error) {
	if err := b.reader.begin(&b.writer); err != nil {
		return 0, 0, err
	}
	before, err := b.meter.Usage()
	if err != nil {
		return 0, 0, err
	}
	first := b.writer.next
	end := first + uint64(batches*b.Depth)
	b.prepare(batches)
	read := make(chan error, 1)
	go func() {
		var err error
		replies, err = b.reader.upTo(&b.writer, end, func(n uint64) { seen(n - first) })
		read <- err
	}()
	if err := b.writer.phase(batches, rate); err != nil {
		return 0, 0, err
	}
	if err := <-read; err != nil {
		return 0, 0, err
	}
	ns, err = b.since(before, batches)
	return ns, replies, err
}

func (b *bench) round() (r *Round, err error) {
	r = new(Round)
	fast, paced := b.Count/b.Depth, int(b.Paced.Seconds()*float64(b.Rate))/b.Depth
	rate := float64(b.Rate) / float64(b.Depth)
	if err := b.reader.begin(&b.writer); err != nil {
		return nil, err
	}
	if r.Alone, err = b.phase(fast, 0); err != nil {
		return nil, err
	}
	before, err := b.meter.Usage()
	if err != nil {
		return nil, err
	}
	if _, err := b.reader.upTo(&b.writer, b.writer.next, nil); err != nil {
		return nil, err
	}
	if r.Read, err = b.since(before, fast); err != nil {
		return nil, err
	}
	if r.Fed, _, err = b.with(fast, 0, func(uint64) {}); err != nil {
		return nil, err
	}
	if r.Paced, err = b.phase(paced, rate); err != nil {
		return nil, err
	}
	r.Beside, r.Replies, err = b.with(paced, rate, func(n uint64) {
		sent := time.Duration(b.writer.sent[n/uint64(b.Depth)].Load())
		r.Lags = append(r.Lags, time.Since(b.writer.began)-sent)
	})
	r.Replied = b.writer.took
	slices.Sort(r.Replied)
	slices.Sort(r.Lags)
	return r, err
}

// Percentile is of times in order of length.
func Percentile(times []time.Duration, percent float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	return times[min(len(times)-1, int(float64(len(times))*percent/100))]
}

// Write writes the results as lines.
func (res *Result) Write(w io.Writer) error {
	lines := []struct {
		name, unit string
		of         func(r *Round) float64
	}{
		{"INCR, no feed", "ns of the server", func(r *Round) float64 { return r.Alone }},
		{"INCR and its change, feed attached", "ns", func(r *Round) float64 { return r.Fed }},
		{"a change that is read behind", "ns", func(r *Round) float64 { return r.Read }},
		{"cores of 1 M changes/s to one reader", "", func(r *Round) float64 { return r.Read / 1000 }},
		{"INCR beside the feed, reading taken off", "times INCR", func(r *Round) float64 { return (r.Fed - r.Read) / r.Alone }},
		{"INCR and its change", "times INCR", func(r *Round) float64 { return r.Fed / r.Alone }},
		{fmt.Sprintf("at %d/s: INCR, no feed", res.Rate), "ns", func(r *Round) float64 { return r.Paced }},
		{fmt.Sprintf("at %d/s: INCR and its change", res.Rate), "ns", func(r *Round) float64 { return r.Beside }},
		{"the same", "times INCR", func(r *Round) float64 { return r.Beside / r.Paced }},
		{"replies a second", "", func(r *Round) float64 { return float64(r.Replies) / res.Paced.Seconds() }},
		{"a batch of INCRs is answered, p50", "ms", func(r *Round) float64 { return Percentile(r.Replied, 50).Seconds() * 1000 }},
		{"a batch of INCRs is answered, p99", "ms", func(r *Round) float64 { return Percentile(r.Replied, 99).Seconds() * 1000 }},
		{"lag p50", "ms", func(r *Round) float64 { return Percentile(r.Lags, 50).Seconds() * 1000 }},
		{"lag p99", "ms", func(r *Round) float64 { return Percentile(r.Lags, 99).Seconds() * 1000 }},
		{"lag p99.9", "ms", func(r *Round) float64 { return Percentile(r.Lags, 99.9).Seconds() * 1000 }},
	}
	for _, line := range lines {
		var all []float64
		for i := range res.Rounds {
			all = append(all, line.of(&res.Rounds[i]))
		}
		slices.Sort(all)
		if _, err := fmt.Fprintf(w, "%-40s %10.3g %-16s (%.3g to %.3g)\n", line.name, all[len(all)/2], line.unit, all[0], all[len(all)-1]); err != nil {
			return err
		}
	}
	return nil
}
