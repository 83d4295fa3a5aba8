package resp

import (
	"math"
	"slices"

	"github.com/tidwall/redcon"
)

// Replies are the replies of one connection that are not sent yet, in the order of its commands, in the version of the
// protocol that it speaks. They are written in memory that nobody else writes in, whatever is appended and cut off: in
// some of their own, or in a region of an [Arena], of which only the last one given out can grow. No slice with room
// behind its end ever leaves this type. The zero value is ready and speaks RESP2.
type Replies struct {
	b     []byte
	home  *Arena // whose region b is, or was until it became too small; nil: none
	proto int8   // 0 is RESP2
	large bool   // see TakeLarge
}

// Region is memory that Replies were written in and others can be. The zero value is one of no size.
type Region struct{ b []byte }

// Neutral is the version of replies that are kept, not sent: maps and sets are those of RESP3, all else is RESP2's,
// which tells the two nulls apart.
const Neutral = 1

// Protocol is the version that the connection speaks, 2 or 3, or Neutral.
func (r *Replies) Protocol() int {
	if r.proto == 0 {
		return 2
	}
	return int(r.proto)
}

// SetProtocol chooses the version of replies to come: 3 is RESP3, Neutral itself, everything else RESP2.
func (r *Replies) SetProtocol(proto int) {
	r.proto = 0
	if proto == 3 || proto == Neutral {
		r.proto = int8(proto)
	}
}

// Len is the number of bytes.
func (r *Replies) Len() int { return len(r.b) }

// Cap is the number of bytes of the memory they are in.
func (r *Replies) Cap() int { return cap(r.b) }

// From returns the bytes from n on, none if there are not so many, to be looked at until the next call of another
// method.
func (r *Replies) From(n int) []byte { return r.b[min(n, len(r.b)):len(r.b):len(r.b)] }

// ErrorAt tells whether an error begins at byte n.
func (r *Replies) ErrorAt(n int) bool { return n < len(r.b) && r.b[n] == '-' }

// Cut drops the bytes from n on.
func (r *Replies) Cut(n int) { r.b = r.b[:n] }

// Sent drops the first n bytes. Bytes that the connection did not take move to memory of their own.
func (r *Replies) Sent(n int) {
	if n == len(r.b) {
		r.b = r.b[:0]
		return
	}
	r.move(n)
}

// move moves the bytes from n on to memory of their own and drops the others.
func (r *Replies) move(n int) {
	rest := append([]byte(nil), r.b[n:]...)
	r.Drop()
	r.b = rest
}

// Own moves replies from a region of an Arena to memory of their own, so that they no longer depend on the Arena.
func (r *Replies) Own() {
	if r.home != nil {
		r.move(0)
	}
}

// OwnIn is Own in the memory of m, which has none then.
func (r *Replies) OwnIn(m *Region) {
	if r.home == nil {
		return
	}
	b := append(m.b[:0], r.b...)
	r.Drop()
	r.b, m.b = b, nil
}

// Drop drops all bytes and the memory.
func (r *Replies) Drop() {
	if r.home != nil {
		r.home.back(r)
	}
	r.b, r.large = nil, false
}

// TakeMemory drops all bytes and goes on in the memory of m, which has none then.
func (r *Replies) TakeMemory(m *Region) {
	r.Drop()
	r.b, m.b = m.b[:0], nil
}

// GiveMemory drops all bytes and gives the memory to m, unless it is an Arena's.
func (r *Replies) GiveMemory(m *Region) {
	m.b = nil
	if r.home == nil {
		m.b = r.b[:0]
	}
	r.Drop()
}

// Replace drops the bytes of r and gives it those of by. Then by is empty. They exchange their memory too, unless an Arena has some of it.
func (r *Replies) Replace(by *Replies) {
	if r.home != nil || by.home != nil {
		r.b = append(r.b[:0], by.b...)
		by.b = by.b[:0]
		return
	}
	r.b, by.b = by.b, r.b[:0]
	r.large, by.large = by.large, r.large
}

// Raw appends bytes that are in the form of the protocol already.
func (r *Replies) Raw(p []byte) { r.b = append(r.b, p...) }

// Status appends a simple string; line ends in it become spaces.
func (r *Replies) Status(s string) { r.b = redcon.AppendString(r.b, s) }

// Error appends an error: see AppendError.
func (r *Replies) Error(msg string) { r.b = AppendError(r.b, msg) }

// Int appends an integer.
func (r *Replies) Int(n int64) { r.b = redcon.AppendInt(r.b, n) }

// Uint is Int, and faster.
func (r *Replies) Uint(v uint64) {
	if v > math.MaxInt64 {
		r.Int(int64(v))
		return
	}
	one := [1]uint64{v}
	r.b = putInts(slices.Grow(r.b, mostInt), one[:])
}

// Ints appends an array of integers that are below 2^63.
func (r *Replies) Ints(values []uint64) { r.b = AppendInts(r.b, values) }

// Rows is Ints of each of so many rows, which share the values evenly. REQUIRES rows > 0.
func (r *Replies) Rows(values []uint64, rows int) { r.b = appendRows(r.b, values, rows) }

// Bulk appends a bulk string.
func (r *Replies) Bulk(p []byte) { r.b = redcon.AppendBulk(r.b, p) }

// BulkString appends a bulk string.
func (r *Replies) BulkString(s string) { r.b = redcon.AppendBulkString(r.b, s) }

// BulkUint appends v in decimal as a bulk string.
func (r *Replies) BulkUint(v uint64) { r.b = AppendBulkUint(r.b, v) }

// BulkUints is BulkUint of each of up to 64 values, or Null where the bit of a value is set in nulls, of which the lowest bit is the first value's.
func (r *Replies) BulkUints(values []uint64, nulls uint64) {
	r.b = appendEachBulk(r.b, r.Protocol(), values, nulls)
}

// EachInt is Int of each of several values, which are below 2^63.
func (r *Replies) EachInt(values []uint64) { r.b = appendEachInt(r.b, values) }

// BulkHead appends the head of a bulk string of n bytes, which follow by another way, and their line end too.
func (r *Replies) BulkHead(n int64) { r.b = appendHead(r.b, '$', int(n)) }

// Array appends the head of an array of n replies.
func (r *Replies) Array(n int) { r.b = redcon.AppendArray(r.b, n) }

// Map appends the head of a map of n pairs.
func (r *Replies) Map(n int) { r.b = AppendMap(r.b, r.Protocol(), n) }

// Set appends the head of a set of n replies.
func (r *Replies) Set(n int) { r.b = AppendSet(r.b, r.Protocol(), n) }

// Push appends the head of a message of n replies.
func (r *Replies) Push(n int) { r.b = AppendPush(r.b, r.Protocol(), n) }

// Null appends the null that stands where a string could be.
func (r *Replies) Null() { r.b = AppendNull(r.b, r.Protocol()) }

// NullArray appends the null that stands where an array could be.
func (r *Replies) NullArray() { r.b = AppendNullArray(r.b, r.Protocol()) }

// Double appends a number: see AppendDouble.
func (r *Replies) Double(v float64) { r.b = AppendDouble(r.b, r.Protocol(), v) }

// Uint128 appends the number hi<<64 | lo: see AppendUint128.
func (r *Replies) Uint128(hi, lo uint64) { r.b = AppendUint128(r.b, r.Protocol(), hi, lo) }

// Text appends text meant for people: see AppendVerbatim.
func (r *Replies) Text(s string) { r.b = AppendVerbatim(r.b, r.Protocol(), "txt", s) }

// BulkStrings appends an array of bulk strings.
func (r *Replies) BulkStrings(list []string) {
	r.Array(len(list))
	for _, s := range list {
		r.BulkString(s)
	}
}
