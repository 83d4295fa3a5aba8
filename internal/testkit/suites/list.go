package main

import (
	"embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed *.tsv
var lists embed.FS

// leftOut is a test of a suite that does not pass, and why. Reasons are shared by many tests, so a row of the file is
//
//	unit <tab> name of the test <tab> reason
type leftOut struct{ unit, test, reason string }

// readList reads the tests that a suite leaves out.
func readList(suite string) (list []leftOut, err error) {
	content, err := lists.ReadFile(suite + ".tsv")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(content)) {
		line = strings.TrimRight(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 3 || f[2] == "" {
			return nil, fmt.Errorf("%s.tsv: got %q, want unit, test and reason", suite, line)
		}
		list = append(list, leftOut{f[0], f[1], f[2]})
	}
	return list, nil
}

// of returns the tests of one unit.
func of(list []leftOut, unit string) []leftOut {
	return slices.DeleteFunc(slices.Clone(list), func(l leftOut) bool { return l.unit != unit })
}
