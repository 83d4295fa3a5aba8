package tidy

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// breakersFile has a row for each thing that breaks a rule today: the rule, the thing, and a number that may only fall.
const breakersFile = "internal/testkit/tidy/breakers.txt"

const breakersHead = `# What breaks a rule today: the rule, what breaks it, and how much. Numbers only fall, and rows only go:
#	go test ./cmd/counterd -run TestTidy -lower-breakers
# lowers the numbers and removes rows that are not needed any more. After a move or a rename, -renew-breakers writes all rows anew.
`

// breakers are the rows of breakersFile, by rule and thing, and the numbers that the code needs.
type breakers struct {
	allowed, needed map[[2]string]int
}

func readBreakers(root string) (*breakers, error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(breakersFile)))
	if err != nil {
		return nil, err
	}
	b := &breakers{allowed: map[[2]string]int{}, needed: map[[2]string]int{}}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 3 {
			return nil, fmt.Errorf("%s: %q: want a rule, a thing and a number, with tabs between them", breakersFile, line)
		}
		n, err := strconv.Atoi(f[2])
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%s: %q: want a positive number", breakersFile, line)
		}
		row := [2]string{f[0], f[1]}
		if old, twice := b.allowed[row]; twice { // two branches lowered it, and were merged line by line
			n = min(n, old)
		}
		b.allowed[row] = n
	}
	return b, nil
}

// check reports the things of got that are above the limit, and above their rows.
func (b *breakers) check(report Report, rule string, limit int, got map[string]int) {
	for _, name := range slices.Sorted(maps.Keys(got)) {
		n, row := got[name], b.allowed[[2]string{rule, name}]
		if n <= limit {
			continue
		}
		b.needed[[2]string{rule, name}] = n
		switch {
		case *renew:
		case n > row && row > 0:
			report("%s: %s: got %d, and breakers.txt allows %d: that number may only fall", rule, name, n, row)
		case n > row:
			report("%s: %s: got %d, want at most %d (if it was only moved: -renew-breakers)", rule, name, n, limit)
		}
	}
}

// loose are the rows that allow more than the code needs.
func (b *breakers) loose() (lines []string) {
	for _, row := range b.sorted(b.allowed) {
		if have, need := b.allowed[row], b.needed[row]; need < have {
			lines = append(lines, fmt.Sprintf("%s: %s: breakers.txt allows %d, and %d are needed: run TestTidy with -lower-breakers", row[0], row[1], have, need))
		}
	}
	return lines
}

// write lowers the rows to the needed numbers; with all it writes whatever is needed.
func (b *breakers) write(root string, all bool) error {
	if all {
		b.allowed = maps.Clone(b.needed)
	}
	var text strings.Builder
	text.WriteString(breakersHead)
	for _, row := range b.sorted(b.allowed) {
		if n := min(b.allowed[row], b.needed[row]); n > 0 {
			fmt.Fprintf(&text, "%s\t%s\t%d\n", row[0], row[1], n)
			b.allowed[row] = n
		} else {
			delete(b.allowed, row)
		}
	}
	return os.WriteFile(filepath.Join(root, filepath.FromSlash(breakersFile)), []byte(text.String()), 0o644)
}

func (b *breakers) sorted(rows map[[2]string]int) [][2]string {
	return slices.SortedFunc(maps.Keys(rows), func(x, y [2]string) int { return slices.Compare(x[:], y[:]) })
}
