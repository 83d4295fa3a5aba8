package tsv

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Pieces reads a file in pieces of whole lines, which are parsed by any number of goroutines at once: 20 to 30 ns a
// line. The content of a file and the names of its columns are as for a Reader. Fields may be quoted, and a quote ends
// in its line: files of commas with columns to pass over, which may hold any text, are for a Reader alone (ErrText).
//
// Next and Close are not safe for concurrent use; Piece.Parse is.
type Pieces struct {
	r     *Reader
	file  *bufio.Reader
	sep   byte
	line  int    // of the next piece
	rest  []byte // read and not given out
	ended bool
}

// ErrText: a file whose fields may hold any text, quoted over several lines, has no pieces.
var ErrText = errors.New("tsv: columns that are passed over may hold line ends, which only a Reader understands")

// piecePad stands behind the text of a piece, so that eight bytes can be looked at anywhere.
const piecePad = 8

// Piece is some lines of a file.
type Piece struct {
	p     *Pieces
	line  int // the first one's number
	lines int
	text  []byte // ends in a line end, and has piecePad bytes of capacity behind it
}

// Lines is how many lines the piece has.
func (p *Piece) Lines() int { return p.lines }

// Bytes is the length of the piece's text.
func (p *Piece) Bytes() int { return len(p.text) }

// Rows are the posts of a piece, in the file's order: Columns[c][i] is the value of post IDs[i] in the column named
// Columns()[c] by its Pieces.
type Rows struct {
	IDs     []uint64
	Columns [][]uint64

	line   int
	passed []int32 // before which row a line was passed over
}

// Line returns the number of the line that row i was read from.
func (r *Rows) Line(i int) int {
	n, _ := slices.BinarySearch(r.passed, int32(i+1))
	return r.line + i + n
}

// Append appends a row that a Reader read from a line.
func (r *Rows) Append(id uint64, values []uint64, line int) {
	n := len(r.IDs)
	if n == 0 {
		r.line = line
	}
	for last := r.Line(n); last < line; last++ {
		r.passed = append(r.passed, int32(n))
	}
	r.IDs = append(r.IDs, id)
	for c, v := range values {
		r.Columns[c] = append(r.Columns[c], v)
	}
}

// NewPieces returns the Pieces of src, which errors call name. Closing them closes src where it can be closed.
func NewPieces(name string, src io.Reader, opts Options) (*Pieces, error) {
	buffered := bufio.NewReaderSize(src, 256<<10)
	r := &Reader{name: name}
	r.closer, _ = src.(io.Closer)
	if err := r.decompress(buffered); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p := &Pieces{r: r, sep: '\t', line: 1, file: buffered}
	if r.src != nil { // compressed
		p.file = bufio.NewReaderSize(r.src, 256<<10)
	}
	p.file = skipMark(p.file)
	if opts.Comma != 0 {
		if opts.Comma > 127 {
			return nil, fmt.Errorf("%s: %w", name, ErrText)
		}
		p.sep = byte(opts.Comma)
	}
	if err := p.header(opts); err != nil {
		return nil, err
	}
	return p, nil
}

// header finds the columns' names, in the first line unless the options give them.
func (p *Pieces) header(opts Options) error {
	first, err := p.file.ReadSlice('\n')
	if err == bufio.ErrBufferFull || len(first) > maxLine {
		return p.tooLong(1)
	}
	if err != nil && err != io.EOF {
		return fmt.Errorf("%s:1: %w", p.r.name, err)
	}
	names := opts.Columns
	if len(first) == 0 && len(names) == 0 {
		return fmt.Errorf("%s: is empty", p.r.name)
	}
	text := trimCR(bytes.TrimSuffix(first, []byte{'\n'}))
	header, isHeader := parseHeader(text)
	if opts.Comma != 0 {
		header, isHeader = headerRecord(splitRecord(string(text), opts.Comma))
	}
	switch {
	case !isHeader && len(names) == 0:
		return &Error{File: p.r.name, Line: 1, Got: fmt.Sprintf("%q", shorten(text)), Want: "a header line that names the columns, or names given by --columns"}
	case !isHeader:
		p.rest = append(p.rest, first...)
	case len(names) == 0:
		names = header
	}
	if isHeader {
		p.line = 2
	}
	if opts.Comma != 0 && slices.Contains(names, "-") {
		return fmt.Errorf("%s: %w", p.r.name, ErrText)
	}
	return p.r.setColumns(names, opts)
}

// splitRecord splits a header, whose fields may be quoted.
func splitRecord(line string, comma rune) []string {
	fields := strings.Split(line, string(comma))
	for i, f := range fields {
		if n := len(f); n >= 2 && f[0] == '"' && f[n-1] == '"' {
			fields[i] = f[1 : n-1]
		}
	}
	return fields
}

// Columns returns the names of the values of a row, in order.
func (p *Pieces) Columns() []string { return p.r.values }

// Without is Reader.Without.
func (p *Pieces) Without(column func(name string) bool) string { return p.r.Without(column) }

// Close closes the file.
func (p *Pieces) Close() error { return p.r.Close() }

func (p *Pieces) tooLong(line int) error {
	return &Error{File: p.r.name, Line: line, Got: fmt.Sprintf("a line of over %d bytes", maxLine), Want: "a shorter one"}
}

// Next reads the next piece, of about size bytes, in buf if it has the room. At the end of the file the error is io.EOF.
func (p *Pieces) Next(buf []byte, size int) (Piece, error) {
	size = max(size, 4*maxLine)
	if cap(buf) < size+maxLine+piecePad {
		buf = make([]byte, 0, size+maxLine+piecePad)
	}
	text := append(buf[:0], p.rest...)
	p.rest = p.rest[:0]
	for !p.ended && len(text) < size {
		n, err := p.file.Read(text[len(text):size])
		text = text[:len(text)+n]
		if err == io.EOF {
			p.ended = true
			if n := len(text); n > 0 && text[n-1] != '\n' {
				text = append(text, '\n')
			}
		} else if err != nil {
			return Piece{}, fmt.Errorf("%s:%d: %w", p.r.name, p.line+bytes.Count(text, []byte{'\n'}), err)
		}
	}
	if len(text) == 0 {
		return Piece{}, io.EOF
	}
	end := bytes.LastIndexByte(text, '\n') + 1
	if end == 0 || len(text)-end > maxLine {
		return Piece{}, p.tooLong(p.line + bytes.Count(text, []byte{'\n'}))
	}
	p.rest = append(p.rest, text[end:]...)
	piece := Piece{p: p, line: p.line, lines: bytes.Count(text[:end], []byte{'\n'}), text: text[:end]}
	p.line += piece.lines
	return piece, nil
}

// Parse puts the posts of the piece in rows, whose memory it uses. A line that does not hold what it should is given to
// bad, and passed over if that returns nil; else Parse returns what it returned.
func (p *Piece) Parse(rows *Rows, bad func(*Error) error) error {
	r := p.p.r
	rows.line, rows.passed = p.line, rows.passed[:0]
	rows.IDs = slices.Grow(rows.IDs[:0], p.lines)[:p.lines]
	if len(rows.Columns) != len(r.values) {
		rows.Columns = make([][]uint64, len(r.values))
	}
	for c := range rows.Columns {
		rows.Columns[c] = slices.Grow(rows.Columns[c][:0], p.lines)[:p.lines]
	}
	text := append(p.text, make([]byte, piecePad)...)[:len(p.text)+piecePad] // no byte of it is a digit
	n, line := 0, p.line
	for at := 0; at < len(p.text); line++ {
		next := p.row(text, at, rows, n)
		if next > 0 {
			at = next
			n++
			continue
		}
		end := at + bytes.IndexByte(text[at:], '\n')
		ok, wrong := p.odd(trimCR(text[at:end]), line, rows, n)
		if wrong != nil {
			if err := bad(wrong); err != nil {
				return err
			}
		}
		if at = end + 1; ok {
			n++
		} else {
			rows.passed = append(rows.passed, int32(n))
		}
	}
	rows.IDs = rows.IDs[:n]
	for c := range rows.Columns {
		rows.Columns[c] = rows.Columns[c][:n]
	}
	return nil
}

// row parses the line at at, if it holds what it should in the plainest way, as row n, and returns where the next line
// begins; else 0.
func (p *Piece) row(text []byte, at int, rows *Rows, n int) int {
	columns := p.p.r.columns
	sep := p.p.sep
	for i := range columns {
		c := &columns[i]
		v, from := uint64(0), at
		if c.slot == slotSkip {
			for text[at] != sep && text[at] != '\n' {
				at++
			}
		} else {
			if x := binary.LittleEndian.Uint64(text[at:]); eightDigits(x) {
				v = eight(x)
				at += 8
				if x := binary.LittleEndian.Uint64(text[at:]); eightDigits(x) {
					v = v*1e8 + eight(x)
					at += 8
				}
			}
			for d := text[at] - '0'; d < 10; d = text[at] - '0' {
				v = v*10 + uint64(d)
				at++
			}
			if digits := at - from; digits == 0 || digits > 18 || v > c.max {
				return 0
			}
		}
		if last := i == len(columns)-1; last {
			if text[at] == '\r' {
				at++
			}
			if text[at] != '\n' {
				return 0
			}
		} else if text[at] != sep {
			return 0
		}
		at++
		switch {
		case c.slot >= 0:
			rows.Columns[c.slot][n] = v
		case c.slot == slotID:
			rows.IDs[n] = v
		}
	}
	return at
}

// eightDigits tells whether x, eight bytes of text, are digits.
func eightDigits(x uint64) bool {
	return (x&0xf0f0f0f0f0f0f0f0)|((x+0x0606060606060606)&0xf0f0f0f0f0f0f0f0)>>4 == 0x3333333333333333
}

// eight is the number that eight digits are: pairs, then fours, then all.
func eight(x uint64) uint64 {
	x = (x & 0x0f0f0f0f0f0f0f0f) * 2561 >> 8
	x = (x & 0x00ff00ff00ff00ff) * 6553601 >> 16
	return (x & 0x0000ffff0000ffff) * 42949672960001 >> 32
}

// odd parses a line that row did not understand: a line to be passed over (false), a line in another form, or a wrong
// line.
func (p *Piece) odd(line []byte, number int, rows *Rows, n int) (ok bool, wrong *Error) {
	r := p.p.r
	if len(line) == 0 || line[0] == '#' {
		return false, nil
	}
	fields := bytes.Split(line, []byte{p.p.sep})
	if len(fields) != len(r.columns) {
		what := "tabs"
		if p.p.sep != '\t' {
			what = fmt.Sprintf("%q", p.p.sep)
		}
		return false, &Error{File: r.name, Line: number, Got: counted(len(fields), "column"), Want: fmt.Sprintf("%d separated by %s (%s)", len(r.columns), what, r.names())}
	}
	for i, field := range fields {
		c := &r.columns[i]
		if k := len(field); p.p.sep != '\t' && k >= 2 && field[0] == '"' && field[k-1] == '"' {
			field = field[1 : k-1]
		}
		if c.slot == slotSkip {
			continue
		}
		v, good := parseUint(field)
		if !good || v > c.max {
			return false, &Error{File: r.name, Line: number, Column: i + 1, Name: c.name, Got: shorten(field), Want: fmt.Sprintf("a whole number 0..%d", c.max)}
		}
		if c.slot == slotID {
			rows.IDs[n] = v
		} else {
			rows.Columns[c.slot][n] = v
		}
	}
	return true, nil
}
