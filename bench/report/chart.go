package report

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// The charts compute where things are drawn, in SVG units; the template draws them.

// barChart is a bar a server, all on one scale from zero.
//
//	+---------------------------------------+
//	| A ################|-|###   1,234,567  |    |-|: from the lowest slice to the highest
//	| B ########|--|#        654,321        |
//	+---------------------------------------+
type barChart struct {
	Width, Height int
	Bars          []bar
}

type bar struct {
	Label  string // also the class that colours it
	Spread Spread
	Text   string

	Y, X, Length float64
	Low, High    float64 // x of the whisker's ends; the same where there is none
	TextX        float64
}

const (
	barWidth  = 420 // of the chart
	barX      = 24  // where bars begin
	barEnd    = 320 // where the longest may end
	barHeight = 20
	barStep   = 28
)

// newBarChart returns the chart of bars, nil where there are none.
func newBarChart(bars []bar, format func(float64) string) *barChart {
	if len(bars) == 0 {
		return nil
	}
	longest := 0.0
	for _, b := range bars {
		longest = max(longest, b.Spread.Median, b.Spread.High)
	}
	x := func(v float64) float64 {
		if longest <= 0 {
			return barX
		}
		return round(barX + max(v, 0)/longest*(barEnd-barX))
	}
	c := &barChart{Width: barWidth, Height: barStep * len(bars)}
	for i, b := range bars {
		b.Text = format(b.Spread.Median)
		b.X, b.Y = barX, float64(i*barStep)+4
		b.Length = round(x(b.Spread.Median) - barX)
		b.Low, b.High = x(b.Spread.Low), x(b.Spread.High)
		b.TextX = max(barX+b.Length, b.High) + 6
		c.Bars = append(c.Bars, b)
	}
	return c
}

// curveChart is the latency at each percentile. Both axes are logarithmic: time upwards, and to the right the part of the
// operations that took longer, a tenth with each step.
type curveChart struct {
	Width, Height          int
	Left, Right, Top, Base float64
	Curves                 []curve
	XTicks, YTicks         []tick
}

type curve struct {
	Label  string // also the class that colours it
	Points []Point
	Path   string
}

type tick struct {
	At   float64
	Text string
}

const (
	curveWidth, curveHeight            = 640, 260
	curveLeft, curveRight              = 64, 624
	curveTop, curveBase                = 12, 226
	curveDecades                       = 5 // to 99.999 %
	lowestLatency, highestLatencyShown = float64(time.Microsecond), float64(time.Minute)
)

// newCurveChart returns the chart of curves, nil where none has points.
func newCurveChart(curves []curve) *curveChart {
	low, high := math.Inf(1), 0.0
	for _, c := range curves {
		for _, p := range c.Points {
			low, high = min(low, float64(p.Nanos)), max(high, float64(p.Nanos))
		}
	}
	if high == 0 {
		return nil
	}
	// Whole powers of ten, at least one apart.
	from := math.Floor(math.Log10(max(low, lowestLatency)))
	to := max(math.Ceil(math.Log10(min(high, highestLatencyShown))), from+1)
	x := func(percentile float64) float64 {
		decade := -math.Log10(max(1-percentile/100, math.Pow(10, -curveDecades)))
		return round(curveLeft + decade/curveDecades*(curveRight-curveLeft))
	}
	y := func(nanos float64) float64 {
		part := (math.Log10(max(nanos, 1)) - from) / (to - from)
		return round(curveBase - min(max(part, 0), 1)*(curveBase-curveTop))
	}
	chart := &curveChart{Width: curveWidth, Height: curveHeight, Left: curveLeft, Right: curveRight, Top: curveTop, Base: curveBase}
	for _, c := range curves {
		var path strings.Builder
		for i, p := range c.Points {
			command := "L"
			if i == 0 {
				command = "M"
			}
			fmt.Fprintf(&path, "%s%g %g", command, x(p.Percentile), y(float64(p.Nanos)))
		}
		c.Path = path.String()
		chart.Curves = append(chart.Curves, c)
	}
	for _, percentile := range []float64{0, 90, 99, 99.9, 99.99, 99.999} {
		chart.XTicks = append(chart.XTicks, tick{x(percentile), fmt.Sprintf("%g %%", percentile)})
	}
	for power := from; power <= to; power++ {
		nanos := math.Pow(10, power)
		chart.YTicks = append(chart.YTicks, tick{y(nanos), Duration(time.Duration(nanos))})
	}
	return chart
}

// round keeps a tenth of a unit, so that the page is small and the same on every machine.
func round(x float64) float64 { return math.Round(x*10) / 10 }
