package hot

import (
	"math/bits"
	"unsafe"
)

// overflow holds the values that do not fit their column's packed width: an open-addressed table by (slot, column)
// with linear probing and backward-shift deletion (Knuth 6.4, algorithm R), so it has no trails either.
//
// An entry is one word where all values fit 36 bits (the usual 32-bit columns), two otherwise:
//
//	narrow  63       36 35        0        wide  word 0: key+1    word 1: value
//	        +----------+----------+
//	        | key+1    | value    |        key = slot*columns + column; key+1 = 0 means empty
//	        +----------+----------+
//
// The words lie behind the buckets, in the table's own memory, as long as there are no more entries than
// Config.Overflow promised. When there are more they move to an ordinary Go slice, which grows by half each time:
// nothing fails, but the engine should re-pack the block (see Table.Crowded).
type overflow struct {
	words []uint64
	n     int
	room  int32 // Config.Overflow
	wide  bool
}

const (
	narrowValueBits = 36
	narrowKeyLimit  = 1<<(64-narrowValueBits) - 1 // keys must be below

	// overflowLoad is how full the words are at most. At 0.8 a value is found after 3 places, and 8 of them are a cache
	// line.
	overflowLoad = 0.8
)

// overflowPlaces is how many places n entries need: at least one stays empty.
func overflowPlaces(n int) int {
	if n == 0 {
		return 0
	}
	return int(float64(n)/overflowLoad) + 1
}

// overflowWidth is the words of an entry.
func overflowWidth(wide bool) int {
	if wide {
		return 2
	}
	return 1
}

func (o *overflow) width() int { return overflowWidth(o.wide) }

// capacity is the number of places.
func (o *overflow) capacity() int {
	if o.wide {
		return len(o.words) / 2 // not by a variable: a division takes 20 to 40 cycles
	}
	return len(o.words)
}

// home is the first place of a key: the hash as a fraction of the capacity, which may be any number.
func (o *overflow) home(key uint64) int {
	h, _ := bits.Mul64(key*0x9e3779b97f4a7c15, uint64(o.capacity()))
	return int(h)
}

// prefetch starts to load the first place of a key. It needs no lock: the words may be moving, and then it asks for any address.
//
//go:norace
func (o *overflow) prefetch(key uint64) {
	h, wide := uint64(o.home(key)), uint(0)
	if o.wide {
		wide = 1
	}
	prefetchAt(uintptr(unsafe.Pointer(unsafe.SliceData(o.words))) + uintptr(h<<(3+wide)))
}

// at returns the key (and whether the place is used) and value of place i.
func (o *overflow) at(i int) (key, value uint64, used bool) {
	if o.wide {
		return o.words[2*i] - 1, o.words[2*i+1], o.words[2*i] != 0
	}
	w := o.words[i]
	return w>>narrowValueBits - 1, w & (1<<narrowValueBits - 1), w != 0
}

func (o *overflow) put(i int, key, value uint64) {
	if o.wide {
		o.words[2*i], o.words[2*i+1] = key+1, value
		return
	}
	o.words[i] = (key+1)<<narrowValueBits | value
}

func (o *overflow) clear(i int) {
	clear(o.words[i*o.width() : (i+1)*o.width()])
}

// find returns the place of key, or the empty place where it belongs.
func (o *overflow) find(key uint64) (i int, found bool) {
	width, shift := 1, uint(narrowValueBits)
	if o.wide {
		width, shift = 2, 0
	}
	for i = o.home(key); ; {
		at := i * width
		k := o.words[at] >> shift
		if k == 0 || k == key+1 {
			return i, k != 0
		}
		if i++; i*width >= len(o.words) {
			i = 0
		}
	}
}

// add adds n to the value of a key that is there, if the sum is in [least, limit]. If ok is false, nothing was changed.
func (o *overflow) add(key uint64, n int64, least, limit uint64) (sum uint64, ok bool) {
	if o.n == 0 {
		return 0, false // only reached on a damaged table, as in get
	}
	i, found := o.find(key)
	if !found {
		return 0, false
	}
	value, bits := &o.words[i], uint64(1<<narrowValueBits-1)
	if o.wide {
		value, bits = &o.words[2*i+1], ^uint64(0)
	}
	if sum, ok = Added(*value&bits, n, limit); !ok || sum < least {
		return 0, false
	}
	*value = *value&^bits | sum
	return sum, true
}

// get returns the value of a key that is there.
func (o *overflow) get(key uint64) uint64 {
	if o.n == 0 {
		return 0 // only reached on a damaged table; Check names it
	}
	i, found := o.find(key)
	if !found {
		return 0
	}
	_, v, _ := o.at(i)
	return v
}

func (o *overflow) set(key, value uint64) {
	i, found := 0, false
	if o.n > 0 {
		i, found = o.find(key)
	}
	if !found {
		if o.n++; overflowPlaces(o.n) > o.capacity() {
			o.grow()
		}
		i, _ = o.find(key)
	}
	o.put(i, key, value)
}

func (o *overflow) delete(key uint64) {
	if o.n == 0 {
		return
	}
	i, found := o.find(key)
	if !found {
		return
	}
	o.n--
	for j := i; ; {
		o.clear(i)
		for {
			if j++; j == o.capacity() {
				j = 0
			}
			k, v, used := o.at(j)
			if !used {
				return
			}
			// An entry may move back to i unless its home lies cyclically in (i, j].
			if h := o.home(k); o.from(h, j) >= o.from(i, j) {
				o.put(i, k, v)
				i = j
				break
			}
		}
	}
}

// from is how many places after i place j is, cyclically.
func (o *overflow) from(i, j int) int {
	if j < i {
		j += o.capacity()
	}
	return j - i
}

func (o *overflow) grow() { o.remake(max(8, o.capacity()+o.capacity()/2)) }

// reserve makes room for n entries in all.
//
// A caller that puts entries in the order of another such table must call it first: that is the order of their homes. In a
// table that grows with them, those there so far have their homes in its first part and fill it without a gap, and each is
// looked for through all of it: 144,000 took 25 s.
func (o *overflow) reserve(n int) {
	if places := overflowPlaces(n); places > o.capacity() {
		o.remake(places)
	}
}

// remake gives o so many places.
func (o *overflow) remake(places int) {
	old := *o
	o.words = make([]uint64, places*o.width())
	for i := range old.capacity() {
		if k, v, used := old.at(i); used {
			j, _ := o.find(k)
			o.put(j, k, v)
		}
	}
}
