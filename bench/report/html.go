package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
)

//go:embed page.html.tmpl
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// page is the data of the template.
type page struct {
	Title    string
	Settings string
	Host     string
	Started  string
	Pair     bool
	Slices   int
	Wide     float64
	AnyWide  bool
	Servers  []pageServer
	Sizing   *sizing
	Summary  []pageRow
	Memory   *barChart // bytes a post
	Resident *barChart // of the whole process, at the end of the last workload
	Last     string    // that workload
	Phases   []pagePhase
	Notes    []string
	Least    string // posts to load for a number of memory that holds for more
	Table    string
}

type pageServer struct {
	Label, Name string
	Server
	Verdict  string // of the check of all counters
	Wrong    bool
	PerPost  string
	Loaded   string // how many posts that is from
	Resident string // of the whole process, at the end of the last workload
	Hundred  string // the memory of a hundred million posts; empty where too few were loaded to tell
}

// pageRow is a line of the summary: a server in a workload, or the ratio of two.
type pageRow struct {
	Workload                            string // in the first line of its workload
	Rows                                int    // lines of it
	Label                               string
	Ratio                               bool
	Throughput, CPU, Capacity, Busy     pageNumber
	Median, NinetyNine, NinetyNinePoint pageNumber
}

// pageNumber is a number with its spread.
type pageNumber struct {
	Text, Spread string
	Wide         bool
}

type pagePhase struct {
	Workload   string
	Summary    string // a description of the workload
	Throughput *barChart
	CPU        *barChart
	Latency    *curveChart
	Numbers    []namedNumber // of one server, in place of bars
}

// namedNumber is a number that stands alone.
type namedNumber struct {
	Name string
	pageNumber
}

// HTML writes the report as one page that needs nothing beside itself.
func (r *Report) HTML(w io.Writer) error {
	p := page{Title: r.pair(), Settings: r.Settings.line(), Host: r.Host.line(), Started: r.Started.Format("2006-01-02 15:04 MST"),
		Pair: len(r.Servers) == 2, Slices: r.Settings.Slices, Wide: WideSpread, AnyWide: r.wide()}
	var memory []bar
	for i, server := range r.Servers {
		p.Servers = append(p.Servers, r.pageServer(i))
		if m := server.Memory; m != nil {
			memory = append(memory, bar{Label: r.label(i), Spread: Spread{Median: m.PerPost()}})
		}
	}
	p.Memory = newBarChart("resident bytes a post", memory, Significant)
	for _, phase := range r.Phases {
		p.Summary = append(p.Summary, r.pageRows(phase)...)
		p.Phases = append(p.Phases, r.pagePhase(phase))
	}
	if n := len(r.Phases); n > 0 {
		var resident []bar
		for i, result := range r.Phases[n-1].Results {
			p.Servers[i].Resident = Bytes(float64(result.RSS))
		}
		for i, result := range r.Phases[n-1].Results {
			resident = append(resident, bar{Label: r.label(i), Spread: Spread{Median: float64(result.RSS) / (1 << 20)}})
		}
		p.Last, p.Resident = r.Phases[n-1].Workload, newBarChart("resident MiB of the whole server", resident, Significant)
	}
	var text strings.Builder
	if err := r.Table(&text); err != nil {
		return err
	}
	p.Table, p.Notes, p.Sizing, p.Least = text.String(), r.troubles(), r.newSizing(), Int(leastSized)
	return pageTemplate.Execute(w, p)
}

func (r *Report) pageServer(i int) pageServer {
	server := r.Servers[i]
	s := pageServer{Label: r.label(i), Name: server.name(), Server: server}
	if v := server.Verified; v != nil {
		s.Verdict = fmt.Sprintf("all %s counters checked, all as sent", Int(v.Counters))
		if s.Wrong = v.Wrong > 0; s.Wrong {
			s.Verdict = fmt.Sprintf("%s of %s counters differ from what was sent", Int(v.Wrong), Int(v.Counters))
		}
	}
	if m := server.Memory; m != nil && m.Bytes > 0 {
		s.PerPost, s.Loaded = Significant(m.PerPost()), Int(m.Posts)
		if m.Posts >= leastSized && !m.Flushed {
			s.Hundred = Bytes(m.PerPost() * 100e6)
		}
	}
	return s
}

// pageRows returns the lines of a workload in the summary.
func (r *Report) pageRows(phase Phase) []pageRow {
	var rows []pageRow
	for i, result := range phase.Results {
		number := func(of func(Slice) float64, format func(float64) string) pageNumber {
			s := result.Over(of)
			return pageNumber{format(s.Median), percent(s, result), s.Wide() && len(result.Slices) > 1}
		}
		percentile := func(p SlicePercentile) pageNumber {
			s := result.Over(p.Of)
			return pageNumber{Duration(result.Latency.At(p.Percentile)), percent(s, result), s.Wide() && len(result.Slices) > 1}
		}
		row := pageRow{Label: r.label(i), Throughput: number(Slice.Throughput, Rate), CPU: number(Slice.ServerCPU, Significant),
			Median: percentile(SlicePercentiles[0]), NinetyNine: percentile(SlicePercentiles[1]), NinetyNinePoint: percentile(SlicePercentiles[2])}
		// At a given rate a server wakes for every few operations: its processor time then does not show its
		// capacity.
		if cpu := result.Over(Slice.ServerCPU).Median; cpu > 0 && phase.Rate == 0 {
			row.Capacity.Text = Rate(1e6 / cpu)
		}
		row.Busy.Text = fmt.Sprintf("%.2f / %.2f", result.Over(Slice.ServerBusy).Median, result.Over(Slice.ClientBusy).Median)
		rows = append(rows, row)
	}
	if len(phase.Results) == 2 {
		ratio := func(of func(Slice) float64) pageNumber {
			s := phase.Ratio(of)
			if s.Median == 0 {
				return pageNumber{}
			}
			return pageNumber{Significant(s.Median) + " x", percent(s, phase.Results[0]), s.Wide()}
		}
		rows = append(rows, pageRow{Label: "A/B", Ratio: true, Throughput: ratio(Slice.Throughput), CPU: ratio(Slice.ServerCPU),
			Median: ratio(SlicePercentiles[0].Of), NinetyNine: ratio(SlicePercentiles[1].Of), NinetyNinePoint: ratio(SlicePercentiles[2].Of)})
	}
	if len(rows) > 0 {
		rows[0].Workload, rows[0].Rows = phase.Workload, len(rows)
	}
	return rows
}

func (r *Report) pagePhase(phase Phase) pagePhase {
	shown := pagePhase{Workload: phase.Workload}
	if phase.Rate > 0 {
		shown.Summary = fmt.Sprintf("%s operations per second were asked for, started on time whatever the server did.", Rate(phase.Rate))
	}
	var throughput, cpu []bar
	var curves []curve
	for i, result := range phase.Results {
		throughput = append(throughput, bar{Label: r.label(i), Spread: result.Over(Slice.Throughput)})
		cpu = append(cpu, bar{Label: r.label(i), Spread: result.Over(Slice.ServerCPU)})
		curves = append(curves, curve{Label: r.label(i), Count: result.Latency.Count, Max: result.Latency.Max, Points: result.Latency.Curve})
	}
	shown.Throughput = newBarChart(phase.Workload+": operations per second", throughput, Rate)
	shown.CPU = newBarChart(phase.Workload+": server's processor time for an operation in microseconds", cpu, Significant)
	if len(phase.Results) == 1 {
		row := r.pageRows(phase)[0]
		shown.Numbers = []namedNumber{{"operations per second", row.Throughput}, {"us of server CPU an operation", row.CPU}}
	}
	shown.Latency = newCurveChart(phase.Workload+": latency by percentile", curves)
	return shown
}
