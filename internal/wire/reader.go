package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Limits on the replies of a server. Nothing is allocated for a reply before they are checked.
const (
	MaxBulk  = 16 << 20 // bytes in a bulk string
	MaxLine  = 64 << 10 // bytes in a line: a status, an error, a number
	MaxArray = 1 << 20  // elements of an array, and values of a reply in all its arrays together
	MaxDepth = 8        // arrays within arrays
	MaxText  = 64 << 20 // bytes of all strings of a reply
)

// StartSize is the initial size of a Reader's buffer unless told otherwise: the replies to a pipeline of 64 pages of
// 20 posts fit.
const StartSize = 64 << 10

// ErrProtocol is wrapped by the error for bytes that are not the reply that was due.
var ErrProtocol = errors.New("not the reply that was due")

// ServerError is an error reply, such as "ERR value is not an integer or out of range".
type ServerError struct{ Text string }

func (e *ServerError) Error() string { return "server: " + e.Text }

// Reader reads replies.
//
// Slices it returns point into its buffer and are valid until the next call. It is not safe for concurrent use.
type Reader struct {
	src io.Reader
	buf []byte // buf[pos:end] is read from src and not yet consumed
	pos int
	end int

	reads int
}

// NewReader returns a Reader of src whose buffer starts with size bytes, and grows where a reply needs it.
func NewReader(src io.Reader, size int) *Reader {
	return &Reader{src: src, buf: make([]byte, max(size, 512))}
}

// Buffered returns how many bytes are read and not yet consumed.
func (r *Reader) Buffered() int { return r.end - r.pos }

// Reads returns how many times src was read.
func (r *Reader) Reads() int { return r.reads }

// fill reads more bytes behind those that are there, after making room for them.
func (r *Reader) fill() error {
	if r.pos > 0 {
		copy(r.buf, r.buf[r.pos:r.end])
		r.end -= r.pos
		r.pos = 0
	}
	if r.end == len(r.buf) {
		r.buf = append(r.buf, make([]byte, len(r.buf))...)
	}
	for range 100 {
		n, err := r.src.Read(r.buf[r.end:])
		r.end += n
		r.reads++
		if n > 0 {
			return nil
		}
		if err != nil {
			if err == io.EOF && r.end > 0 {
				return io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return io.ErrNoProgress
}

// line consumes one line and returns it without its end. It is never empty: a reply starts with its type.
func (r *Reader) line() ([]byte, error) {
	scanned := 0
	for {
		if i := bytes.IndexByte(r.buf[r.pos+scanned:r.end], '\n'); i >= 0 {
			i += scanned
			line := r.buf[r.pos : r.pos+i]
			r.pos += i + 1
			if i < 2 || line[i-1] != '\r' {
				return nil, fmt.Errorf("%w: line %.40q", ErrProtocol, line)
			}
			return line[:i-1], nil
		}
		scanned = r.end - r.pos
		if scanned > MaxLine {
			return nil, fmt.Errorf("%w: a line of more than %d bytes", ErrProtocol, MaxLine)
		}
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
}

// header consumes the line a reply starts with. An error reply becomes a *ServerError.
func (r *Reader) header() (kind byte, rest []byte, err error) {
	line, err := r.line()
	if err != nil {
		return 0, nil, err
	}
	if line[0] == '-' {
		return 0, nil, &ServerError{Text: string(line[1:])}
	}
	return line[0], line[1:], nil
}

// short consumes a line of kind and a number from 0 to 10^17-1 that is there in full, as nearly all lines are: one
// pass over its bytes instead of three. Whatever else is there, it consumes nothing and leaves it to header.
func (r *Reader) short(kind byte) (v int64, ok bool) {
	b := r.buf[r.pos:r.end]
	if len(b) == 0 || b[0] != kind {
		return 0, false
	}
	i := 1
	for ; i < len(b) && i <= 17; i++ {
		c := b[i] - '0'
		if c > 9 {
			break
		}
		v = v*10 + int64(c)
	}
	if i == 1 || i+1 >= len(b) || b[i] != '\r' || b[i+1] != '\n' {
		return 0, false
	}
	r.pos += i + 2
	return v, true
}

// bulk consumes a bulk string's body of the given length.
func (r *Reader) bulk(n int) ([]byte, error) {
	for r.end-r.pos < n+2 {
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
	body := r.buf[r.pos : r.pos+n]
	if r.buf[r.pos+n] != '\r' || r.buf[r.pos+n+1] != '\n' {
		return nil, fmt.Errorf("%w: a bulk string of %d bytes does not end there", ErrProtocol, n)
	}
	r.pos += n + 2
	return body, nil
}

// ReadStatus consumes one status or integer: the reply of a command whose answer is not looked at.
func (r *Reader) ReadStatus() error {
	kind, rest, err := r.header()
	if err != nil {
		return err
	}
	if kind != '+' && kind != ':' {
		return unexpected("a status", kind, rest)
	}
	return nil
}

// ReadInt consumes an integer.
func (r *Reader) ReadInt() (int64, error) {
	if v, ok := r.short(':'); ok {
		return v, nil
	}
	kind, rest, err := r.header()
	if err != nil {
		return 0, err
	}
	v, ok := parseInt(rest)
	if kind != ':' || !ok {
		return 0, unexpected("an integer", kind, rest)
	}
	return v, nil
}

// ReadNumber consumes an integer, a bulk string that spells one, or a null, for which ok is false.
func (r *Reader) ReadNumber() (v int64, ok bool, err error) {
	if v, ok := r.short(':'); ok {
		return v, true, nil
	}
	kind, rest, err := r.header()
	if err != nil {
		return 0, false, err
	}
	switch kind {
	case '$':
		n, good := parseLen(rest, MaxBulk)
		if !good {
			return 0, false, unexpected("a number", kind, rest)
		}
		if n < 0 {
			return 0, false, nil
		}
		body, err := r.bulk(n)
		if err != nil {
			return 0, false, err
		}
		if v, ok = parseInt(body); !ok {
			return 0, false, unexpected("a number", kind, body)
		}
		return v, true, nil
	case ':':
		if v, ok = parseInt(rest); ok {
			return v, true, nil
		}
	case '_':
		return 0, false, nil
	}
	return 0, false, unexpected("a number", kind, rest)
}

// ReadBulk consumes a bulk string or a null, for which ok is false.
func (r *Reader) ReadBulk() (b []byte, ok bool, err error) {
	kind, rest, err := r.header()
	if err != nil {
		return nil, false, err
	}
	if kind == '_' {
		return nil, false, nil
	}
	n, good := parseLen(rest, MaxBulk)
	if kind != '$' || !good {
		return nil, false, unexpected("a bulk string", kind, rest)
	}
	if n < 0 {
		return nil, false, nil
	}
	b, err = r.bulk(n)
	return b, err == nil, err
}

// ReadArray consumes the head of an array and returns how many elements follow, or of a null, for which ok is false.
func (r *Reader) ReadArray() (n int, ok bool, err error) {
	if v, ok := r.short('*'); ok && v <= MaxArray {
		return int(v), true, nil
	} else if ok {
		return 0, false, fmt.Errorf("%w: an array of %d elements, at most %d are read", ErrProtocol, v, MaxArray)
	}
	kind, rest, err := r.header()
	if err != nil {
		return 0, false, err
	}
	if kind == '_' {
		return 0, false, nil
	}
	n, good := parseLen(rest, MaxArray)
	if (kind != '*' && kind != '$') || !good || (kind == '$' && n >= 0) {
		return 0, false, unexpected("an array", kind, rest)
	}
	if n < 0 {
		return 0, false, nil
	}
	return n, true, nil
}

func unexpected(want string, kind byte, got []byte) error {
	return fmt.Errorf("%w: want %s, got %.60q", ErrProtocol, want, string(kind)+string(got))
}

// parseLen parses a length from -1 to limit.
func parseLen(b []byte, limit int) (n int, ok bool) {
	v, ok := parseInt(b)
	if !ok || v < -1 || v > int64(limit) {
		return 0, false
	}
	return int(v), true
}

// parseInt parses a decimal number without allocating, which strconv does for its error.
func parseInt(b []byte) (v int64, ok bool) {
	digits := b
	if len(b) > 0 && b[0] == '-' {
		digits = b[1:]
	}
	if len(digits) == 0 {
		return 0, false
	}
	if len(digits) > 18 { // may overflow: rare, so leave it to strconv
		v, err := strconv.ParseInt(string(b), 10, 64)
		return v, err == nil
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = v*10 + int64(c-'0')
	}
	if len(digits) != len(b) {
		v = -v
	}
	return v, true
}
