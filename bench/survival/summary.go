package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// summary adds up the rounds of each system in each scenario, in the order in which they came first.
type summary struct{ lines []*summaryLine }

type summaryLine struct {
	system, scenario                         string
	rounds, acknowledged, lost, lossy, wrong int
	notWhole                                 int // rounds in which the system was not whole after healthyIn
	recover                                  []time.Duration
}

func (s *summary) add(r *Result) {
	i := slices.IndexFunc(s.lines, func(l *summaryLine) bool { return l.system == r.System && l.scenario == r.Scenario })
	if i < 0 {
		i = len(s.lines)
		s.lines = append(s.lines, &summaryLine{system: r.System, scenario: r.Scenario})
	}
	l := s.lines[i]
	l.rounds++
	l.acknowledged += r.Acknowledged
	l.lost += r.Lost
	l.wrong += r.Wrong
	if r.Lost > 0 {
		l.lossy++
	}
	if r.Recover >= healthyIn {
		l.notWhole++
	}
	l.recover = append(l.recover, r.Recover)
}

// print writes a table. The time is the median, with the shortest and the longest.
func (s *summary) print(w io.Writer) {
	fmt.Fprintln(w, "| scenario | system | rounds | acknowledged | lost | rounds with loss | wrong | whole again | not whole in time |\n|---|---|---|---|---|---|---|---|---|")
	slices.SortStableFunc(s.lines, func(a, b *summaryLine) int { return strings.Compare(a.scenario, b.scenario) })
	for _, l := range s.lines {
		slices.Sort(l.recover)
		fmt.Fprintf(w, "| %s | %s | %d | %d | %d | %d | %d | %.1f s (%.1f to %.1f) | %d |\n", l.scenario, l.system, l.rounds, l.acknowledged, l.lost, l.lossy, l.wrong,
			l.recover[len(l.recover)/2].Seconds(), l.recover[0].Seconds(), l.recover[len(l.recover)-1].Seconds(), l.notWhole)
	}
}
