package resp

import (
	"bytes"
	"math"
)

// beginCommand reads the header of an array. It leaves left at 0 if the array is empty
// or its count negative; such a command is passed over.
func (r *Reader) beginCommand() error {
	line, err := r.header(tooBigMultibulkLine)
	if err != nil {
		return err
	}
	n, ok := parseLength(line[1:])
	switch {
	case !ok || !r.crlfAt(r.pos+len(line)):
		return r.fail(invalidMultibulk, 0, 0)
	case n > redisMaxArgs:
		return r.fail(invalidMultibulk, clampInt(n), r.limits.MaxArgs)
	case n > int64(r.limits.MaxArgs) && r.limits.Unauthenticated:
		return r.fail(unauthMultibulk, int(n), r.limits.MaxArgs)
	case n > int64(r.limits.MaxArgs):
		return r.fail(invalidMultibulk, int(n), r.limits.MaxArgs)
	}
	r.pos += len(line) + 2
	if n <= 0 {
		r.start = r.pos
		return nil
	}
	r.left, r.bulk = int(n), -1
	return nil
}

// arg reads one argument of any length, or goes on with the one it was waiting
// for. It alone decides about errors: the fast path only ever accepts.
func (r *Reader) arg() error {
	if r.bulk < 0 {
		if err := r.bulkHeader(); err != nil {
			return err
		}
	}
	tail := r.pos + r.bulk
	if tail+2 > r.end {
		return ErrIncomplete
	}
	if !r.crlfAt(tail) {
		return r.fail(invalidBulk, 0, 0)
	}
	r.spans = append(r.spans, span{uint32(r.pos - r.start), uint32(r.bulk)})
	r.pos, r.bulk = tail+2, -1
	r.left--
	return nil
}

// bulkHeader reads the header of an argument into bulk.
func (r *Reader) bulkHeader() error {
	line, err := r.header(tooBigBulkLine)
	if err != nil {
		return err
	}
	if len(line) == 0 || line[0] != '$' {
		return r.fail(expected(r.buf[r.pos]), 0, 0)
	}
	n, ok := parseLength(line[1:])
	data := r.pos + len(line) + 2
	switch {
	case !ok || n < 0 || !r.crlfAt(data-2):
		return r.fail(invalidBulk, 0, 0)
	case n > redisMaxBulk:
		return r.fail(invalidBulk, clampInt(n), r.limits.MaxBulk)
	case n > int64(r.limits.MaxBulk) && r.limits.Unauthenticated:
		return r.fail(unauthBulk, int(n), r.limits.MaxBulk)
	case n > int64(r.limits.MaxBulk):
		return r.fail(invalidBulk, int(n), r.limits.MaxBulk)
	case data+int(n)+2 > r.commandEnd():
		return r.failRequest(r.aside.bytes + data + int(n) + 2 - r.start)
	}
	r.pos, r.bulk = data, int(n)
	return nil
}

// header returns the line at pos up to its CR, once the CR and one byte more
// have arrived; that this byte is LF is for the caller to see, so that errors
// take the order they have in Redis. Neither the line, by MaxInline, nor the
// command that ends with it, by MaxCommand, may be too long; text is the error
// in the former case. The search resumes where the last one ended.
func (r *Reader) header(text string) ([]byte, error) {
	last := r.pos + r.limits.MaxInline // where the CR can be at the latest
	ofCommand := r.commandEnd() - 2
	from := max(r.scan, r.pos)
	if stop := min(r.end, min(last, ofCommand)+1); from < stop {
		i := bytes.IndexByte(r.buf[from:stop], '\r')
		if i >= 0 {
			r.examined += int64(i + 1)
			r.scan = from + i
			if r.scan+1 == r.end {
				return nil, ErrIncomplete
			}
			return r.buf[r.pos:r.scan], nil
		}
		r.examined += int64(stop - from)
	}
	switch {
	case r.end > ofCommand && ofCommand < last:
		return nil, r.failRequest(r.Buffered())
	case r.end > last:
		return nil, r.fail(text, r.end-r.pos, r.limits.MaxInline)
	}
	r.scan = r.end
	return nil, ErrIncomplete
}

// commandEnd is where in the buffer the command at start has to end at the latest.
func (r *Reader) commandEnd() int { return r.start + r.limits.MaxCommand - r.aside.bytes }

// failRequest is the error of a command of size bytes, or more, that is above
// MaxCommand.
func (r *Reader) failRequest(size int) error {
	if r.limits.Unauthenticated {
		return r.fail(unauthBulk, size, r.limits.MaxCommand)
	}
	return r.fail(tooBigRequest, size, r.limits.MaxCommand)
}

// crlfAt reports whether CRLF is at i. REQUIRES: i+2 <= end.
func (r *Reader) crlfAt(i int) bool { return r.buf[i] == '\r' && r.buf[i+1] == '\n' }

// parseLength parses a decimal int64 as strictly as Redis does: an optional
// minus, no plus, no space, no leading zero, no minus zero.
func parseLength(s []byte) (n int64, ok bool) {
	if len(s) == 1 && s[0] == '0' {
		return 0, true
	}
	negative := len(s) > 0 && s[0] == '-'
	if negative {
		s = s[1:]
	}
	// 19 digits are at most 10^19-1, which a uint64 holds.
	if len(s) == 0 || len(s) > 19 || s[0] == '0' {
		return 0, false
	}
	var u uint64
	for _, c := range s {
		d := c - '0'
		if d > 9 {
			return 0, false
		}
		u = u*10 + uint64(d)
	}
	switch {
	case negative && u <= math.MaxInt64+1:
		return -int64(u-1) - 1, true
	case !negative && u <= math.MaxInt64:
		return int64(u), true
	}
	return 0, false
}

// clampInt is n as an int, the largest one if it does not fit.
func clampInt(n int64) int { return int(min(n, math.MaxInt)) }
