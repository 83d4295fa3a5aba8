package main

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/counterd/counterd/bench/report"
	"github.com/counterd/counterd/cmd/internal/cli"
)

// progress shows how far work of a known size is: a bar on a terminal, a plain line every few seconds elsewhere,
// nothing when it is off. Its zero value is off. Add may be called from several goroutines.
type progress struct {
	bar   *progressbar.ProgressBar
	lines *progressLines
}

// lineEvery is how often a plain line is written.
const lineEvery = 2 * time.Second

// newProgress starts to show work of total steps, called unit ("rows").
func newProgress(w io.Writer, on bool, what, unit string, total int) progress {
	if !on {
		return progress{}
	}
	if terminal, ok := cli.Terminal(w); ok {
		return progress{bar: progressbar.NewOptions(total,
			progressbar.OptionSetWriter(terminal),
			progressbar.OptionSetDescription(what),
			progressbar.OptionSetItsString(unit),
			progressbar.OptionShowCount(),
			progressbar.OptionShowIts(),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionSetWidth(30),
			progressbar.OptionClearOnFinish(),
		)}
	}
	lines := &progressLines{w: w, unit: unit, total: total, start: time.Now()}
	lines.setWhat(what)
	lines.next.Store(int64(lineEvery))
	return progress{lines: lines}
}

// add notes n more steps.
func (p progress) add(n int) {
	if p.bar != nil {
		p.bar.Add(n)
	}
	if p.lines != nil {
		p.lines.add(n)
	}
}

// describe describes the present step.
func (p progress) describe(what string) {
	if p.bar != nil {
		p.bar.Describe(what)
	}
	if p.lines != nil {
		p.lines.setWhat(what)
	}
}

// note says how far the step under way is.
func (p progress) note(what string) {
	if p.bar != nil {
		p.bar.Describe(what)
	}
	if p.lines != nil {
		p.lines.note(what)
	}
}

// finish removes the bar.
func (p progress) finish() {
	if p.bar != nil {
		p.bar.Finish()
		p.bar.Clear()
	}
}

type progressLines struct {
	w     io.Writer
	unit  string
	total int
	what  atomic.Pointer[string]
	start time.Time
	done  atomic.Int64
	next  atomic.Int64 // time of the next line, since start
}

func (p *progressLines) setWhat(what string) { p.what.Store(&what) }

// due tells whether it is time for a line, and takes it.
func (p *progressLines) due(elapsed time.Duration) bool {
	next := p.next.Load()
	return int64(elapsed) >= next && p.next.CompareAndSwap(next, int64(elapsed+lineEvery))
}

func (p *progressLines) note(what string) {
	if p.due(time.Since(p.start)) {
		fmt.Fprintf(p.w, "%s: %s\n", *p.what.Load(), what)
	}
}

func (p *progressLines) add(n int) {
	done := p.done.Add(int64(n))
	elapsed := time.Since(p.start)
	if !p.due(elapsed) {
		return
	}
	fmt.Fprintf(p.w, "%s: %s of %s %s (%d %%), %s a second\n", *p.what.Load(), report.Int(done), report.Int(p.total), p.unit,
		done*100/int64(max(p.total, 1)), report.Rate(float64(done)/elapsed.Seconds()))
}
