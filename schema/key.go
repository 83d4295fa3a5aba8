package schema

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strconv"
)

// Key is a parsed key. It names a column of an item, or the whole item.
type Key struct {
	Counter *Counter
	Col     int // index for Counter.Col, or WholeItem
	Mid     uint64
}

// WholeItem is the Col of a key that names all columns of an item.
const WholeItem = -1

// ParseKey reads a key of any form that the package comment draws. ok is false
// if b is none of them, or names a counter or suffix that does not exist. It
// allocates nothing and keeps nothing of b.
func (s *Schema) ParseKey(b []byte) (k Key, ok bool) {
	var c *Counter
	mid, n := parseDigits(b) // nearly all keys begin with the mid
	if n == 0 {
		var rest []byte
		if c, mid, rest, ok = s.parseName(b); !ok {
			return Key{}, false
		}
		n = len(b) - len(rest)
	}
	if n < len(b) {
		if b[n] != '.' {
			return Key{}, false
		}
		a := s.suffixes.find(b, len(b)-n-1)
		if a.counter == nil || c != nil && a.counter != c {
			return Key{}, false
		}
		return Key{a.counter, a.col, mid}, true
	}
	if c == nil {
		if c = s.first; c == nil {
			return Key{}, false
		}
	}
	return Key{c, c.Plain, mid}, true
}

// KeyReader reads keys that mostly have suffixes of the same length, one after the other: then the end of the digits is known, and they
// are read as two words. The suffix is looked up if it is not that of the key before.
type KeyReader struct {
	schema *Schema
	last   address // of the suffix that was looked up last
	word   uint64  // that suffix and its dot
	tail   int     // bytes of those, at most 8; 0: not known
}

// Reader returns one. It is valid as long as the schema.
func (s *Schema) Reader() KeyReader { return KeyReader{schema: s} }

// ParseKey is Schema.ParseKey.
func (r *KeyReader) ParseKey(b []byte) (k Key, ok bool) {
	if n := uint(len(b) - r.tail - wordSize); n <= wordSize && r.tail > 0 {
		mid, ok := parseWords(b, n)
		if ok && (binary.LittleEndian.Uint64(b[len(b)-wordSize:])>>(8*uint(wordSize-r.tail)&63) == r.word || r.find(b)) {
			return Key{r.last.counter, r.last.col, mid}, true
		}
	}
	if k, ok = r.parseTagged(b); ok {
		return k, true
	}
	return r.parse(b)
}

// ParseNext reads the first ones of keys as far as they have the suffix of the key before, and puts their mids into mids, which is as long. It returns how
// many these are: they name the same column as the key before, of other posts. It does not notice all such keys: the next one is for ParseKey to read.
func (r *KeyReader) ParseNext(keys [][]byte, mids []uint64) (n int) {
	tail, suffix, shift := r.tail, r.word, 8*uint(wordSize-r.tail)&63
	if tail == 0 {
		return 0
	}
	mids = mids[:len(keys)]
	for n = range keys {
		b := keys[n]
		more := uint(len(b) - tail - wordSize)
		if more > wordSize || binary.LittleEndian.Uint64(b[len(b)-wordSize:])>>shift != suffix {
			return n
		}
		mid, ok := parseWords(b, more)
		if !ok {
			return n
		}
		mids[n] = mid
	}
	return len(keys)
}

// parseTagged is ParseKey of a key with its id in braces, as clients of a cluster write it, and with a suffix of the known length. ok is false for all
// others.
func (r *KeyReader) parseTagged(b []byte) (k Key, ok bool) {
	end := len(b) - r.tail - 1 // of the digits
	n := uint(end - 1 - wordSize)
	if n > wordSize || r.tail == 0 || b[0] != '{' || b[end] != '}' {
		return Key{}, false
	}
	mid, ok := parseWords(b[1:end], n)
	if ok && (binary.LittleEndian.Uint64(b[len(b)-wordSize:])>>(8*uint(wordSize-r.tail)&63) == r.word || r.find(b)) {
		return Key{r.last.counter, r.last.col, mid}, true
	}
	return Key{}, false
}

// find looks up the suffix of a key that has one of the known length, but for a dot perhaps.
func (r *KeyReader) find(b []byte) bool {
	a := r.schema.suffixes.find(b, r.tail-1)
	if a.counter == nil || b[len(b)-r.tail] != '.' {
		return false
	}
	r.last, r.word = a, suffixWord(b, r.tail)
	return true
}

// parse is ParseKey of a key that may be of any form. The length of its suffix is remembered.
func (r *KeyReader) parse(b []byte) (k Key, ok bool) {
	r.tail = 0
	if k, ok = r.schema.ParseKey(b); !ok || len(b) < wordSize || b[0] > '9' && b[0] != '{' {
		return k, ok
	}
	_, digits := parseMid(b)
	if digits == 0 { // {NAME:MID}
		return k, ok
	}
	if tail := len(b) - digits; tail > 1 && tail <= wordSize {
		r.last, r.word, r.tail = address{k.Counter, k.Col}, suffixWord(b, tail), tail
	}
	return k, ok
}

// ParseItem reads a key without suffix, MID or NAME:MID, as the whole item, also
// where a column with the empty suffix makes ParseKey read it as a number. That
// is how the commands on whole items reach those. It allocates nothing.
func (s *Schema) ParseItem(b []byte) (c *Counter, mid uint64, ok bool) {
	c, mid, b, ok = s.parseName(b)
	if !ok || len(b) > 0 {
		return nil, 0, false
	}
	if c == nil {
		c = s.first
	}
	return c, mid, c != nil
}

// parseName reads MID or NAME:MID, in braces or not, or NAME:{MID}, and returns the rest of the key. Without a name it
// answers no counter.
func (s *Schema) parseName(b []byte) (c *Counter, mid uint64, rest []byte, ok bool) {
	if len(b) > 1 && b[0] == '{' && b[1] > '9' {
		end := bytes.IndexByte(b, '}')
		if end < 0 {
			return nil, 0, nil, false
		}
		c, in, ok := s.cutName(b[1:end])
		mid, n := parseDigits(in)
		return c, mid, b[end+1:], ok && n > 0 && n == len(in)
	}
	if c, b, ok = s.cutName(b); !ok {
		return nil, 0, nil, false
	}
	mid, n := parseMid(b)
	return c, mid, b[n:], n > 0
}

// cutName cuts "NAME:" off b. Without one it answers no counter; ok is false for
// a name that does not exist.
func (s *Schema) cutName(b []byte) (c *Counter, rest []byte, ok bool) {
	// A name starts with a letter or _, all of them above the digits; so does a
	// brace, and that is a mid.
	if len(b) == 0 || b[0] <= '9' || b[0] == '{' {
		return nil, b, true
	}
	i := bytes.IndexByte(b[:min(len(b), MaxName+1)], ':')
	if i < 0 {
		return nil, nil, false
	}
	c = s.names[string(b[:i])]
	return c, b[i+1:], c != nil
}

// ParseMid reads a mid alone: decimal digits, leading zeros or not, 0 to MaxMid,
// in braces or not. It allocates nothing.
func ParseMid(b []byte) (mid uint64, ok bool) {
	if n := uint(len(b) - wordSize); n <= wordSize {
		if mid, ok = parseWords(b, n); ok {
			return mid, true
		}
	}
	at := 0
	mid, at = parseMid(b)
	return mid, at > 0 && at == len(b)
}

// parseWords reads a number of 8 + n digits, n at most 8, which ids have: the
// first eight, and the last eight without those that are among the first. ok is
// false if b has other bytes. It takes half as long as parseMid, which has to
// find the end.
func parseWords(b []byte, n uint) (v uint64, ok bool) {
	first, last := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[n:])
	x, y := first-0x3030303030303030, last-0x3030303030303030
	if (x|y|(first+0x4646464646464646)|(last+0x4646464646464646))&0x8080808080808080 != 0 { // see digits
		return 0, false
	}
	y &= ^uint64(0) << (8*wordSize - 8*n)
	return joined(x)*tens[n] + joined(y), true
}

// parseMid reads the mid that b starts with and says how long it is; 0 if there
// is none.
func parseMid(b []byte) (mid uint64, n int) {
	if len(b) > 0 && b[0] == '{' {
		mid, n = parseDigits(b[1:])
		if n == 0 || n+1 >= len(b) || b[n+1] != '}' {
			return 0, 0
		}
		return mid, n + 2
	}
	return parseDigits(b)
}

// parseDigits reads the decimal number that b starts with, at most MaxMid, and
// says how many bytes it has; 0 if there is none. It goes eight bytes at a time:
// digit by digit, an id of 12 digits takes twice as many instructions.
func parseDigits(b []byte) (v uint64, n int) {
	if len(b) < wordSize {
		return parseEachDigit(b)
	}
	x, n := digits(binary.LittleEndian.Uint64(b))
	if n < wordSize {
		return joined(upper(x, n)), n
	}
	v = joined(x)
	var w uint64 // the bytes behind the first eight digits; zeros in the place of missing ones
	if len(b) >= 2*wordSize {
		w = binary.LittleEndian.Uint64(b[wordSize:])
	} else {
		w = binary.LittleEndian.Uint64(b[len(b)-wordSize:]) >> 8 >> (8 * uint(2*wordSize-1-len(b)) & 63)
	}
	x, more := digits(w)
	if more < wordSize {
		return v*tens[more&7] + joined(upper(x, more)), wordSize + more
	}
	v = v*1e8 + joined(x)
	for n = 2 * wordSize; n < len(b); n++ {
		d := b[n] - '0'
		if d > 9 {
			break
		}
		if n == 19 { // it has leading zeros, or is too large
			return parseEachDigit(b)
		}
		v = v*10 + uint64(d)
	}
	if v > MaxMid {
		return 0, 0
	}
	return v, n
}

// tens has the powers of ten.
var tens = [wordSize + 1]uint64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8}

// digits counts the decimal digits at the start of w, the lowest byte first. x
// has their values. The bytes of x behind them mean nothing.
//
//	other   bit 7 of each byte from the first on that is no digit: below '0' the
//	        subtraction sets it, above '9' the addition. Neither carries out of a
//	        digit, so the first other byte is found.
func digits(w uint64) (x uint64, n int) {
	x = w - 0x3030303030303030
	other := (x | (w + 0x4646464646464646)) & 0x8080808080808080
	return x, bits.TrailingZeros64(other) >> 3
}

// upper moves the first n bytes of x, 0 to 7, to its upper end, behind zeros.
func upper(x uint64, n int) uint64 { return x << 8 << ((56 - 8*uint(n)) & 63) }

// joined is the number of eight digits, the bytes of x: neighbours are
// joined to pairs, pairs to fours, fours to all.
func joined(x uint64) uint64 {
	x = x*10 + x>>8
	return (x&0x000000ff000000ff*(100+1000000<<32) + x>>16&0x000000ff000000ff*(1+10000<<32)) >> 32
}

// parseEachDigit is parseDigits for any number of digits, one at a time.
func parseEachDigit(b []byte) (v uint64, n int) {
	for n < len(b) && b[n] == '0' {
		n++
	}
	zeros := n
	for n < len(b) {
		d := b[n] - '0'
		if d > 9 {
			break
		}
		v = v*10 + uint64(d)
		n++
	}
	// 19 digits stay below 2^64, so v is right wherever it is looked at.
	if n-zeros > 19 || v > MaxMid {
		return 0, 0
	}
	return v, n
}

// AppendKey appends the key that ParseKey reads as column col of item mid, or as
// the whole item for WholeItem:
//
//	MID          whole item of the first counter
//	NAME:MID     whole item of any other, or a column with the empty suffix
//	MID.suffix   every other column
//
// Where a column has the empty suffix, the item's key is ParseItem's to read:
// ParseKey answers the column.
func (s *Schema) AppendKey(dst []byte, c *Counter, col int, mid uint64) []byte {
	suffix := ""
	if col != WholeItem {
		suffix = c.Col(col).Suffix
	}
	if suffix == "" && (col != WholeItem || s.first == nil || c.ID != s.first.ID) {
		dst = append(dst, c.Name...)
		dst = append(dst, ':')
	}
	dst = strconv.AppendUint(dst, mid, 10)
	if suffix != "" {
		dst = append(dst, '.')
		dst = append(dst, suffix...)
	}
	return dst
}

// AppendTagged is AppendKey with the mid in braces where the key is not the mid alone: clients of a cluster hash it, and
// nothing else of the key.
//
//	MID          {MID}.suffix          NAME:{MID}
func (s *Schema) AppendTagged(dst []byte, c *Counter, col int, mid uint64) []byte {
	at := len(dst)
	dst = s.AppendKey(dst, c, col, mid)
	key := dst[at:]
	begin := bytes.IndexByte(key, ':') + 1 // 0: it has no name
	end := len(key)
	if dot := bytes.IndexByte(key, '.'); dot >= 0 {
		end = dot
	}
	if begin == 0 && end == len(key) {
		return dst
	}
	dst = append(dst, "{}"...)
	key = dst[at:]
	copy(key[end+2:], key[end:len(key)-2])
	copy(key[begin+1:end+1], key[begin:end])
	key[begin], key[end+1] = '{', '}'
	return dst
}
