// Package tsv reads files of posts: lines of whole numbers separated by tabs, or by commas as RFC 4180 has it, one post
// a line, one of the columns its id.
//
//	# mid	repost	comment	attitude
//	3655529446300818	12	3	40
//
// The columns are named by the first line, with or without the leading #, or by the caller. Later lines that start with
// # and empty lines are passed over. A file is gzipped, compressed by zstd or plain by its content, whatever its name. What
// a line must hold is checked as it is read; an error names file, line, column, and the wanted value.
package tsv

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// MaxID is the highest id of a post.
const MaxID = 1<<63 - 1

// maxLine bounds a line: 60 columns of 20 digits are 1,260 bytes.
const maxLine = 16 << 10

// Options say how to read a file. The zero value reads a file that names its columns itself.
type Options struct {
	// Columns names the file's columns, in order; "-" is a column to pass over. Empty: the first line names them.
	Columns []string
	// ID names the id's column. Empty: "mid" or "id" where there is such a column, else the first.
	ID string
	// Comma separates the fields of a line, which may be quoted then, and span lines. 0: fields are separated by tabs, and
	// quotes mean nothing.
	Comma rune
	// Max returns the largest value that a column may hold. Nil: 2^63-1 for each.
	Max func(column string) uint64
}

// Reader reads the posts of one file. It is not safe for concurrent use.
type Reader struct {
	name     string
	src      io.Reader
	closer   io.Closer // nil where there is nothing to close
	unpacked *zstd.Decoder
	lines    *bufio.Scanner
	records  *csv.Reader // in place of lines where there is a Comma
	first    []string    // the first record, while it is to be returned
	line     int         // number of the line last read, from 1
	replay   bool        // the first line held data, and is still to be returned
	columns  []column
	values   []string // names of the columns that Read returns, in file order
}

type column struct {
	name string
	max  uint64
	slot int // index in the row, or one of:
}

const (
	slotSkip = -1
	slotID   = -2
)

// Error is a line that does not hold what it should.
type Error struct {
	File   string
	Line   int    // from 1
	Column int    // from 1; 0 when the whole line is meant
	Name   string // the column's name
	Got    string // the value got, shortened
	Want   string // the value wanted
}

func (e *Error) Error() string {
	if e.Column == 0 {
		return fmt.Sprintf("%s:%d: %s, want %s", e.File, e.Line, e.Got, e.Want)
	}
	return fmt.Sprintf("%s:%d: column %d %q: %q is not %s", e.File, e.Line, e.Column, e.Name, e.Got, e.Want)
}

// Open opens the file at path.
func Open(path string, opts Options) (*Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r, err := New(path, f, opts)
	if err != nil {
		f.Close()
		return nil, err
	}
	return r, nil
}

// New returns a Reader of src, which errors call name. Closing the Reader closes src where it can be closed.
func New(name string, src io.Reader, opts Options) (*Reader, error) {
	buffered := bufio.NewReaderSize(src, 256<<10)
	r := &Reader{name: name, src: buffered}
	r.closer, _ = src.(io.Closer)
	if err := r.decompress(buffered); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	r.src = skipMark(r.src)
	if opts.Comma != 0 {
		return r, r.startRecords(opts)
	}
	r.lines = bufio.NewScanner(r.src)
	r.lines.Buffer(make([]byte, maxLine), maxLine)
	if err := r.readHeader(opts); err != nil {
		return nil, err
	}
	return r, nil
}

// windowMax bounds the memory that a file compressed by zstd may ask for: zstd itself takes as much without --long.
const windowMax = 128 << 20

// decompress makes src the content of a file.
func (r *Reader) decompress(file *bufio.Reader) (err error) {
	switch magic, _ := file.Peek(4); {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		r.src, err = gzip.NewReader(file)
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		unpacked, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(windowMax))
		if err != nil {
			return err
		}
		r.src, r.unpacked = unpacked, unpacked
	}
	return err
}

// byteOrderMark stands at the head of files from spreadsheets and some editors.
const byteOrderMark = "\ufeff"

// skipMark returns a reader of the text after a byte order mark.
func skipMark(src io.Reader) *bufio.Reader {
	text, ok := src.(*bufio.Reader)
	if !ok {
		text = bufio.NewReaderSize(src, 256<<10)
	}
	if mark, _ := text.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
		_, _ = text.Discard(len(mark)) // they are in memory
	}
	return text
}

// Close closes the file.
func (r *Reader) Close() error {
	if r.unpacked != nil {
		r.unpacked.Close()
	}
	if r.closer == nil {
		return nil
	}
	return r.closer.Close()
}

// Columns returns the names of the values that Read returns, in order.
func (r *Reader) Columns() []string { return r.values }

// Without is Options.Columns of the same file with other columns passed over too, separated by commas.
func (r *Reader) Without(column func(name string) bool) string {
	names := make([]string, len(r.columns))
	for i, col := range r.columns {
		names[i] = col.name
		if col.slot >= 0 && column(col.name) {
			names[i] = "-"
		}
	}
	return strings.Join(names, ",")
}

// Line returns the number of the line that was read last, from 1.
func (r *Reader) Line() int { return r.line }

// Read reads the next post and puts its values, in the order of Columns, in row, which has room for them.
// At the end of the file the error is io.EOF; for a line that does not hold what it should, it is an *Error.
func (r *Reader) Read(row []uint64) (id uint64, err error) {
	if r.records != nil {
		return r.readRecord(row)
	}
	for {
		if r.replay {
			r.replay = false
		} else if !r.lines.Scan() {
			return 0, r.scanError()
		} else {
			r.line++
		}
		line := trimCR(r.lines.Bytes())
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		return r.parse(line, row)
	}
}

// parse splits line into its columns.
func (r *Reader) parse(line []byte, row []uint64) (id uint64, err error) {
	rest := line
	for i := range r.columns {
		field := rest
		if tab := bytes.IndexByte(rest, '\t'); tab >= 0 {
			field, rest = rest[:tab], rest[tab+1:]
			if i == len(r.columns)-1 {
				return 0, r.countError(line)
			}
		} else if i < len(r.columns)-1 {
			return 0, r.countError(line)
		}
		if err := r.put(i, field, row, &id); err != nil {
			return 0, err
		}
	}
	return id, nil
}

// put puts the value of column i in its place.
func (r *Reader) put(i int, field []byte, row []uint64, id *uint64) error {
	col := &r.columns[i]
	if col.slot == slotSkip {
		return nil
	}
	v, ok := parseUint(field)
	if !ok || v > col.max {
		return &Error{File: r.name, Line: r.line, Column: i + 1, Name: col.name, Got: shorten(field),
			Want: fmt.Sprintf("a whole number 0..%d", col.max)}
	}
	if col.slot == slotID {
		*id = v
	} else {
		row[col.slot] = v
	}
	return nil
}

func (r *Reader) scanError() error {
	switch err := r.lines.Err(); err {
	case nil:
		return io.EOF
	case bufio.ErrTooLong:
		return &Error{File: r.name, Line: r.line + 1, Got: fmt.Sprintf("a line of over %d bytes", maxLine), Want: "a shorter one"}
	default:
		return fmt.Errorf("%s:%d: %w", r.name, r.line+1, err)
	}
}

func (r *Reader) countError(line []byte) error {
	return &Error{File: r.name, Line: r.line, Got: counted(bytes.Count(line, []byte{'\t'})+1, "column"),
		Want: fmt.Sprintf("%d separated by tabs (%s)", len(r.columns), r.names())}
}

// names lists the columns.
func (r *Reader) names() string {
	names := make([]string, len(r.columns))
	for i, col := range r.columns {
		names[i] = col.name
	}
	return strings.Join(names, " ")
}

// readHeader finds the columns' names, in the first line unless the options give them.
func (r *Reader) readHeader(opts Options) error {
	names := opts.Columns
	if r.lines.Scan() {
		r.line++
		first := trimCR(r.lines.Bytes())
		header, isHeader := parseHeader(first)
		switch {
		case !isHeader && len(names) == 0:
			return &Error{File: r.name, Line: r.line, Got: fmt.Sprintf("%q", shorten(first)),
				Want: "a header line that names the columns, or names given by --columns"}
		case !isHeader:
			r.replay = true
		case len(names) == 0:
			names = header
		}
	} else if err := r.scanError(); err != io.EOF {
		return err
	} else if len(names) == 0 {
		return fmt.Errorf("%s: is empty", r.name)
	}
	return r.setColumns(names, opts)
}

// setColumns makes the columns of their names.
func (r *Reader) setColumns(names []string, opts Options) error {
	id := opts.ID
	if id == "" {
		id = names[0]
		for _, usual := range []string{"id", "mid"} {
			if slices.Contains(names, usual) {
				id = usual
			}
		}
	}
	if !slices.Contains(names, id) {
		return fmt.Errorf("%s: no column %q for the id among %s", r.name, id, strings.Join(names, ", "))
	}
	r.columns, r.values = nil, nil
	for i, name := range names {
		col := column{name: name, max: MaxID, slot: len(r.values)}
		switch {
		case name == "-":
			col.slot = slotSkip
		case slices.Contains(names[:i], name):
			return fmt.Errorf("%s: two columns named %q", r.name, name)
		case name == id:
			col.slot = slotID
		default:
			if opts.Max != nil {
				col.max = min(opts.Max(name), MaxID)
			}
			r.values = append(r.values, name)
		}
		r.columns = append(r.columns, col)
	}
	if len(r.values) == 0 {
		return fmt.Errorf("%s: no column beside the id: %s", r.name, strings.Join(names, ", "))
	}
	return nil
}

// parseHeader returns the names in a line that is a header: a line that starts with #, or that holds names only.
func parseHeader(line []byte) (names []string, ok bool) {
	text, marked := strings.CutPrefix(string(line), "#")
	names = strings.Fields(text)
	if len(names) == 0 {
		return nil, false
	}
	for _, name := range names {
		if !marked && !isName(name) {
			return nil, false
		}
	}
	return names, true
}

// isName tells a column's name from data, also from data gone wrong, such as -5 or 3.14.
func isName(s string) bool {
	c := s[0] | 0x20
	return c >= 'a' && c <= 'z' || s[0] == '_' || s == "-"
}

func parseUint(b []byte) (v uint64, ok bool) {
	if len(b) == 0 || len(b) > 19 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = v*10 + uint64(c-'0')
	}
	return v, true
}

func trimCR(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		return line[:n-1]
	}
	return line
}

func shorten(field []byte) string {
	const most = 40
	if len(field) <= most {
		return string(field)
	}
	return string(field[:most]) + "..."
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
