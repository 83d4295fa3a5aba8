package resp

import (
	"encoding/binary"
	"slices"
)

const (
	// MinBuffer is the first size of a buffer, in bytes: 64 pipelined
	// counter commands of 41 bytes fit.
	MinBuffer = 4 << 10
	// MaxRetained is the largest buffer, in bytes, that Shrink lets a Reader
	// keep: 10,000 connections that once sent a large command then hold
	// at most 160 MiB, and none if it is released while idle.
	MaxRetained = 16 << 10
	// maxRead is the most that Space offers unless asked for more. It bounds
	// the commands of one batch, and with them the list of arguments.
	maxRead = 64 << 10
	// maxBatchArgs is how many entries of the argument lists outlive a batch
	// (96 KiB and 32 KiB): 64 pipelined MGETs of 60 keys. A batch above it
	// allocates, less than once per 4096 arguments, instead of leaving a
	// connection that sent 64 KiB of one-letter lines with 24 bytes for
	// each of them.
	maxBatchArgs = 4096
	// maxRetainedArgs is how many entries of the argument lists outlive a
	// batch before authentication (512 bytes a connection).
	maxRetainedArgs = 16
	// asideSize is the least buffer that is set aside where a command does not fit
	// in it, instead of being copied to one of twice the size: to copy 8 MiB and
	// to clear 16 takes 5 ms of a loop.
	asideSize = 256 << 10
	// slack bytes at the end of the buffer are never filled. They let the
	// fast path load a header as one word without asking whether all eight
	// bytes have arrived.
	slack = 8
)

// A span is one argument: length bytes at off, counted from the first byte of
// its command. MaxCommand <= 1 GiB keeps both in range.
type span struct{ off, length uint32 }

// A Reader turns received bytes into commands; the package comment says how it
// is used and how long its results live. The zero value is not ready: use
// NewReader. A Reader is not safe for concurrent use.
//
// Invariant between calls:
//
//	0 <= start <= pos <= end <= len(buf)-slack   (all 0 without a buffer)
//	left == 0: pos == start, no spans; buf[start:end] begins a command or is empty
//	left  > 0: buf[start:pos] is the parsed part of an array that still wants
//	           left arguments; bulk is the length of the next one, -1 while its
//	           header is to come
//	scan <= end: the line at pos has no end before scan (meaningless below pos)
//	aside is the part of the unfinished command that is in earlier buffers, if any
//	err != nil: nothing above matters any more
type Reader struct {
	buf   []byte
	start int
	pos   int
	end   int
	scan  int
	left  int
	bulk  int
	spans []span   // arguments found of the command at start
	args  [][]byte // arguments of all commands returned since the last Space

	head  head  // of the last command returned
	aside aside // of the unfinished command

	limits Limits
	base   int64 // offset of buf[0] in the stream
	err    *ProtocolError

	// examined counts bytes looked at without moving pos: by searches for a
	// line end and by attempts of the fast path that failed. With the bytes
	// passed by pos, each once, it is the whole work of parsing; the test of
	// linearity reads it.
	examined int64
}

// NewReader returns a Reader without a buffer. Values of l that are zero are
// those of DefaultLimits; l should have passed Validate.
func NewReader(l Limits) *Reader {
	return &Reader{limits: l.normal(), bulk: -1}
}

// SetLimits changes the limits, for instance after AUTH. They hold from the next
// header that Next reads, also for commands that are buffered already. The
// accepted part of an unfinished command stays accepted.
func (r *Reader) SetLimits(l Limits) {
	r.limits = l.normal()
	r.head.forget() // the next one may be too long
}

// Limits returns the limits in force.
func (r *Reader) Limits() Limits { return r.limits }

// Buffered returns the number of bytes received and not yet returned as part of
// a command, those of an unfinished command included.
func (r *Reader) Buffered() int { return r.aside.bytes + r.end - r.start }

// Partial reports whether a command has begun to arrive and is not complete: the
// state in which a deadline for the rest makes sense. It is exact after Next has
// returned ErrIncomplete.
func (r *Reader) Partial() bool { return r.err == nil && r.Buffered() > 0 }

// Space returns room to read into: at least n bytes, usually all that is free,
// and no more than 64 KiB unless n is more. It ends the validity of all
// arguments returned before. REQUIRES: Next has returned ErrIncomplete since the
// last Filled, otherwise the buffer grows beyond MaxCommand + n.
func (r *Reader) Space(n int) []byte {
	n = max(n, 1)
	if r.limits.Unauthenticated {
		r.endBatch(maxRetainedArgs)
	} else {
		r.endBatch(maxBatchArgs)
	}
	if r.err != nil || r.start == r.end {
		r.base += int64(r.end)
		r.start, r.pos, r.end, r.scan = 0, 0, 0, 0
	}
	if len(r.buf)-slack-r.end < n {
		r.makeRoom(n)
	}
	free := r.buf[r.end : len(r.buf)-slack]
	return free[:min(len(free), max(n, maxRead)):len(free)]
}

// endBatch gives up all arguments returned, and the lists they were in if these
// have more than most entries.
func (r *Reader) endBatch(most int) {
	r.args = r.args[:0]
	if cap(r.args) > most {
		r.args = nil
	}
	if cap(r.spans) > most && r.left == 0 {
		r.spans = nil
	}
	if r.aside.bytes == 0 {
		r.aside.free() // of the last command
	}
}

// makeRoom drops the consumed bytes, and doubles the buffer if that does not
// make n bytes free. An unfinished command is moved once to the front and then
// once per doubling, so moving costs O(1) a byte received. From asideSize on the
// arguments that have arrived stay where they are.
func (r *Reader) makeRoom(n int) {
	if r.setAside() {
		r.moveTo(newBuffer(max(asideSize, 2*(r.end-r.start)+n+slack)))
		return
	}
	used := r.end - r.start
	dst := r.buf
	if need := used + n + slack; need > len(dst) {
		size := max(2*len(dst), MinBuffer)
		// Doubling past the largest command would only be wasted.
		size = min(size, r.limits.MaxCommand-r.aside.bytes+n+slack)
		dst = newBuffer(max(size, need))
	}
	r.moveTo(dst)
}

// moveTo copies the unconsumed bytes to the front of dst, which becomes the
// buffer and may already be it.
func (r *Reader) moveTo(dst []byte) {
	if len(r.buf) > 0 && &dst[0] != &r.buf[0] {
		clear(r.args[:cap(r.args)]) // they would keep the old buffer alive
	}
	copy(dst, r.buf[r.start:r.end])
	r.buf = dst
	r.base += int64(r.start)
	r.pos -= r.start
	r.end -= r.start
	r.scan -= r.start
	r.start = 0
}

// Filled tells that n bytes were read into what Space returned last. It panics
// if that is impossible, like bufio on a reader that lies about its count.
func (r *Reader) Filled(n int) {
	if n < 0 || n > max(len(r.buf)-slack-r.end, 0) {
		panic("resp: Filled with a count that Space did not offer")
	}
	r.end += n
}

// Next returns the next complete command, its name first; args is never empty.
// The error is ErrIncomplete when more bytes are needed, or a *ProtocolError,
// which every later call returns again. Next allocates only while the lists of
// arguments grow to the size of the batches seen.
func (r *Reader) Next() (args [][]byte, err error) {
	for r.left == 0 {
		if r.err != nil {
			return nil, r.err
		}
		if r.pos == r.end {
			return nil, ErrIncomplete
		}
		if r.buf[r.pos] != '*' {
			r.head.forget()
			args, err := r.inline()
			if err != nil || len(args) > 0 {
				return args, err
			}
			continue
		}
		n, width := short(binary.LittleEndian.Uint64(r.buf[r.pos:]), '*')
		if width != 0 && n != 0 && n <= r.limits.MaxArgs && r.pos+width <= r.end {
			if args := r.whole(n, width); args != nil {
				return args, nil
			}
			r.left, r.bulk = n, -1
			r.pos += width
		} else if err := r.beginCommand(); err != nil {
			return nil, err
		}
	}
	for {
		if r.bulk < 0 {
			r.shortArgs()
			if r.left == 0 {
				return r.finish(), nil
			}
		}
		if err := r.arg(); err != nil {
			return nil, err
		}
		if r.left == 0 {
			return r.finish(), nil
		}
	}
}

const crlf = '\r' | '\n'<<8

// short decodes a header of marker, one or two digits without a leading zero,
// and CRLF from the eight bytes in word, the first being the lowest. Its width
// is 0 if they are anything else.
//
//	bits  0      8     16    24    32    40
//	      marker digit CR    LF                    width 4
//	      marker digit digit CR    LF              width 5
func short(word uint64, marker byte) (n, width int) {
	if word&0xFFFF00FF == uint64(marker)|crlf<<16 {
		if d := word>>8&0xFF - '0'; d <= 9 {
			return int(d), 4
		}
	}
	if word&0xFFFF0000FF == uint64(marker)|crlf<<24 {
		tens, ones := word>>8&0xFF-'0', word>>16&0xFF-'0'
		if tens-1 <= 8 && ones <= 9 {
			return int(tens*10 + ones), 5
		}
	}
	return 0, 0
}

// shortArgs takes all arguments at pos that are complete, within the limits and
// of less than 100 bytes, which is every argument of a counter command. It stops
// without an error at anything else, and arg, which follows, knows what it is.
func (r *Reader) shortArgs() {
	// A header that was read partly from the slack, or from bytes a previous
	// command left behind end, ends after stop and is refused there.
	b, i, left, spans := r.buf, r.pos, r.left, r.spans
	stop := min(r.end, r.commandEnd())
	for left > 0 && i < stop {
		n, width := short(binary.LittleEndian.Uint64(b[i:]), '$')
		data := i + width
		tail := data + n
		if width == 0 || tail+2 > stop || n > r.limits.MaxBulk || binary.LittleEndian.Uint16(b[tail:]) != crlf {
			r.examined += 8 + 2
			break
		}
		spans = append(spans, span{uint32(data - r.start), uint32(n)})
		i = tail + 2
		left--
	}
	r.pos, r.left, r.spans = i, left, spans
}

// finish makes the arguments of a complete command out of its spans and steps
// over it.
func (r *Reader) finish() [][]byte {
	if r.aside.bytes > 0 {
		return r.finishAside()
	}
	first := len(r.args)
	r.args = r.appendArgs(r.args)
	args := r.args[first:]
	r.start = r.pos
	r.head.forget()
	return args[:len(args):len(args)]
}

// appendArgs makes arguments of the spans, which are none then.
func (r *Reader) appendArgs(list [][]byte) [][]byte {
	cmd := r.buf[r.start:r.pos]
	first := len(list)
	list = slices.Grow(list, len(r.spans))[:first+len(r.spans)]
	for i, s := range r.spans {
		list[first+i] = cmd[s.off : s.off+s.length : s.off+s.length]
	}
	r.spans = r.spans[:0]
	return list
}

// fail makes the Reader answer with a ProtocolError from now on.
func (r *Reader) fail(text string, got, limit int) error {
	r.err = &ProtocolError{Text: text, Offset: r.base + int64(r.pos), Got: int64(got), Limit: int64(limit)}
	r.left, r.aside = 0, aside{}
	return r.err
}
