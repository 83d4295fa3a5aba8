package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Markdown writes the figures of several runs as tables for a README: for each pair of servers the processor time of an
// operation, a column a depth, then the latencies of the runs with a rate, then memory. Runs of the same pair share
// their tables; of two runs at one depth the later one counts.
func Markdown(w io.Writer, reports []*Report) error {
	out := &strings.Builder{}
	var pairs []string
	byPair := map[string][]*Report{}
	for _, r := range reports {
		pair := r.pair()
		if byPair[pair] == nil {
			pairs = append(pairs, pair)
		}
		byPair[pair] = append(byPair[pair], r)
	}
	wide := false
	for i, pair := range pairs {
		if i > 0 {
			out.WriteByte('\n')
		}
		all := byPair[pair]
		first := all[0]
		fmt.Fprintf(out, "**%s.** %s posts of %d counters, %s clients, %s.\n", pair, first.Settings.posts(), first.Settings.Columns,
			Int(first.Settings.Clients), first.Host.line())
		wide = cpuTable(out, all) || wide
		wide = latencyTable(out, all) || wide
		markdownMemory(out, all)
	}
	if wide {
		fmt.Fprintf(out, "\n(!) slices lie over %d %% from their median: to be measured again.\n", WideSpread)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// pair names the servers of a report.
func (r *Report) pair() string {
	var names []string
	for _, server := range r.Servers {
		names = append(names, server.name())
	}
	return strings.Join(names, " beside ")
}

// name is the server's version, with its data model where that does not follow from it.
func (s Server) name() string {
	if s.Kind == "" || strings.HasPrefix(s.Version, s.Kind) {
		return s.Version
	}
	return fmt.Sprintf("%s (%s)", s.Version, s.Kind)
}

// cell is one cell of a Markdown table: what a workload showed.
type cell struct{ workload, column, text string }

// markdownTable writes cells as a table, workloads downwards, columns in the order in which they came. The later one of
// two cells for one place counts.
func markdownTable(out *strings.Builder, head string, cells []cell) {
	if len(cells) == 0 {
		return
	}
	var rows, columns []string
	text := map[[2]string]string{}
	for _, c := range cells {
		if !slices.Contains(rows, c.workload) {
			rows = append(rows, c.workload)
		}
		if !slices.Contains(columns, c.column) {
			columns = append(columns, c.column)
		}
		text[[2]string{c.workload, c.column}] = c.text
	}
	fmt.Fprintf(out, "\n| %s | %s |\n|---%s|\n", head, strings.Join(columns, " | "), strings.Repeat("|---", len(columns)))
	for _, row := range rows {
		fmt.Fprintf(out, "| %s |", row)
		for _, column := range columns {
			fmt.Fprintf(out, " %s |", text[[2]string{row, column}])
		}
		out.WriteByte('\n')
	}
}

// cpuTable writes the processor time of the runs without a rate, and tells whether a figure was marked.
func cpuTable(out *strings.Builder, reports []*Report) (wide bool) {
	var cells []cell
	for _, r := range reports {
		for _, phase := range r.Phases {
			if phase.Rate > 0 || len(phase.Results) == 0 {
				continue
			}
			var each []string
			shown := phase.Results[0].Over(Slice.ServerCPU)
			for _, result := range phase.Results {
				each = append(each, Significant(result.Over(Slice.ServerCPU).Median))
			}
			text := each[0] + " us"
			if len(each) == 2 {
				shown = phase.Ratio(Slice.ServerCPU)
				text = fmt.Sprintf("**%s**", Significant(shown.Median))
			}
			text += markdownSpread(shown, phase.Results[0])
			if len(each) == 2 {
				text += " (" + strings.Join(each, " / ") + " us)"
			}
			wide = wide || shown.Wide()
			cells = append(cells, cell{phase.Workload, fmt.Sprintf("%d deep", r.Settings.Depth), text})
		}
	}
	markdownTable(out, "server CPU an operation"+ofSides(reports[0]), cells)
	return wide
}

// latencyTable writes the latencies of the runs with a rate, and tells whether a figure was marked.
func latencyTable(out *strings.Builder, reports []*Report) (wide bool) {
	var cells []cell
	for _, r := range reports {
		for _, phase := range r.Phases {
			if phase.Rate == 0 {
				continue
			}
			cells = append(cells, cell{phase.Workload, "operations/s", Rate(phase.Rate)})
			for _, p := range SlicePercentiles {
				var each []string
				for _, result := range phase.Results {
					spread := result.Over(p.Of)
					wide = wide || spread.Wide()
					each = append(each, Duration(result.Latency.At(p.Percentile))+markdownSpread(spread, result))
				}
				cells = append(cells, cell{phase.Workload, p.Name, strings.Join(each, " / ")})
			}
		}
	}
	head := "latency at a given rate"
	if part := reports[len(reports)-1].Settings.RatePart; part > 0 {
		head = fmt.Sprintf("latency at %.3g %% of the most that %s answers", part*100, reports[0].Servers[len(reports[0].Servers)-1].name())
	}
	markdownTable(out, head+ofSides(reports[0]), cells)
	return wide
}

// ofSides says which of two figures is whose.
func ofSides(r *Report) string {
	if len(r.Servers) != 2 {
		return ""
	}
	return fmt.Sprintf(", %s / %s", r.Servers[0].program(), r.Servers[1].program())
}

// program is the first word of the version.
func (s Server) program() string {
	program, _, _ := strings.Cut(s.Version, " ")
	return program
}

func markdownSpread(s Spread, r Result) string {
	if len(r.Slices) < 2 || s == (Spread{}) {
		return ""
	}
	text := fmt.Sprintf(" ±%.0f %%", s.Percent())
	if s.Wide() {
		text += " (!)"
	}
	return text
}

// markdownMemory writes the bytes a post of the last run that measured them.
func markdownMemory(out *strings.Builder, reports []*Report) {
	for _, r := range slices.Backward(reports) {
		if len(r.Servers) == 0 || r.Servers[0].Memory == nil {
			continue
		}
		out.WriteString("\n| memory | bytes a post | posts | resident growth |\n|---|---|---|---|\n")
		for _, server := range r.Servers {
			if m := server.Memory; m != nil {
				fmt.Fprintf(out, "| %s | %s | %s | %s |\n", server.name(), Significant(m.PerPost()), Int(m.Posts), Bytes(float64(m.Bytes)))
			}
		}
		return
	}
}
