package command

import (
	"math"
	"math/bits"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/resp"
)

// timeBuckets is the number of buckets of a histogram: the last one's bound is 2^24 us, 16.8 seconds.
const timeBuckets = 25

// Histogram counts executions by their time. Bucket i has those of more than 2^(i-1) and at most 2^i microseconds, the
// last one all that are longer: one atomic addition for a run of equal commands, and as fine as LATENCY HISTOGRAM shows
// it. Commands of a batch are counted with their share of the batch's time, as in "usec" of INFO commandstats.
type Histogram [timeBuckets]atomic.Int64

// add counts n executions of equal length.
func (h *Histogram) add(n int64, each time.Duration) {
	h[min(bits.Len64(uint64(max(each-1, 0)/time.Microsecond)), timeBuckets-1)].Add(n)
}

// bound is the longest time of bucket i in microseconds.
func bound(i int) int64 { return 1 << i }

// Counts are the executions in each bucket, read one after the other.
func (h *Histogram) Counts() (counts [timeBuckets]uint64) {
	for i := range h {
		counts[i] = uint64(h[i].Load())
	}
	return counts
}

// reset forgets all.
func (h *Histogram) reset() {
	for i := range h {
		h[i].Store(0)
	}
}

// Percentile is the bound of the bucket that p of all executions, 0..1, do not exceed.
func (h *Histogram) Percentile(p float64) int64 {
	total := int64(0)
	for i := range h {
		total += h[i].Load()
	}
	rest := int64(math.Ceil(p * float64(total)))
	for i := range h {
		n := h[i].Load()
		if rest -= n; n > 0 && rest <= 0 {
			return bound(i)
		}
	}
	return bound(timeBuckets - 1)
}

// Account counts n executions that took some time together.
func (cmd *Row[C]) Account(n int64, took time.Duration) {
	cmd.Calls.Add(n)
	cmd.Nanos.Add(int64(took))
	cmd.Times.add(n, took/time.Duration(n))
}

// ResetStats is CONFIG RESETSTAT for one command.
func (cmd *Row[C]) ResetStats() {
	for _, n := range []*atomic.Int64{&cmd.Calls, &cmd.Nanos, &cmd.Rejected, &cmd.Failed} {
		n.Store(0)
	}
	cmd.Times.reset()
}

// ReplyHistogram answers LATENCY HISTOGRAM [command ...]. Names that are unknown, or not called yet, are left out.
func (t *Table[C]) ReplyHistogram(out *resp.Replies, args [][]byte) {
	var called []*Row[C]
	add := func(cmd *Row[C]) {
		if cmd.Calls.Load() > 0 {
			called = append(called, cmd)
		}
	}
	if len(args) == 2 {
		t.Each(add)
	}
	for _, name := range args[2:] {
		if cmd := t.Lookup(name); cmd != nil {
			cmd.Each(add)
		}
	}
	out.Map(len(called))
	for _, cmd := range called {
		out.BulkString(cmd.Name)
		out.Map(2)
		out.BulkString("calls")
		out.Int(cmd.Calls.Load())
		out.BulkString("histogram_usec")
		var counts [timeBuckets]int64
		kinds := 0
		for i := range counts {
			if counts[i] = cmd.Times[i].Load(); counts[i] > 0 {
				kinds++
			}
		}
		out.Map(kinds)
		sum := int64(0) // the counts are cumulative
		for i, n := range counts {
			if n > 0 {
				sum += n
				out.Int(bound(i))
				out.Int(sum)
			}
		}
	}
}

// ReplyDoctor names the command with the largest share of time, and the one with the longest executions.
func (t *Table[C]) ReplyDoctor(out *resp.Replies, _ [][]byte) {
	var most, longest *Row[C]
	t.Each(func(cmd *Row[C]) {
		if cmd.Calls.Load() == 0 {
			return
		}
		if most == nil || cmd.Nanos.Load() > most.Nanos.Load() {
			most = cmd
		}
		if longest == nil || cmd.Times.Percentile(1) > longest.Times.Percentile(1) {
			longest = cmd
		}
	})
	text := "No command has been executed yet.\n"
	if most != nil {
		text = "Most time went to '" + most.Name + "': " + strconv.FormatInt(most.Calls.Load(), 10) + " calls, " +
			strconv.FormatInt(most.Nanos.Load()/1000, 10) + " us in all. The longest execution was of '" + longest.Name +
			"', at most " + strconv.FormatInt(longest.Times.Percentile(1), 10) + " us. See LATENCY HISTOGRAM and SLOWLOG GET.\n"
	}
	out.Text(text)
}
