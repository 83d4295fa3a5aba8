package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Pairs is the matrix of mechanisms: which tests have two of them at work at the same time.
type Pairs struct {
	Mechanisms []Mechanism
	Tests      []Meeting // in each, all pairs of its mechanisms meet
	Never      []Meeting // the first mechanism never meets the others; Name says why
}

// A Mechanism is something that happens to a node or to its data.
type Mechanism struct{ Short, Name string }

// A Meeting is some mechanisms and what has them together.
type Meeting struct {
	Mechanisms []string
	Name       string // a test as in a row of the ledger, or a reason
}

const pairsHeader = "kind\tmechanisms\tname"

// ReadPairs reads pairs.tsv of the repository at root.
func ReadPairs(root string) (*Pairs, error) {
	data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(dir), "pairs.tsv"))
	if err != nil {
		return nil, err
	}
	return parsePairs(string(data))
}

func parsePairs(text string) (*Pairs, error) {
	head, body, _ := strings.Cut(text, "\n")
	if head != pairsHeader {
		return nil, fmt.Errorf("the pairs begin with %q, want %q", head, pairsHeader)
	}
	p := &Pairs{}
	for i, line := range strings.Split(strings.TrimSuffix(body, "\n"), "\n") {
		cells := strings.Split(line, "\t")
		if len(cells) != 3 || strings.Contains(line, "|") {
			return nil, fmt.Errorf("line %d is %q: want a kind, mechanisms and a name, with tabs between", i+2, line)
		}
		m := Meeting{strings.Fields(cells[1]), cells[2]}
		switch cells[0] {
		case "mechanism":
			p.Mechanisms = append(p.Mechanisms, Mechanism{cells[1], cells[2]})
			continue
		case "test":
			p.Tests = append(p.Tests, m)
		case "never":
			p.Never = append(p.Never, m)
		default:
			return nil, fmt.Errorf("line %d has the kind %q: want mechanism, test or never", i+2, cells[0])
		}
		for _, short := range m.Mechanisms {
			if p.index(short) < 0 {
				return nil, fmt.Errorf("line %d: there is no mechanism %s above it", i+2, short)
			}
		}
	}
	return p, nil
}

func (p *Pairs) index(short string) int {
	return slices.IndexFunc(p.Mechanisms, func(m Mechanism) bool { return m.Short == short })
}

// A cell is a pair of mechanisms: the tests that have both, by their places in Tests, or that they never meet.
type cell struct {
	tests []int
	never bool
}

// cells returns the matrix. Only cells with i < j are filled.
func (p *Pairs) cells() [][]cell {
	matrix := make([][]cell, len(p.Mechanisms))
	for i := range matrix {
		matrix[i] = make([]cell, len(p.Mechanisms))
	}
	at := func(a, b string) *cell {
		i, j := p.index(a), p.index(b)
		return &matrix[min(i, j)][max(i, j)]
	}
	for n, m := range p.Tests {
		for i, a := range m.Mechanisms {
			for _, b := range m.Mechanisms[:i] {
				c := at(a, b)
				c.tests = append(c.tests, n)
			}
		}
	}
	for _, m := range p.Never {
		for _, b := range m.Mechanisms[1:] {
			at(m.Mechanisms[0], b).never = true
		}
	}
	return matrix
}

// count returns how many pairs there are, of how many no test has both, and how many never meet.
func (p *Pairs) count() (all, empty, never int) {
	matrix := p.cells()
	for j := range matrix {
		for i := range j {
			all++
			switch c := matrix[i][j]; {
			case len(c.tests) > 0:
			case c.never:
				never++
			default:
				empty++
			}
		}
	}
	return all, empty, never
}

// Page is the generated part of docs/internals/pairs.md.
func (p *Pairs) Page() string {
	var b strings.Builder
	all, empty, never := p.count()
	fmt.Fprintf(&b, "%d pairs: %d have a test, %d never meet, **%d are empty**.\n\n|  |", all, all-empty-never, never, empty)
	for _, m := range p.Mechanisms[:len(p.Mechanisms)-1] {
		fmt.Fprintf(&b, " %s |", m.Short)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(p.Mechanisms)-1) + "\n")
	matrix := p.cells()
	for j := 1; j < len(matrix); j++ {
		fmt.Fprintf(&b, "| **%s** |", p.Mechanisms[j].Short)
		for i := range len(matrix) - 1 {
			text := ""
			switch {
			case i >= j:
			case len(matrix[i][j].tests) > 0:
				text = numbers(matrix[i][j].tests)
			case matrix[i][j].never:
				text = "-"
			default:
				text = "**?**"
			}
			fmt.Fprintf(&b, " %s |", text)
		}
		b.WriteString("\n")
	}
	b.WriteString("\nMechanisms:\n\n| short | meaning | without a test beside |\n|---|---|---|\n")
	for i, m := range p.Mechanisms {
		var lacks []string
		for j, other := range p.Mechanisms {
			if c := matrix[min(i, j)][max(i, j)]; i != j && len(c.tests) == 0 && !c.never {
				lacks = append(lacks, other.Short)
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", m.Short, m.Name, strings.Join(lacks, " "))
	}
	b.WriteString("\nTests:\n\n| number | test | mechanisms |\n|---|---|---|\n")
	for n, m := range p.Tests {
		fmt.Fprintf(&b, "| %d | %s | %s |\n", n+1, m.Name, strings.Join(m.Mechanisms, " "))
	}
	b.WriteString("\nPairs that never meet:\n\n")
	for _, m := range p.Never {
		fmt.Fprintf(&b, "- %s beside %s: %s\n", m.Mechanisms[0], strings.Join(m.Mechanisms[1:], ", "), m.Name)
	}
	return b.String()
}

// numbers are the first tests of a cell, counted from 1, and how many more there are.
func numbers(tests []int) string {
	const most = 3
	var text []string
	for i, n := range tests {
		if i == most && len(tests) > most+1 {
			text = append(text, fmt.Sprintf("+%d", len(tests)-most))
			break
		}
		text = append(text, fmt.Sprint(n+1))
	}
	return strings.Join(text, " ")
}
