package command

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/stats"
)

// executed counts the executions of a command, in a part for each loop: parts of one on cache lines that all loops write
// would cost each of them 30 ns. A part is made when its loop first executes the command.
type executed [lanes]atomic.Pointer[part]

// lanes is how many parts there are at most: where there are more loops, some share one.
const lanes = 64

// inUse is how many of the first lanes have parts in this process: few loops run, and the sums of all commands are taken each second.
var inUse atomic.Int32

// part holds the counts of one loop, in whole cache lines.
type part struct {
	calls, nanos atomic.Int64
	times        [stats.Buckets]atomic.Int64
	_            [64 - 8*(stats.Buckets+2)%64]byte
}

// of returns the part of a lane.
func (e *executed) of(lane int) *part {
	place := &e[lane%lanes]
	p := place.Load()
	if p == nil {
		for most := inUse.Load(); most <= int32(lane%lanes) && !inUse.CompareAndSwap(most, int32(lane%lanes)+1); most = inUse.Load() {
		}
		place.CompareAndSwap(nil, new(part))
		p = place.Load()
	}
	return p
}

// each calls f for all parts.
func (e *executed) each(f func(p *part)) {
	for i := range inUse.Load() {
		if p := e[i].Load(); p != nil {
			f(p)
		}
	}
}

// Account counts n executions that took some time together. lane is front.Session.Lane.
func (cmd *Row[C]) Account(lane int, n int64, took time.Duration) {
	p := cmd.executed.of(lane)
	p.calls.Add(n)
	p.nanos.Add(int64(took))
	if n > 1 {
		took /= time.Duration(n)
	}
	p.times[stats.BucketOf(took)].Add(n)
}

// Calls is how many executions were counted.
func (cmd *Row[C]) Calls() (sum int64) {
	cmd.executed.each(func(p *part) { sum += p.calls.Load() })
	return sum
}

// Nanos is how many nanoseconds they took together.
func (cmd *Row[C]) Nanos() (sum int64) {
	cmd.executed.each(func(p *part) { sum += p.nanos.Load() })
	return sum
}

// Times are they by their time, read one after the other.
func (cmd *Row[C]) Times() *stats.Histogram {
	var h stats.Histogram
	cmd.executed.each(func(p *part) {
		for i := range p.times {
			h[i] += p.times[i].Load()
		}
	})
	return &h
}

// ResetStats is CONFIG RESETSTAT for one command.
func (cmd *Row[C]) ResetStats() {
	cmd.Rejected.Store(0)
	cmd.Failed.Store(0)
	cmd.executed.each(func(p *part) {
		p.calls.Store(0)
		p.nanos.Store(0)
		for i := range p.times {
			p.times[i].Store(0)
		}
	})
}

// ReplyHistogram answers LATENCY HISTOGRAM [command ...]. Names that are unknown, or not called yet, are left out.
func (t *Table[C]) ReplyHistogram(out *resp.Replies, args [][]byte) {
	var called []*Row[C]
	add := func(cmd *Row[C]) {
		if cmd.Calls() > 0 {
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
		out.Int(cmd.Calls())
		out.BulkString("histogram_usec")
		counts := cmd.Times().ByPower()
		kinds := 0
		for _, n := range counts {
			if n > 0 {
				kinds++
			}
		}
		out.Map(kinds)
		sum := int64(0) // the counts are cumulative
		for i, n := range counts {
			if n > 0 {
				sum += int64(n)
				out.Int(stats.PowerBound(i))
				out.Int(sum)
			}
		}
	}
}

// ReplyDoctor names the command with the largest share of time, and the one with the longest executions.
func (t *Table[C]) ReplyDoctor(out *resp.Replies, _ [][]byte) {
	var most, longest *Row[C]
	t.Each(func(cmd *Row[C]) {
		if cmd.Calls() == 0 {
			return
		}
		if most == nil || cmd.Nanos() > most.Nanos() {
			most = cmd
		}
		if longest == nil || cmd.Times().Percentile(1) > longest.Times().Percentile(1) {
			longest = cmd
		}
	})
	text := "No command has been executed yet.\n"
	if most != nil {
		text = "Most time went to '" + most.Name + "': " + strconv.FormatInt(most.Calls(), 10) + " calls, " +
			strconv.FormatInt(most.Nanos()/1000, 10) + " us in all. The longest execution was of '" + longest.Name +
			"', at most " + strconv.FormatInt(longest.Times().Percentile(1).Microseconds(), 10) + " us. See LATENCY HISTOGRAM and SLOWLOG GET.\n"
	}
	out.Text(text)
}
