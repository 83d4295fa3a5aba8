package report

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestMarkdown writes two depths and a run at half load beside one server, and a run beside another.
func TestMarkdown(t *testing.T) {
	deep := example(2)
	deep.Settings.Depth = 64
	deep.Phases = deep.Phases[:1]
	deep.Phases[0].Results[0].Slices[2].User = 2 // an outlier, to be marked
	half := example(1)
	half.Settings.RatePart, half.Settings.Depth = 0.5, 1
	half.Servers[0].Memory = nil
	for i := range half.Phases {
		half.Phases[i].Rate = 250_000 / float64(i+1)
	}
	other := example(1)
	other.Servers[1] = Server{Addr: "127.0.0.1:1", Kind: "redis-hash", Version: "valkey 8.1.4"}
	var out bytes.Buffer
	if err := Markdown(&out, []*Report{deep, example(1), half, other}); err != nil {
		t.Fatal(err)
	}
	golden(t, "tables.md", out.Bytes())
	if n := strings.Count(out.String(), "(!)"); n < 2 {
		t.Errorf("%d marks, want the outliers and the line that explains them:\n%s", n, out.String())
	}

	out.Reset()
	alone := example(1)
	alone.Servers = alone.Servers[:1]
	for i := range alone.Phases {
		alone.Phases[i].Results = alone.Phases[i].Results[:1]
	}
	if err := Markdown(&out, []*Report{alone}); err != nil || strings.Contains(out.String(), " / ") {
		t.Errorf("of one server: %v\n%s", err, out.String())
	}
	// Answers that are errors, or say that there is no such post, cost less than true ones.
	out.Reset()
	failed := example(1)
	refused := &failed.Phases[0].Results[1]
	refused.Refused = refused.Ops()
	failed.Phases[1].Results[0].Posts, failed.Phases[1].Results[0].Absent = 1000, 11
	if err := Markdown(&out, []*Report{failed}); err != nil || strings.Count(out.String(), "not comparable: ") != 2 ||
		!strings.Contains(out.String(), "refused "+Int(refused.Refused)+" operations |") || !strings.Contains(out.String(), "did not have 11 of 1,000 posts |") {
		t.Errorf("of servers that failed: %v\n%s", err, out.String())
	}
	out.Reset()
	if err := Markdown(&out, nil); err != nil || out.Len() != 0 {
		t.Errorf("of nothing: %v\n%s", err, out.String())
	}
}

func TestIdleTable(t *testing.T) {
	idle := &Idle{Version: IdleVersion, Host: Host{System: "linux/amd64", CPUs: 2}, Connections: 10_000, Servers: []IdleServer{
		{Version: "counterd 1.0", Before: 10 << 20, Open: 75 << 20, Closed: 70 << 20, Seconds: 2, Busy: 0.004},
		{Version: "redis 7.0.15", Before: 8 << 20, Open: 138 << 20, Closed: 40 << 20, Seconds: 1, Busy: 0.02},
	}}
	var out bytes.Buffer
	if err := idle.Table(&out); err != nil {
		t.Fatal(err)
	}
	golden(t, "idle.txt", out.Bytes())
}

// TestBarChart checks that bars, whiskers and ticks lie within the drawing, at round values.
func TestBarChart(t *testing.T) {
	for longest, want := range map[float64]string{0: "0", 937_000: "0 200 k 400 k 600 k 800 k", 1: "0 0.5 1", 9.71: "0 2 4 6 8", 0.0123: "0 0.005 0.01",
		49: "0 10 20 30 40", 3e9: "0 1 G 2 G 3 G"} {
		chart := newBarChart("x", []bar{{Label: "A", Spread: Spread{longest, longest / 2, longest}}, {Label: "B"}}, Significant)
		var ticks []string
		for _, tick := range chart.Ticks {
			ticks = append(ticks, tick.Text)
			if tick.At < barX || tick.At > barEnd {
				t.Errorf("%g: a tick at %g, want %d..%d", longest, tick.At, barX, barEnd)
			}
		}
		if got := strings.Join(ticks, " "); got != want || len(ticks) > barTicks {
			t.Errorf("%g: ticks %q, want %q", longest, got, want)
		}
		if b := chart.Bars[0]; b.X+b.Length > barEnd || b.High > barEnd || b.Low > b.High {
			t.Errorf("%g: %+v", longest, b)
		}
	}
}

// TestCurveChart checks that a curve ends with its slowest operation: 100 operations do not show a 99.9th percentile.
func TestCurveChart(t *testing.T) {
	var points []Point
	for i, percentile := range Percentiles {
		points = append(points, Point{percentile, int64(time.Microsecond) << i})
	}
	of := func(count int64) *curveChart {
		return newCurveChart("x", []curve{{Label: "A", Count: count, Max: points[len(points)-1].Nanos, Points: points}, {Label: "B"}})
	}
	few, many := of(100), of(10_000_000)
	if last := few.XTicks[len(few.XTicks)-1]; last.Text != "99" || last.At != curveRight {
		t.Errorf("100 operations: the last tick is %+v, want 99 at %d", last, curveRight)
	}
	if last := many.XTicks[len(many.XTicks)-1]; last.Text != "99.999" || last.At != curveRight {
		t.Errorf("10 M operations: the last tick is %+v, want 99.999 at %d", last, curveRight)
	}
	// 0, 10, 25, 50, 75, 90, 95 and the slowest; all but the highest, whose place is beyond the right end.
	for _, c := range []struct {
		chart *curveChart
		lines int
	}{{few, 7}, {many, len(Percentiles) - 2}} {
		if len(c.chart.Curves) != 1 {
			t.Fatalf("%d curves, want one: the other has no points", len(c.chart.Curves))
		}
		if got := strings.Count(c.chart.Curves[0].Path, "L"); got != c.lines || c.chart.Curves[0].EndX != curveRight {
			t.Errorf("%d lines that end at %g, want %d at %d: %s", got, c.chart.Curves[0].EndX, c.lines, curveRight, c.chart.Curves[0].Path)
		}
	}
	for power, want := range map[float64]string{0: "1 ns", 3: "1 us", 5: "100 us", 6: "1 ms", 9: "1 s", 11: "100 s"} {
		if got := powerText(power); got != want {
			t.Errorf("10^%g ns: %q, want %q", power, got, want)
		}
	}
}
