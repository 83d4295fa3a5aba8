package resp

import (
	"encoding/binary"
	"slices"
)

// Commands that have arrived whole, which nearly all have, need no spans: their arguments are found once. A command that
// whole and Series do not take is read by the other methods from its beginning, and they alone know errors. So whole and
// Series find the same commands as these, in less time (FuzzReader).

// whole takes the command at pos of n arguments, whose header has so many bytes, if all arguments are there, within the
// limits and of less than 100 bytes; else nil, and nothing is changed. REQUIRES n >= 1, and left == 0: bytes that
// it looks at in vain are looked at once more, and not each time that more have arrived.
func (r *Reader) whole(n, header int) [][]byte {
	b, i := r.buf, r.pos+header
	stop := min(r.end, r.start+r.limits.MaxCommand)
	if i > stop {
		return nil
	}
	first := len(r.args)
	all := slices.Grow(r.args, n)[:first+n] // n is below 100
	args := all[first:]
	end, ok := cut(args, b[:stop+slack], i, r.limits.MaxBulk)
	if !ok {
		r.examined += int64(end - r.pos + 8 + 2)
		return nil
	}
	if end < r.end {
		r.head.set(b[r.pos:end], args, header)
	} else { // nothing follows that could be like it
		r.head.forget()
	}
	r.args = all
	r.start, r.pos = end, end
	return args[:n:n]
}

// cut finds arguments, the first of which has its header at i, and returns where the last one ends. ok is false, and end is
// where it gave up, unless all of them end before the slack of b, and have less than 100 bytes and at most most.
//
// Ids are mostly as long as the one before: then the header is compared, and not read. It is a function of its own as whole has
// more variables than a processor has registers: inlined, it takes a third longer.
//
//go:noinline
func cut(args [][]byte, b []byte, i, most int) (end int, ok bool) {
	last, mask := uint64(1), uint64(0) // no header is like that
	width, length := 0, 0              // of a header, and of the argument with it
	for k := range args {
		w := word(b, i)
		if w&mask != last {
			size, n := short(w, '$')
			if n == 0 || size > most {
				return i, false
			}
			mask = ^uint64(0) >> (64 - 8*uint(n))
			last, width, length = w&mask, n, n+size
		}
		// A header that was read partly from the slack, or from bytes that a previous command left behind, ends there too.
		tail := i + length
		if tail+2 > len(b)-slack || b[tail] != '\r' || b[tail+1] != '\n' {
			return i, false
		}
		args[k] = b[i+width : tail : tail]
		i = tail + 2
	}
	return i, true
}

// word is the eight bytes at i. The third index saves the compiler the case of a slice that is empty.
func word(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i : i+8 : i+8]) }

// head is the beginning of a command of two arguments, of at most headMost bytes: all but the second argument. Commands
// that come in pipelines mostly begin like the one before, and then it is compared instead of read.
//
//	*2 CR LF $3 CR LF GET CR LF      GET has 13 bytes, INCR 14, names of up to 6 bytes fit
//
// A command of pairArguments arguments is like the last if all of its arguments but the second and the last are the same, as in numbered increments of a
// client:
//
//	*5 CR LF $4 CR LF INCR CR LF | second | $4 CR LF IDMP CR LF $10 CR LF producer-7 CR LF | last
//
// Equal bytes mean the same under the same limits. The zero value is like no command.
type head struct {
	words  [2]uint64
	mask   uint64 // of the second word
	size   int    // 0: none
	pair   bool   // of a command of pairArguments arguments
	middle [middleMost]byte
	part   int // bytes of middle: all bytes between the second argument and the last
}

const (
	// headMost is two words.
	headMost = 16
	// leastArgument is an argument without a byte: $0 CR LF CR LF.
	leastArgument = 6
	// pairArguments are those of INCR key IDMP producer number.
	pairArguments = 5
	// middleMost is that of a producer of 32 bytes.
	middleMost = 56
	// mostLike is more bytes than a command of a head, a middle and two arguments of less than 100 bytes has.
	mostLike = 512
)

// set remembers the head of a command, which has these arguments.
func (h *head) set(command []byte, args [][]byte, header int) {
	h.size = 0
	if len(args) != 2 && len(args) != pairArguments || len(command) < headMost {
		return
	}
	// The header of the name has 4 bytes: a name of 10 bytes is too long.
	size := header + 4 + len(args[0]) + 2
	if size > headMost || len(args[0]) == 0 {
		return
	}
	h.words[0], h.words[1] = binary.LittleEndian.Uint64(command), binary.LittleEndian.Uint64(command[8:])
	h.mask = ^uint64(0) >> (8 * uint(headMost-size))
	if h.pair = len(args) == pairArguments; h.pair {
		begin := size + argumentSize(args[1])
		end := len(command) - argumentSize(args[pairArguments-1])
		if end-begin > middleMost {
			return
		}
		h.part = copy(h.middle[:], command[begin:end])
	}
	h.size = size
}

// argumentSize is how many bytes an argument of less than 100 bytes takes in its command.
func argumentSize(arg []byte) int {
	header := len("$1\r\n")
	if len(arg) > 9 {
		header++
	}
	return header + len(arg) + len("\r\n")
}

// forget makes the next command unlike the last.
func (h *head) forget() { h.size = 0 }

// Followed tells whether a command follows that Series may take.
func (r *Reader) Followed() bool { return r.head.size > 0 && r.pos < r.end }

// Series takes the commands that follow the last command and are like it: of the same name and of one argument, as the commands
// of a pipeline mostly are, or those whose second and last argument alone differ (see head). It returns their second arguments, of at most so many
// commands, and for the latter their last ones, else nil. It does not notice all such commands, and returns none where another command follows, or a part
// of a command. REQUIRES: called behind Next, or behind another Series.
func (r *Reader) Series(most int) (keys, lasts [][]byte) {
	h := &r.head
	if h.size == 0 || r.left > 0 || r.limits.MaxCommand < mostLike {
		return nil, nil
	}
	least := h.size + leastArgument
	if h.pair {
		least += h.part + leastArgument
	}
	most = min(most, (r.end-r.pos)/least)
	first := len(r.args)
	b := r.buf[:r.end+slack]
	if !h.pair {
		r.args = slices.Grow(r.args, most)
		args := r.args[first : first+most]
		n, end := h.cutEarly(args, r.buf, r.pos, r.end, r.limits.MaxBulk)
		if n < most {
			more, last := h.cut(args[n:], b, end, r.limits.MaxBulk)
			n, end = n+more, last
		}
		r.args = r.args[:first+n]
		r.examined += headMost + 8 + 2
		r.start, r.pos = end, end
		return r.args[first : first+n : first+n], nil
	}
	r.args = slices.Grow(r.args, 2*most)
	keys, lasts = r.args[first:first+most], r.args[first+most:first+2*most]
	n, end := h.cutPairsEarly(keys, lasts, r.buf, r.pos, r.end, r.limits.MaxBulk)
	if n < most {
		more, last := h.cutPairs(keys[n:], lasts[n:], b, end, r.limits.MaxBulk)
		n, end = n+more, last
	}
	r.args = r.args[:first+most+n]
	r.examined += headMost + middleMost + 2*(8+2)
	r.start, r.pos = end, end
	return keys[:n:n], lasts[:n:n]
}

// Return gives back the last commands of a Series, whose arguments these are: they come next again. REQUIRES: called behind that Series.
func (r *Reader) Return(keys, lasts [][]byte) {
	for i := range keys {
		r.pos -= r.head.size + argumentSize(keys[i])
		if r.head.pair {
			r.pos -= r.head.part + argumentSize(lasts[i])
		}
	}
	if r.start = r.pos; r.head.pair {
		keys = lasts // which are the last of the list
	}
	r.args = r.args[:len(r.args)-len(keys)]
}

// cut finds the arguments of commands with the head, the first of which is at i, until one is not like that or all of args
// are found. It returns how many they are and where the last one ends. As for the function cut, headers of arguments are
// compared with the one before.
//
//go:noinline
func (h *head) cut(args [][]byte, b []byte, i, most int) (n, end int) {
	key := noArgument
	for n < len(args) && i+headMost <= len(b)-slack && word(b, i) == h.words[0] && (word(b, i+8)^h.words[1])&h.mask == 0 {
		at := i + h.size
		if w := word(b, at); w&key.mask != key.header && !key.read(w, most) {
			break
		}
		// A header that was read partly from the slack, or from bytes that a previous command left behind, ends there too.
		tail := at + key.length
		if tail+2 > len(b)-slack || binary.LittleEndian.Uint16(b[tail:]) != crlf {
			break
		}
		args[n] = b[at+key.width : tail : tail]
		n, i = n+1, tail+2
	}
	return n, i
}

// cutEarly is cut of commands that begin where earlyRoom bytes of the buffer follow, whether they have arrived or not. They have to end at stop or
// before. So most checks of bounds are one for each command, and it takes half the instructions. Most commands are like that.
//
//go:noinline
func (h *head) cutEarly(args [][]byte, b []byte, i, stop, most int) (n, end int) {
	key := noArgument
	size := uint(h.size) % (2 * headMost)
	for n < len(args) && i+earlyRoom <= len(b) {
		a := (*[earlyRoom]byte)(b[i:])
		if binary.LittleEndian.Uint64(a[:]) != h.words[0] || (binary.LittleEndian.Uint64(a[8:])^h.words[1])&h.mask != 0 {
			break
		}
		if w := binary.LittleEndian.Uint64(a[size : size+8]); w&key.mask != key.header && !key.read(w, most) {
			break
		}
		tail := (size + uint(key.length)) % earlyRoom
		next := i + int(tail) + 2
		if next > stop || a[tail] != '\r' || a[(tail+1)%earlyRoom] != '\n' {
			break
		}
		args[n] = a[size+uint(key.width) : tail : tail]
		n, i = n+1, next
	}
	return n, i
}

// earlyRoom is more bytes than a command of a head and an argument of less than 100 bytes has: a power of two saves checks of bounds.
const earlyRoom = 128

// cutPairsEarly is cutEarly of commands of pairArguments arguments: it finds their second and last ones. It takes two thirds of the instructions of cutPairs.
//
//go:noinline
func (h *head) cutPairsEarly(keys, lasts [][]byte, b []byte, i, stop, most int) (n, end int) {
	key, last := noArgument, noArgument
	size, part := uint(h.size)%(2*headMost), uint(h.part)
	if part < 16 || part > middleMost { // a producer of one byte makes 17
		return 0, i
	}
	lasts = lasts[:len(keys)]
	// Three words are the whole middle of a producer of 8 bytes.
	first, second, final := binary.LittleEndian.Uint64(h.middle[:]), binary.LittleEndian.Uint64(h.middle[8:]), binary.LittleEndian.Uint64(h.middle[part-8:])
	for n < len(keys) && i+pairRoom <= len(b) {
		a := (*[pairRoom]byte)(b[i:])
		if binary.LittleEndian.Uint64(a[:]) != h.words[0] || (binary.LittleEndian.Uint64(a[8:])^h.words[1])&h.mask != 0 {
			break
		}
		if w := binary.LittleEndian.Uint64(a[size : size+8]); w&key.mask != key.header && !key.read(w, most) {
			break
		}
		tail := (size + uint(key.length)) % 128
		if a[tail] != '\r' || a[tail+1] != '\n' {
			break
		}
		from := (tail + 2 + part) % 256
		if binary.LittleEndian.Uint64(a[tail+2:]) != first || binary.LittleEndian.Uint64(a[tail+10:]) != second || binary.LittleEndian.Uint64(a[(from-8)%256:]) != final {
			break
		}
		if part > 24 && string(a[tail+18:from-8]) != string(h.middle[16:part-8]) {
			break
		}
		if w := binary.LittleEndian.Uint64(a[from : from+8]); w&last.mask != last.header && !last.read(w, most) {
			break
		}
		edge := (from + uint(last.length)) % pairRoom
		next := i + int(edge) + 2
		if next > stop || a[edge] != '\r' || a[(edge+1)%pairRoom] != '\n' {
			break
		}
		keys[n] = a[size+uint(key.width) : tail : tail]
		lasts[n] = a[from+uint(last.width) : edge : edge]
		n, i = n+1, next
	}
	return n, i
}

// pairRoom is more bytes than a command of a head, a middle and two arguments of less than 100 bytes has: see earlyRoom.
const pairRoom = 512

// cutPairs is cut of commands of pairArguments arguments: it finds their second and last ones.
//
//go:noinline
func (h *head) cutPairs(keys, lasts [][]byte, b []byte, i, most int) (n, end int) {
	key, last := noArgument, noArgument
	middle, stop := h.middle[:h.part], len(b)-slack
	lasts = lasts[:len(keys)]
	for n < len(keys) && i+headMost <= stop && word(b, i) == h.words[0] && (word(b, i+8)^h.words[1])&h.mask == 0 {
		at := i + h.size
		if w := word(b, at); w&key.mask != key.header && !key.read(w, most) {
			break
		}
		tail := at + key.length
		from := tail + 2 + len(middle)
		if from > stop || binary.LittleEndian.Uint16(b[tail:]) != crlf || string(b[tail+2:from]) != string(middle) {
			break
		}
		if w := word(b, from); w&last.mask != last.header && !last.read(w, most) {
			break
		}
		end := from + last.length
		if end+2 > stop || binary.LittleEndian.Uint16(b[end:]) != crlf {
			break
		}
		keys[n] = b[at+key.width : tail : tail]
		lasts[n] = b[from+last.width : end : end]
		n, i = n+1, end+2
	}
	return n, i
}

// likeArgument is the header of an argument of less than 100 bytes, with which the next one's is compared.
type likeArgument struct {
	header, mask  uint64
	width, length int // of the header, and of the argument with it
}

// noArgument is a header that no word is like.
var noArgument = likeArgument{header: 1}

// read reads the header that word begins with; false: it is of another argument, or has more than most bytes.
func (a *likeArgument) read(word uint64, most int) bool {
	size, bytes := short(word, '$')
	if bytes == 0 || size > most {
		return false
	}
	a.mask = ^uint64(0) >> (64 - 8*uint(bytes))
	a.header, a.width, a.length = word&a.mask, bytes, bytes+size
	return true
}
