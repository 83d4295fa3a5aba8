package main

import (
	"fmt"
	"io"
	"net"
	"time"

	"github.com/counterd/counterd/bench"
	"github.com/counterd/counterd/bench/report"
)

// demoResult is the results that the demo shows.
type demoResult struct {
	name     string
	plan     *loadPlan
	load     bench.LoadResult
	counterd memory
	redis    memory
	pages    pageStats
	top      []topPost
}

func (r demoResult) print(w io.Writer, addr string, stay bool) {
	posts := float64(r.plan.rows)
	columns := r.plan.schema.Columns
	fmt.Fprintf(w, "\n%s %s, %d counters each\n\n", report.Int(r.plan.rows), r.name, len(columns))

	perPost := func(name string, m memory) {
		fmt.Fprintf(w, "  %-13s %7s bytes a post  %9s   %s\n", name, report.Significant(float64(m.bytes)/posts), report.Bytes(float64(m.bytes)), m.basis)
	}
	perPost("counterd", r.counterd)
	fmt.Fprintf(w, "  %-13s %s\n", "", "in a store this small, most is the process itself and the block that new posts enter;")
	fmt.Fprintf(w, "  %-13s %s\n", "", "100 million posts take 5.5 bytes each, everything included")
	perPost("plain Redis", r.redis)
	if r.counterd.bytes > 0 {
		fmt.Fprintf(w, "  %-13s %7s times\n", "less by", report.Significant(float64(r.redis.bytes)/float64(r.counterd.bytes)))
	}

	seconds := r.pages.elapsed.Seconds()
	quantile := func(q float64) string { return report.Duration(time.Duration(r.pages.latency.ValueAtQuantile(q))) }
	fmt.Fprintf(w, "\n  loaded        %s posts/s, over one connection\n", report.Rate(r.load.PerSecond()))
	fmt.Fprintf(w, "  pages read    %s pages/s of %d-%d posts = %s posts/s; %d connections, a page at a time each\n",
		report.Rate(float64(r.pages.pages)/seconds), smallPage, largePage, report.Rate(float64(r.pages.posts)/seconds), demoReaders)
	fmt.Fprintf(w, "  page latency  p50 %s, p99 %s; meanwhile %s increments\n", quantile(50), quantile(99), report.Int(r.pages.increments))

	fmt.Fprintf(w, "\n  top posts     %12s", "id")
	for _, col := range columns {
		fmt.Fprintf(w, " %10s", col.Name)
	}
	fmt.Fprintln(w)
	for i, post := range r.top {
		fmt.Fprintf(w, "  %13d %12d", i+1, post.mid)
		for _, v := range post.counters {
			fmt.Fprintf(w, " %10s", report.Int(v))
		}
		fmt.Fprintln(w)
	}
	r.printCommands(w, addr, stay)
}

// printCommands prints lines to type.
func (r demoResult) printCommands(w io.Writer, addr string, stay bool) {
	if !stay { // the server has ended: its port is closed
		fmt.Fprint(w, "\nThe demo's server has ended. With --stay it goes on, and the demo prints commands to try.\n")
		return
	}
	_, port, _ := net.SplitHostPort(addr)
	fmt.Fprint(w, "\nTry it:\n")
	if len(r.top) == 0 {
		return
	}
	mid, schema := r.top[0].mid, r.plan.schema
	key := fmt.Sprintf("%d.%s", mid, schema.Columns[0].Suffix)
	fmt.Fprintf(w, "  redis-cli -p %s INCR %s\n", port, key)
	fmt.Fprintf(w, "  redis-cli -p %s HGETALL %s:%d\n", port, schema.Counter, mid)
	fmt.Fprintf(w, "  redis-cli -p %s COUNTER.MGET %s", port, schema.Counter)
	for _, post := range r.top[:min(3, len(r.top))] {
		fmt.Fprintf(w, " %d", post.mid)
	}
	fmt.Fprintln(w)
}
