package main

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/counterd/counterd/internal/atomicfile"
)

// page is the data of both forms of the page.
type page struct {
	Header
	Last      time.Time
	Searched  time.Duration // all rounds added up
	Compiled  row
	Hours     float64 // of virtual time
	Loads     [2]float64
	Rows      []row   // steps that ran
	Totals    []total // of the rounds, by unit
	Unreached []string
	Parts     []string // tests that could not run
	Findings  []Round
}

// row is a step's line.
type row struct {
	Name, What, Unit      string
	Rounds, Failed        int
	Counted               int
	Took                  time.Duration
	FirstSeed, LatestSeed uint64
}

// total sums a unit over all rounds.
type total struct {
	Unit    string
	Counted int
}

func newPage(header Header, all []Step, rounds []Round) page {
	p := page{Header: header, Compiled: row{Unit: "binaries"}}
	rows := make([]row, len(all))
	at := map[string]*row{compiling: &p.Compiled}
	for i, s := range all {
		rows[i] = row{Name: s.Name, What: s.What, Unit: s.Unit}
		at[s.Name] = &rows[i]
	}
	for _, r := range rounds {
		w := at[r.Step]
		if w == nil {
			continue // a step that this version of the command does not know
		}
		if w.Rounds == 0 {
			w.FirstSeed = r.Seed
		}
		w.LatestSeed = r.Seed
		w.Rounds++
		w.Counted += r.Counted
		w.Took += r.Took
		p.Hours += r.Hours
		p.Loads[1] = max(p.Loads[1], r.Load)
		if p.Loads[0] == 0 || r.Load < p.Loads[0] {
			p.Loads[0] = r.Load
		}
		for _, why := range r.LeftOut {
			if !slices.Contains(p.Parts, why) {
				p.Parts = append(p.Parts, why)
			}
		}
		if r.Failed {
			w.Failed++
			p.Findings = append(p.Findings, r)
		}
		if r.Step != compiling {
			p.Searched += r.Took
		}
		if end := r.Began.Add(r.Took); end.After(p.Last) {
			p.Last = end
		}
	}
	for _, w := range rows {
		if w.Rounds > 0 {
			p.Rows = append(p.Rows, w)
			p.add(w)
		} else if !slices.ContainsFunc(header.LeftOut, func(why string) bool { return strings.HasPrefix(why, w.Name+":") }) {
			p.Unreached = append(p.Unreached, w.Name)
		}
	}
	return p
}

// add adds a row to the totals.
func (p *page) add(w row) {
	if w.Unit == "" {
		return
	}
	i := slices.IndexFunc(p.Totals, func(t total) bool { return t.Unit == w.Unit })
	if i < 0 {
		i = len(p.Totals)
		p.Totals = append(p.Totals, total{Unit: w.Unit})
	}
	p.Totals[i].Counted += w.Counted
}

// File is where the output of a finding is.
func (r Round) File() string { return fmt.Sprintf("findings/%s-%d.txt", r.Step, r.Seed) }

func (p page) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Proof of commit %s\n\n", p.Commit)
	fmt.Fprintf(&b, "`make proof` ran from %s to %s UTC on %s with %s. The rounds add up to %s of searching; the load average was %.1f to %.1f. They found **%d failures**.\n\n",
		p.Began.Format("2006-01-02 15:04"), p.Last.Format("2006-01-02 15:04"), p.Machine, p.Go, p.Searched.Round(time.Second), p.Loads[0], p.Loads[1], len(p.Findings))
	for _, why := range p.LeftOut {
		fmt.Fprintf(&b, "**Left out on this machine: %s.**\n\n", why)
	}
	for _, why := range p.Parts {
		fmt.Fprintf(&b, "**A test was left out: %s.**\n\n", why)
	}
	if len(p.Unreached) > 0 {
		fmt.Fprintf(&b, "**No round was made of: %s.** The time was too short, or ONLY chose others.\n\n", strings.Join(p.Unreached, ", "))
	}
	b.WriteString("In all:\n\n")
	for _, t := range p.Totals {
		fmt.Fprintf(&b, "- %d %s\n", t.Counted, t.Unit)
	}
	if p.Hours > 0 {
		fmt.Fprintf(&b, "- %.1f simulated hours of whole systems\n", p.Hours)
	}
	b.WriteString("\n| search | rounds | did | time | failures | what it does |\n|---|---|---|---|---|---|\n")
	for _, r := range p.Rows {
		did := "-"
		if r.Unit != "" {
			did = fmt.Sprintf("%d %s", r.Counted, r.Unit)
		}
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %d | %s |\n", r.Name, r.Rounds, did, r.Took.Round(time.Second), r.Failed, r.What)
	}
	fmt.Fprintf(&b, "\nCompiling %d binaries took %s in addition. Each is compiled once, when its first round begins, and the folder keeps it. Binaries that fuzz count coverage, so all packages are compiled a second time for them.\n",
		p.Compiled.Counted, p.Compiled.Took.Round(time.Second))
	b.WriteString("\nThe seed of each round is in `journal.jsonl` of the folder.\n")
	for _, f := range p.Findings {
		fmt.Fprintf(&b, "\n## %s, seed %d\n\nThe whole output is in `%s`.\n\n```\n%s\n```\n", f.Step, f.Seed, f.File(), strings.Join(f.Replay, "\n"))
	}
	return b.String()
}

//go:embed page.html
var pageHTML string

var htmlPage = template.Must(template.New("page").Parse(pageHTML))

// writePages writes proof.md and proof.html, and returns the number of findings.
func writePages(folder string, header Header, steps []Step, rounds []Round) (findings int, err error) {
	p := newPage(header, steps, rounds)
	var html strings.Builder
	if err := htmlPage.Execute(&html, p); err != nil {
		return 0, err
	}
	for name, content := range map[string]string{"proof.md": p.markdown(), "proof.html": html.String()} {
		err := atomicfile.Replace(filepath.Join(folder, name), 0o644, func(w io.Writer) error {
			_, err := io.WriteString(w, content)
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	return len(p.Findings), nil
}

// rewritePages writes the pages of the rounds so far, which another run may be adding to.
func rewritePages(folder string, all []Step) (findings int, err error) {
	header, rounds, _, err := readJournal(folder)
	if err != nil {
		return 0, err
	}
	return writePages(folder, header, all, rounds)
}
