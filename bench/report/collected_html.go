package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

//go:embed collected.html.tmpl
var collectedText string

var collectedTemplate = template.Must(template.New("collected").Parse(collectedText))

// collectedPage is the data of the template.
type collectedPage struct {
	Title  string
	Lines  []string // machine, programs, days
	Goals  []goalLine
	Met    int
	While  *whileOverview
	Whiles []whilePart
	Parts  []measuredPart
	Runs   []runPart
	Wide   bool // a number is marked
	Limit  int
}

type goalLine struct {
	Name, Text, Goal string
	Met              bool
}

// whileOverview is p99.9 and the slowest, without and with, of each server beside all that was made to happen.
type whileOverview struct {
	Names []programName
	Rows  []overviewRow
}

type overviewRow struct {
	About string
	Cells []overviewCell
}

type overviewCell struct{ Quiet, Busy, Ratio, Max, Class, None string }

type programName struct{ Name, Class string }

type whilePart struct {
	Title, Summary string
	Charts         []*timeChart
	Rows           []whileRow
}

type whileRow struct {
	Name, Class string
	None        string
	Cells       []whileCell
	Growth      string
	Took        string
}

// whileCell is a percentile: without, with, and the ratio.
type whileCell struct {
	Name, Quiet, Busy string
	Ratio             pageNumber
}

type measuredPart struct {
	Title  string
	Of     []programName
	Rows   []measuredRow
	Charts []namedChart
	Notes  []string
	Goals  bool
}

type measuredRow struct {
	Name, Goal string
	Cells      []pageNumber
	Missed     bool
	Reached    bool
}

type namedChart struct {
	Title string
	Bars  *barChart
}

type runPart struct {
	Title, About string
	Tables       []cellTable
}

// Programs have the same colour on the whole page.
type palette struct{ names []string }

// class returns the class that colours a program, named by its first word.
func (p *palette) class(name string) string {
	program, _, _ := strings.Cut(name, " ")
	if p.names == nil {
		p.names = []string{"counterd", "redis", "valkey"}
	}
	i := slices.Index(p.names, program)
	if i < 0 {
		i = len(p.names)
		p.names = append(p.names, program)
	}
	return fmt.Sprintf("S%d", min(i, 5))
}

// HTML writes all of it as one page that needs nothing beside itself.
func (c *Collected) HTML(w io.Writer) error {
	var colours palette
	p := collectedPage{Title: c.Title, Lines: c.lines(), Limit: WideSpread}
	if p.Title == "" {
		p.Title = "counterd, measured"
	}
	c.whiles(&p, &colours)
	for _, t := range tables(c.Measurements) {
		p.Parts = append(p.Parts, p.measuredPart(t, &colours))
	}
	for _, idle := range c.Idles {
		p.Parts = append(p.Parts, p.measuredPart(idle.table(), &colours))
	}
	p.Runs = c.runs(&p)
	for _, g := range p.Goals {
		p.Met += b2i(g.Met)
	}
	return collectedTemplate.Execute(w, p)
}

// lines says what was measured where.
func (c *Collected) lines() []string {
	var hosts, programs, days []string
	for _, r := range c.Reports {
		hosts, days = appendNew(hosts, r.Host.line()), appendNew(days, r.Started.Format("2006-01-02"))
		for _, s := range r.Servers {
			programs = appendNew(programs, s.Version)
		}
	}
	for _, idle := range c.Idles {
		hosts, days = appendNew(hosts, idle.Host.line()), appendNew(days, idle.Started.Format("2006-01-02"))
	}
	slices.Sort(days)
	var all []string
	for _, part := range [][]string{programs, hosts, days} {
		if len(part) > 0 {
			all = append(all, strings.Join(part, " · "))
		}
	}
	return all
}

// sideNames names the servers of a report, each otherwise than the other.
func (r *Report) sideNames() []string {
	var names []string
	for i, s := range r.Servers {
		name := s.name()
		if s.Kind == "redis-strings" { // as everybody does
			s.Kind = ""
			name = s.name()
		}
		if len(r.Servers) == 2 && r.Servers[0].name() == r.Servers[1].name() {
			switch {
			case r.Settings.VsPosts > 0 && i == 0:
				name += ", " + Int(r.Settings.Posts) + " posts"
			case r.Settings.VsPosts > 0:
				name += ", " + Int(r.Settings.VsPosts) + " posts"
			default:
				name += " (" + r.label(i) + ")"
			}
		}
		names = append(names, name)
	}
	return names
}

// beside is one server's result in a While, with its name.
type beside struct {
	name string
	Beside
}

// together are all results beside one thing, of all reports.
type together struct {
	While
	posts   string
	results []beside
}

// together sorts the results of all reports by the activity measured. A server that several reports have is shown
// with each other one once: its first result counts.
func (c *Collected) together() []*together {
	var all []*together
	for _, r := range c.Reports {
		names := r.sideNames()
		for _, w := range r.Whiles {
			var t *together
			for _, other := range all {
				if other.What == w.What && other.Case == w.Case && other.Workload == w.Workload && other.posts == r.Settings.posts() {
					t = other
				}
			}
			if t == nil {
				t = &together{While: w, posts: r.Settings.posts()}
				all = append(all, t)
			}
			for i, result := range w.Results {
				if !slices.ContainsFunc(t.results, func(b beside) bool { return b.name == names[i] }) {
					t.results = append(t.results, beside{names[i], result})
				}
			}
		}
	}
	return all
}

func (c *Collected) whiles(p *collectedPage, colours *palette) {
	all := c.together()
	if len(all) == 0 {
		return
	}
	p.While = &whileOverview{}
	for _, t := range all {
		for _, b := range t.results {
			name := programName{b.name, colours.class(b.name)}
			if !slices.Contains(p.While.Names, name) {
				p.While.Names = append(p.While.Names, name)
			}
		}
	}
	for _, t := range all {
		row := overviewRow{About: t.title()}
		for _, name := range p.While.Names {
			row.Cells = append(row.Cells, t.overview(name))
		}
		p.While.Rows = append(p.While.Rows, row)
		p.Whiles = append(p.Whiles, p.whilePart(t, colours))
	}
}

// title says what happens, and in which case.
func (w *While) title() string {
	if w.Case == "" {
		return aboutWhile(w.What)
	}
	return aboutWhile(w.What) + ": " + w.Case
}

func (t *together) overview(name programName) overviewCell {
	for _, b := range t.results {
		switch {
		case b.name != name.Name:
		case b.None != "":
			return overviewCell{None: b.None}
		default:
			cell := overviewCell{Class: name.Class, Quiet: Duration(b.Quiet.At(99.9)), Busy: Duration(b.Busy.At(99.9)), Max: Duration(time.Duration(b.Busy.Max))}
			if under := b.Quiet.At(99.9); under > 0 {
				cell.Ratio = Significant(float64(b.Busy.At(99.9))/float64(under)) + " x"
			}
			return cell
		}
	}
	return overviewCell{None: "not measured"}
}

func (p *collectedPage) whilePart(t *together, colours *palette) whilePart {
	part := whilePart{Title: t.title()}
	part.Summary = t.Workload + ", one operation after the other on each connection"
	if t.Rate > 0 {
		part.Summary = fmt.Sprintf("%s at %s operations a second, started on time whatever the server did", t.Workload, Rate(t.Rate))
	}
	part.Summary += "; " + t.posts + " posts."
	seconds := 0.0
	var results []Beside
	for _, b := range t.results {
		results = append(results, b.Beside)
		if n := len(b.Timeline); n > 0 {
			seconds = max(seconds, b.Timeline[n-1].At+InstantLength.Seconds())
		}
	}
	axis := newLatencyAxis(results)
	for _, b := range t.results {
		class := colours.class(b.name)
		if chart := newTimeChart(b.name, class, b.Beside, axis, seconds); chart != nil {
			part.Charts = append(part.Charts, chart)
		}
		row := whileRow{Name: b.name, Class: class, None: b.None}
		if b.None == "" {
			for _, percentile := range WhilePercentiles {
				row.Cells = append(row.Cells, whileCell{Name: percentile.Name, Quiet: Duration(b.Quiet.At(percentile.At)), Busy: Duration(b.Busy.At(percentile.At)),
					Ratio: p.whileRatio(&b.Beside, percentile.At)})
			}
			row.Growth, row.Took = b.growth(), b.took()
		}
		part.Rows = append(part.Rows, row)
	}
	return part
}

// whileRatio is the ratio at a percentile: the median over the windows where there are such, with its spread.
func (p *collectedPage) whileRatio(b *Beside, percentile float64) pageNumber {
	f := b.ratio(percentile)
	p.Wide = p.Wide || f.Wide
	return f
}

// ratio returns how much longer operations took beside it, at a percentile: of all operations, with the spread of the
// windows' ratios.
func (b *Beside) ratio(percentile float64) pageNumber {
	under := b.Quiet.At(percentile)
	if under <= 0 || b.Busy.Count == 0 {
		return pageNumber{}
	}
	f := pageNumber{Text: Significant(float64(b.Busy.At(percentile))/float64(under)) + " x"}
	if s := b.Ratio(windowLatency(percentile)); s.Median > 0 && len(b.Windows) > 2 && percentile < 99.99 {
		f.Spread, f.Wide = fmt.Sprintf("%.0f %%", s.Percent()), s.Wide()
	}
	return f
}

// windowLatency returns what a window has for a percentile, or 0.
func windowLatency(percentile float64) func(Window) int64 {
	switch percentile {
	case 50:
		return func(w Window) int64 { return w.P50 }
	case 99:
		return func(w Window) int64 { return w.P99 }
	case 99.9:
		return func(w Window) int64 { return w.P999 }
	case 100:
		return func(w Window) int64 { return w.Max }
	}
	return func(Window) int64 { return 0 }
}

// growth says how much memory it took: "+66 %, 1.2 GiB".
func (b *Beside) growth() string {
	if b.RSS == 0 {
		return ""
	}
	return fmt.Sprintf("%s, %+.3g %%", Bytes(float64(b.RSS)), b.Growth()*100)
}

// took says how often it happened, and how long that took.
func (b *Beside) took() string {
	if b.Work > 0 {
		return short(math.Round(b.Work)) + " commands/s"
	}
	if len(b.Seconds) == 0 {
		return ""
	}
	text := Duration(time.Duration(SpreadOf(b.Seconds).Median * 1e9))
	if n := len(b.Seconds); n > 1 {
		text += fmt.Sprintf(" (%s times)", Int(n))
	}
	return text
}

func (p *collectedPage) measuredPart(t *table, colours *palette) measuredPart {
	part := measuredPart{Title: t.section, Notes: t.notes}
	for _, of := range t.of {
		part.Of = append(part.Of, programName{of, colours.class(of)})
	}
	bars := map[string][]bar{}
	units := map[string]string{}
	var names []string
	for _, row := range t.rows {
		shown := measuredRow{Name: row.label()}
		for _, of := range t.of {
			f, ok := row.cells[of]
			if !ok {
				shown.Cells = append(shown.Cells, pageNumber{})
				continue
			}
			s := f.Spread()
			number := pageNumber{Text: inUnit(s.Median, f.Unit)}
			if len(f.Values) > 1 {
				number.Spread, number.Wide = fmt.Sprintf("%.0f %%", s.Percent()), s.Wide()
				p.Wide = p.Wide || number.Wide
			}
			shown.Cells = append(shown.Cells, number)
			if units[row.name] == "" {
				names = append(names, row.name)
				units[row.name] = f.Unit + " " // also where there is none
			}
			label := of
			if row.caseOf != "" {
				label = strings.TrimPrefix(of+", "+row.caseOf, ", ")
			}
			bars[row.name] = append(bars[row.name], bar{Label: label, Class: colours.class(of), Spread: s})
		}
		if f, has := row.goal(t.of); has {
			met, _ := f.Met()
			shown.Goal, shown.Missed, shown.Reached, part.Goals = f.goalText(), !met, met, true
			p.Goals = append(p.Goals, goalLine{t.section + ": " + row.label(), inUnit(f.Spread().Median, f.Unit), f.goalText(), met})
		}
		part.Rows = append(part.Rows, shown)
	}
	for _, name := range names {
		unit := strings.TrimSpace(units[name])
		if chart := newBarChart(t.section+": "+name, bars[name], func(v float64) string { return inUnit(v, unit) }); chart != nil {
			chart.ticksIn(unit)
			part.Charts = append(part.Charts, namedChart{name, chart})
		}
	}
	return part
}

// table is the idle connections as measurements.
func (i *Idle) table() *table {
	t := &table{section: "Idle connections"}
	for k, s := range i.Servers {
		t.add(Measurement{Section: t.section, Name: "memory of a connection", Case: Int(i.Connections) + " open", Of: s.Version, Unit: "bytes",
			Values: []float64{i.PerConnection(k)}})
	}
	return t
}

// runs are the workloads of all reports: the tables that Markdown writes.
func (c *Collected) runs(p *collectedPage) []runPart {
	var parts []runPart
	for _, g := range byPair(c.Reports) {
		part := runPart{Title: g.pair, About: g.about()}
		for _, t := range []cellsOf{g.cpuCells(), g.latencyCells()} {
			if len(t.cells) > 0 {
				for i := range t.cells {
					t.cells[i].text = strings.ReplaceAll(t.cells[i].text, "**", "") // of Markdown
				}
				part.Tables = append(part.Tables, newCellTable(t.head, t.cells))
				p.Wide = p.Wide || t.wide
			}
		}
		if len(part.Tables) > 0 {
			parts = append(parts, part)
		}
	}
	return parts
}
