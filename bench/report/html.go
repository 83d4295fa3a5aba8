package report

import (
	_ "embed"
	"html/template"
	"io"
	"strings"
)

//go:embed page.html.tmpl
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// page is what the template shows.
type page struct {
	Report   *Report
	Settings string
	Host     string
	Started  string
	Servers  []pageServer
	Memory   *barChart
	Phases   []pagePhase
	Table    string
}

type pageServer struct {
	Label string
	Server
}

type pagePhase struct {
	Workload   string
	Throughput *barChart
	CPU        *barChart
	Latency    *curveChart
}

// HTML writes the report as one page that needs nothing beside itself.
func (r *Report) HTML(w io.Writer) error {
	p := page{Report: r, Settings: r.Settings.line(), Host: r.Host.line(), Started: r.Started.Format("2006-01-02 15:04 MST")}
	var memory []bar
	for i, server := range r.Servers {
		p.Servers = append(p.Servers, pageServer{r.label(i), server})
		if m := server.Memory; m != nil {
			memory = append(memory, bar{Label: r.label(i), Spread: Spread{Median: m.PerPost()}})
		}
	}
	p.Memory = newBarChart(memory, Significant)
	for _, phase := range r.Phases {
		shown := pagePhase{Workload: phase.Workload}
		var throughput, cpu []bar
		var curves []curve
		for i, result := range phase.Results {
			throughput = append(throughput, bar{Label: r.label(i), Spread: result.Over(Slice.Throughput)})
			cpu = append(cpu, bar{Label: r.label(i), Spread: result.Over(Slice.ServerCPU)})
			curves = append(curves, curve{Label: r.label(i), Points: result.Latency.Curve})
		}
		shown.Throughput = newBarChart(throughput, Rate)
		shown.CPU = newBarChart(cpu, Significant)
		shown.Latency = newCurveChart(curves)
		p.Phases = append(p.Phases, shown)
	}
	var table strings.Builder
	if err := r.Table(&table); err != nil {
		return err
	}
	p.Table = table.String()
	return pageTemplate.Execute(w, p)
}
