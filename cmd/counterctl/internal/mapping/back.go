package mapping

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"strconv"
)

// Writer makes the commands that write numbers where rules say that a Redis holds them: the way back.
type Writer struct {
	// SkipZeros leaves out values all of whose numbers are 0: most programs treat a missing key as 0.
	SkipZeros bool

	rules *Rules
	words [][]byte
	text  []byte
}

// Writer returns one, or says why there is no way back.
func (r *Rules) Writer() (*Writer, error) {
	if r.repeats != nil {
		return nil, fmt.Errorf("where is a number to go? %w", r.repeats)
	}
	for _, g := range r.groups {
		for _, rule := range g.rules {
			for _, p := range []*pattern{rule.key, rule.field} {
				if p != nil && !p.oneText() {
					return nil, fmt.Errorf("rule %q: what is to stand for {*}?", rule.text)
				}
			}
		}
	}
	return &Writer{rules: r}, nil
}

// oneText tells whether a mid has one text.
func (p *pattern) oneText() bool {
	for i := range p.elements {
		if p.elements[i].more && !p.elements[i].id {
			return false
		}
	}
	return true
}

// append appends the text of a mid.
func (p *pattern) append(dst []byte, mid uint64) []byte {
	for i := range p.elements {
		e := &p.elements[i]
		if !e.id {
			dst = append(dst, e.class.only())
			continue
		}
		switch p.id {
		case quotient:
			mid /= p.divisor
		case remainder:
			mid %= p.divisor
		}
		dst = strconv.AppendUint(dst, mid, int(p.base))
	}
	return dst
}

// only is the byte of a class of one.
func (c *class) only() byte {
	for i, word := range c {
		if word != 0 {
			return byte(64*i + bits.TrailingZeros64(word))
		}
	}
	return 0
}

// Commands calls f with the words of each command that writes numbers of a post. values are by the index of Columns; has
// says which of them there are. Words are f's until it returns.
func (w *Writer) Commands(mid uint64, values []uint64, has []bool, f func(words [][]byte)) {
	for _, g := range w.rules.groups {
		w.words, w.text = w.words[:0], w.text[:0]
		w.word([]byte([...]string{"SET", "HSET", "ZADD"}[g.shape]))
		w.add(func(dst []byte) []byte { return g.key.append(dst, mid) })
		for _, r := range g.rules {
			columns := columnsOf(r.values)
			if !all(columns, has) || w.SkipZeros && zero(columns, values) {
				continue
			}
			field := func(dst []byte) []byte { return r.field.append(dst, mid) }
			value := func(dst []byte) []byte { return r.values.encode(dst, values) }
			switch g.shape {
			case String:
				w.add(value)
			case Hash:
				w.add(field)
				w.add(value)
			case SortedSet:
				w.add(value)
				w.add(field)
			}
		}
		if len(w.words) > 2 {
			f(w.words)
		}
	}
}

// all tells whether all columns that are written are there.
func all(columns []int, has []bool) bool {
	for _, c := range columns {
		if c >= 0 && !has[c] {
			return false
		}
	}
	return true
}

// zero tells whether all numbers that are written are 0.
func zero(columns []int, values []uint64) bool {
	for _, c := range columns {
		if at(values, c) > 0 {
			return false
		}
	}
	return true
}

// add adds the word that f appends. Text that moves leaves words where they were, which are whole.
func (w *Writer) add(f func([]byte) []byte) {
	n := len(w.text)
	w.text = f(w.text)
	w.word(w.text[n:])
}

func (w *Writer) word(b []byte) { w.words = append(w.words, b) }

func (s single) encode(dst []byte, values []uint64) []byte {
	return strconv.AppendUint(dst, values[s.column], 10)
}

func (s score) encode(dst []byte, values []uint64) []byte {
	return strconv.AppendUint(dst, values[s.column], 10)
}

func (x *text) encode(dst []byte, values []uint64) []byte {
	for i, c := range x.columns {
		if i > 0 {
			dst = append(dst, x.separator...)
		}
		dst = strconv.AppendUint(dst, at(values, c), 10)
	}
	return dst
}

func (p *packedBits) encode(dst []byte, values []uint64) []byte {
	start, off := len(dst), 0
	dst = append(dst, make([]byte, p.size)...)
	for _, f := range p.fields {
		v := at(values, f.column)
		for bit := range f.bits {
			place, one := off+bit, v>>(f.bits-1-bit)&1
			if f.little {
				one = v >> (8*(bit/8) + 7 - bit%8) & 1
			}
			dst[start+place/8] |= byte(one) << (7 - place%8)
		}
		off += f.bits
	}
	return dst
}

func (o *object) encode(dst []byte, values []uint64) []byte {
	dst = append(dst, '{')
	for i, name := range o.names {
		if i > 0 {
			dst = append(dst, ',')
		}
		quoted, _ := json.Marshal(name) // of a string it cannot fail
		dst = append(append(dst, quoted...), ':')
		dst = strconv.AppendUint(dst, at(values, o.columns[i]), 10)
	}
	return append(dst, '}')
}

// at returns a number, 0 for a column that was passed over.
func at(values []uint64, column int) uint64 {
	if column < 0 {
		return 0
	}
	return values[column]
}
