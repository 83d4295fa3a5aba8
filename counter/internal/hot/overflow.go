package hot

import "math/bits"

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
// The words are an ordinary Go slice: it holds no pointers, so the collector does not scan it, and it is about
// 1 % of a block.
type overflow struct {
	words []uint64
	n     int
	wide  bool
}

const (
	narrowValueBits = 36
	narrowKeyLimit  = 1<<(64-narrowValueBits) - 1 // keys must be below
)

func (o *overflow) width() int {
	if o.wide {
		return 2
	}
	return 1
}

// capacity is a power of two, or 0.
func (o *overflow) capacity() int { return len(o.words) / o.width() }

func (o *overflow) home(key uint64) int {
	return int((key * 0x9e3779b97f4a7c15) >> (64 - uint(bits.Len(uint(o.capacity()-1)))))
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
	mask := o.capacity() - 1
	for i = o.home(key); ; i = (i + 1) & mask {
		k, _, used := o.at(i)
		if !used {
			return i, false
		}
		if k == key {
			return i, true
		}
	}
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
	if o.n*4 >= o.capacity()*3 {
		o.grow()
	}
	i, found := o.find(key)
	o.put(i, key, value)
	if !found {
		o.n++
	}
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
	mask := o.capacity() - 1
	for j := i; ; {
		o.clear(i)
		for {
			j = (j + 1) & mask
			k, v, used := o.at(j)
			if !used {
				return
			}
			// An entry may move back to i unless its home lies cyclically in (i, j].
			if h := o.home(k); (j-h)&mask >= (j-i)&mask {
				o.put(i, k, v)
				i = j
				break
			}
		}
	}
}

func (o *overflow) grow() {
	old := *o
	o.words = make([]uint64, max(8, 2*old.capacity())*o.width())
	o.n = 0
	for i := range old.capacity() {
		if k, v, used := old.at(i); used {
			j, _ := o.find(k)
			o.put(j, k, v)
			o.n++
		}
	}
}
