package follow

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// Limits of a command in the stream. A source may send values of 512 MB, of which none is a number.
const (
	maxArg     = 64 << 10  // longer arguments are passed over: they come as empty ones
	maxArgs    = 16 << 20  // of a command
	maxCommand = 256 << 20 // bytes of all arguments that are kept
	maxHead    = 32        // bytes of "*3\r\n", "$5\r\n"
)

// errStream is wrapped by the error for bytes that are no commands.
var errStream = errors.New("the source sent what is no command")

// parser cuts a stream into commands, as the bytes come. A command is complete or is not there yet. The zero parser is at
// the beginning of one. It takes memory for bytes that have arrived, not for announced lengths.
type parser struct {
	rest []byte   // came and was not looked at
	pos  int      // in rest
	text []byte   // the arguments so far, one behind the other
	ends []int    // in text
	args [][]byte // of the last command
	left int      // arguments to come; 0: no command has begun
	body int64    // bytes of the argument to come, its end included; 0: its head is to come
	long bool     // it is passed over
	size uint64   // bytes of the command so far
}

// feed adds bytes. REQUIRES: next said that there is no command.
func (p *parser) feed(b []byte) {
	p.rest = append(p.rest[:copy(p.rest, p.rest[p.pos:])], b...)
	p.pos = 0
}

// next returns a command and how many bytes it has, or that more must come first. Arguments are valid until the next call.
func (p *parser) next() (args [][]byte, size uint64, ok bool, err error) {
	for {
		if p.body > 0 {
			if !p.readBody() {
				return nil, 0, false, nil
			}
			if p.left > 0 {
				continue
			}
			return p.finish()
		}
		kind := byte('$')
		if p.left == 0 {
			kind = '*'
		}
		n, ok, err := p.head(kind)
		if err != nil || !ok {
			return nil, 0, false, err
		}
		if kind == '*' {
			if n < 1 || n > maxArgs {
				return nil, 0, false, fmt.Errorf("%w: a command of %d arguments", errStream, n)
			}
			p.left, p.text, p.ends = int(n), p.text[:0], p.ends[:0]
			continue
		}
		p.long = n > maxArg
		if p.body = n + 2; !p.long && len(p.text)+int(n) > maxCommand {
			return nil, 0, false, fmt.Errorf("%w that can be read: one of more than %d bytes", errStream, maxCommand)
		}
	}
}

// head reads a line of a kind and a number.
func (p *parser) head(kind byte) (n int64, ok bool, err error) {
	b := p.rest[p.pos:]
	end := bytes.IndexByte(b[:min(len(b), maxHead)], '\n')
	if end < 0 && len(b) < maxHead {
		if len(b) > 0 && b[0] != kind {
			end = 0
		} else {
			return 0, false, nil
		}
	}
	if end < 3 || b[0] != kind || b[end-1] != '\r' {
		return 0, false, fmt.Errorf("%w: %.40q", errStream, b)
	}
	n, err = strconv.ParseInt(string(b[1:end-1]), 10, 64)
	if err != nil || n < 0 || n > 1<<40 {
		return 0, false, fmt.Errorf("%w: %.40q", errStream, b[:end])
	}
	p.pos += end + 1
	p.size += uint64(end + 1)
	return n, true, nil
}

// readBody takes the available bytes of an argument, and tells whether the argument is complete.
func (p *parser) readBody() (done bool) {
	part := min(p.body, int64(len(p.rest)-p.pos))
	if kept := min(part, max(p.body-2, 0)); !p.long { // without the end
		p.text = append(p.text, p.rest[p.pos:p.pos+int(kept)]...)
	}
	p.pos += int(part)
	p.size += uint64(part)
	if p.body -= part; p.body > 0 {
		return false
	}
	p.ends = append(p.ends, len(p.text))
	p.left--
	return true
}

// finish returns the command whose last byte was read.
func (p *parser) finish() (args [][]byte, size uint64, ok bool, err error) {
	p.args = p.args[:0]
	start := 0
	for _, end := range p.ends {
		p.args = append(p.args, p.text[start:end:end])
		start = end
	}
	size, p.size = p.size, 0
	return p.args, size, true, nil
}
