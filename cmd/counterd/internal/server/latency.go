package server

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

// histogram counts executions by their time. Bucket i has those of more than 2^(i-1) and at most 2^i microseconds, the last one all
// that are longer: one atomic addition for a run of equal commands, and as fine as LATENCY HISTOGRAM shows it.
// Commands of a batch are counted with their share of the batch's time, as in "usec" of INFO commandstats.
type histogram [timeBuckets]atomic.Int64

// add counts n executions of equal length.
func (h *histogram) add(n int64, each time.Duration) {
	h[min(bits.Len64(uint64(max(each-1, 0)/time.Microsecond)), timeBuckets-1)].Add(n)
}

// bound is the longest time of bucket i in microseconds.
func bound(i int) int64 { return 1 << i }

func (h *histogram) reset() {
	for i := range h {
		h[i].Store(0)
	}
}

// percentile is the bound of the bucket that p of all executions, 0..1, do not exceed.
func (h *histogram) percentile(p float64) int64 {
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

// account counts n executions that took some time together.
func (cmd *command) account(n int64, took time.Duration) {
	cmd.calls.Add(n)
	cmd.nanos.Add(int64(took))
	cmd.times.add(n, took/time.Duration(n))
}

// resetStats is CONFIG RESETSTAT for one command.
func (cmd *command) resetStats() {
	for _, n := range []*atomic.Int64{&cmd.calls, &cmd.nanos, &cmd.rejected, &cmd.failed} {
		n.Store(0)
	}
	cmd.times.reset()
}

func latencyCommand() *command {
	return container("latency", "server", "2.8.13", "Answers questions about how long commands take.",
		&command{name: "latency|histogram", arity: -2, flags: admin | noscript | loading | stale, group: "server", since: "7.0.0",
			complexity: "O(number of commands)", syntax: "[command [command ...]]",
			summary: "Returns for each command how many executions took at most 1, 2, 4, ... microseconds. In a pipeline each is counted with its share of the time.",
			run:     runLatencyHistogram},
		&command{name: "latency|latest", arity: 2, flags: admin | noscript | loading | stale, group: "server", since: "2.8.13", complexity: "O(1)",
			summary: "Returns an empty list: spikes are not sampled by event. See LATENCY HISTOGRAM and SLOWLOG.", run: runEmptyList},
		&command{name: "latency|history", arity: 3, flags: admin | noscript | loading | stale, group: "server", since: "2.8.13", complexity: "O(1)",
			summary: "Returns an empty list, as LATENCY LATEST.", syntax: "event", run: runEmptyList},
		&command{name: "latency|graph", arity: 3, flags: admin | noscript | loading | stale, group: "server", since: "2.8.13", complexity: "O(1)",
			summary: "Answers that there are no samples, as LATENCY LATEST.", syntax: "event", run: runLatencyGraph},
		&command{name: "latency|reset", arity: -2, flags: admin | noscript | loading | stale, group: "server", since: "2.8.13", complexity: "O(1)",
			summary: "Returns 0, the number of events forgotten.", syntax: "[event [event ...]]", run: runZero},
		&command{name: "latency|doctor", arity: 2, flags: admin | noscript | loading | stale, group: "server", since: "2.8.13", complexity: "O(number of commands)",
			summary: "Names the commands that take longest.", run: runLatencyDoctor},
	)
}

// runLatencyHistogram: LATENCY HISTOGRAM [command ...]. Names that are unknown, or not called yet, are left out.
func runLatencyHistogram(c *client, args [][]byte) {
	var called []*command
	add := func(cmd *command) {
		if cmd.calls.Load() > 0 {
			called = append(called, cmd)
		}
	}
	if len(args) == 2 {
		c.srv.commands.each(add)
	}
	for _, name := range args[2:] {
		if cmd := c.srv.commands.lookup(name); cmd != nil {
			cmd.each(add)
		}
	}
	c.Out.Map(len(called))
	for _, cmd := range called {
		c.Out.BulkString(cmd.name)
		c.Out.Map(2)
		c.Out.BulkString("calls")
		c.Out.Int(cmd.calls.Load())
		c.Out.BulkString("histogram_usec")
		var counts [timeBuckets]int64
		kinds := 0
		for i := range counts {
			if counts[i] = cmd.times[i].Load(); counts[i] > 0 {
				kinds++
			}
		}
		c.Out.Map(kinds)
		sum := int64(0) // the counts are cumulative
		for i, n := range counts {
			if n > 0 {
				sum += n
				c.Out.Int(bound(i))
				c.Out.Int(sum)
			}
		}
	}
}

func runLatencyGraph(c *client, args [][]byte) {
	c.Out.Error("ERR No samples available for event '" + resp.Printable(args[2], 128) + "'")
}

// runLatencyDoctor names the command with the largest share of time, and the one with the longest executions.
func runLatencyDoctor(c *client, _ [][]byte) {
	var most, longest *command
	c.srv.commands.each(func(cmd *command) {
		if cmd.calls.Load() == 0 {
			return
		}
		if most == nil || cmd.nanos.Load() > most.nanos.Load() {
			most = cmd
		}
		if longest == nil || cmd.times.percentile(1) > longest.times.percentile(1) {
			longest = cmd
		}
	})
	text := "No command has been executed yet.\n"
	if most != nil {
		text = "Most time went to '" + most.name + "': " + strconv.FormatInt(most.calls.Load(), 10) + " calls, " +
			strconv.FormatInt(most.nanos.Load()/1000, 10) + " us in all. The longest execution was of '" + longest.name +
			"', at most " + strconv.FormatInt(longest.times.percentile(1), 10) + " us. See LATENCY HISTOGRAM and SLOWLOG GET.\n"
	}
	c.Out.Text(text)
}
