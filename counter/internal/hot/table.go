package hot

import (
	"errors"
	"fmt"
	"math/bits"
	"unsafe"

	"github.com/counterd/counterd/schema"
)

// ErrFull is returned by Insert when the table has reached its item limit or all buckets of the key's probe
// sequence are full. The table is unchanged and stays fully usable; the caller makes room by a split or a bigger table.
var ErrFull = errors.New("hot: block is full")

// Ref names the place of an item. It stays valid until the item is deleted: items never move inside a table.
type Ref uint32

// Config describes a table to be made.
type Config struct {
	Lo, Hi  uint64         // range of mids, Lo < Hi <= EndMid
	Buckets int            // see BucketsFor
	Layout  *schema.Layout // packing of an item
	Seed    uint64         // of the permutation; any value

	// OneGroup: all mids are of one group of hash slots, Group. The table has their numbers among those of the group
	// (slot.Number), which are as dense as mids of all groups are: an item takes 7.7 bits less.
	OneGroup bool
	Group    uint8

	// Probes is how many buckets a key may look at, when that shall be fewer than MaxProbes: tests make tables with it
	// that are full early. An image does not keep it.
	Probes uint

	// Overflow is how many values that do not fit their column's width find place in the table's memory. 0: none, and they
	// are on the Go heap.
	Overflow int
}

// wide tells whether the entries of the overflow table take two words.
func (c *Config) wide() bool {
	for i := range c.Layout.Fields {
		if c.Layout.Fields[i].Limit() >= 1<<narrowValueBits {
			return true
		}
	}
	return c.Buckets*slotsPerBucket*len(c.Layout.Fields) >= narrowKeyLimit
}

// Table is one hot block. It is NOT safe for concurrent use, with two exceptions: Prefetch, PrefetchHeader, Lo and Hi use
// immutable fields only and may be called at any time, and so may Peek.
//
// Of a store of 100 million items there are 1,500 tables, and an operation on a random one waits for each of its cache
// lines. The first has all fields that finding an item needs, and nobody writes to it. The second has the fields that
// reading and changing values needs.
//
// Table has the lanes: which mid is at which place. Its parts do not know it: geometry maps mids to places and back, and
// items holds the columns of places. A field more moves the lock of its block to another cache line (TestBlockLines of package
// block).
type Table struct {
	geo   geometry // 40 bytes
	items items

	n        int // written by Insert and Delete only
	maxItems int
	lo, hi   uint64 // range of mids, hi exclusive
	data     []byte
}

// BucketsFor returns how many buckets hold items at the given load (0..1).
func BucketsFor(items int, load float64) int {
	b := int(float64(items)/load/slotsPerBucket) + 1
	return int(min(primeAtLeast(uint64(b)), MaxBuckets-3)) // 2^20-3 is prime
}

// Bytes returns how much memory New needs for the table.
func (c Config) Bytes() int {
	if c.Overflow == 0 {
		return c.bucketBytes() + tailPad
	}
	return c.overflowAt() + 8*overflowPlaces(c.Overflow)*overflowWidth(c.wide())
}

func (c *Config) bucketBytes() int {
	g := newGeometry(c)
	return c.Buckets * (headerBytes + int(g.rest) + c.Layout.Bits)
}

// overflowAt is where the words of the overflow table begin.
func (c *Config) overflowAt() int { return (c.bucketBytes() + tailPad + 7) &^ 7 }

// maxLoad is how full Insert makes a table. Above it, looking for an absent key takes more than 3 buckets.
const maxLoad = 0.96

// New makes an empty table in mem, by value, so that the engine can keep it inside its block (one cache miss less),
// which must be zero, at least c.Bytes() long and begin at a multiple of 8. The table uses mem as long as it lives. An
// impossible Config is a bug of the caller and panics.
func New(c Config, mem []byte) Table {
	if c.Lo >= c.Hi || c.Hi > EndMid || c.Buckets < 1 || c.Buckets > MaxBuckets {
		panic(fmt.Sprintf("hot: bad config: range [%d,%d) with %d buckets", c.Lo, c.Hi, c.Buckets))
	}
	if len(mem) < c.Bytes() {
		panic(fmt.Sprintf("hot: got %d bytes of memory, want %d", len(mem), c.Bytes()))
	}
	if primeAtLeast(uint64(c.Buckets)) != uint64(c.Buckets) {
		panic(fmt.Sprintf("hot: %d buckets: not a prime", c.Buckets))
	}
	t := Table{geo: newGeometry(&c), lo: c.Lo, hi: c.Hi, data: mem}
	t.maxItems = max(1, int(maxLoad*float64(c.Buckets*slotsPerBucket)))
	t.items.init(&c, t.geo.rest, mem)
	return t
}

// Lo and Hi are the range of mids, Hi exclusive.
func (t *Table) Lo() uint64 { return t.lo }

// Hi is the end of the range, exclusive.
func (t *Table) Hi() uint64 { return t.hi }

// OneGroup tells whether all mids are of one group of hash slots, Group.
func (t *Table) OneGroup() bool { return t.geo.oneGroup }

// Group is that of all mids, 0 where they are of many.
func (t *Table) Group() uint8 { return t.geo.group }

// Layout is how the items are packed.
func (t *Table) Layout() *schema.Layout { return t.items.layout }

// Len is the number of items.
func (t *Table) Len() int { return t.n }

// Slots is the number of places for items.
func (t *Table) Slots() int { return int(t.geo.m) * slotsPerBucket }

// Bytes is the memory in use: buckets and overflow table.
func (t *Table) Bytes() int {
	return int(t.geo.m)*int(t.items.stride) + tailPad + 8*len(t.items.over.words)
}

// Overflows is the number of values in the overflow table.
func (t *Table) Overflows() int { return t.items.over.n }

// Crowded tells whether there are more such values than Config.Overflow promised. They are on the Go heap then: another
// choice of widths would take less memory. It is false where nothing was promised.
func (t *Table) Crowded() bool {
	return t.items.over.room > 0 && t.items.over.n > int(t.items.over.room)
}

// BucketItems is how many items a bucket holds.
const BucketItems = slotsPerBucket

// Home returns the home of mid, which must be in [Lo, Hi). It needs no lock.
func (t *Table) Home(mid uint64) Home { return t.geo.home(mid) }

// Prefetch starts to load the bucket where mid, in [Lo, Hi), would be, and returns what FindAt and AddAt need to know
// of it. It needs no lock. A batch that prefetches all its keys before it uses the first pays for one cache miss, not
// for one each.
func (t *Table) Prefetch(mid uint64) Home {
	h := t.Home(mid)
	at := t.items.at(uint64(h.bucket))
	prefetch(unsafe.Add(t.items.base, at), unsafe.Add(t.items.base, at+uintptr(t.items.stride)+bucketTail))
	return h
}

const (
	laneOnes = 0x0001000100010001
	laneLow  = 0x7fff7fff7fff7fff

	// bucketTail is how far behind a bucket a load of its last items reaches, of the usual widths. Half of all buckets
	// are on one cache line: to ask for a second one in any case takes half as long again.
	bucketTail = 4
)

// match returns a word with bit 15 of each 16-bit lane of w set where the lane equals v (repeated in all lanes).
// Adding 0x7fff carries into bit 15 for every non-zero low part and never beyond, so unlike the shorter (x-1)&^x
// form a lane is never reported because of its neighbour.
func match(w, v uint64) uint64 {
	x := w ^ v
	return ^((x&laneLow + laneLow) | x | laneLow)
}

// Find returns the slot of mid, which must be in [Lo, Hi).
func (t *Table) Find(mid uint64) (Ref, bool) { return t.FindAt(t.Home(mid)) }

// FindAt is Find for the mid that h is of, in this table. A hint of Peek is only verified.
func (t *Table) FindAt(h Home) (Ref, bool) {
	if h.seen != 0 {
		b, s := uint64(h.bucket), uint(h.seen-1)
		off := t.items.at(b)
		if uint64(load16(t.items.base, off+2*uintptr(s))) == h.lane() && (t.geo.rest == 0 || t.items.restAt(off, s) == h.quotient>>quoBits) {
			return Ref(b<<3 + uint64(s)), true
		}
	}
	return t.search(h)
}

// search is FindAt without a hint of Peek.
//
//go:noinline
func (t *Table) search(h Home) (Ref, bool) {
	b, q := uint64(h.bucket), h.quotient
	lane := h.lane() * laneOnes
	var step uint64
	for i := uint8(0); ; {
		off := t.items.at(b)
		for m := t.matches(off, lane); m != 0; m &= m - 1 {
			if s := placeOf(m); t.geo.rest == 0 || t.items.restAt(off, s) == q>>quoBits {
				return Ref(b<<3 + uint64(s)), true
			}
		}
		if i++; i == t.geo.probes || load8(t.items.base, off+laneBytes) == 0 {
			return 0, false
		}
		if i == 1 {
			step = t.geo.step(t.geo.hash(q))
		}
		b = t.geo.next(b, step)
		lane += laneOnes
	}
}

// matches compares all lanes of the bucket that begins at off with one value, repeated in lane. The result has bit 14 of a 16-bit lane set where
// the lane of the first half of the bucket equals it, and bit 15 for the second half. To look at both at once takes no branch that no processor can
// foretell: which half has an item is random.
func (t *Table) matches(off uintptr, lane uint64) uint64 {
	return match(load64(t.items.base, off), lane)>>1 | match(load64(t.items.base, off+8), lane)
}

// placeOf is the place, in its bucket, of the lowest match of m, which is not 0.
func placeOf(m uint64) uint {
	bit := uint(bits.TrailingZeros64(m))
	return bit>>4 + bit&1<<2
}

// Insert returns the slot of mid, which must be in [Lo, Hi), and whether it was there already. A new item has
// every column at its default. The error is ErrFull or nil.
func (t *Table) Insert(mid uint64) (s Ref, found bool, err error) {
	h := t.Home(mid)
	if s, found = t.FindAt(h); found {
		return s, true, nil
	}
	s, err = t.AddAt(h)
	return s, false, err
}

// AddAt is Insert for the mid that h is of, in this table, which must be absent.
func (t *Table) AddAt(h Home) (Ref, error) {
	s, err := t.take(h)
	if err != nil {
		return 0, err
	}
	t.items.reset(s)
	return s, nil
}

// take gives the mid that h is of, which must be absent, a slot. The caller sets all its columns, as they still hold old
// bits. The error is ErrFull or nil.
func (t *Table) take(h Home) (Ref, error) {
	if t.n >= t.maxItems {
		return 0, ErrFull
	}
	// The mid is nowhere on its probe sequence, so the first free slot of the sequence is its place.
	b, q := uint64(h.bucket), h.quotient
	step := t.geo.step(t.geo.hash(q))
	free, at := uint64(0), b
	var i uint8
	for i = 0; ; at = t.geo.next(at, step) {
		off := t.items.at(at)
		if free = match(load64(t.items.base, off), 0); free != 0 {
			free = uint64(bits.TrailingZeros64(free)) >> 4
			break
		}
		if free = match(load64(t.items.base, off+8), 0); free != 0 {
			free = 4 + uint64(bits.TrailingZeros64(free))>>4
			break
		}
		if i++; i == t.geo.probes {
			return 0, ErrFull
		}
	}
	for j := uint8(0); j < i; j, b = j+1, t.geo.next(b, step) {
		off := t.items.at(b) + laneBytes
		if c := load8(t.items.base, off); c != 255 {
			store8(t.items.base, off, c+1)
		}
	}
	off := t.items.at(at)
	store16(t.items.base, off+2*uintptr(free), uint16(q<<probeBits)|uint16(i+1))
	if t.geo.rest > 0 {
		storeBits(t.items.base, off+headerBytes, uint(free)*uint(t.items.width), uint(t.geo.rest), q>>quoBits)
	}
	t.n++
	return Ref(at<<3 + free), nil
}

// Delete removes the item at s.
func (t *Table) Delete(s Ref) {
	t.items.forget(s)
	b, q, probe := t.lane(s)
	h := t.geo.hash(q)
	step := t.geo.step(h)
	at := t.geo.back(b, uint64(probe)*step)
	for ; probe > 0; probe, at = probe-1, t.geo.next(at, step) {
		off := t.items.at(at) + laneBytes
		if c := load8(t.items.base, off); c != 255 {
			store8(t.items.base, off, c-1)
		}
	}
	store16(t.items.base, t.items.at(uint64(s>>3))+2*uintptr(s&7), 0)
	t.n--
}

// lane returns the bucket, quotient and probe number of a used slot.
func (t *Table) lane(s Ref) (bucket, q uint64, probe uint) {
	bucket = uint64(s >> 3)
	off := t.items.at(bucket)
	l := load16(t.items.base, off+2*uintptr(s&7))
	q = uint64(l >> probeBits)
	if t.geo.rest > 0 {
		q |= loadBits(t.items.base, off+headerBytes, uint(s&7)*uint(t.items.width), uint(t.geo.rest)) << quoBits
	}
	return bucket, q, uint(l&(1<<probeBits-1)) - 1
}

// Mid returns the key of the item at s.
func (t *Table) Mid(s Ref) uint64 {
	b, q, probe := t.lane(s)
	return t.geo.unplace(b, q, probe)
}

// Peek looks for the mid of h in its first bucket, which Prefetch has asked for. If it is not there, as one item in four of a full table, Peek starts
// to load the second bucket where FindAt will look for it. It needs no lock: the bucket may be changing, and h has a hint afterwards, which
// FindAt verifies.
//
//go:norace
func (t *Table) Peek(h *Home) {
	off := t.items.at(uint64(h.bucket))
	if m := t.matches(off, h.lane()*laneOnes); m != 0 {
		h.seen = uint8(placeOf(m)) + 1
		return
	}
	if load8(t.items.base, off+laneBytes) == 0 || t.geo.m == 1 {
		return
	}
	at := t.items.at(t.geo.next(uint64(h.bucket), t.geo.step(t.geo.hash(h.quotient))))
	prefetch(unsafe.Add(t.items.base, at), unsafe.Add(t.items.base, at+uintptr(t.items.stride)+bucketTail))
}

// PeekColumn is Table.Peek for a use of column c: where the overflow table has its value, PeekColumn starts to load that, too.
//
//go:norace
func PeekColumn(t *Table, h *Home, c int) {
	t.Peek(h)
	if h.seen == 0 || c >= int(t.items.count) {
		return
	}
	s := uint(h.seen - 1)
	col := t.items.column(c)
	bit := s*uint(t.items.width) + uint(col.off)
	w, mask := load64(t.items.base, t.items.at(uint64(h.bucket))+headerBytes+uintptr(bit>>3)), col.mask()
	if w>>(bit&7)&mask == mask && col.plain != 0 { // where a column is in two words, this may pass over the mark
		t.items.over.prefetch(t.items.overKey(Ref(h.bucket<<3)+Ref(s), c))
	}
}

// PrefetchHeader starts to load what operations on items read of t itself, and the cache line at p to be written: other
// processors give it up.
func (t *Table) PrefetchHeader(p unsafe.Pointer) {
	prefetchHeader(unsafe.Pointer(t), unsafe.Pointer(&t.items.near), p)
}

// Get returns column c (an index into Layout) of the item at s.
func (t *Table) Get(s Ref, c int) uint64 { return t.items.get(s, c) }

// Set stores v, at most Limit(c), in column c of the item at s.
func (t *Table) Set(s Ref, c int, v uint64) { t.items.set(s, c, v) }

// Add adds n to column c of the item at s, if the sum is in [0, limit]; limit is at most Limit(c). It returns the value before and the sum.
func (t *Table) Add(s Ref, c int, n int64, limit uint64) (old, sum uint64, ok bool) {
	return t.items.add(s, c, n, limit)
}

// AddIf is Add of n to column c if the value of column k is v. Column k has no values in the overflow table. If ok is false, nothing was changed.
func AddIf(t *Table, s Ref, k int, v uint64, c int, n int64, limit uint64) (sum uint64, ok bool) {
	return t.items.addIf(s, k, v, c, n, limit)
}

// RowRoom is how many values have room behind a slice, if AppendRow is not to take memory for it: AppendRow asks for the room of a whole row at once.
const RowRoom = nearColumns

// AppendRow appends all columns of the item at s, in the order of Layout.
func (t *Table) AppendRow(dst []uint64, s Ref) []uint64 { return t.items.appendRow(dst, s) }

// ReadRow puts all columns of the mid that h is of into row, which is as long, in the order of Layout. false: the mid is not there. It is FindAt and
// AppendRow in one. REQUIRES room for RowRoom values from the beginning of row on.
func ReadRow(t *Table, row []uint64, h *Home) bool {
	x := &t.items
	if s := uint(h.seen) - 1; s < slotsPerBucket && x.oneWord && len(row) <= nearColumns { // Peek saw it
		off := x.at(uint64(h.bucket))
		if uint64(load16(x.base, off+2*uintptr(s))) == h.lane() && (x.rest == 0 || x.restAt(off, s) == h.quotient>>quoBits) {
			if x.unpack(row, off, s) {
				x.unmark(row, Ref(h.bucket<<3)+Ref(s))
			}
			return true
		}
	}
	ref, found := t.search(*h)
	if found {
		x.appendRow(row[:0], ref)
	}
	return found
}

// Nonzero tells which of up to 64 columns from first on (indexes into Layout) are not 0 in the item at s, a bit for each.
func Nonzero(t *Table, s Ref, first, columns int) uint64 { return t.items.nonzero(s, first, columns) }

// Limit is the largest value of column c.
func (t *Table) Limit(c int) uint64 { return t.items.limit(c) }

// Most returns a value that no item exceeds in column c: the largest, or the largest that the column's width has room for.
func (t *Table) Most(c int) uint64 {
	if t.n == 0 {
		return 0
	}
	return t.items.most(c)
}
