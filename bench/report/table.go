package report

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Table writes the report for a person.
func (r *Report) Table(w io.Writer) error {
	out := &strings.Builder{}
	fmt.Fprintf(out, "%s\n", r.Settings.line())
	fmt.Fprintf(out, "%s\n\n", r.Host.line())
	for i, server := range r.Servers {
		fmt.Fprintf(out, "%s  %s at %s, as %s%s\n", r.label(i), server.Version, server.Addr, server.Kind, server.usageLine())
	}
	out.WriteByte('\n')
	rows := &grid{names: 2}
	rows.add("workload", "", "ops/s", "±", "CPU us/op", "±", "server", "load")
	latencies := &grid{names: 2}
	latencies.add("latency", "", "mean", "p50", "±", "p99", "±", "p99.9", "±", "max")
	for _, phase := range r.Phases {
		name := phase.Workload
		for i, result := range phase.Results {
			r.row(rows, name, i, result)
			r.latencies(latencies, name, i, result)
			name = ""
		}
		phase.ratios(rows)
		phase.latencyRatios(latencies)
	}
	if len(r.Phases) > 0 {
		rows.write(out) // to memory: it cannot fail
		out.WriteByte('\n')
		latencies.write(out)
	}
	r.whileTable(out)
	r.memoryTable(out)
	r.notes(out)
	_, err := io.WriteString(w, out.String())
	return err
}

// label names a server in a table: A and B.
func (r *Report) label(i int) string { return string(rune('A' + i)) }

// row adds the line of a server: its throughput, and how many processors server and generator kept busy.
func (r *Report) row(rows *grid, name string, i int, result Result) {
	throughput, cpu := result.Over(Slice.Throughput), result.Over(Slice.ServerCPU)
	rows.add(name, r.label(i), Rate(throughput.Median), percent(throughput, result), Significant(cpu.Median), percent(cpu, result),
		fmt.Sprintf("%.2f", result.Over(Slice.ServerBusy).Median), fmt.Sprintf("%.2f", result.Over(Slice.ClientBusy).Median))
}

// latencies adds the line of a server. The percentiles are those of all slices together, their spread is that of the
// slices.
func (r *Report) latencies(latencies *grid, name string, i int, result Result) {
	row := []string{name, r.label(i), Duration(time.Duration(result.Latency.Mean))}
	for _, p := range SlicePercentiles {
		row = append(row, Duration(result.Latency.At(p.Percentile)), percent(result.Over(p.Of), result))
	}
	latencies.add(append(row, Duration(time.Duration(result.Latency.Max)))...)
}

// latencyRatios adds the line below a pair of servers.
func (p Phase) latencyRatios(latencies *grid) {
	row := []string{"", "A/B", ""}
	for _, percentile := range SlicePercentiles {
		ratio := p.Ratio(percentile.Of)
		if ratio.Median == 0 {
			return
		}
		row = append(row, Significant(ratio.Median)+" x", percent(ratio, p.Results[0]))
	}
	latencies.add(row...)
}

// ratios adds the line below a pair of servers.
func (p Phase) ratios(rows *grid) {
	throughput, cpu := p.Ratio(Slice.Throughput), p.Ratio(Slice.ServerCPU)
	if throughput.Median == 0 {
		return
	}
	rows.add("", "A/B", Significant(throughput.Median)+" x", percent(throughput, p.Results[0]),
		Significant(cpu.Median)+" x", percent(cpu, p.Results[0]))
}

// whileTable writes the latencies with and without what else was made to happen.
func (r *Report) whileTable(out *strings.Builder) {
	if len(r.Whiles) == 0 {
		return
	}
	g := &grid{names: 3}
	head := []string{"while", "", ""}
	for _, p := range WhilePercentiles {
		head = append(head, p.Name)
	}
	g.add(append(head, "ops", "resident", "took")...)
	for _, w := range r.Whiles {
		name := w.What
		if w.Case != "" {
			name += ": " + w.Case
		}
		name += ", " + w.Workload
		if w.Rate > 0 {
			name += " at " + Rate(w.Rate) + "/s"
		}
		for i, b := range w.Results {
			if b.None != "" {
				g.add(name, r.label(i), b.None)
				name = ""
				continue
			}
			without, with, ratio := []string{name, r.label(i), "without"}, []string{"", "", "with"}, []string{"", "", "ratio"}
			for _, p := range WhilePercentiles {
				f := b.ratio(p.At)
				without, with = append(without, Duration(b.Quiet.At(p.At))), append(with, Duration(b.Busy.At(p.At)))
				ratio = append(ratio, f.Text)
			}
			g.add(append(without, Int(b.Quiet.Count), Bytes(float64(b.RSS)))...)
			g.add(append(with, Int(b.Busy.Count), Bytes(float64(b.PeakRSS)), b.took())...)
			g.add(append(ratio, "", fmt.Sprintf("%+.3g %%", b.Growth()*100))...)
			name = ""
		}
	}
	if len(r.Phases) > 0 {
		out.WriteByte('\n')
	}
	g.write(out)
}

// percent formats how far the slices of a result lie apart, marked where that is far.
func percent(s Spread, r Result) string {
	if len(r.Slices) < 2 || s == (Spread{}) {
		return ""
	}
	if s.Wide() {
		return fmt.Sprintf("! %.0f %%", s.Percent())
	}
	return fmt.Sprintf("%.0f %%", s.Percent())
}

func (r *Report) memoryTable(w io.Writer) {
	var first float64
	for i, server := range r.Servers {
		m := server.Memory
		if m == nil {
			continue
		}
		fmt.Fprintf(w, "\nmemory %s  %s bytes a post, %s for %s posts", r.label(i), Significant(m.PerPost()), Bytes(float64(m.Bytes)), Int(m.Posts))
		if m.Flushed {
			fmt.Fprint(w, "; the server held data before: start it anew for a true value")
		}
		if i == 0 {
			first = m.PerPost()
		} else if first > 0 && m.Bytes > 0 {
			fmt.Fprintf(w, "; A/B %s x", Significant(first/m.PerPost()))
		}
	}
	if r.Servers[0].Memory != nil {
		fmt.Fprintln(w)
	}
}

// notes writes what a reader must know beside the numbers.
func (r *Report) notes(w io.Writer) {
	if r.wide() {
		fmt.Fprintf(w, "\n! slices lie over %d %% from their median: measure again on a quieter machine, or longer\n", WideSpread)
	}
	for i, server := range r.Servers {
		v := server.Verified
		if v == nil {
			continue
		}
		if v.Wrong == 0 {
			fmt.Fprintf(w, "\nverified %s  %s counters of %s posts, all as sent\n", r.label(i), Int(v.Counters), Int(v.Posts))
			continue
		}
		fmt.Fprintf(w, "\nverified %s  %s of %s counters DIFFER from what was sent:\n", r.label(i), Int(v.Wrong), Int(v.Counters))
		for _, example := range v.Examples {
			fmt.Fprintf(w, "  %s\n", example)
		}
	}
	for _, trouble := range r.troubles() {
		fmt.Fprintf(w, "\n%s\n", trouble)
	}
}

// troubles says where a workload did not go as it was asked for.
func (r *Report) troubles() []string {
	var all []string
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	for _, w := range r.Whiles {
		for i, b := range w.Results {
			if b.Refused > 0 {
				add("%s %s: %s operations refused; %s", w.What, r.label(i), Int(b.Refused), b.Refusal)
			}
			if got := b.quietRate(); w.Rate > 0 && b.None == "" && got < 0.98*w.Rate {
				add("%s %s: %s operations/s were asked for, %s came about in quiet windows: latencies show a queue that grows", w.What, r.label(i),
					Rate(w.Rate), Rate(got))
			}
		}
	}
	for _, phase := range r.Phases {
		for i, result := range phase.Results {
			if result.Refused > 0 {
				add("%s %s: %s operations refused; %s", phase.Workload, r.label(i), Int(result.Refused), result.Refusal)
			}
			if result.Absent > 0 {
				add("%s %s: %s of %s posts read were not there", phase.Workload, r.label(i), Int(result.Absent), Int(result.Posts))
			}
			if got := result.Over(Slice.Throughput).Median; got < 0.98*phase.Rate {
				add("%s %s: %s operations/s were asked for, %s came about: latencies show a queue that grows", phase.Workload, r.label(i),
					Rate(phase.Rate), Rate(got))
			}
		}
	}
	return all
}

// wide tells whether any number of the table is marked.
func (r *Report) wide() bool {
	measured := []func(Slice) float64{Slice.Throughput, Slice.ServerCPU}
	for _, p := range SlicePercentiles {
		measured = append(measured, p.Of)
	}
	for _, phase := range r.Phases {
		for _, of := range measured {
			for _, result := range phase.Results {
				if result.Over(of).Wide() {
					return true
				}
			}
			if phase.Ratio(of).Wide() {
				return true
			}
		}
	}
	return false
}

func (s Settings) line() string {
	parts := []string{
		fmt.Sprintf("%s posts of %d counters (seed %d)", s.posts(), s.Columns, s.Seed),
		fmt.Sprintf("%s clients, %d deep, %s", Int(s.Clients), s.Depth, s.Mode),
		fmt.Sprintf("pages of %d", s.Page),
		fmt.Sprintf("%s in %d slices after %s", s.Duration, s.Slices, s.Warmup),
	}
	switch {
	case s.Rate > 0:
		parts[1] = fmt.Sprintf("%s clients, at most %d deep, %s operations/s", Int(s.Clients), s.Depth, Rate(s.Rate))
	case s.RatePart > 0:
		parts[1] = fmt.Sprintf("%s clients, at most %d deep, %.3g %% of the most that the last server answers", Int(s.Clients), s.Depth, s.RatePart*100)
	}
	if s.Uniform {
		parts = append(parts, "posts chosen uniformly")
	}
	return strings.Join(parts, "; ")
}

// posts says how many there are.
func (s Settings) posts() string {
	if s.VsPosts > 0 {
		return fmt.Sprintf("%s (A) and %s (B)", Int(s.Posts), Int(s.VsPosts))
	}
	return Int(s.Posts)
}

func (h Host) line() string {
	line := fmt.Sprintf("%s, %d processors", h.System, h.CPUs)
	if h.Processor != "" {
		line += " (" + h.Processor + ")"
	}
	return line
}

func (s Server) usageLine() string {
	if s.Local {
		return ""
	}
	return " (CPU and memory as its INFO says)"
}
