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
	figures := &grid{names: 2}
	figures.add("workload", "", "ops/s", "±", "CPU us/op", "±", "mean", "p50", "p99", "p99.9", "max")
	for _, phase := range r.Phases {
		for i, result := range phase.Results {
			name := ""
			if i == 0 {
				name = phase.Workload
			}
			r.row(figures, name, i, result)
		}
		phase.ratios(figures)
	}
	figures.write(out) // to memory: it cannot fail
	r.memoryTable(out)
	r.notes(out)
	_, err := io.WriteString(w, out.String())
	return err
}

// label names a server in a table: A and B.
func (r *Report) label(i int) string { return string(rune('A' + i)) }

func (r *Report) row(figures *grid, name string, i int, result Result) {
	throughput, cpu, latency := result.Over(Slice.Throughput), result.Over(Slice.ServerCPU), result.Latency
	figures.add(name, r.label(i), Rate(throughput.Median), percent(throughput, result), Significant(cpu.Median), percent(cpu, result),
		Duration(time.Duration(latency.Mean)), Duration(latency.At(50)), Duration(latency.At(99)), Duration(latency.At(99.9)),
		Duration(time.Duration(latency.Max)))
}

// ratios adds the line below a pair of servers.
func (p Phase) ratios(figures *grid) {
	throughput, cpu := p.Ratio(Slice.Throughput), p.Ratio(Slice.ServerCPU)
	if throughput.Median == 0 {
		return
	}
	figures.add("", "A/B", Significant(throughput.Median)+" x", percent(throughput, p.Results[0]),
		Significant(cpu.Median)+" x", percent(cpu, p.Results[0]))
}

// percent formats how far the slices of a result lie apart.
func percent(s Spread, r Result) string {
	if len(r.Slices) < 2 {
		return ""
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
			fmt.Fprint(w, "; the server held data before: start it anew for a true figure")
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

// notes writes what a reader must know beside the figures.
func (r *Report) notes(w io.Writer) {
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
	for _, phase := range r.Phases {
		for i, result := range phase.Results {
			if result.Refused > 0 {
				fmt.Fprintf(w, "\n%s %s: %s operations refused; %s\n", phase.Workload, r.label(i), Int(result.Refused), result.Refusal)
			}
			if result.Absent > 0 {
				fmt.Fprintf(w, "\n%s %s: %s of %s posts read were not there\n", phase.Workload, r.label(i), Int(result.Absent), Int(result.Posts))
			}
			if asked := r.Settings.Rate; asked > 0 && phase.Workload != "load" {
				if got := result.Over(Slice.Throughput).Median; got < 0.98*asked {
					fmt.Fprintf(w, "\n%s %s: %s operations/s were asked for, %s came about: latencies show a queue that grows\n",
						phase.Workload, r.label(i), Rate(asked), Rate(got))
				}
			}
		}
	}
}

func (s Settings) line() string {
	parts := []string{
		fmt.Sprintf("%s posts of %d counters (seed %d)", Int(s.Posts), s.Columns, s.Seed),
		fmt.Sprintf("%s clients, %d deep, %s", Int(s.Clients), s.Depth, s.Mode),
		fmt.Sprintf("pages of %d", s.Page),
		fmt.Sprintf("%s in %d slices after %s", s.Duration, s.Slices, s.Warmup),
	}
	if s.Rate > 0 {
		parts[1] = fmt.Sprintf("%s clients, at most %d deep, %s operations/s", Int(s.Clients), s.Depth, Rate(s.Rate))
	}
	if s.Uniform {
		parts = append(parts, "posts chosen uniformly")
	}
	return strings.Join(parts, "; ")
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
