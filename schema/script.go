package schema

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// String is the script that makes a schema with the same counters, columns and
// declared keys, in the same order, when it is applied to the empty one. Every
// line ends in LF. Ids are not in it.
func (s *Schema) String() string {
	var b []byte
	line := func(st Statement) {
		b = st.append(b)
		b = append(b, '\n')
	}
	for _, c := range s.counters {
		if c.keyDeclared {
			line(keyStatement(c.Name, c.Key))
		}
		line(counterStatement(c))
		for i := range c.Columns {
			line(columnStatement(c.Name, &c.Columns[i]))
		}
		for i := range c.Derived {
			line(c.Derived[i].statement(c))
		}
	}
	for _, p := range s.pending {
		line(keyStatement(p.counter, p.key))
	}
	return string(b)
}

// ParseScript applies the statements of a script to onto and answers the schema
// after all of them, or onto itself if they change nothing. It reads at most
// MaxScript+1 bytes. An error in a line is a *LineError, and then nothing of
// the script is applied; errors of r come back wrapped.
func ParseScript(r io.Reader, onto *Schema) (*Schema, error) {
	text, err := io.ReadAll(io.LimitReader(r, MaxScript+1))
	if err != nil {
		return nil, fmt.Errorf("reading the schema script: %w", err)
	}
	if len(text) > MaxScript {
		return nil, fail(ErrLimit, "", "the script is longer than %d bytes", MaxScript)
	}
	// Editors that write CR LF may also write a byte order mark.
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	d := onto.thaw()
	err = eachLine(text, func(words []string) error {
		st, err := ParseStatement(words)
		if err != nil {
			return err
		}
		return d.apply(st)
	})
	if err != nil {
		return nil, err
	}
	return d.freeze(), nil
}

// eachLine calls f with the words of each line that has any, and answers f's
// first error as a *LineError. It copies no line above MaxLine.
func eachLine(text []byte, f func(words []string) error) error {
	for n := 1; len(text) > 0; n++ {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte{'\n'})
		line = bytes.TrimSuffix(line, []byte{'\r'})
		if len(line) > MaxLine {
			return &LineError{n, fail(ErrLimit, "", "the line has %d bytes: want at most %d", len(line), MaxLine)}
		}
		words := strings.FieldsFunc(string(line), func(r rune) bool { return r == ' ' || r == '\t' })
		for i, w := range words {
			if w[0] == '#' {
				words = words[:i]
				break
			}
		}
		if len(words) == 0 {
			continue
		}
		if err := f(words); err != nil {
			return &LineError{n, err}
		}
	}
	return nil
}
