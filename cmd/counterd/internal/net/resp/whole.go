package resp

import (
	"encoding/binary"
	"slices"
)

// Commands that have arrived whole, which nearly all have, need no spans: their arguments are found once. A command that
// whole and repeated do not take is read by the other methods from its beginning, and they alone know errors. So whole and
// repeated find the same commands as these, in less time (FuzzReader).

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
	r.head.set(b[r.pos:end], args, header)
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

// short finds the argument whose header is at i: where it begins and ends. tail is 0 unless it ends before stop, has less
// than 100 bytes and is within the limits.
func (r *Reader) short(b []byte, i, stop int) (data, tail int) {
	if i >= stop {
		return 0, 0
	}
	// A header that was read partly from the slack, or from bytes that a previous command left behind end, ends after stop.
	n, width := short(word(b, i), '$')
	data = i + width
	tail = data + n
	if width == 0 || tail+2 > stop || n > r.limits.MaxBulk || b[tail] != '\r' || b[tail+1] != '\n' {
		return 0, 0
	}
	return data, tail
}

// word is the eight bytes at i. The third index saves the compiler the case of a slice that is empty.
func word(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i : i+8 : i+8]) }

// head is the beginning of a command of two arguments, of at most headMost bytes: all but the second argument. Commands
// that come in pipelines mostly begin like the one before, and then it is compared instead of read.
//
//	*2 CR LF $3 CR LF GET CR LF      GET has 13 bytes, INCR 14, names of up to 6 bytes fit
//
// Equal bytes mean the same under the same limits. The zero value is like no command.
type head struct {
	words      [2]uint64
	mask       uint64 // of the second word
	size       int    // 0: none
	name, rest int    // where the name begins and ends
	same       bool   // the last command returned had the head of the one before
}

// headMost is two words.
const headMost = 16

// set remembers the head of a command, which has these arguments.
func (h *head) set(command []byte, args [][]byte, header int) {
	h.size, h.same = 0, false
	if len(args) != 2 || len(command) < headMost {
		return
	}
	name := header + 4 // of less than 10 bytes, else the head is too long
	size := name + len(args[0]) + 2
	if size > headMost || len(args[0]) == 0 {
		return
	}
	h.words[0], h.words[1] = binary.LittleEndian.Uint64(command), binary.LittleEndian.Uint64(command[8:])
	h.mask = ^uint64(0) >> (8 * uint(headMost-size))
	h.size, h.name, h.rest = size, name, size-2
}

// forget makes the next command unlike the last.
func (h *head) forget() { h.size, h.same = 0, false }

// repeated takes the command at pos if its head is that of the command before, and its second argument is within the bounds of
// whole; else nil, and nothing is changed.
func (r *Reader) repeated() [][]byte {
	h, at := &r.head, r.pos
	if h.size == 0 || r.end-at < headMost {
		return nil
	}
	b := r.buf
	r.examined += headMost
	if word(b, at) != h.words[0] || (word(b, at+8)^h.words[1])&h.mask != 0 {
		return nil
	}
	data, tail := r.short(b, at+h.size, min(r.end, at+r.limits.MaxCommand))
	if tail == 0 {
		return nil
	}
	name, rest, first := at+h.name, at+h.rest, len(r.args)
	if cap(r.args)-first < 2 {
		r.args = slices.Grow(r.args, 2)
	}
	r.args = r.args[:first+2]
	args := r.args[first : first+2 : first+2]
	args[0], args[1] = b[name:rest:rest], b[data:tail:tail]
	r.start, r.pos = tail+2, tail+2
	h.same = true
	return args
}

// Repeated tells whether the last command that Next returned has the name and the number of arguments of the one before.
// It does not notice all of them.
func (r *Reader) Repeated() bool { return r.head.same }
