package hot

import (
	"math/bits"
	"slices"
	"unsafe"

	"github.com/counterd/counterd/internal/slot"
)

// Picked are items of a table that Pick found, a word each. Words are in the order of their mids, so they are sorted as plain numbers: a
// quarter of the memory that rows of three columns take.
//
//	bit  63            mark+1   mark   mark-1                  0
//	     +-----------------+------+----------------------------+
//	     | key less base   |  0   | columns, as in the table   |
//	     +-----------------+------+----------------------------+
//	     | key less base   |  1   | number of a row in aside   |  where a value is in the overflow table
//	     +-----------------+------+----------------------------+
//
// AppendRows reads the values out of the words. It needs neither the table nor its lock.
type Picked struct {
	Words []uint64 // the caller may take them away between two calls

	aside  []uint64 // rows, without mids
	fields []packedField
	base   uint64
	keys   uint8 // bits of a key less base
	mark   uint8
	group  uint8
	inOne  bool // all mids are of group, and keys are their numbers there

	presets bool // the table lacks a column
	stages  *stages
}

// mostFields bounds the memory of rows aside: those of a block of 64 Ki items take 4 MB at most.
const mostFields = 8

// asideBits is how many bits the number of a row in aside takes: no table has more items.
const asideBits = 23

// Begin empties p for items of t, and tells whether they fit words. If not, or if Select need only look at the overflow table, callers use
// Select.
func (p *Picked) Begin(t *Table, q *Selection) bool {
	p.Words, p.aside, p.fields = p.Words[:0], p.aside[:0], p.fields[:0]
	p.base, p.inOne, p.group = t.geo.base, t.geo.oneGroup, t.geo.group
	p.mark = uint8(max(t.items.layout.Bits, asideBits))
	_, end := t.geo.keys(t.lo, t.hi-1)
	p.keys = uint8(bits.Len64(end - p.base))
	if t.items.width > 57 || end <= p.base || int(p.keys)+1+int(p.mark) > 64 || len(q.Columns) > mostFields || t.Rare(q) {
		return false
	}
	p.presets = false
	for i, c := range q.Columns {
		if c < 0 {
			p.presets = true
			p.fields = append(p.fields, packedField{preset: q.Defaults[i]})
			continue
		}
		col := t.items.column(c)
		p.fields = append(p.fields, packedField{shift: uint8(col.off) - t.geo.rest, over: col.plain != 0, mask: col.mask()})
	}
	return true
}

// Mid is that of a word.
func (p *Picked) Mid(word uint64) uint64 {
	key := word>>((p.mark+1)&63) + p.base
	if p.inOne {
		return slot.Post(p.group, key)
	}
	return key
}

// Bits is how many bits of a word are of its key, and how many are below them.
func (p *Picked) Bits() (keys, payload uint8) { return p.keys, p.mark + 1 }

// Unique leaves one word of each mid. words must be sorted.
func (p *Picked) Unique(words []uint64) []uint64 {
	shift := (p.mark + 1) & 63
	return slices.CompactFunc(words, func(a, b uint64) bool { return (a^b)>>shift == 0 })
}

// row is the row of a word whose row is aside.
func (p *Picked) row(word uint64) []uint64 {
	w := len(p.fields)
	return p.aside[int(word&(1<<(p.mark&63)-1))*w:][:w]
}

// AppendRows appends the mid and the columns of each word. It goes over the columns of some words one after the other.
func (p *Picked) AppendRows(dst, words []uint64) []uint64 {
	w := 1 + len(p.fields)
	dst = slices.Grow(dst, w*len(words))
	if len(p.fields) == 3 && !p.inOne && !p.presets {
		return p.appendThree(dst, words)
	}
	for len(words) > 0 {
		some := words[:min(len(words), 256)] // all stays in the first cache
		words = words[len(some):]
		n := len(dst)
		dst = dst[:n+w*len(some)]
		rows := dst[n:]
		marks := uint64(0)
		if p.inOne {
			for i, word := range some {
				rows[i*w] = p.Mid(word)
				marks |= word
			}
		} else {
			shift := (p.mark + 1) & 63
			for i, word := range some {
				rows[i*w] = word>>shift + p.base
				marks |= word
			}
		}
		for c := range p.fields {
			f := &p.fields[c]
			shift, mask, preset := f.shift&63, f.mask, f.preset
			for i, at := 0, 1+c; i < len(some) && at < len(rows); i, at = i+1, at+w {
				rows[at] = some[i]>>shift&mask | preset
			}
		}
		if marks>>(p.mark&63)&1 == 0 {
			continue
		}
		for i, word := range some {
			if word>>(p.mark&63)&1 != 0 {
				copy(rows[i*w+1:][:w-1], p.row(word))
			}
		}
	}
	return dst
}

// appendThree is AppendRows of three columns, all of which the table has, without a loop over them.
func (p *Picked) appendThree(dst, words []uint64) []uint64 {
	n := len(dst)
	dst = dst[:n+4*len(words)]
	rows := dst[n:]
	shift, mark := (p.mark+1)&63, uint64(1)<<(p.mark&63)
	a, b, c := p.fields[0].shift&63, p.fields[1].shift&63, p.fields[2].shift&63
	aMask, bMask, cMask := p.fields[0].mask, p.fields[1].mask, p.fields[2].mask
	base := p.base
	for i, word := range words {
		if 4*i+4 > len(rows) {
			break // for the compiler
		}
		row := (*[4]uint64)(rows[4*i:])
		row[0] = word>>shift + base
		row[1] = word >> a & aMask
		row[2] = word >> b & bMask
		row[3] = word >> c & cMask
		if word&mark != 0 {
			copy(row[1:], p.row(word))
		}
	}
	return dst
}

// picking is a call of Pick. It goes over the items of some buckets in stages, as one loop would need more registers than there are.
//
//	item    ──▶ places, of items in their first bucket, three of four ──▶ offsets ──▶ words
//	        └─▶ moved, of the others
//
// No stage has a branch that depends on the place of an item, which the processor could not guess.
type picking struct {
	p           *Picked
	t           *Table
	q           *Selection
	first, span uint64 // keys
	tops, lows  uint64 // the highest bit of each wanted column that may be a mark, and its other bits

	*stages
	n, m int // of places, of moved
}

// stages are the items on their way to words.
type stages struct{ places, moved [stageItems]place }

// stageItems is how many items are in a stage. All stays in the first cache.
const stageItems = 256

// place is an item on its way.
type place struct {
	quotient, word uint64
	bucket         uint32
	probe          uint32
}

// Pick is Select to p, which has begun with q and a table that t is or was: some 5 ns an item found.
func (t *Table) Pick(p *Picked, from, to int, q *Selection) {
	if t.n == 0 || !q.prepare(t) {
		return
	}
	if p.stages == nil {
		p.stages = new(stages)
	}
	k := picking{p: p, t: t, q: q, stages: p.stages, first: q.first, span: q.end - q.first}
	for i := range p.fields {
		if f := &p.fields[i]; f.over {
			top := (f.mask>>1 + 1) << (f.shift & 63)
			k.tops, k.lows = k.tops|top, k.lows|f.mask<<(f.shift&63)&^top
		}
	}
	var found [filterBuckets]uint8
	for ; from < to; from += filterBuckets {
		for i, hits := range found[:q.filter(t, from, to, &found)] {
			if hits != 0 {
				k.bucket(uint64(from+i), uint64(hits))
			}
		}
	}
	k.flush()
}

// marked tells whether a wanted column is all ones: a mark. Adding lows to the other bits of a column carries into its highest bit where
// one of them is not 0, and never beyond.
func (k *picking) marked(word uint64) bool {
	y := ^word
	return ^(y&k.lows+k.lows|y)&k.tops != 0
}

// bucket takes the items of bucket b with a bit in hits.
func (k *picking) bucket(b, hits uint64) {
	if max(k.n, k.m) > stageItems-slotsPerBucket {
		k.flush()
	}
	x := &k.t.items
	off, rest := x.at(b), k.t.geo.rest&63
	at, width := unsafe.Add(x.base, off+headerBytes), uint(x.width)
	restMask, columns := uint64(1)<<rest-1, uint64(1)<<(x.layout.Bits&63)-1
	lanes := [2]uint64{load64(x.base, off), load64(x.base, off+8)}
	n, m := k.n, k.m
	for ; hits != 0; hits &= hits - 1 {
		s := uint(bits.TrailingZeros64(hits)) & 7
		bit := s * width
		word := load64(at, uintptr(bit>>3)) >> (bit & 7)
		lane := lanes[s>>2] >> (s & 3 << 4) & 0xffff
		quotient := lane>>probeBits | word&restMask<<quoBits
		lane &= 1<<probeBits - 1
		if word = word >> rest & columns; k.q.again || k.marked(word) {
			ref := Ref(b<<3) + Ref(s)
			if k.q.again && !k.q.holds(x, ref) {
				continue
			}
			if k.marked(word) {
				word = k.setAside(ref)
			}
		}
		in := place{quotient, word, uint32(b), uint32(lane - 1)}
		k.places[n&(stageItems-1)] = in
		k.moved[m&(stageItems-1)] = in
		other := int((lane + 1<<probeBits - 2) >> probeBits) // 0 where lane is 1, else 1
		n += 1 - other
		m += other
	}
	k.n, k.m = n, m
}

// setAside makes a row of the item at ref, and returns the row's number as a word has it in the place of columns.
func (k *picking) setAside(ref Ref) uint64 {
	p := k.p
	n := uint64(len(p.aside) / len(p.fields))
	for i, c := range k.q.Columns {
		if c < 0 {
			p.aside = append(p.aside, k.q.Defaults[i])
		} else {
			p.aside = append(p.aside, k.t.Get(ref, c))
		}
	}
	return 1<<(p.mark&63) | n
}

// flush makes words of all items that wait.
func (k *picking) flush() {
	p, g := k.p, &k.t.geo
	p.Words = slices.Grow(p.Words, k.n+k.m)
	n := len(p.Words)
	keys := p.Words[n : n+k.n+k.m]
	g.firstKeys(keys, k.places[:k.n])
	for i := range k.moved[:k.m] {
		in := &k.moved[i]
		keys[k.n+i] = g.key(uint64(in.bucket), in.quotient, uint(in.probe))
	}
	words := k.words(keys[:0], keys[:k.n], k.places[:k.n])
	words = k.words(words, keys[k.n:], k.moved[:k.m])
	p.Words, k.n, k.m = p.Words[:n+len(words)], 0, 0
}

// words appends the words of the items whose keys are in the range. keys may be in the memory behind dst.
func (k *picking) words(dst, keys []uint64, items []place) []uint64 {
	first, span, base, up := k.first, k.span, k.p.base, uint64(1)<<((k.p.mark+1)&63)
	n := len(dst)
	dst = dst[:n+len(keys)]
	items = items[:len(keys)]
	for i, key := range keys {
		_, inside := bits.Sub64(key-first, span, 0)
		dst[n] = (key-base)*up | items[i].word
		n += int(inside)
	}
	return dst[:n]
}
