package report

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// ErrNothingInCommon says that two reports have no workload in common.
var ErrNothingInCommon = errors.New("the two reports have no workload in common")

// Compare writes what changed from one report to another: each workload that both have, for each of the servers that
// both have, by its place. A change is marked as one when the slices of the two do not overlap at all.
func Compare(w io.Writer, before, after *Report) error {
	out := &strings.Builder{}
	for i := range min(len(before.Servers), len(after.Servers)) {
		b, a := before.Servers[i], after.Servers[i]
		fmt.Fprintf(out, "%s  before: %s as %s; after: %s as %s\n", before.label(i), b.Version, b.Kind, a.Version, a.Kind)
	}
	for _, difference := range before.Settings.differences(after.Settings) {
		fmt.Fprintf(out, "NOTE the settings differ: %s\n", difference)
	}
	out.WriteByte('\n')
	changes := &grid{names: 3}
	changes.add("workload", "", "", "before", "after", "ratio", "")
	found := false
	for _, old := range before.Phases {
		for _, now := range after.Phases {
			if old.Workload != now.Workload {
				continue
			}
			found = true
			for i := range min(len(old.Results), len(now.Results)) {
				compareResults(changes, old.Workload, before.label(i), old.Results[i], now.Results[i])
			}
		}
	}
	if !found {
		return ErrNothingInCommon
	}
	for i := range min(len(before.Servers), len(after.Servers)) {
		if b, a := before.Servers[i].Memory, after.Servers[i].Memory; b != nil && a != nil {
			changes.add("load", before.label(i), "bytes a post", Significant(b.PerPost()), Significant(a.PerPost()),
				ratio(a.PerPost(), b.PerPost()))
		}
	}
	changes.write(out) // to memory: it cannot fail
	_, err := io.WriteString(w, out.String())
	return err
}

func compareResults(changes *grid, workload, label string, old, now Result) {
	spread := func(name string, of func(Slice) float64, format func(float64) string) {
		b, a := old.Over(of), now.Over(of)
		mark := "~" // within the noise
		if a.High < b.Low || a.Low > b.High {
			mark = ""
		}
		changes.add(workload, label, name, format(b.Median), format(a.Median), ratio(a.Median, b.Median), mark)
		workload, label = "", ""
	}
	spread("ops/s", Slice.Throughput, Rate)
	spread("CPU us/op", Slice.ServerCPU, Significant)
	for _, percentile := range []float64{50, 99, 99.9} {
		b, a := old.Latency.At(percentile), now.Latency.At(percentile)
		changes.add("", "", fmt.Sprintf("p%g", percentile), Duration(b), Duration(a), ratio(float64(a), float64(b)))
	}
}

func ratio(a, b float64) string {
	if b == 0 {
		return ""
	}
	return Significant(a/b) + " x"
}

// differences names the settings that make two runs hard to compare.
func (s Settings) differences(o Settings) []string {
	var all []string
	differ := func(name string, a, b any) {
		if a != b {
			all = append(all, fmt.Sprintf("%s %v, %v", name, a, b))
		}
	}
	differ("posts", s.Posts, o.Posts)
	differ("posts of the second server", s.VsPosts, o.VsPosts)
	differ("columns", s.Columns, o.Columns)
	differ("page", s.Page, o.Page)
	differ("uniform", s.Uniform, o.Uniform)
	differ("clients", s.Clients, o.Clients)
	differ("depth", s.Depth, o.Depth)
	differ("mode", s.Mode, o.Mode)
	differ("rate", s.Rate, o.Rate)
	differ("part of the most answered", s.RatePart, o.RatePart)
	differ("threads", s.Threads, o.Threads)
	differ("slice", (s.Duration / time.Duration(max(s.Slices, 1))).String(), (o.Duration / time.Duration(max(o.Slices, 1))).String())
	differ("servers' processors", s.PinServer, o.PinServer)
	differ("generator's processors", s.PinClient, o.PinClient)
	return all
}
