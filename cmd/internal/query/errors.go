package query

import (
	"fmt"

	"github.com/counterd/counterd/internal/argument"
	"github.com/counterd/counterd/schema"
)

// SyntaxError says which word is wrong and what could stand there.
type SyntaxError struct {
	After string // the word before; empty: it is the first
	Got   string // empty: the arguments ended
	Want  string
}

func (e *SyntaxError) Error() string {
	got := "the end"
	if e.Got != "" {
		got = "'" + e.Got + "'"
	}
	if e.After != "" {
		got += " behind " + e.After
	}
	return "syntax error: got " + got + ", want " + e.Want
}

// LimitError says that there is too much of something.
type LimitError struct {
	What string
	Got  string // as it was given; a number of things, if that is bounded
	Most int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%s: got %s, want at most %d", e.What, e.Got, e.Most)
}

// UnknownError says that a counter or a column does not exist.
type UnknownError struct {
	Counter string
	Column  string // empty: it is the counter
}

func (e *UnknownError) Error() string {
	if e.Column == "" {
		return "no counter '" + e.Counter + "' (see SCHEMA)"
	}
	return "no column '" + e.Column + "' in counter '" + e.Counter + "' (see SCHEMA)"
}

// CursorError says that a cursor is none of this query.
type CursorError struct{ Got string }

func (e *CursorError) Error() string {
	return "CURSOR: got '" + e.Got + "', want 0, or what a call with the same conditions returned"
}

// shown is as much of a word as an error repeats.
func shown(b []byte) string { return argument.Printable(b, 64) }

func noColumn(def *schema.Counter, name []byte) error {
	return &UnknownError{def.Name, shown(name)}
}
