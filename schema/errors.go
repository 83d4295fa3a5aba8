package schema

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The kinds of error of this package. Every error wraps one of them. ErrCorrupt also
// wraps the fault in the durable form. Whatever failed has changed nothing.
var (
	// ErrSyntax: a statement that is none: unknown verb, a word too few or too many.
	ErrSyntax = errors.New("schema: syntax error")
	// ErrName: a name or suffix of the wrong letters or length.
	ErrName = errors.New("schema: bad name")
	// ErrAttribute: an attribute that is unknown, missing, given twice, not a
	// number, or out of range.
	ErrAttribute = errors.New("schema: bad attribute")
	// ErrUnknown: a counter or column that does not exist.
	ErrUnknown = errors.New("schema: no such counter or column")
	// ErrClash: a name or suffix that something else bears already.
	ErrClash = errors.New("schema: name taken")
	// ErrSchemaMismatch: a definition that differs from the one there is. The
	// error is a *MismatchError.
	ErrSchemaMismatch = errors.New("schema: definition differs")
	// ErrLimit: more counters, columns, ids or text than there may be.
	ErrLimit = errors.New("schema: limit reached")

	// ErrCorrupt: a durable form (text or layout) that this package did not write.
	ErrCorrupt = errors.New("schema: corrupt")
	// ErrTruncated: a binary layout that ends too soon, and is sound up to there.
	ErrTruncated = errors.New("schema: truncated")
	// ErrVersion: a durable form of a format this program does not know.
	ErrVersion = errors.New("schema: unknown format version")
)

// Error is an error about one word: a name, an attribute, a keyword.
type Error struct {
	Kind error  // one of the sentinels of this package
	Word string // the word at fault, at most MaxName bytes of it
	Text string // one line: the value got and the value wanted
}

func (e *Error) Error() string { return e.Text }
func (e *Error) Unwrap() error { return e.Kind }

// fail makes an Error about word.
func fail(kind error, word, format string, args ...any) error {
	return &Error{Kind: kind, Word: clip(word), Text: fmt.Sprintf(format, args...)}
}

// clip shortens a word of the user's for an error text, which goes out on a
// connection and into logs: an argument may be a megabyte long.
func clip(word string) string {
	if len(word) > MaxName {
		return word[:MaxName]
	}
	return word
}

// quote is word in quotes, clipped, with everything unprintable escaped.
func quote(word string) string {
	if len(word) > MaxName {
		return strconv.Quote(clip(word)) + "..."
	}
	return strconv.Quote(word)
}

// Difference is one attribute on which a definition and a redefinition disagree.
type Difference struct {
	Attribute string // hint, max, default, suffix, top or primarykey; of a counter ids, retain or old
	Have      string // as the schema has it
	Want      string // as the statement has it
}

// MismatchError says how a redefinition differs from the present definition. It
// wraps ErrSchemaMismatch.
type MismatchError struct {
	Counter     string
	Column      string       // empty: the counter itself is defined differently
	Differences []Difference // at least one, in the order of the attributes above
}

func (e *MismatchError) Error() string {
	var b strings.Builder
	if e.Column != "" {
		fmt.Fprintf(&b, "column %s of ", e.Column)
	}
	fmt.Fprintf(&b, "counter %s is defined differently:", e.Counter)
	for i, d := range e.Differences {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, " %s have %s want %s", d.Attribute, or(d.Have, `""`), or(d.Want, `""`))
	}
	if e.Column == "" {
		b.WriteString(": use ALTER COUNTER to change it")
	} else if len(e.Differences) == 1 && e.Differences[0].Attribute == "top" {
		b.WriteString(": use ALTER COLUMN to change it")
	}
	return b.String()
}

func (e *MismatchError) Unwrap() error { return ErrSchemaMismatch }

// LineError is an error in a line of a script. The caller knows the file and puts
// its name in front.
type LineError struct {
	Line int // counted from 1
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }
func (e *LineError) Unwrap() error { return e.Err }

func or(s, empty string) string {
	if s == "" {
		return empty
	}
	return s
}
