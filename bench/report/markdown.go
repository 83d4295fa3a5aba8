package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Markdown writes the results of several runs as tables for a README: for each pair of servers the processor time of an
// operation, a column a depth, then the latencies of the runs with a rate, then memory. Runs of the same pair share
// their tables; of two runs at one depth the later one counts.
func Markdown(w io.Writer, reports []*Report) error {
	out := &strings.Builder{}
	wide := false
	for i, g := range byPair(reports) {
		if i > 0 {
			out.WriteByte('\n')
		}
		fmt.Fprintf(out, "**%s.** %s\n", g.pair, g.about())
		for _, t := range []cellsOf{g.cpuCells(), g.latencyCells()} {
			markdownTable(out, t.head, t.cells)
			wide = wide || t.wide
		}
		wide = markdownWhiles(out, g.reports) || wide
		markdownMemory(out, g.reports)
	}
	if wide {
		fmt.Fprintf(out, "\n(!) slices lie over %d %% from their median: to be measured again.\n", WideSpread)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// pairReports are the reports of one pair of servers.
type pairReports struct {
	pair    string
	reports []*Report
}

// byPair sorts reports by their servers, in the order in which these came.
func byPair(reports []*Report) []*pairReports {
	var all []*pairReports
	for _, r := range reports {
		pair := r.pair()
		i := slices.IndexFunc(all, func(g *pairReports) bool { return g.pair == pair })
		if i < 0 {
			i = len(all)
			all = append(all, &pairReports{pair: pair})
		}
		all[i].reports = append(all[i].reports, r)
	}
	return all
}

// about says what was measured, and where.
func (g *pairReports) about() string {
	first := g.reports[0]
	return fmt.Sprintf("%s posts of %d counters, %s clients, %s.", first.Settings.posts(), first.Settings.Columns, Int(first.Settings.Clients),
		first.Host.line())
}

// pair names the servers of a report.
func (r *Report) pair() string {
	var names []string
	for i, server := range r.Servers {
		name := server.name()
		if r.Settings.VsPosts > 0 {
			name += fmt.Sprintf(", %s posts", Int([]int{r.Settings.Posts, r.Settings.VsPosts}[i]))
		}
		names = append(names, name)
	}
	return strings.Join(names, " beside ")
}

// name is the server's version, with its data model where that does not follow from it.
func (s Server) name() string {
	name := s.Version
	if s.Kind != "" && !strings.HasPrefix(s.Version, s.Kind) {
		name = fmt.Sprintf("%s (%s)", s.Version, s.Kind)
	}
	if s.Label != "" {
		name += ", " + s.Label
	}
	return name
}

// cell is one cell of a Markdown table: a result of a workload.
type cell struct{ workload, column, text string }

// cellTable is cells in their places.
type cellTable struct {
	Head          string
	Columns, Rows []string
	Text          [][]string // by row and column
}

// newCellTable puts cells in their places, workloads downwards, columns in the order in which they came. The later one
// of two cells for one place counts.
func newCellTable(head string, cells []cell) cellTable {
	t := cellTable{Head: head}
	text := map[[2]string]string{}
	for _, c := range cells {
		t.Rows, t.Columns = appendNew(t.Rows, c.workload), appendNew(t.Columns, c.column)
		text[[2]string{c.workload, c.column}] = c.text
	}
	for _, row := range t.Rows {
		var line []string
		for _, column := range t.Columns {
			line = append(line, text[[2]string{row, column}])
		}
		t.Text = append(t.Text, line)
	}
	return t
}

// markdownTable writes cells as a table.
func markdownTable(out *strings.Builder, head string, cells []cell) {
	if len(cells) == 0 {
		return
	}
	t := newCellTable(head, cells)
	fmt.Fprintf(out, "\n| %s | %s |\n|---%s|\n", head, strings.Join(t.Columns, " | "), strings.Repeat("|---", len(t.Columns)))
	for i, row := range t.Rows {
		fmt.Fprintf(out, "| %s | %s |\n", row, strings.Join(t.Text[i], " | "))
	}
}

// cellsOf are the cells of a table, and whether a number in it is marked.
type cellsOf struct {
	head  string
	cells []cell
	wide  bool
}

// cpuCells are the processor time of the runs without a rate.
func (g *pairReports) cpuCells() (t cellsOf) {
	t.head = "server CPU an operation" + ofSides(g.reports[0])
	for _, r := range g.reports {
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
			if failed := r.failed(phase); failed != "" {
				text, shown = failed, Spread{}
			}
			t.wide = t.wide || shown.Wide()
			t.cells = append(t.cells, cell{phase.Workload, fmt.Sprintf("%d deep", r.Settings.Depth), text})
		}
	}
	return t
}

// latencyCells are the latencies of the runs with a rate.
func (g *pairReports) latencyCells() (t cellsOf) {
	reports := g.reports
	t.head = "latency at a given rate"
	if part := reports[len(reports)-1].Settings.RatePart; part > 0 {
		t.head = fmt.Sprintf("latency at %.3g %% of the most that %s answers", part*100, reports[0].Servers[len(reports[0].Servers)-1].name())
	}
	t.head += ofSides(reports[0])
	for _, r := range reports {
		for _, phase := range r.Phases {
			if phase.Rate == 0 {
				continue
			}
			t.cells = append(t.cells, cell{phase.Workload, "operations/s", Rate(phase.Rate)})
			failed := r.failed(phase)
			for _, p := range SlicePercentiles {
				var each []string
				for _, result := range phase.Results {
					spread := result.Over(p.Of)
					t.wide = t.wide || failed == "" && spread.Wide()
					each = append(each, Duration(result.Latency.At(p.Percentile))+markdownSpread(spread, result))
				}
				text := strings.Join(each, " / ")
				if failed != "" {
					text = failed
				}
				t.cells = append(t.cells, cell{phase.Workload, p.Name, text})
			}
		}
	}
	return t
}

// failed says why the numbers of a phase do not compare servers: a server refused over 1 % of the operations, or did not have over 1 %
// of the posts. Such answers cost less than true ones.
func (r *Report) failed(p Phase) string {
	for i, result := range p.Results {
		if result.Refused*100 > result.Ops() {
			return fmt.Sprintf("not comparable: %s refused %s operations", r.Servers[i].name(), Int(result.Refused))
		}
		if result.Absent*100 > result.Posts {
			return fmt.Sprintf("not comparable: %s did not have %s of %s posts", r.Servers[i].name(), Int(result.Absent), Int(result.Posts))
		}
	}
	return ""
}

// ofSides says which of two numbers is whose.
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

// markdownWhiles writes the latencies with and without each activity, and tells whether a number was marked.
func markdownWhiles(out *strings.Builder, reports []*Report) (wide bool) {
	for _, t := range (&Collected{Reports: reports}).together() {
		fmt.Fprintf(out, "\n| %s | p50 | p99 | p99.9 | p99.99 | max | resident | took |\n|---|---|---|---|---|---|---|---|\n", t.title())
		for _, b := range t.results {
			if b.None != "" {
				fmt.Fprintf(out, "| %s | %s | | | | | | |\n", b.name, b.None)
				continue
			}
			fmt.Fprintf(out, "| %s |", b.name)
			for _, p := range WhilePercentiles {
				ratio := b.ratio(p.At)
				fmt.Fprintf(out, " %s / %s", Duration(b.Quiet.At(p.At)), Duration(b.Busy.At(p.At)))
				if ratio.Text != "" {
					fmt.Fprintf(out, " (**%s**", strings.ReplaceAll(ratio.Text, " x", "x"))
					if ratio.Spread != "" {
						fmt.Fprintf(out, " ±%s", ratio.Spread)
					}
					if ratio.Wide {
						out.WriteString(" !")
						wide = true
					}
					out.WriteString(")")
				}
				out.WriteString(" |")
			}
			fmt.Fprintf(out, " %s | %s |\n", b.growth(), b.took())
		}
	}
	return wide
}
