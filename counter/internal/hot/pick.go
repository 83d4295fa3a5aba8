package hot

import (
	"cmp"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/counterd/counterd/internal/slot"
)

// Picked are items of a table that Pick found. They are copied as they are packed, a word each, and AppendRows reads the values out of them: it
// needs neither the table nor its lock. Words, without their bits below Low, rise with the mid.
//
//	word  bit  62        Low   Low-1                      0
//	          +------------+-----+--------------------------+
//	narrow    | key - base |  0  | columns, as in the table |
//	          +------------+-----+--------------------------+
//	          | key - base |  1  | number of a row in aside |  where a value is in the overflow table
//	          +------------+-----+--------------------------+
//	wide      | key - base, shortened | number in kept      |  where keys and columns do not fit a word
//	          +-----------------------+---------------------+
//
// Words of wide items whose keys are near each other may be equal but for the number. Compare says which is less.
type Picked struct {
	Words []uint64 // the caller may take them away between two calls
	Low   uint     // bits of a word below the key
	Wide  bool
	// Unfit says that the key of an item does not fit a narrow word: the items must be picked once more, as wide ones. It happens in
	// blocks whose range has no end, or begins at 0, and is far larger than that of nearly all of their keys.
	Unfit bool
	Plain bool // vector instructions are not used, for tests

	base    uint64 // the key of a word whose upper bits are 0
	cut     uint   // bits of the key that a wide word lacks
	bounded bool   // no key is below base, and none too large for a word
	kept    []kept
	aside   []uint64 // rows, whose mids are not set
	fields  []packedField
	group   uint8
	inOne   bool // all mids are of group, and keys are their numbers there

	presets bool // the table lacks a column
	stage   *stage
}

// kept is a wide item. Its columns are as in the table, or, with the highest bit, the number of a row in aside.
type kept struct{ key, columns uint64 }

// keptAside is the bit of kept.columns that says that the values are aside.
const keptAside = 1 << 63

// wordBits is how many bits of a word are used: words less a bound, some of which are below it, are told apart by the highest.
const wordBits = 63

// mostFields bounds the memory of rows aside: those of a block of 64 Ki items take 4 MB at most.
const mostFields = 8

// laneRest is how many bits of a quotient fit a word above a lane.
const laneRest = 64 - probeBits - quoBits

// Begin empties p for items of t, and tells whether they can be picked. If not, or if Select need only look at the overflow table, callers use
// Select. wide has the items be wide ones in any case.
func (p *Picked) Begin(t *Table, q *Selection, wide bool) bool {
	p.Words, p.kept, p.aside, p.fields = p.Words[:0], p.kept[:0], p.aside[:0], p.fields[:0]
	p.inOne, p.group, p.Unfit = t.geo.oneGroup, t.geo.group, false
	if !t.items.oneWord || t.geo.rest > laneRest || len(q.Columns) > mostFields || t.Rare(q) {
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
	number := bits.Len(uint(t.Slots()))
	narrow := max(t.items.layout.Bits, number) + 1
	least, end := t.geo.keys(t.lo, t.hi-1)
	most := max(least, end-1)
	p.bounded = true
	if bits.Len64(most-least)+narrow > wordBits {
		least, most = mostKeys(t, least, most)
		p.bounded = false
	}
	room := bits.Len64(most - least)
	if p.Wide = wide || room+narrow > wordBits; p.Wide {
		p.Low, p.base, p.bounded = uint(number), least, false
		p.cut = uint(max(0, room+number-wordBits))
		return true
	}
	p.Low, p.cut, p.base = uint(narrow), 0, least
	return true
}

// someKeys is how many items say where most keys of a table are. Items are in the order of a hash: the first ones are anywhere in the range. A table
// that has fewer in its first buckets has few: to look at all of them would take long, under the block's lock.
const someKeys = 64

// mostKeys returns bounds of the keys of most items, which are all from least to most: with room on both sides, as only some keys are looked at.
func mostKeys(t *Table, least, most uint64) (low, high uint64) {
	var some [someKeys]uint64
	keys := some[:0]
	for b := 0; b < min(t.Buckets(), filterBuckets) && len(keys) < someKeys; b++ {
		off := t.items.at(uint64(b))
		used := usedBits(load64(t.items.base, off)) | usedBits(load64(t.items.base, off+8))<<4
		for ; used != 0 && len(keys) < someKeys; used &= used - 1 {
			keys = append(keys, t.geo.key(t.lane(Ref(b<<3+bits.TrailingZeros64(used)))))
		}
	}
	if len(keys) == 0 {
		return least, most
	}
	slices.Sort(keys)
	few := len(keys) / 32 // far from all others, perhaps
	low, high = keys[few], keys[len(keys)-1-few]
	more := high - low + uint64(t.Slots())
	low -= min(low-least, more)
	return low, high + min(most-high, more)
}

// mid is that of a key.
func (p *Picked) mid(key uint64) uint64 {
	if p.inOne {
		return slot.Post(p.group, key)
	}
	return key
}

// Bounds returns the least mid that words from least on may have, and the largest that those up to most may have. Words in front of least have mids below
// lo, and those behind most have mids above hi.
func (p *Picked) Bounds(least, most uint64) (lo, hi uint64) {
	hi = EndMid - 1
	if least>>p.Low > 0 {
		key := p.base + least>>p.Low<<p.cut
		if lo = p.mid(key); p.inOne && slot.Number(lo) < key { // no post has this number: lo is the last one below
			lo++
		}
	}
	if most>>p.Low < p.mostKey() {
		hi = p.mid(p.base + (most>>p.Low+1)<<p.cut - 1)
	}
	return lo, hi
}

// mostKey is the largest number that a word has above its low bits.
func (p *Picked) mostKey() uint64 { return 1<<(wordBits-p.Low) - 1 }

// key is that of a word.
func (p *Picked) key(word uint64) uint64 {
	if p.Wide {
		return p.kept[word&(1<<p.Low-1)].key
	}
	return p.base + word>>p.Low
}

// Compare compares the mids of two words.
func (p *Picked) Compare(a, b uint64) int {
	return cmp.Compare(p.key(a), p.key(b))
}

// unpackItems is how many items AppendRows unpacks at a time: all stays in the first cache.
const unpackItems = 256

// AppendRows appends the mid and the columns of each item.
func (p *Picked) AppendRows(dst []uint64, words []uint64) []uint64 {
	n, w := len(dst), 1+len(p.fields)
	if p.vectors() && len(words) > 0 {
		p.setUnpackers(&p.stage.unpackers)
	}
	dst = slices.Grow(dst, w*len(words))[:n+w*len(words)]
	for rows := dst[n:]; len(words) > 0; {
		some := words[:min(len(words), unpackItems)]
		p.unpack(rows, some)
		words, rows = words[len(some):], rows[w*len(some):]
	}
	return dst
}

// vectors tells whether rows are unpacked by vector instructions, which put at most rowWords words in a row.
func (p *Picked) vectors() bool {
	return !p.Wide && !p.Plain && len(p.fields) < rowWords && hasVectors()
}

// unpack sets the rows of items.
func (p *Picked) unpack(rows, words []uint64) {
	if p.Wide {
		p.unpackKept(rows, words)
		return
	}
	w := 1 + len(p.fields)
	if p.vectors() {
		unpackRows(&p.stage.unpackers, unsafe.SliceData(rows), words)
		if p.inOne {
			for i := range words {
				rows[i*w] = p.mid(rows[i*w])
			}
		}
		return
	}
	any, flag := uint64(0), uint64(1)<<(p.Low-1)
	if len(p.fields) == 3 && !p.inOne && !p.presets {
		any = unpackThree(fours(rows), words, p.base, p.Low, (*[3]packedField)(p.fields))
	} else {
		for i, word := range words {
			any |= word
			rows[i*w] = p.mid(p.base + word>>p.Low)
		}
		for c := range p.fields {
			f := &p.fields[c]
			shift, mask, preset := f.shift&63, f.mask, f.preset
			for i, at := 0, 1+c; i < len(words) && at < len(rows); i, at = i+1, at+w {
				rows[at] = words[i]>>shift&mask | preset
			}
		}
	}
	if any&flag == 0 {
		return
	}
	for i, word := range words {
		if word&flag != 0 {
			p.putAside(rows, i, word&(flag-1))
		}
	}
}

// unpackThree sets the rows of items of three columns, all of which the table has. It returns the bits that any of the words has.
//
//go:noinline
func unpackThree(rows [][4]uint64, words []uint64, base uint64, low uint, fields *[3]packedField) (any uint64) {
	rows = rows[:len(words)]
	a, b, c := fields[0], fields[1], fields[2]
	for i, word := range words {
		any |= word
		rows[i] = [4]uint64{base + word>>(low&63), word >> (a.shift & 63) & a.mask, word >> (b.shift & 63) & b.mask, word >> (c.shift & 63) & c.mask}
	}
	return any
}

// unpackKept sets the rows of wide items.
func (p *Picked) unpackKept(rows, words []uint64) {
	w := 1 + len(p.fields)
	for i, word := range words {
		item := &p.kept[word&(1<<p.Low-1)]
		row := rows[i*w:][:w]
		row[0] = p.mid(item.key)
		if item.columns&keptAside != 0 {
			p.putAside(rows, i, item.columns&^keptAside)
			continue
		}
		for c := range p.fields {
			f := &p.fields[c]
			row[1+c] = item.columns>>(f.shift&63)&f.mask | f.preset
		}
	}
}

// putAside sets the values of row i, which are those of a row that is aside.
func (p *Picked) putAside(rows []uint64, i int, number uint64) {
	w := 1 + len(p.fields)
	copy(rows[i*w+1:][:w-1], p.aside[int(number)*w+1:])
}

// picking is a call of Pick. It copies the items of some buckets as they are to a stage, and then finds the keys of all of them, as one loop
// would need more registers than there are.
type picking struct {
	p           *Picked
	t           *Table
	q           *Selection
	all         bool   // all keys are in the range
	ones, above uint64 // the lowest bit of each wanted column that may be a mark, and the bit above its highest
	rest, items packedSlots
	dense       bool // items are in one word with their quotients, and most of each bucket are picked

	*stage
	n int // items on the stage
}

// packedSlots says where some bits of each slot of a bucket are.
type packedSlots struct {
	mask  uint64
	off   [slotsPerBucket]uint16
	shift [slotsPerBucket]uint8
}

// slots returns where the bits from off on are in the items of a bucket.
func (x *items) slots(off, width uint) packedSlots {
	p := packedSlots{mask: 1<<width - 1}
	for s := range p.off {
		bit := uint(s)*uint(x.width) + off
		p.off[s], p.shift[s] = uint16(headerBytes+bit>>3), uint8(bit&7)
	}
	return p
}

// of returns the bits of slot s of the bucket at b.
func (p *packedSlots) of(b unsafe.Pointer, s int) uint64 {
	return load64(b, uintptr(p.off[s&7])) >> (p.shift[s&7] & 7) & p.mask
}

// Pick is Select to p, which has begun with q and a table that t is or was.
func (t *Table) Pick(p *Picked, from, to int, q *Selection) {
	if t.n == 0 || !q.prepare(t) {
		return
	}
	if p.stage == nil {
		p.stage = new(stage)
	}
	x := &t.items
	k := picking{p: p, t: t, q: q, stage: p.stage, all: q.Lo <= t.lo && q.Hi >= t.hi-1, dense: x.width <= 57 && len(q.packed) == 0}
	k.rest, k.items = x.slots(0, uint(t.geo.rest)), x.slots(uint(t.geo.rest), uint(x.layout.Bits))
	for i := range p.fields {
		if f := &p.fields[i]; f.over && x.over.n > 0 {
			k.ones |= 1 << (f.shift & 63)
			k.above |= (f.mask + 1) << (f.shift & 63)
		}
	}
	vector, ready := !p.Wide && !p.Plain && x.width <= vectorWidth && hasVectors(), false
	masks := &p.stage.masks
	for ; from < to; from += filterBuckets {
		n := min(to-from, filterBuckets)
		if vector && len(q.packed) == 0 {
			for i := range masks.hits { // pickBuckets sees which places are used
				masks.hits[i] = 1<<slotsPerBucket - 1
			}
		} else {
			q.filter(t, from, to, &masks.hits)
		}
		if q.again {
			k.lookAgain(from, n, &masks.hits)
		}
		if vector && (len(q.packed) == 0 || masks.many(n)) {
			if !ready {
				k.setVectors(&p.stage.vectors)
				ready = true
			}
			k.vector(from, n, masks)
			continue
		}
		for i, hits := range masks.hits[:n] {
			if hits != 0 {
				k.bucket(uint64(from+i), uint64(hits))
			}
		}
	}
	k.flush()
}

// lookAgain removes the bits of items from hits that do not meet the conditions, though their packed values look right.
func (k *picking) lookAgain(from, buckets int, hits *[filterBuckets]uint8) {
	for i := range hits[:buckets] {
		for rest := hits[i]; rest != 0; rest &= rest - 1 {
			if s := bits.TrailingZeros8(rest); !k.q.holds(&k.t.items, Ref((from+i)<<3+s)) {
				hits[i] &^= 1 << s
			}
		}
	}
}

// bucket takes the items of bucket b with a bit in hits.
func (k *picking) bucket(b, hits uint64) {
	if k.n > stageItems-slotsPerBucket {
		k.flush()
	}
	x := &k.t.items
	at := unsafe.Add(x.base, x.at(b))
	if k.dense {
		k.n = k.putMost(at, b<<3, hits, &k.rest, k.items.mask, x.rest, k.n)
		return
	}
	k.n = k.put(at, b<<3, hits, &k.rest, &k.items, k.n)
}

// marks puts the values of items aside of which one is in the overflow table: where a wanted column is all ones. Adding 1 to such a column
// carries into the bit above it. No other column carries there, unless one below it is all ones.
func (k *picking) marks() {
	ones, above := k.ones, k.above
	none := ones & above
	for i, columns := range k.columns[:k.n] {
		if (columns+ones^columns)&above != none {
			k.columns[i] = k.setAside(Ref(k.refs[i]), columns)
		}
	}
}

// setAside makes a row of the item at ref, with these columns as in the table, and returns what its word, or kept.columns, has in their place.
func (k *picking) setAside(ref Ref, columns uint64) uint64 {
	p, x := k.p, &k.t.items
	n := uint64(len(p.aside) / (1 + len(p.fields)))
	p.aside = append(p.aside, 0)
	for i := range p.fields {
		f := &p.fields[i]
		v := columns>>(f.shift&63)&f.mask | f.preset
		if f.over && v == f.mask {
			v = x.over.get(x.overKey(ref, k.q.Columns[i]))
		}
		p.aside = append(p.aside, v)
	}
	if p.Wide {
		return keptAside | n
	}
	return 1<<(p.Low-1) | n
}

// flush moves all items of the stage to p.
func (k *picking) flush() {
	p, g := k.p, &k.t.geo
	if k.ones != 0 {
		k.marks()
	}
	n := len(p.Words)
	p.Words = slices.Grow(p.Words, k.n)[:n+k.n]
	words, less := p.Words[n:], g.base-p.base
	k.movedKeys(g, words, less, p.Low, k.firstKeys(g, words, less, p.Low))
	if k.n = 0; k.all && p.bounded {
		return
	}
	span, base, first := k.q.end-k.q.first, p.base, k.q.first
	most := p.mostKey()
	in := 0
	for i, word := range words {
		key := k.keys[i&(stageItems-1)]
		if key+base-first >= span {
			continue
		}
		switch {
		case p.Wide:
			above := uint64(0)
			if key+base > base {
				above = key
			}
			word = min(above>>p.cut, most)<<p.Low | uint64(len(p.kept))
			p.kept = append(p.kept, kept{key + base, k.columns[i&(stageItems-1)]})
		case key > most:
			p.Unfit = true
		}
		words[in] = word
		in++
	}
	p.Words = p.Words[:n+in]
}
