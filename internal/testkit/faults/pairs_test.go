package main

import (
	"slices"
	"testing"

	"github.com/counterd/counterd/internal/testkit/docpage"
)

// emptyPairs is how many pairs of mechanisms have no test. It may only fall.
const emptyPairs = 0

func pairs(t *testing.T) *Pairs {
	t.Helper()
	root, _, _ := ledger(t)
	p, err := ReadPairs(root)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestReferencePairs: docs/internals/pairs.md shows the matrix.
func TestReferencePairs(t *testing.T) {
	docpage.Check(t, "docs/internals/pairs.md", "pairs", pairs(t).Page())
}

// TestPairs: the tests of the matrix exist and do not skip themselves, and the number of empty cells has not grown.
func TestPairs(t *testing.T) {
	_, _, tests := ledger(t)
	p := pairs(t)
	var names []string
	for _, m := range p.Tests {
		if test, err := find(tests, m.Name); err != nil {
			t.Error(err)
		} else if test.Skips {
			t.Errorf("%s skips itself", m.Name)
		}
		if slices.Contains(names, m.Name) {
			t.Errorf("%s has two rows", m.Name)
		}
		names = append(names, m.Name)
		if len(m.Mechanisms) < 2 {
			t.Errorf("%s has fewer than two mechanisms", m.Name)
		}
		for i, short := range m.Mechanisms {
			if slices.Contains(m.Mechanisms[:i], short) {
				t.Errorf("%s has %s twice", m.Name, short)
			}
		}
	}
	switch _, empty, _ := p.count(); {
	case empty > emptyPairs:
		t.Errorf("%d pairs of mechanisms have no test, %d had none before: write a test for a pair that a change adds", empty, emptyPairs)
	case empty < emptyPairs:
		t.Errorf("only %d pairs of mechanisms have no test: set emptyPairs to that, so that it stays so", empty)
	}
}

// TestPairsTable: the cells of a matrix, and rows that are refused.
func TestPairsTable(t *testing.T) {
	const text = pairsHeader + "\nmechanism\ta\tA\nmechanism\tb\tB\nmechanism\tc\tC\nmechanism\td\tD\ntest\tc a\tTestTable\nnever\td b a\tWhy.\n"
	p, err := parsePairs(text)
	if err != nil {
		t.Fatal(err)
	}
	if all, empty, never := p.count(); all != 6 || empty != 3 || never != 2 {
		t.Errorf("got %d pairs, %d empty, %d that never meet", all, empty, never)
	}
	if c := p.cells()[0][2]; !slices.Equal(c.tests, []int{0}) {
		t.Errorf("a and c have %v", c)
	}
	for _, bad := range []string{"", "a\n", pairsHeader + "\ntest\ta\n", pairsHeader + "\ntest\ta b\tTestTable\n", pairsHeader + "\nother\ta\tA\n"} {
		if got, err := parsePairs(bad); err == nil {
			t.Errorf("%q is %v, want an error", bad, got)
		}
	}
}
