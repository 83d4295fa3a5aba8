package rdb

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// Key is a key, and its attributes, which stand before its value.
type Key struct {
	DB      uint64
	Name    []byte // valid until its value was given; nil: it is longer than MaxString
	Shape   Shape
	Expires int64 // ms since 1970; 0: never
}

// Handler is given what a file holds. An error of its ends the reading and is returned as it is.
type Handler interface {
	// Aux is told what a file says of itself: redis-ver, repl-id, repl-stream-db ...
	Aux(name, value string) error
	// Key is told each key, and says whether it wants its value.
	Key(k *Key) (want bool, err error)
	// Value and Pair give it. Bytes are valid until they return. expires is of a field, 0: never.
	Value(value []byte) error
	Pair(field, value []byte, expires int64) error
	// Long is told that a value, or a field of it, is above MaxString and was passed over.
	Long() error
}

// reader reads one file.
type reader struct {
	*source
	h       Handler
	valkey  bool
	number  int    // of the version
	version string // with the name: REDIS0011

	key          []byte
	field, value []byte // room
}

// Result is the summary of a file that was read to its end.
type Result struct {
	Version string // as in its first bytes: REDIS0011, VALKEY080
	Bytes   uint64 // up to the end of the checksum
	Checked bool   // it has a checksum, and that is right
}

// Read reads a file to its end, and nothing behind it that Result.Bytes does not count; r may be read further, as it is
// buffered. Only if the error is nil was it whole.
func Read(r io.Reader, h Handler) (Result, error) { return read(r, h, MaxString) }

func read(r io.Reader, h Handler, limit uint64) (Result, error) {
	d := &reader{source: newSource(r, limit), h: h}
	if err := d.header(); err != nil {
		return Result{}, err
	}
	if err := d.body(); err != nil {
		return Result{}, err
	}
	result := Result{Version: d.version}
	if d.number >= 5 {
		want := d.sum()
		got, err := d.uint64()
		if err != nil {
			return Result{}, err
		}
		if got != 0 && got != want {
			return Result{}, fmt.Errorf("%w: its checksum is %016x, that of its bytes %016x", ErrCorrupt, got, want)
		}
		result.Checked = got != 0
	}
	result.Bytes = d.offset()
	return result, nil
}

func (r *reader) header() error {
	b, err := r.bytes(9)
	if err != nil {
		return err
	}
	r.version = string(b)
	digits, redis := strings.CutPrefix(r.version, "REDIS")
	if !redis {
		digits, r.valkey = strings.CutPrefix(r.version, "VALKEY")
	}
	r.number, err = strconv.Atoi(digits)
	if err != nil || r.number < 1 || !redis && !r.valkey {
		return fmt.Errorf("%w: it begins with %q, want REDIS or VALKEY and a version: is it a dump of Redis or Valkey?", ErrCorrupt, r.version)
	}
	return nil
}

// body reads up to the end's opcode.
func (r *reader) body() error {
	k := Key{}
	for {
		op, err := r.byte()
		if err != nil {
			return err
		}
		switch op {
		case opEnd:
			return nil
		case opSelectDB:
			k.DB, err = r.count()
		case opExpire:
			var b []byte
			if b, err = r.bytes(4); err == nil {
				k.Expires = 1000 * int64(uint32(b[0])|uint32(b[1])<<8|uint32(b[2])<<16|uint32(b[3])<<24)
			}
		case opExpireMS:
			var ms uint64
			if ms, err = r.uint64(); err == nil {
				k.Expires = max(1, int64(ms)) // a time before 1970 is over too
			}
		case opIdle:
			err = r.passCount()
		case opFrequency:
			err = r.pass(1)
		case opResizeDB:
			if err = r.passCount(); err == nil {
				err = r.passCount()
			}
		case opAux:
			err = r.aux()
		case opModuleAux:
			err = r.passModule() // the id; then, as parts, when it was written, and what
		case opFunction:
			err = r.passString()
		case opSlotInfo:
			for i := 0; i < 3 && err == nil; i++ {
				err = r.passCount()
			}
		case opSlotImport:
			if !r.valkey {
				return fmt.Errorf("%w: what modules say of a key, opcode %d at offset %d, in a file of version %s", ErrUnsupported, op, r.offset(), r.version)
			}
			if err = r.passString(); err == nil {
				err = r.each(r.passCount, r.passCount)
			}
		default:
			err = r.pair(op, &k)
			k.Expires = 0
		}
		if err != nil {
			return err
		}
	}
}

func (r *reader) aux() error {
	name, _, err := r.string(r.field)
	if err != nil {
		return err
	}
	r.field = name
	value, _, err := r.string(r.value)
	if err != nil {
		return err
	}
	r.value = value
	return r.h.Aux(string(name), string(value))
}

// pair reads a key and its value.
func (r *reader) pair(kind byte, k *Key) error {
	name, ok, err := r.string(r.key)
	if err != nil {
		return err
	}
	if k.Name, k.Shape = nil, shapeOf(kind); ok {
		r.key, k.Name = name, name
	}
	want, err := r.h.Key(k)
	if err != nil {
		return err
	}
	if !want || k.Shape == Other {
		return r.passValue(kind)
	}
	switch kind {
	case typeString:
		value, ok, err := r.string(r.value)
		if err != nil {
			return err
		}
		if !ok {
			return r.h.Long()
		}
		r.value = value
		return r.h.Value(value)
	case typeHash:
		return r.pairs(r.noTTL, r.text, r.noTTL)
	case typeZset:
		return r.pairs(r.noTTL, func() (bool, error) { return true, r.textScore(&r.value) }, r.noTTL)
	case typeZset2:
		return r.pairs(r.noTTL, r.binaryScore, r.noTTL)
	case typeHashTTL:
		if r.valkey {
			return r.pairs(r.noTTL, r.text, r.fixedTTL)
		}
		return r.pairs(r.relativeTTL(0), r.text, r.noTTL)
	case typeHashMinTTL:
		first, err := r.uint64()
		if err != nil {
			return err
		}
		return r.pairs(r.relativeTTL(int64(first)-1), r.text, r.noTTL)
	case typeHashZiplist, typeZsetZiplist:
		return r.small(ziplist, 2)
	case typeHashZipmap:
		return r.small(zipmap, 2)
	case typeHashListpack, typeZsetListpack:
		return r.small(listpack, 2)
	case typeHashListpackTTL:
		if !r.valkey {
			return r.small(listpack, 3)
		}
	case typeHashListpackMinTTL:
		if err := r.pass(8); err != nil {
			return err
		}
		return r.small(listpack, 3)
	}
	return r.unknownType(kind)
}

// pairs reads a count and so many pairs: the prefix of a field, the field, its value, the suffix.
func (r *reader) pairs(before func() (int64, error), value func() (ok bool, err error), behind func() (int64, error)) error {
	n, err := r.count()
	if err != nil {
		return err
	}
	for ; n > 0; n-- {
		expires, err := before()
		if err != nil {
			return err
		}
		field, fits, err := r.string(r.field)
		if err != nil {
			return err
		}
		if fits {
			r.field = field
		}
		ok, err := value()
		if err != nil {
			return err
		}
		later, err := behind()
		if err != nil {
			return err
		}
		if !fits || !ok {
			err = r.h.Long()
		} else {
			err = r.h.Pair(field, r.value, max(expires, later))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// text reads a value.
func (r *reader) text() (ok bool, err error) {
	value, ok, err := r.string(r.value)
	if ok {
		r.value = value
	}
	return ok, err
}

func (r *reader) noTTL() (int64, error) { return 0, nil }

// relativeTTL reads when a field expires: 0 is never, else so many ms behind a base.
func (r *reader) relativeTTL(base int64) func() (int64, error) {
	return func() (int64, error) {
		n, err := r.count()
		if err != nil || n == 0 {
			return 0, err
		}
		if n > math.MaxInt64/2 || base > math.MaxInt64/2 {
			return 0, r.corrupt("a field that expires %d ms behind %d", n, base)
		}
		return max(1, base+int64(n)), nil
	}
}

// fixedTTL reads when a field expires: below 0 is never.
func (r *reader) fixedTTL() (int64, error) {
	n, err := r.uint64()
	return max(0, int64(n)), err
}

// textScore reads a score in digits, into dst unless that is nil.
//
//	| length, 1 | digits |     253: not a number, 254: infinity, 255: that below 0
func (r *reader) textScore(dst *[]byte) error {
	n, err := r.byte()
	if err != nil {
		return err
	}
	switch {
	case n < 253 && dst == nil:
		return r.pass(uint64(n))
	case n < 253:
		*dst, err = r.append((*dst)[:0], uint64(n))
		return err
	case dst != nil:
		*dst = append((*dst)[:0], [...]string{"nan", "inf", "-inf"}[n-253]...)
	}
	return nil
}

// binaryScore reads a score of 8 bytes.
func (r *reader) binaryScore() (bool, error) {
	n, err := r.uint64()
	if err != nil {
		return false, err
	}
	// As Redis prints them: whole numbers without an exponent.
	switch score := math.Float64frombits(n); {
	case math.IsInf(score, 0):
		r.value = append(r.value[:0], map[bool]string{true: "inf", false: "-inf"}[score > 0]...)
	case math.IsNaN(score):
		r.value = append(r.value[:0], "nan"...)
	case score == math.Trunc(score) && math.Abs(score) < 1<<63:
		r.value = strconv.AppendInt(r.value[:0], int64(score), 10)
	default:
		r.value = strconv.AppendFloat(r.value[:0], score, 'g', -1, 64)
	}
	return true, nil
}

// small reads a string with fields and values one behind the other, and with 3 when the field expires as well.
func (r *reader) small(open func([]byte) *elements, width int) error {
	text, ok, err := r.string(nil)
	if err != nil {
		return err
	}
	if !ok {
		return r.h.Long()
	}
	e := open(text)
	for !e.bad {
		field, ok := e.next(e)
		if !ok {
			break
		}
		r.field = append(r.field[:0], field...) // the next may be in the same room
		value, ok := e.next(e)
		if !ok {
			e.bad = true
			break
		}
		expires := int64(0)
		if width == 3 {
			r.value = append(r.value[:0], value...)
			value = r.value
			ttl, ok := e.next(e)
			if !ok {
				e.bad = true
				break
			}
			if expires, err = strconv.ParseInt(string(ttl), 10, 64); err != nil || expires < 0 {
				e.bad = true
				break
			}
		}
		if err := r.h.Pair(r.field, value, expires); err != nil {
			return err
		}
	}
	if e.bad {
		return r.corrupt("the value of %.60q, %d bytes, is no small hash or sorted set", r.key, len(text))
	}
	return nil
}
