package mapping

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/counterd/counterd/schema"
)

// patternMax is the length of the longest pattern. Keys of Redis may be longer, their fixed parts hardly are.
const patternMax = 512

// midDigits is how many digits of a mid are read, leading zeros included.
const midDigits = 64

// part is the part of a mid that an id in a pattern stands for.
type part uint8

const (
	none      part = iota // the pattern has no id
	whole                 // {mid}, {mid:16}, {mid:36}
	quotient              // {mid/n}
	remainder             // {mid%n}
)

// element is one step of a pattern: one byte of a class, or with more, one or more of them.
//
// Invariant: an element with more is followed by one whose class its own does not meet, or by nothing. So where a run of
// bytes ends is known by the next byte alone, a text fits in at most one way, and matching never goes back.
type element struct {
	class class
	more  bool
	id    bool // the run is the id's digits
}

// class is a set of bytes.
type class [4]uint64

func (c *class) add(b byte)          { c[b>>6] |= 1 << (b & 63) }
func (c *class) has(b byte) bool     { return c[b>>6]&(1<<(b&63)) != 0 }
func (c *class) meets(o *class) bool { return c[0]&o[0]|c[1]&o[1]|c[2]&o[2]|c[3]&o[3] != 0 }
func (c *class) invert()             { c[0], c[1], c[2], c[3] = ^c[0], ^c[1], ^c[2], ^c[3] }
func digitsOf(base uint64) (c class) {
	for b := range byte(0x80) {
		if _, ok := digit(b, base); ok {
			c.add(b)
		}
	}
	return c
}

// digit is the value of a digit; letters may be small or capital.
func digit(b byte, base uint64) (v uint64, ok bool) {
	switch {
	case b >= '0' && b <= '9':
		v = uint64(b - '0')
	case b >= 'a' && b <= 'z':
		v = uint64(b-'a') + 10
	case b >= 'A' && b <= 'Z':
		v = uint64(b-'A') + 10
	default:
		return 0, false
	}
	return v, v < base
}

// pattern is a key's, a field's or a member's.
type pattern struct {
	text     string // as it was written
	prefix   []byte // the literal bytes that all texts begin with
	elements []element
	id       part
	base     uint64 // of the id's digits
	divisor  uint64 // of quotient and remainder
	fixed    bool   // it is a literal as a whole: prefix
}

// parsePattern reads a pattern; text is without the "#", "@" or "=" that ends it.
func parsePattern(text string) (*pattern, error) {
	p := &pattern{text: text, base: 10}
	if len(text) > patternMax {
		return nil, fmt.Errorf("a pattern of %d bytes, want at most %d", len(text), patternMax)
	}
	literal := true // nothing but literal bytes so far
	for i := 0; i < len(text); {
		rest := text[i:]
		if taken, err := p.placeholder(rest); err != nil {
			return nil, err
		} else if taken > 0 {
			i, literal = i+taken, false
			continue
		}
		if rest[0] == '\\' {
			if len(rest) == 1 {
				return nil, fmt.Errorf("%q ends with a \\, which stands before the byte that it quotes", text)
			}
			i++
		}
		var c class
		c.add(text[i])
		p.elements = append(p.elements, element{class: c})
		if literal {
			p.prefix = append(p.prefix, text[i])
		}
		i++
	}
	p.fixed = literal
	return p, p.check()
}

// placeholder reads the text in braces at the start of rest, and returns its length; 0: it is no placeholder.
func (p *pattern) placeholder(rest string) (taken int, err error) {
	if strings.HasPrefix(rest, "{*}") {
		p.elements = append(p.elements, element{more: true}) // its class is the inverse of the next literal
		return len("{*}"), nil
	}
	body, isID := strings.CutPrefix(rest, "{mid")
	if !isID || body == "" || !strings.ContainsRune("}:/%", rune(body[0])) {
		return 0, nil
	}
	arg, _, closed := strings.Cut(body, "}")
	if !closed {
		return 0, fmt.Errorf("%q has a { without a }", rest)
	}
	if p.id != none {
		return 0, fmt.Errorf("%q has a second {mid}", p.text)
	}
	p.id = whole
	if arg != "" {
		n, err := strconv.ParseUint(arg[1:], 10, 63)
		switch {
		case arg[0] == ':' && err == nil && (n == 10 || n == 16 || n == 36):
			p.base = n
		case arg[0] == '/' && err == nil && n > 0:
			p.id, p.divisor = quotient, n
		case arg[0] == '%' && err == nil && n > 0:
			p.id, p.divisor = remainder, n
		default:
			return 0, fmt.Errorf("%q: want {mid}, {mid:16}, {mid:36}, {mid/N} or {mid%%N}", rest[:len("{mid")+len(arg)+1])
		}
	}
	p.elements = append(p.elements, element{class: digitsOf(p.base), more: true, id: true})
	return len("{mid") + len(arg) + 1, nil
}

// check makes the invariant of elements true.
func (p *pattern) check() error {
	for i := range p.elements {
		e := &p.elements[i]
		if !e.more {
			continue
		}
		last := i == len(p.elements)-1
		if !last && p.elements[i+1].more {
			return fmt.Errorf("%q has two placeholders side by side: where the first one ends is not known", p.text)
		}
		if !e.id {
			if !last {
				e.class = p.elements[i+1].class
			}
			e.class.invert()
		}
		if !last && e.class.meets(&p.elements[i+1].class) {
			return fmt.Errorf("%q: behind the {mid} stands what may be one of its digits: where it ends is not known", p.text)
		}
	}
	return nil
}

// match returns the id in a text. ok is false where the text does not fit; fits is false where only the id is too
// large.
func (p *pattern) match(text []byte) (id uint64, fits, ok bool) {
	if len(text) < len(p.elements) || string(text[:len(p.prefix)]) != string(p.prefix) {
		return 0, false, false
	}
	if p.fixed {
		return 0, true, len(text) == len(p.prefix)
	}
	rest, fits := text[len(p.prefix):], true
	for i := len(p.prefix); i < len(p.elements); i++ {
		e := &p.elements[i]
		n := 0
		for n < len(rest) && (n == 0 || e.more) && e.class.has(rest[n]) {
			n++
		}
		if n == 0 {
			return 0, false, false
		}
		if e.id {
			id, fits = parseID(rest[:n], p.base)
		}
		rest = rest[n:]
	}
	return id, fits, len(rest) == 0
}

// parseID reads the digits of an id.
func parseID(digits []byte, base uint64) (id uint64, ok bool) {
	if len(digits) > midDigits {
		return 0, false
	}
	for _, b := range digits {
		d, _ := digit(b, base)
		if id > (schema.MaxMid-d)/base {
			return 0, false
		}
		id = id*base + d
	}
	return id, true
}

// meets tells whether some text fits both patterns. It walks them at once: a place is how many elements of each are
// done, and from place to place leads any byte that both take. There are at most 513 times 513 places.
func (p *pattern) meets(o *pattern) bool {
	if n := min(len(p.prefix), len(o.prefix)); string(p.prefix[:n]) != string(o.prefix[:n]) {
		return false
	}
	type place struct{ p, o int }
	start := place{}
	seen, todo := map[place]bool{start: true}, []place{start}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if at.p == len(p.elements) && at.o == len(o.elements) {
			return true
		}
		for _, a := range p.next(at.p) {
			for _, b := range o.next(at.o) {
				next := place{a, b}
				if !seen[next] && p.elements[a-1].class.meets(&o.elements[b-1].class) {
					seen[next] = true
					todo = append(todo, next)
				}
			}
		}
	}
	return false
}

// next returns the places after one more byte: elements done are one more, or as many while the last one goes on.
func (p *pattern) next(done int) (places []int) {
	if done > 0 && p.elements[done-1].more {
		places = append(places, done)
	}
	if done < len(p.elements) {
		places = append(places, done+1)
	}
	return places
}
