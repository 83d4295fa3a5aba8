package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// dir is this package's directory, from the root of the repository.
const dir = "internal/testkit/faults"

// A Fault is one row of the ledger. Numbers are given once and never again: people cite them.
type Fault struct {
	N       int
	Subject string   // the part of the system, one word
	Mended  string   // the commit, abbreviated
	Tests   []string // names; where several packages have a test of this name, a folder on its path stands before it: repl.TestStranger
	Users   string   // what users saw
	Cause   string
}

const header = "n\tsubject\tmended\ttests\tusers saw\tcause"

// Read reads the ledger of the repository at root.
func Read(root string) ([]Fault, error) {
	name := filepath.Join(root, filepath.FromSlash(dir), "faults.tsv")
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return parse(string(data))
}

func parse(text string) ([]Fault, error) {
	head, body, _ := strings.Cut(text, "\n")
	if head != header {
		return nil, fmt.Errorf("the ledger begins with %q, want %q", head, header)
	}
	var all []Fault
	seen := map[int]bool{}
	for i, line := range strings.Split(strings.TrimSuffix(body, "\n"), "\n") {
		cells := strings.Split(line, "\t")
		if len(cells) != 6 {
			return nil, fmt.Errorf("line %d has %d cells, want 6: %q", i+2, len(cells), line)
		}
		for j, cell := range cells {
			if strings.TrimSpace(cell) != cell || cell == "" || strings.Contains(cell, "|") {
				return nil, fmt.Errorf("line %d, cell %d is %q: want text without outer spaces and without |", i+2, j+1, cell)
			}
		}
		n, err := strconv.Atoi(cells[0])
		if err != nil || n < 1 || seen[n] {
			return nil, fmt.Errorf("line %d has the number %q: want a new number from 1 on", i+2, cells[0])
		}
		seen[n] = true
		all = append(all, Fault{N: n, Subject: cells[1], Mended: cells[2], Tests: strings.Fields(cells[3]), Users: cells[4], Cause: cells[5]})
	}
	return all, nil
}
