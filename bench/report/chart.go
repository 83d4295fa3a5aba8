package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// The charts compute where things are drawn, in SVG units; the template draws them. They are 480 units wide, so that on
// a narrow window, where they shrink to 330 pixels, their text of 13 units still has 9 pixels.

// barChart is a bar a server, all on one scale from zero, each with its number above it. One server has none: there is
// nothing to compare.
//
//	+---------------------------------------+
//	| A 1,234,567                           |
//	| ################|-|###                |    |-|: from the lowest slice to the highest
//	| B 654,321                             |
//	| ########|--|#                         |
//	| |         |         |         |       |
//	| 0      500,000  1,000,000             |
//	+---------------------------------------+
type barChart struct {
	Width, Height int
	Base          float64 // where bars end downwards and ticks begin
	About         string  // the drawing in words, for readers who cannot see it
	Bars          []bar
	Ticks         []tick
}

type bar struct {
	Label  string // also the class that colours it, unless Class is
	Class  string
	Spread Spread
	Text   string
	About  string // shown when it is pointed at

	Y, X, Length float64
	Low, High    float64 // x of the whisker's ends; the same where there is none
}

const (
	chartWidth = 480
	barX       = 8   // where bars begin
	barEnd     = 450 // where the longest may end; half of the last tick's text is right of it
	barStep    = 46
	barTicks   = 5 // at most
)

// newBarChart returns the chart of bars, nil where there is nothing to compare.
func newBarChart(about string, bars []bar, format func(float64) string) *barChart {
	if len(bars) < 2 {
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
	c := &barChart{Width: chartWidth, Base: float64(barStep * len(bars)), Height: barStep*len(bars) + 24, About: about}
	for i, b := range bars {
		b.Text = format(b.Spread.Median)
		b.X, b.Y = barX, float64(i*barStep)+4
		b.Length = round(x(b.Spread.Median) - barX)
		b.Low, b.High = x(b.Spread.Low), x(b.Spread.High)
		b.About = fmt.Sprintf("%s: %s", b.Label, b.Text)
		if b.Low != b.High {
			b.About += fmt.Sprintf(", slices from %s to %s", format(b.Spread.Low), format(b.Spread.High))
		}
		c.About += "; " + b.About
		c.Bars = append(c.Bars, b)
	}
	for _, v := range steps(longest) {
		c.Ticks = append(c.Ticks, tick{At: x(v), Value: v, Text: short(v)})
	}
	return c
}

// ticksIn writes the numbers at the ticks in the unit, where they are times or sizes.
func (c *barChart) ticksIn(unit string) {
	for i := range c.Ticks {
		if v := c.Ticks[i].Value; v > 0 && slices.Contains([]string{"ns", "us", "ms", "s", "bytes"}, unit) {
			c.Ticks[i].Text = inUnit(v, unit)
		}
	}
}

// steps returns round values from 0 up to longest, barTicks at most.
func steps(longest float64) []float64 {
	if longest <= 0 {
		return []float64{0}
	}
	step := math.Pow(10, math.Floor(math.Log10(longest))) // longest is 1 to 10 of these
	for _, part := range []float64{0.5, 1, 2, 5} {
		if longest/(step*part) < barTicks {
			step *= part
			break
		}
	}
	var all []float64
	for i := 0.0; i*step <= longest; i++ {
		all = append(all, i*step)
	}
	return all
}

// short formats the number at a tick: 0, 0.2, 50, 500 k, 2 M.
func short(v float64) string {
	for _, unit := range []struct {
		factor float64
		name   string
	}{{1e9, " G"}, {1e6, " M"}, {1e3, " k"}} {
		if v >= unit.factor {
			return fmt.Sprintf("%.4g%s", v/unit.factor, unit.name)
		}
	}
	return fmt.Sprintf("%.4g", v)
}

// curveChart is the latency at each percentile. Both axes are logarithmic: time upwards, and to the right the part of
// the operations that took longer, a tenth with each step. A curve ends with its slowest operation, marked by a dot:
// further right there is nothing to know.
type curveChart struct {
	Width, Height          int
	Left, Right, Top, Base float64
	About                  string
	Curves                 []curve
	XTicks, YTicks         []tick
}

type curve struct {
	Label    string // also the class that colours it
	Count    int64  // operations
	Max      int64  // the slowest, ns
	Points   []Point
	Path     string
	EndX     float64
	EndY     float64
	EndAbout string
}

type tick struct {
	At     float64
	Value  float64
	Text   string
	Anchor string // of the text, where it is not the middle
}

const (
	curveHeight                            = 280
	curveLeft, curveRight                  = 58, 456
	curveTop, curveBase                    = 12, 236
	fewestDecades, mostDecades             = 2, 5 // to 99 %, to 99.999 %
	lowestLatencyShown, highestLatencyShow = float64(time.Microsecond), float64(time.Minute)
)

// newCurveChart returns the chart of curves, nil where none has points.
func newCurveChart(about string, curves []curve) *curveChart {
	low, high, most := math.Inf(1), 0.0, int64(0)
	for _, c := range curves {
		most = max(most, c.Count)
		high = max(high, float64(c.Max))
		for _, p := range c.Points {
			low, high = min(low, float64(p.Nanos)), max(high, float64(p.Nanos))
		}
	}
	if high == 0 {
		return nil
	}
	// Whole powers of ten, at least one apart.
	from := math.Floor(math.Log10(max(low, lowestLatencyShown)))
	to := max(math.Ceil(math.Log10(min(high, highestLatencyShow))), from+1)
	decades := min(max(math.Ceil(math.Log10(float64(max(most, 1)))), fewestDecades), mostDecades)
	x := func(percentile float64) float64 {
		decade := min(-math.Log10(max(1-percentile/100, 1e-12)), decades)
		return round(curveLeft + decade/decades*(curveRight-curveLeft))
	}
	y := func(nanos float64) float64 {
		part := (math.Log10(max(nanos, 1)) - from) / (to - from)
		return round(curveBase - min(max(part, 0), 1)*(curveBase-curveTop))
	}
	chart := &curveChart{Width: chartWidth, Height: curveHeight, Left: curveLeft, Right: curveRight, Top: curveTop, Base: curveBase, About: about}
	for _, c := range curves {
		if len(c.Points) == 0 {
			continue
		}
		last := 100 * (1 - 1/float64(max(c.Count, 1))) // the slowest operation's
		var path strings.Builder
		for _, p := range c.Points {
			if p.Percentile >= last && path.Len() > 0 {
				break
			}
			command := "L"
			if path.Len() == 0 {
				command = "M"
			}
			fmt.Fprintf(&path, "%s%g %g", command, x(p.Percentile), y(float64(p.Nanos)))
		}
		c.EndX, c.EndY = x(last), y(float64(c.Max))
		if decade := -math.Log10(1 - last/100); decade <= decades {
			fmt.Fprintf(&path, "L%g %g", c.EndX, c.EndY) // else the dot stands above the end of the curve
		}
		c.Path = path.String()
		c.EndAbout = fmt.Sprintf("%s: the slowest of %s took %s", c.Label, Int(c.Count), Duration(time.Duration(c.Max)))
		chart.About += "; " + c.EndAbout
		chart.Curves = append(chart.Curves, c)
	}
	for i, percentile := range []float64{0, 50, 90, 99, 99.9, 99.99, 99.999} {
		if float64(i-1) > decades {
			break
		}
		chart.XTicks = append(chart.XTicks, tick{At: x(percentile), Text: fmt.Sprintf("%g", percentile)})
	}
	for power := from; power <= to; power++ {
		chart.YTicks = append(chart.YTicks, tick{At: y(math.Pow(10, power)), Text: powerText(power)})
	}
	return chart
}

// powerText names a power of ten of nanoseconds: 10 us, 1 ms, 100 s.
func powerText(power float64) string {
	units := []string{"ns", "us", "ms", "s"}
	unit := int(min(max(power, 0), 9)) / 3
	return fmt.Sprintf("%g %s", math.Pow(10, power-float64(3*unit)), units[unit])
}

// round keeps a tenth of a unit, so that the page is small and the same on every machine.
func round(x float64) float64 { return math.Round(x*10) / 10 }
