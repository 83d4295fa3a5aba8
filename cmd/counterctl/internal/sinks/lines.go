package sinks

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
)

// lines is the form of a plain file: a line of JSON for each change, which begins with its position. A batch that was torn by a
// power failure may lack any of its pages, which are then zeros: so the file ends in front of the first line with a zero byte. A batch whose changes belong together
// (Batch.Whole) is cut as a whole.
type lines struct{ name string }

// lineStart is how each line begins.
const lineStart = `{"position":"`

func (lines) head() []byte                     { return nil }
func (lines) pack(dst []byte, b *Batch) []byte { return append(dst, b.Text...) }

func (l lines) tail(f *os.File, size int64) (end int64, position string, err error) {
	from := max(0, size-window)
	begin, end, err := lastLine(f, from, size)
	if err != nil {
		return 0, "", err
	}
	whole, err := l.whole(f, from, begin, end)
	if end == 0 || whole.end == 0 || err != nil {
		return 0, "", errors.Join(err, l.torn(f, from, size))
	}
	begin, end = whole.begin, whole.end
	line := make([]byte, end-begin)
	if _, err := f.ReadAt(line, begin); err != nil {
		return 0, "", err
	}
	if position = positionOf(line); position == "" {
		return 0, "", &ForeignError{l.name, "its last line has no position"}
	}
	return end, position, nil
}

// span is a line in the file, with its line feed.
type span struct{ begin, end int64 }

// whole returns the last line between from and end that does not end with LineMore; begin is where the last line begins. An end of 0: there is none.
func (l lines) whole(f *os.File, from, begin, end int64) (last span, err error) {
	if more, err := endsWith(f, begin, end, LineMore); !more || err != nil {
		return span{begin, end}, err
	}
	r := bufio.NewReader(io.NewSectionReader(f, from, begin-from))
	known := from == 0
	for at := from; at < begin; {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return last, err
		}
		next := at + int64(len(line))
		if known && !bytes.HasSuffix(line, []byte(LineMore)) {
			last = span{at, next}
		}
		at, known = next, true
	}
	return last, nil
}

// endsWith tells whether a line ends with a text.
func endsWith(f *os.File, begin, end int64, text string) (bool, error) {
	if end-begin < int64(len(text)) {
		return false, nil
	}
	got := make([]byte, len(text))
	_, err := f.ReadAt(got, end-int64(len(got)))
	return string(got) == text, err
}

// torn tells whether a file without a whole line may be one whose first line was torn.
func (l lines) torn(f *os.File, from, size int64) error {
	start := make([]byte, min(size, int64(len(lineStart))))
	if _, err := f.ReadAt(start, 0); err != nil {
		return err
	}
	if from > 0 || !bytes.HasPrefix([]byte(lineStart), bytes.TrimRight(start, "\x00")) {
		return &ForeignError{l.name, "it does not end with a line of changes"}
	}
	return nil
}

// lastLine finds the last line between two offsets with its line feed, in front of the first zero byte. A line that begins in front
// of from does not count. An end of 0: there is none.
func lastLine(f *os.File, from, size int64) (begin, end int64, err error) {
	buf := make([]byte, min(1<<20, size-from))
	next := from // where the line begins that is being read
	known := from == 0
	for at := from; at < size; {
		n, err := f.ReadAt(buf[:min(int64(len(buf)), size-at)], at)
		if err != nil && err != io.EOF || n == 0 {
			return 0, 0, err
		}
		part := buf[:n]
		zero := bytes.IndexByte(part, 0)
		if zero >= 0 {
			part = part[:zero]
		}
		for i := 0; ; {
			j := bytes.IndexByte(part[i:], '\n')
			if j < 0 {
				break
			}
			i += j + 1
			if known {
				begin, end = next, at+int64(i)
			}
			next, known = at+int64(i), true
		}
		if zero >= 0 {
			break
		}
		at += int64(n)
	}
	return begin, end, nil
}

// positionOf is the position of a line; empty: it has none.
func positionOf(line []byte) string {
	var change struct {
		Position string `json:"position"`
	}
	if !bytes.HasPrefix(line, []byte(lineStart)) || json.Unmarshal(line, &change) != nil {
		return ""
	}
	return change.Position
}
