package report

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// timeChart is latency over time, of one server: p99 and the slowest of each tenth of a second, and behind them when
// something else happened. Time upwards is logarithmic, and the same for all servers of one page's part.
//
//	100 ms +--------------------------------------+
//	       |      ######        ######            |    ######: it happened
//	  1 ms |      ##/\##        ##_/##  the slowest
//	       |~~~~~~######~~~~~~~~######~~~~ p99    |
//	  0 s  +------------ 5 s -------------- 10 s -+
type timeChart struct {
	Width, Height          int
	Left, Right, Top, Base float64
	About                  string
	Name                   string
	Class                  string // that colours it
	Marks                  []timeMark
	P99, Max               string // paths
	XTicks, YTicks         []tick
}

type timeMark struct {
	X, Length float64
	Label     string // of the first of its kind
	About     string
}

const (
	timeWidth, timeHeight = 1080, 190
	timeLeft, timeRight   = 64, 1072
	timeTop, timeBase     = 20, 164
	shortestMark          = 1.5 // units: a mark that took less is still to be seen
)

// latencyAxis is a logarithmic axis of whole powers of ten.
type latencyAxis struct{ from, to float64 }

// newLatencyAxis returns the axis that has room for all results.
func newLatencyAxis(results []Beside) latencyAxis {
	low, high := math.Inf(1), 0.0
	for _, r := range results {
		for _, i := range r.Timeline {
			if i.Ops > 0 {
				low, high = min(low, float64(i.P99)), max(high, float64(i.Max))
			}
		}
	}
	if high == 0 {
		return latencyAxis{3, 6}
	}
	from := math.Floor(math.Log10(max(low, lowestLatencyShown)))
	return latencyAxis{from, max(math.Ceil(math.Log10(min(max(high, 1), highestLatencyShow))), from+1)}
}

// newTimeChart returns the chart of a result, nil where there is none.
func newTimeChart(name, class string, r Beside, axis latencyAxis, seconds float64) *timeChart {
	if len(r.Timeline) == 0 || seconds <= 0 {
		return nil
	}
	x := func(at float64) float64 { return round(timeLeft + min(max(at/seconds, 0), 1)*(timeRight-timeLeft)) }
	y := func(nanos int64) float64 {
		part := (math.Log10(max(float64(nanos), 1)) - axis.from) / (axis.to - axis.from)
		return round(timeBase - min(max(part, 0), 1)*(timeBase-timeTop))
	}
	c := &timeChart{Width: timeWidth, Height: timeHeight, Left: timeLeft, Right: timeRight, Top: timeTop, Base: timeBase, Name: name, Class: class}
	var p99, highest strings.Builder
	worst, pen := Instant{}, "M"
	for _, i := range r.Timeline {
		if i.Ops == 0 {
			pen = "M"
			continue
		}
		at := x(i.At + InstantLength.Seconds()/2)
		// A line that begins has a point there: a line of one point is a dot.
		fmt.Fprintf(&p99, "%s%g %g", pen, at, y(i.P99))
		fmt.Fprintf(&highest, "%s%g %g", pen, at, y(i.Max))
		if pen == "M" {
			p99.WriteString("h0")
			highest.WriteString("h0")
		}
		if i.Max > worst.Max {
			worst = i
		}
		pen = "L"
	}
	c.P99, c.Max = p99.String(), highest.String()
	labelled := map[string]bool{}
	for _, m := range r.Marks {
		mark := timeMark{X: x(m.From), About: fmt.Sprintf("%s: %s, from %.2f s", m.What, Duration(time.Duration((m.To-m.From)*1e9)), m.From)}
		mark.Length = round(max(x(m.To)-mark.X, shortestMark))
		if !labelled[m.What] {
			mark.Label, labelled[m.What] = m.What, true
		}
		c.Marks = append(c.Marks, mark)
	}
	c.About = fmt.Sprintf("%s: p99 and the slowest operation of each %s over %.0f seconds; the slowest of all took %s, at %.1f s", name,
		InstantLength, seconds, Duration(time.Duration(worst.Max)), worst.At)
	for power := axis.from; power <= axis.to; power++ {
		c.YTicks = append(c.YTicks, tick{At: y(int64(math.Pow(10, power))), Text: powerText(power)})
	}
	for _, at := range steps(seconds) {
		c.XTicks = append(c.XTicks, tick{At: x(at), Text: fmt.Sprintf("%g s", at)})
	}
	return c
}
