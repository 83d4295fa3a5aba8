package idmp

import (
	"bytes"
	"encoding/binary"
	"strconv"

	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/counter"
)

// Tags of a blob; see the package comment. They are part of formats and must not change.
const (
	tagInt       = 1
	tagOK        = 2
	tagDigits    = 3
	tagNull      = 4
	tagNullArray = 5
	tagBulk      = 6
	tagStatus    = 7
	tagError     = 8
	tagArray     = 9
	tagMap       = 10
	tagSet       = 11
	tagOverflow  = 12
)

// overflow is the error that many replies of a batch may be.
const overflow = "ERR increment or decrement would overflow"

// ErrGone answers a repeat whose first reply is not kept: it was too long, or 128 later changes have been made.
const ErrGone = "IDMPEXPIRED the change was made; its reply is not kept any more, or was longer than 65536 bytes as they are kept"

// Keep makes a result of one reply, which is in the neutral version of the protocol (resp.Neutral). It works in buf, or
// where that is too small in memory of its own, and returns what it worked in: a blob is there. A reply that cannot be
// kept is ResultGone. No command that changes items has such a reply.
func Keep(reply, buf []byte) (counter.Result, []byte) {
	gone := counter.Result{Kind: counter.ResultGone}
	r := reader{reply}
	b := buf[:0]
	for left := 1; left > 0; left-- {
		inner, ok := 0, false
		if b, inner, ok = r.keep(b); !ok {
			return gone, b
		}
		left += inner
	}
	if len(r.b) > 0 {
		return gone, b
	}
	return single(b), b
}

// single makes a result of a blob: of one number, or of none, it needs no bytes.
func single(b []byte) counter.Result {
	switch b[0] {
	case tagInt:
		n, _ := binary.Varint(b[1:])
		return counter.Result{Kind: counter.ResultInt, N: uint64(n)}
	case tagOK:
		return counter.Result{Kind: counter.ResultOK}
	case tagDigits:
		n, _ := binary.Uvarint(b[1:])
		return counter.Result{Kind: counter.ResultBulk, N: n}
	case tagNull:
		return counter.Result{Kind: counter.ResultNil}
	}
	return counter.Result{Kind: counter.ResultBlob, Blob: b}
}

// reader takes replies apart.
type reader struct{ b []byte }

// line reads the next line: its first byte and the rest.
func (r *reader) line() (mark byte, rest []byte, ok bool) {
	i := bytes.IndexByte(r.b, '\r')
	if i < 1 || i+1 >= len(r.b) {
		return 0, nil, false
	}
	mark, rest = r.b[0], r.b[1:i]
	r.b = r.b[i+2:]
	return mark, rest, true
}

// bytes reads the bytes of a bulk string whose length is in line.
func (r *reader) bytes(line []byte) ([]byte, bool) {
	n, ok := resp.Number(line)
	if !ok || n < 0 || n > int64(len(r.b)-2) {
		return nil, false
	}
	text := r.b[:n]
	r.b = r.b[n+2:]
	return text, true
}

// keep appends one reply, or the head of one with inner replies, to a blob.
func (r *reader) keep(blob []byte) (_ []byte, inner int, ok bool) {
	mark, line, ok := r.line()
	if !ok {
		return blob, 0, false
	}
	head := func(tag byte, each int) ([]byte, int, bool) {
		n, ok := resp.Number(line)
		if !ok || n < 0 || n > int64(len(r.b)) { // each takes more than a byte
			return blob, 0, false
		}
		return binary.AppendUvarint(append(blob, tag), uint64(n)), each * int(n), true
	}
	switch mark {
	case ':':
		n, ok := resp.Number(line)
		return binary.AppendVarint(append(blob, tagInt), n), 0, ok
	case '+':
		if string(line) == "OK" {
			return append(blob, tagOK), 0, true
		}
		return appendBytes(append(blob, tagStatus), line), 0, true
	case '-':
		if string(line) == overflow {
			return append(blob, tagOverflow), 0, true
		}
		return appendBytes(append(blob, tagError), line), 0, true
	case '*':
		if string(line) == "-1" {
			return append(blob, tagNullArray), 0, true
		}
		return head(tagArray, 1)
	case '%':
		return head(tagMap, 2)
	case '~':
		return head(tagSet, 1)
	case '$':
		if string(line) == "-1" {
			return append(blob, tagNull), 0, true
		}
		text, ok := r.bytes(line)
		if n, number := unsigned(text); number {
			return binary.AppendUvarint(append(blob, tagDigits), n), 0, ok
		}
		return appendBytes(append(blob, tagBulk), text), 0, ok
	}
	return blob, 0, false
}

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// Answer appends the reply that a result was made of, in the version of the protocol that out speaks. It is false, and
// nothing was appended, for a blob that is none.
func Answer(out *resp.Replies, r counter.Result) bool {
	switch r.Kind {
	case counter.ResultInt:
		out.Int(int64(r.N))
	case counter.ResultOK:
		out.Status("OK")
	case counter.ResultNil:
		out.Null()
	case counter.ResultBulk:
		out.BulkUint(r.N)
	case counter.ResultGone:
		out.Error(ErrGone)
	case counter.ResultBlob:
		size := out.Len()
		b := blob{r.Blob}
		for left := 1; left > 0; left-- {
			inner, ok := b.answer(out)
			if !ok {
				out.Cut(size)
				return false
			}
			left += inner
		}
		if len(b.b) > 0 {
			out.Cut(size)
			return false
		}
	default:
		return false
	}
	return true
}

// blob takes a blob apart.
type blob struct{ b []byte }

func (b *blob) uvarint() (uint64, bool) {
	v, n := binary.Uvarint(b.b)
	if n <= 0 {
		return 0, false
	}
	b.b = b.b[n:]
	return v, true
}

func (b *blob) bytes() ([]byte, bool) {
	n, ok := b.uvarint()
	if !ok || n > uint64(len(b.b)) {
		return nil, false
	}
	text := b.b[:n]
	b.b = b.b[n:]
	return text, true
}

// answer appends one reply, or the head of one with inner replies.
func (b *blob) answer(out *resp.Replies) (inner int, ok bool) {
	if len(b.b) == 0 {
		return 0, false
	}
	tag := b.b[0]
	b.b = b.b[1:]
	switch tag {
	case tagOK:
		out.Status("OK")
		return 0, true
	case tagNull:
		out.Null()
		return 0, true
	case tagNullArray:
		out.NullArray()
		return 0, true
	case tagOverflow:
		out.Error(overflow)
		return 0, true
	case tagInt:
		v, n := binary.Varint(b.b)
		if n <= 0 {
			return 0, false
		}
		b.b = b.b[n:]
		out.Int(v)
		return 0, true
	case tagBulk, tagStatus, tagError:
		text, ok := b.bytes()
		if !ok {
			return 0, false
		}
		switch tag {
		case tagBulk:
			out.Bulk(text)
		case tagStatus:
			out.Status(string(text))
		default:
			out.Error(string(text))
		}
		return 0, true
	}
	n, ok := b.uvarint()
	if tag == tagDigits {
		if ok {
			out.BulkUint(n)
		}
		return 0, ok
	}
	if !ok || n > uint64(len(b.b)) { // each takes a byte at least
		return 0, false
	}
	switch tag {
	case tagArray:
		out.Array(int(n))
		return int(n), true
	case tagMap:
		out.Map(int(n))
		return 2 * int(n), true
	case tagSet:
		out.Set(int(n))
		return int(n), true
	}
	return 0, false
}

// Epoch and seq as replies: a seq beyond an integer is a string of digits.

// AppendSeq answers a seq.
func AppendSeq(out *resp.Replies, seq uint64) {
	if seq > 1<<63-1 {
		out.BulkString(strconv.FormatUint(seq, 10))
		return
	}
	out.Int(int64(seq))
}

// MaxBlob is the most bytes of a blob of n numbers or nulls, and the head of an array around them.
func MaxBlob(n int) int { return 16 + 11*n }
