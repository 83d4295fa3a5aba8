package mapping

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"

	"github.com/counterd/counterd/schema"
)

// skipped is the column of a packed number that is passed over.
const skipped = -1

// decoder says what the bytes of a value are.
type decoder interface {
	// decode appends an item for each number of a value. Other values go to the tally.
	decode(dst []Item, r *Rules, at place, value []byte, t *Tally) []Item
	// encode appends the bytes that decode makes numbers of.
	encode(dst []byte, values []uint64) []byte
}

// place is where a value stands, and whose it is.
type place struct {
	mid        uint64
	key, field []byte
}

// add appends an item, unless the column cannot hold the number.
func (r *Rules) add(dst []Item, at place, column int, v uint64, value []byte, t *Tally) []Item {
	if v > r.limits[column] {
		t.Skip(TooWide, at.key, at.field, value)
		return dst
	}
	return append(dst, Item{Mid: at.mid, Value: int64(v), Column: uint16(column)})
}

// number appends the item of a number in decimal.
func (r *Rules) number(dst []Item, at place, column int, digits, value []byte, t *Tally) []Item {
	v, why, ok := parseNumber(digits)
	if !ok {
		t.Skip(why, at.key, at.field, value)
		return dst
	}
	return r.add(dst, at, column, v, value, t)
}

// parseNumber reads a number as Redis writes them: decimal digits behind a - or not.
func parseNumber(b []byte) (v uint64, why Reason, ok bool) {
	digits, negative := bytes.CutPrefix(b, []byte{'-'})
	if len(digits) == 0 {
		return 0, NotANumber, false
	}
	wide := false
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, NotANumber, false
		}
		d := uint64(c - '0')
		if wide = wide || v > (schema.MaxValue-d)/10; !wide {
			v = v*10 + d
		}
	}
	switch {
	case negative && (v > 0 || wide):
		return 0, Negative, false
	case wide:
		return 0, TooWide, false
	}
	return v, 0, true
}

// single is a number in decimal.
type single struct{ column int }

func (s single) decode(dst []Item, r *Rules, at place, value []byte, t *Tally) []Item {
	return r.number(dst, at, s.column, value, value, t)
}

// score is the number of a sorted set's member: a double. Above 2^53 it may be another than was added.
type score struct{ column int }

// maxScore is how many bytes a score has at most that is not a number in decimal: Redis writes 24. A longer one is refused, not cut: zeros may fill any limit.
const maxScore = 64

func (s score) decode(dst []Item, r *Rules, at place, value []byte, t *Tally) []Item {
	if _, _, ok := parseNumber(value); ok {
		return r.number(dst, at, s.column, value, value, t)
	}
	f, err := math.NaN(), error(nil)
	if len(value) <= maxScore {
		f, err = strconv.ParseFloat(string(value), 64)
	}
	switch {
	case err != nil || f != math.Trunc(f): // also NaN
		t.Skip(NotANumber, at.key, at.field, value)
	case f < 0:
		t.Skip(Negative, at.key, at.field, value)
	case f >= 1<<63:
		t.Skip(TooWide, at.key, at.field, value)
	default:
		return r.add(dst, at, s.column, uint64(f), value, t)
	}
	return dst
}

// text is numbers in decimal with a separator between them. Spaces around a number do not count.
type text struct {
	separator []byte
	columns   []int
}

func (x *text) decode(dst []Item, r *Rules, at place, value []byte, t *Tally) []Item {
	if bytes.Count(value, x.separator) != len(x.columns)-1 {
		t.Skip(Malformed, at.key, at.field, value)
		return dst
	}
	rest := value
	for _, column := range x.columns {
		var part []byte
		part, rest, _ = bytes.Cut(rest, x.separator)
		if column != skipped {
			dst = r.number(dst, at, column, bytes.Trim(part, " "), value, t)
		}
	}
	return dst
}

// binaryField is one number of a binary value.
type binaryField struct {
	column, bits int
	little       bool // little endian, of whole bytes
}

// packedBits is numbers in binary, one behind the other.
type packedBits struct {
	fields []binaryField
	size   int  // bytes of all
	any    bool // shorter strings end in zeros, longer ones have more behind
}

func (p *packedBits) decode(dst []Item, r *Rules, at place, value []byte, t *Tally) []Item {
	if len(value) != p.size && !p.any {
		t.Skip(Malformed, at.key, at.field, value)
		return dst
	}
	off := 0
	for _, f := range p.fields {
		var v uint64
		if f.little {
			for i := range f.bits / 8 {
				v |= uint64(byteAt(value, off/8+i)) << (8 * i)
			}
		} else {
			for bit := off; bit < off+f.bits; { // to the next end of a byte, or of the number
				n := min(8-bit%8, off+f.bits-bit)
				v = v<<n | uint64(byteAt(value, bit/8)>>(8-bit%8-n))&(1<<n-1)
				bit += n
			}
		}
		off += f.bits
		switch {
		case f.column == skipped:
		case v > schema.MaxValue:
			t.Skip(TooWide, at.key, at.field, value)
		default:
			dst = r.add(dst, at, f.column, v, value, t)
		}
	}
	return dst
}

func byteAt(b []byte, i int) byte {
	if i >= len(b) {
		return 0
	}
	return b[i]
}

// jsonMax is the size of the largest JSON value that is looked into: numbers of a post take some hundred bytes.
const jsonMax = 64 << 10

// object is a JSON object with numbers among its members. A number may also be a string of digits; a member that is not
// there, or null, says nothing.
type object struct {
	names   []string
	columns []int
}

func (o *object) decode(dst []Item, r *Rules, at place, value []byte, t *Tally) []Item {
	var members map[string]json.RawMessage
	if len(value) > jsonMax || json.Unmarshal(value, &members) != nil || members == nil {
		t.Skip(Malformed, at.key, at.field, value)
		return dst
	}
	for i, name := range o.names {
		raw, ok := members[name]
		if !ok || string(raw) == "null" {
			continue
		}
		if n := len(raw); n >= 2 && raw[0] == '"' {
			raw = raw[1 : n-1]
		}
		dst = r.number(dst, at, o.columns[i], raw, value, t)
	}
	return dst
}
