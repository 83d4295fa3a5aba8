package export

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/counterd/counterd/schema"
)

// Table is a counter, and which of its columns are written.
type Table struct {
	Schema  *schema.Schema
	Counter *schema.Counter
	Columns []int // indexes in Counter.Columns, in the order of a row's values
}

// script returns the statements that make the counter.
func (t *Table) script() (statements [][]string) {
	for line := range strings.Lines(t.Schema.String()) {
		if words := strings.Fields(line); len(words) > 2 && words[2] == t.Counter.Name {
			statements = append(statements, words)
		}
	}
	return statements
}

// names calls f with the name of each column.
func (t *Table) names(f func(i int, name string)) {
	for i, c := range t.Columns {
		f(i, t.Counter.Col(c).Name)
	}
}

// Encoder appends one kind of text. It is not safe for concurrent use.
type Encoder interface {
	Start(dst []byte) []byte
	Table(dst []byte, t *Table) []byte
	Row(dst []byte, mid uint64, values []uint64) []byte // of the last Table
	End(dst []byte) []byte
	Finish(dst []byte) []byte
}

// Formats are the names that New takes.
var Formats = []string{"tsv", "csv", "resp", "sql"}

// New returns the encoder of a format.
func New(format string) (Encoder, error) {
	switch format {
	case "tsv":
		return &delimited{by: '\t', end: "\n"}, nil
	case "csv":
		return &delimited{by: ',', end: "\r\n"}, nil
	case "resp":
		return &commands{}, nil
	case "sql":
		return &statements{}, nil
	}
	return nil, fmt.Errorf("format %q: want one of %s", format, strings.Join(Formats, ", "))
}

// FormatOf tells the format that a file's name stands for, "" where it stands for none.
func FormatOf(name string) string {
	base := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(name), ".gz"), ".zst")
	switch ext := strings.TrimPrefix(filepath.Ext(base), "."); ext {
	case "tsv", "csv", "resp", "sql":
		return ext
	case "txt", "tab":
		return "tsv"
	}
	return ""
}
