package hot

import (
	"math/bits"
	"slices"
	"unsafe"
)

// vectors has the constants of a table and a selection for pickBuckets, which picks all items of a bucket at once, by vector instructions: it is
// stage.put, stage.firstKeys, stage.movedKeys and the test of picking.marks in one, in a fifth of the time. Other processors take those.
// TestPick compares both with Select.
type vectors struct {
	index [slotsPerBucket]uint64 // the numbers of the four 16-bit words in which each item is, of those in a bucket
	shift [slotsPerBucket]uint64 // and the bit of the first that it begins at

	stride, bytes          uint64 // bytes of a bucket; a bit for each byte of its items
	restBits, twist, low   uint64 // bits that are shifted
	rest, columns          uint64 // masks of an item's parts
	seed, twistSeed        uint64
	m, inverse             uint64 // buckets; (2^32-1)/m
	hashFirst, hashSecond  uint64
	hashStep               uint64
	quotient               uint64 // mask
	more, from, span, most uint64 // see picking.flush
	ones, above, none      uint64 // see picking.marks
	probe, one             uint64
}

// bucketMasks are bits of the items of buckets, of slot 0 the lowest.
type bucketMasks struct {
	hits  [filterBuckets]uint8
	marks [filterBuckets]uint8 // items of which a wanted column may be in the overflow table
}

// many tells whether there are so many hits in the first n buckets that pickBuckets takes less time than a loop over the items.
func (m *bucketMasks) many(n int) bool {
	clear(m.hits[n:])
	hits := 0
	for i := uintptr(0); i < filterBuckets; i += 8 {
		hits += bits.OnesCount64(load64(unsafe.Pointer(&m.hits), i))
	}
	return hits >= filterBuckets/2
}

// vectorWidth is how many bits an item may have for vector instructions: it is in the four 16-bit words that begin where it does.
const vectorWidth = 64 - 15

// setVectors makes v ready for k.
func (k *picking) setVectors(v *vectors) {
	x, g := &k.t.items, &k.t.geo
	v.index, v.shift = x.places()
	v.stride, v.bytes = uint64(x.stride), 1<<x.width-1
	v.restBits, v.twist, v.low = uint64(g.rest), uint64(g.shift), uint64(k.p.Low)
	v.rest, v.columns = 1<<g.rest-1, 1<<x.layout.Bits-1
	v.seed, v.twistSeed, v.m, v.inverse, v.quotient = g.seed, g.seed^twistInput, g.m, (1<<32-1)/g.m, g.mask()
	v.hashFirst, v.hashSecond, v.hashStep = hashFirst, hashSecond, hashStep
	v.more, v.from, v.span, v.most = g.base-k.p.base, k.q.first-k.p.base, k.q.end-k.q.first, k.p.mostKey()
	v.ones, v.above, v.none = k.ones, k.above, k.ones&k.above
	v.probe, v.one = 1<<probeBits-1, 1
}

// vector picks items of so many buckets from from on, those with a bit in hits.
func (k *picking) vector(from, buckets int, masks *bucketMasks) {
	p, x := k.p, &k.t.items
	n := len(p.Words)
	p.Words = slices.Grow(p.Words, (buckets+1)*slotsPerBucket)
	picked, unfit := pickBuckets(&k.stage.vectors, unsafe.Add(x.base, x.at(uint64(from))), uint64(from), buckets, masks, unsafe.SliceData(p.Words[n:cap(p.Words)]))
	p.Words = p.Words[:n+picked]
	p.Unfit = p.Unfit || unfit != 0
	if k.ones == 0 {
		return
	}
	clear(masks.hits[buckets:])
	clear(masks.marks[buckets:])
	for i := 0; i < filterBuckets; i += 8 { // eight buckets at a time
		hits, marks := load64(unsafe.Pointer(&masks.hits), uintptr(i)), load64(unsafe.Pointer(&masks.marks), uintptr(i))
		for ; marks != 0; marks &= marks - 1 {
			s := bits.TrailingZeros64(marks)
			word := &p.Words[n+bits.OnesCount64(hits&(1<<s-1))]
			*word = *word>>p.Low<<p.Low | k.setAside(Ref((from+i)<<3+s), *word)
		}
		n += bits.OnesCount64(hits)
	}
}

// filterVectors has the constants of filterVector, which compares a column of all items of a bucket at once.
type filterVectors struct {
	index         [slotsPerBucket]uint64 // see vectors
	shift         [slotsPerBucket]uint64 // the bit that the column begins at
	stride, bytes uint64                 // see vectors
	mask          uint64                 // of the column
	lo, width     uint64                 // see packedRange
}

// setFilter makes f ready for p.
func (x *items) setFilter(f *filterVectors, p *packedRange) {
	f.index, f.shift = x.places()
	for s := range f.shift {
		f.shift[s] += uint64(x.column(p.column).off)
	}
	f.stride, f.bytes, f.mask, f.lo, f.width = uint64(x.stride), 1<<x.width-1, p.mask, p.lo, p.width
}

// places returns vectors.index and vectors.shift of x.
func (x *items) places() (index, shift [slotsPerBucket]uint64) {
	for s := range index {
		bit := uint64(s) * uint64(x.width)
		index[s], shift[s] = 0x0003_0002_0001_0000+bit>>4*0x0001_0001_0001_0001, bit&15
	}
	return index, shift
}

// rowWords is how many words a row of unpackRows may have, as many as a register.
const rowWords = 8

// unpackers has the constants of unpackRows, which makes a row of a narrow item in six instructions: word i of a row is add[i] and the bits mask[i] of the item from bit shift[i] on.
type unpackers struct {
	shift, mask, add [rowWords]uint64
	row              uint64 // a bit for each word of a row
	values           uint64 // a bit for each but the first
	bytes            uint64 // of a row
	aside            unsafe.Pointer
	flag             uint64 // of a word whose values are in a row of aside
}

// setUnpackers makes u ready for p.
func (p *Picked) setUnpackers(u *unpackers) {
	*u = unpackers{row: 1<<(1+len(p.fields)) - 1, bytes: 8 * uint64(1+len(p.fields)), aside: unsafe.Pointer(unsafe.SliceData(p.aside)), flag: 1 << (p.Low - 1)}
	u.values = u.row &^ 1
	u.shift[0], u.mask[0], u.add[0] = uint64(p.Low), ^uint64(0)>>p.Low, p.base
	for i := range p.fields {
		f := &p.fields[i]
		u.shift[1+i], u.mask[1+i], u.add[1+i] = uint64(f.shift), f.mask, f.preset
	}
}
