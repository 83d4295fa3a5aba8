package main

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/counterd/counterd/internal/atomicfile"
)

// page is the data of both forms of the page.
type page struct {
	Header
	Last     time.Time
	Machine  time.Duration // of all rounds
	Rows     []row
	Findings []Round
}

// row is a step's line.
type row struct {
	Name, What, Unit      string
	Rounds, Failed        int
	Counted               int
	Took                  time.Duration
	FirstSeed, LatestSeed uint64
	LeftOut               bool
}

func newPage(header Header, steps []Step, rounds []Round) page {
	p := page{Header: header}
	at := map[string]int{}
	add := func(s Step) {
		at[s.Name] = len(p.Rows)
		p.Rows = append(p.Rows, row{Name: s.Name, What: s.What, Unit: s.Unit})
	}
	for _, s := range steps {
		add(s)
	}
	for _, r := range rounds {
		if _, ok := at[r.Step]; !ok { // a fuzz target
			add(Step{Name: r.Step, What: "Fuzzing with inputs that reach new code.", Unit: "inputs"})
		}
		w := &p.Rows[at[r.Step]]
		if w.Rounds == 0 {
			w.FirstSeed = r.Seed
		}
		w.LatestSeed = r.Seed
		w.Rounds++
		w.Counted += r.Counted
		w.Took += r.Took
		w.LeftOut = w.LeftOut || r.LeftOut
		if r.Failed {
			w.Failed++
			p.Findings = append(p.Findings, r)
		}
		p.Machine += r.Took
		if end := r.Began.Add(r.Took); end.After(p.Last) {
			p.Last = end
		}
	}
	return p
}

// File is where the output of a finding is.
func (r Round) File() string { return fmt.Sprintf("findings/%s-%d.txt", r.Step, r.Seed) }

func (p page) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Proof of commit %s\n\n", p.Commit)
	fmt.Fprintf(&b, "`make proof` ran from %s to %s UTC on %s with %s: %s of searching, rounds beside each other added up. It found **%d failures**.\n\n",
		p.Began.Format("2006-01-02 15:04"), p.Last.Format("2006-01-02 15:04"), p.Header.Machine, p.Go, p.Machine.Round(time.Second), len(p.Findings))
	b.WriteString("| search | rounds | did | time | failures | what it does |\n|---|---|---|---|---|---|\n")
	for _, r := range p.Rows {
		did := "-"
		if r.Unit != "" {
			did = fmt.Sprintf("%d %s", r.Counted, r.Unit)
		}
		if r.LeftOut {
			did += " (a part was left out: a program is not installed)"
		}
		fmt.Fprintf(&b, "| %s | %d | %s | %s | %d | %s |\n", r.Name, r.Rounds, did, r.Took.Round(time.Second), r.Failed, r.What)
	}
	b.WriteString("\nThe seed of each round is in `journal.jsonl`.\n")
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
