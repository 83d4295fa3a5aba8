package page

import (
	"encoding/binary"
	"math/bits"
	"unsafe"

	"github.com/counterd/counterd/internal/slot"
)

// Dir is what is known of a page in memory besides its bytes, so that a point read takes 8 cache lines of which 3
// wait for one another, and no scan: where the zeros of the mids' high bits are, which rows differ from the common one as
// plain bits, the common row and the first levels of the ladders. It has no pointers, as it lies outside of Go's heap, and
// is made when a page is read the second time, in 0.5 us.
//
// Fields are guarded by the lock of the page's shard. touch looks at them without it: whatever it finds, it stays within
// the page.
type Dir struct {
	first, step uint64 // of mids
	n           uint16 // rows
	End         uint16 // length of the page
	hbits       uint16 // bits of the mids' high
	low, high   uint16 // byte offsets of the mids' parts
	live        uint16 // rows with values in the column parts
	ranks       [dirRows / 512]uint16
	State       uint8
	Used        bool // read since the hand last passed
	Loaded      bool // by Load, and not read since
	kind        uint8
	oneGroup    bool
	group       uint8
	l           uint8 // bits of the mids' low
	shift       uint8 // log2 of the zeros between samples
	cols        uint8
	presence    bool // there is a common row
	zero        bool // which is all zeros, in the first columns

	samples [dirSamples]uint16 // position behind the zero of number i<<shift
	bitmap  [dirRows / 64]uint64
	common  [viewColumns]uint64
	levels  [viewColumns]firstLevel
}

const (
	dirRows    = 2048 // real posts have 1900 in a page
	dirSamples = 64

	DirNew   = 0
	DirReady = 1
	DirNone  = 2 // a page that has other parts, or is larger: it is parsed at each read, which takes 100 ns more
)

// viewColumns is of how many columns a dir has the common row and the first level, which is all that most reads need.
const viewColumns = 4

// Build makes d that of page b, whose checksum held. It returns the name of the damaged part, or "".
func (d *Dir) Build(b []byte, cols int) string {
	var v View
	if bad := v.Parse(b, cols); bad != "" {
		return bad
	}
	m := &v.Mids
	if v.N > dirRows || len(b) > 1<<MinShift || m.Kind != MidsEF && m.Kind != midsStride {
		d.State = DirNone
		return ""
	}
	d.first, d.step, d.kind, d.oneGroup, d.group = m.First, m.Step, m.Kind, m.oneGroup, m.group
	d.n, d.End, d.live, d.cols = uint16(v.N), uint16(len(b)), uint16(v.live()), uint8(cols)
	if m.Kind == MidsEF && !d.sample(&m.Ef, b) {
		return PartMids
	}
	if d.presence = v.Presence != 0; d.presence && !d.spread(&v.Set, b) {
		return PartPresence
	}
	d.zero = true
	for col := range min(cols, viewColumns) {
		c := v.Part(col)
		if d.presence {
			d.common[col] = c.Uvarint()
			d.zero = d.zero && d.common[col] == 0
		}
		if d.levels[col].parse(&c, v.live()); c.Bad {
			return PartColumn
		}
	}
	d.State = DirReady
	return ""
}

// sample notes where zeros are.
func (d *Dir) sample(e *eliasFano, b []byte) bool {
	d.l, d.low, d.high, d.hbits = e.l&63, uint16(e.low), uint16(e.high), uint16(e.hbits)
	zeros := int(e.hbits - e.n)
	d.shift = uint8(max(3, bits.Len(uint(zeros)/dirSamples)))
	d.samples = [dirSamples]uint16{}
	seen, next := 0, 1<<d.shift // zeros so far, and the one to note next
	for pos := 0; pos < int(e.hbits); pos += 64 {
		w := ^binary.LittleEndian.Uint64(b[int(e.high)+pos>>3:])
		if left := int(e.hbits) - pos; left < 64 {
			w &= Mask(uint(left))
		}
		here := bits.OnesCount64(w)
		for ; next <= seen+here; next += 1 << d.shift {
			d.samples[next>>d.shift&(dirSamples-1)] = uint16(pos + select1(w, next-seen) + 1)
		}
		seen += here
	}
	return seen == zeros
}

// spread makes plain bits of the presence set.
func (d *Dir) spread(s *bitset, b []byte) bool {
	d.bitmap = [dirRows / 64]uint64{}
	n := int(d.n)
	if s.plain != 0 {
		for i := 0; i < n; i += 64 {
			d.bitmap[i>>6&(len(d.bitmap)-1)] = binary.LittleEndian.Uint64(b[int(s.plain)+i>>3:]) & Mask(uint(n-i))
		}
	} else {
		e := &s.ef
		l, i, low, next := uint(e.l), 0, int(e.low)*8, uint64(0)
		for pos := 0; pos < int(e.hbits); pos += 64 {
			w := binary.LittleEndian.Uint64(b[int(e.high)+pos>>3:])
			if left := int(e.hbits) - pos; left < 64 {
				w &= Mask(uint(left))
			}
			for ; w != 0 && i < int(e.n); w &= w - 1 {
				row := uint64(pos+bits.TrailingZeros64(w)-i)<<l | Load(b, low, l)
				if row >= uint64(n) || row < next {
					return false
				}
				next = row + 1
				d.bitmap[row>>6&uint64(len(d.bitmap)-1)] |= 1 << (row & 63)
				low += int(l)
				i++
			}
		}
	}
	count := 0
	for i, w := range d.bitmap {
		if i&7 == 0 {
			d.ranks[i>>3] = uint16(count)
		}
		count += bits.OnesCount64(w)
	}
	return count == int(s.m)
}

// offset is by how many steps mid, which is above the first, is behind it, and whether that is exact.
func (d *Dir) offset(mid uint64) (x uint64, exact bool) {
	x = mid - d.first
	if d.step == 1 {
		return x, true
	}
	q := x / max(d.step, 1)
	return q, q*d.step == x
}

// Touch asks the processor for the cache lines that a read of mid is likely to need.
func (d *Dir) Touch(b []byte, mid uint64) {
	if d.State != DirReady {
		return
	}
	if d.oneGroup {
		mid = slot.Number(mid)
	}
	if mid <= d.first {
		return
	}
	x, _ := d.offset(mid)
	i := int(x)
	if d.kind == MidsEF {
		h := int(x >> (d.l & 63))
		j := h >> (d.shift & 31) & (dirSamples - 1) // h is anything where d is being written
		pos, next := int(d.samples[j]), int(d.hbits)
		if j+1 < dirSamples && d.samples[j+1] > 0 {
			next = int(d.samples[j+1])
		}
		pos += (h & (1<<(d.shift&31) - 1)) * (next - pos) >> (d.shift & 31)
		prefetchNear(b, int(d.high)+pos>>3)
		i = pos - h
		prefetchNear(b, int(d.low)+i*int(d.l)>>3)
	}
	if d.presence {
		prefetchLines(unsafe.Pointer(&d.bitmap[i>>6&(len(d.bitmap)-1)]), 0) // most rows need no more
		return
	}
	for col := range min(int(d.cols), viewColumns) {
		d.levels[col].touch(b, max(int(d.n), 1), i)
	}
}

// Search returns how many ids are below mid, and whether mid is among them.
func (d *Dir) search(b []byte, mid uint64) (i int, found bool) {
	if d.oneGroup {
		if slot.Group(mid) != d.group {
			return 0, false // i is wrong, and of no use
		}
		mid = slot.Number(mid)
	}
	if mid <= d.first {
		return 0, mid == d.first
	}
	x, exact := d.offset(mid)
	if !exact {
		return 0, false
	}
	n, hbits, l := int(d.n), int(d.hbits), uint(d.l&63)
	if d.kind == midsStride {
		return int(min(x, uint64(n))), x < uint64(n)
	}
	h := x >> l
	if h > uint64(hbits-n) { // above the last
		return n, false
	}
	j := int(h) >> (d.shift & 31)
	pos, high := int(d.samples[j&(dirSamples-1)]), int(d.high)
	for k := int(h) - j<<(d.shift&31); k > 0; {
		if pos >= hbits {
			return n, false
		}
		w := ^binary.LittleEndian.Uint64(b[high+pos>>3:]) >> (pos & 7)
		c := bits.OnesCount64(w)
		if k <= c {
			pos += select1(w, k) + 1
			break
		}
		k -= c
		pos += 64 - pos&7
	}
	want, low := x&Mask(l), int(d.low)*8
	for i = pos - int(h); pos < hbits && i < n && b[high+pos>>3]>>(pos&7)&1 == 1; i++ {
		if at := Load(b, low+i*int(l), l); at >= want {
			return i, at == want
		}
		pos++
	}
	return i, false
}

// Get looks mid up and stores the values of the given columns (nil: all) in dst. b is the page that d was built of.
func (d *Dir) Get(b []byte, mid uint64, cols []int, dst []uint64) (found bool, bad string) {
	i, found := d.search(b, mid)
	if !found {
		return false, ""
	}
	n := int(d.live)
	if d.presence {
		word := i >> 6 & (len(d.bitmap) - 1)
		if d.bitmap[word]>>(i&63)&1 == 0 {
			return d.ordinary(b, cols, dst)
		}
		r := int(d.ranks[i>>9&(len(d.ranks)-1)]) + bits.OnesCount64(d.bitmap[word]&Mask(uint(i&63)))
		for k := word &^ 7; k < word; k++ {
			r += bits.OnesCount64(d.bitmap[k])
		}
		i = r
	}
	if i >= n {
		return false, PartPresence
	}
	if cols == nil {
		for col := range int(d.cols) {
			if !d.value(b, col, i, &dst[col]) {
				return false, PartColumn
			}
		}
		return true, ""
	}
	for k, col := range cols {
		if !d.value(b, col, i, &dst[k]) {
			return false, PartColumn
		}
	}
	return true, ""
}

// ordinary stores the common row.
func (d *Dir) ordinary(b []byte, cols []int, dst []uint64) (found bool, bad string) {
	if cols == nil && d.cols <= viewColumns {
		if dst = dst[:d.cols]; d.zero {
			clear(dst)
		} else {
			copy(dst, d.common[:])
		}
		return true, ""
	}
	for k := range len(dst) {
		col := k
		if cols == nil && k == int(d.cols) || cols != nil && k == len(cols) {
			break
		}
		if cols != nil {
			col = cols[k]
		}
		if col < viewColumns {
			dst[k] = d.common[col]
			continue
		}
		c := pagePart(b, col)
		if dst[k] = c.Uvarint(); c.Bad {
			return false, PartColumn
		}
	}
	return true, ""
}

// value reads value i of those that column col stores.
func (d *Dir) value(b []byte, col, i int, dst *uint64) bool {
	n := int(d.live)
	if col < viewColumns {
		c := Cutter{B: b, End: len(b) - TailLen}
		*dst = d.levels[col].get(&c, n, i)
		return !c.Bad
	}
	c := pagePart(b, col)
	if d.presence {
		c.Uvarint()
	}
	*dst = LadderGet(&c, n, i)
	return !c.Bad
}
