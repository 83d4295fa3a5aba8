package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/counterd/counterd/cmd/counterctl/internal/mapping"
	"github.com/counterd/counterd/cmd/counterctl/internal/transfer"
	"github.com/counterd/counterd/cmd/internal/cli"
)

// report prints what an import came to.
func (i *importing) report(out output, from *origin, r *transfer.Result) {
	how := ""
	if r.Resumed {
		how = ", earlier runs included"
	}
	fmt.Fprintf(out.Stdout, "%s into %s: %s %s read, %s values written in %s%s: %s values a second\n", r.Source, i.to, commas(r.Keys), from.unit, commas(r.Values()),
		r.Elapsed.Round(100*time.Millisecond), how, commas(uint64(float64(r.Values())/max(r.Elapsed.Seconds(), 1e-3))))
	printSums(out.Stdout, r.Columns, r.Sums)
	printSkipped(out.Stdout, &r.Skipped)
	if r.Refused > 0 {
		fmt.Fprintf(out.Stdout, "refused: %s additions, as the sum is more than the column holds\n", commas(r.Refused))
	}
	if r.Verified.By != "" {
		fmt.Fprintln(out.Stdout, r.Verified)
	}
}

// printSums prints a line for each column.
func printSums(w io.Writer, columns []string, sums []transfer.Sum) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "column\tvalues\tnot 0\tsum\t")
	for n, name := range columns {
		fmt.Fprintf(t, "%s\t%s\t%s\t%v\t\n", name, commas(sums[n].Values), commas(sums[n].NonZero), sums[n].Total())
	}
	t.Flush()
}

// printSkipped prints what did not map, with examples.
func printSkipped(w io.Writer, t *mapping.Tally) {
	for _, s := range t.List() {
		fmt.Fprintf(w, "skipped: %s: %s\n", commas(s.Count), s.Reason)
		for _, e := range s.Examples {
			fmt.Fprintf(w, "    %s\n", e)
		}
	}
}

// commas writes a number with commas.
func commas(n uint64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// dryExamples is how many examples of mapped keys are shown.
const dryExamples = 10

// dryRun reads, and shows what would be written.
func (i *importing) dryRun(ctx context.Context, out output, from *origin, show *importProgress) error {
	src, err := from.open(ctx)
	if err != nil {
		return err
	}
	defer src.Close()
	state := struct {
		keys    uint64
		sums    []transfer.Sum
		skipped mapping.Tally
		largest []int64
	}{sums: make([]transfer.Sum, len(from.columns)), largest: make([]int64, len(from.columns))}
	var examples, columns []string
	for _, c := range from.columns {
		columns = append(columns, c.Name())
	}
	limit := i.limit
	if limit == 0 {
		limit = math.MaxUint64
	}
	for state.keys < limit {
		c := &transfer.Chunk{Explain: dryExamples - len(examples)}
		if i.limit > 0 {
			c.Most = limit - state.keys
		}
		err := src.Next(ctx, c)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		state.keys += c.Keys
		state.skipped.Merge(&c.Skipped)
		examples = append(examples, c.Examples...)
		for _, item := range c.Items {
			state.sums[item.Column].Add(uint64(item.Value))
			state.largest[item.Column] = max(state.largest[item.Column], item.Value)
		}
		show.show("reading", state.keys, src.Total(), 0)
		if err != nil {
			break
		}
	}
	show.finish()
	all := ""
	if state.keys >= limit {
		all = fmt.Sprintf(", of about %s", commas(src.Total()))
	}
	fmt.Fprintf(out.Stdout, "%s into %s, dry run: %s %s read%s; nothing was written\n", src.Name(), i.to, commas(state.keys), from.unit, all)
	for _, e := range examples {
		fmt.Fprintf(out.Stdout, "    %s\n", e)
	}
	printSums(out.Stdout, columns, state.sums)
	for n, c := range from.columns {
		if limit := c.Counter.Columns[c.Index].Limit(); state.largest[n] > int64(limit/2) {
			fmt.Fprintf(out.Stdout, "note: the largest value for %s is %d, and the column holds %d at most\n", c.Name(), state.largest[n], limit)
		}
	}
	printSkipped(out.Stdout, &state.skipped)
	if lost(&state.skipped) > 0 {
		return errReported
	}
	return nil
}

// importProgress shows how far an import is: a bar on a terminal, a line now and then elsewhere. Source and target may
// write notes at once.
type importProgress struct {
	mu    sync.Mutex
	w     io.Writer
	tty   io.Writer // the terminal that w is, or nil
	unit  string
	bar   *progressbar.ProgressBar // nil: not a terminal, or nothing is shown yet
	what  string
	start time.Time // of what
	next  time.Time // of a line
}

// importLineEvery is how often a line is written where there is no terminal.
const importLineEvery = 10 * time.Second

func newImportProgress(w io.Writer) *importProgress {
	p := &importProgress{w: w}
	if terminal, ok := cli.Terminal(w); ok {
		p.tty = terminal
	}
	return p
}

// show says how much of how much is done; total 0: nobody knows.
func (p *importProgress) show(what string, done, total, values uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if what != p.what {
		p.clear()
		p.what, p.start, p.next = what, now, now.Add(importLineEvery)
		if p.tty != nil {
			p.bar = progressbar.NewOptions64(-1,
				progressbar.OptionSetWriter(p.tty),
				progressbar.OptionSetDescription(what),
				progressbar.OptionSetItsString(p.unit),
				progressbar.OptionShowCount(),
				progressbar.OptionShowIts(),
				progressbar.OptionThrottle(100*time.Millisecond),
				progressbar.OptionSetWidth(30),
				progressbar.OptionClearOnFinish(),
			)
		}
	}
	switch {
	case p.bar != nil:
		if total > 0 {
			p.bar.ChangeMax64(int64(max(total, done)))
		}
		_ = p.bar.Set64(int64(done)) // a bar that cannot be drawn must not end the work
	case now.After(p.next):
		p.next = now.Add(importLineEvery)
		of, wrote := "", ""
		if total > 0 {
			of = fmt.Sprintf(" of about %s", commas(total))
		}
		if values > 0 {
			wrote = fmt.Sprintf(", %s values", commas(values))
		}
		fmt.Fprintf(p.w, "%s: %s%s %s%s\n", what, commas(done), of, p.unit, wrote)
	}
}

// note writes a line.
func (p *importProgress) note(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	fmt.Fprintf(p.w, "note: %s\n", strings.TrimSpace(text))
}

// finish removes the bar.
func (p *importProgress) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

func (p *importProgress) clear() {
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
	p.what = ""
}
