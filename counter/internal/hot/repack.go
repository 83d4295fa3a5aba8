package hot

import (
	"math/bits"
	"slices"

	"github.com/counterd/counterd/schema"
)

// RestBuckets is how many buckets a walk that rests looks at between two rests: 512 items at most, which take 10 to 40 us to be
// surveyed or copied. Clients have their turn then: all 64 Ki items of a block take 4 ms. Only a walk over a table that its user alone
// has may rest, as nobody may wait for a lock meanwhile.
const RestBuckets = 64

// restPlaces is RestBuckets for a walk over an overflow table, of whose values each needs a look for its item.
const restPlaces = 256

// each calls f for every item, in no useful order (bucket by bucket), until f returns false.
func (t *Table) each(f func(s Ref) bool) { t.eachResting(nil, f) }

// eachResting is each, and calls rest after each RestBuckets buckets; nil: it does not rest.
func (t *Table) eachResting(rest func(), f func(s Ref) bool) {
	for b := uint64(0); b < t.geo.m; b++ {
		if b%RestBuckets == RestBuckets-1 && rest != nil {
			rest()
		}
		off := t.items.at(uint64(b))
		for half := uintptr(0); half < 2; half++ {
			used := ^match(load64(t.items.base, off+8*half), 0) & (^uint64(laneLow))
			for ; used != 0; used &= used - 1 {
				if !f(Ref(b<<3 + uint64(half)*4 + uint64(bits.TrailingZeros64(used))>>4)) {
					return
				}
			}
		}
	}
}

// Each calls f for every item, in no useful order.
func (t *Table) Each(f func(mid uint64, s Ref)) { EachResting(t, nil, f) }

// EachResting is Table.Each with rests: see RestBuckets; nil: it does not rest.
func EachResting(t *Table, rest func(), f func(mid uint64, s Ref)) {
	t.eachResting(rest, func(s Ref) bool {
		f(t.Mid(s), s)
		return true
	})
}

// CopyTo copies each item to the table of dsts whose range has its mid, column by column id. dsts are empty and their ranges
// are disjoint. A column that t lacks gets its default; a column that only t has is left out. The error is ErrFull or nil;
// after ErrFull dsts hold part of the items and must be thrown away. t is only read.
func (t *Table) CopyTo(dsts ...*Table) error { return t.CopyResting(nil, dsts...) }

// CopyResting is CopyTo with rests: see RestBuckets.
func (t *Table) CopyResting(rest func(), dsts ...*Table) error {
	from := make([][]int, len(dsts)) // [dst][its column] = column of t; nil: the items of both are packed in the same way
	for i, dst := range dsts {
		if dst.items.layout == t.items.layout {
			continue
		}
		from[i] = make([]int, dst.items.count)
		for c := range from[i] {
			from[i][c] = t.items.layout.Index(dst.items.layout.Fields[c].ID)
		}
	}
	// Items are copied in groups, whose new buckets are asked for before the first is written: they lie anywhere.
	type move struct {
		slot Ref
		dst  int
		home Home
	}
	var group [24]move
	var row [schema.MaxFields]uint64
	n := 0
	flush := func() error {
		for i := range group[:n] {
			m := &group[i]
			dst := dsts[m.dst]
			d, err := dst.take(m.home)
			if err != nil {
				return err
			}
			if from[m.dst] == nil {
				dst.items.copyPacked(d, &t.items, m.slot)
				continue
			}
			vals := t.AppendRow(row[:0], m.slot)
			for c, src := range from[m.dst] {
				v := dst.items.preset(c)
				if src >= 0 {
					v = vals[src]
				}
				dst.Set(d, c, v)
			}
		}
		n = 0
		return nil
	}
	var err error
	t.eachResting(rest, func(s Ref) bool {
		mid := t.Mid(s)
		for i, dst := range dsts {
			if dst.lo <= mid && mid < dst.hi {
				group[n] = move{s, i, dst.Prefetch(mid)}
				if n++; n == len(group) {
					err = flush()
				}
				break
			}
		}
		return err == nil
	})
	if err == nil {
		err = flush()
	}
	if err != nil || t.items.over.n == 0 {
		return err
	}
	copyOverflow(t, rest, dsts)
	return nil
}

// copyOverflow copies the values of the overflow table of t to those of dsts whose items are packed as those of t, and have their marks already.
func copyOverflow(t *Table, rest func(), dsts []*Table) {
	columns := uint64(t.items.count)
	for place := range t.items.over.capacity() {
		if place%restPlaces == restPlaces-1 && rest != nil {
			rest()
		}
		key, v, used := t.items.over.at(place)
		if !used {
			continue
		}
		mid := t.Mid(Ref(key / columns))
		for _, dst := range dsts {
			if dst.lo <= mid && mid < dst.hi && dst.items.layout == t.items.layout {
				s, _ := dst.Find(mid)
				dst.items.over.set(dst.items.overKey(s, int(key%columns)), v)
			}
		}
	}
}

// quantileSample is how many items Quantile looks at. With 1024 the rank it finds is within 1.6 % (one standard
// deviation) of the rank asked for.
const quantileSample = 1024

// Quantile returns a mid such that about the given fraction (0..1) of the items lie below it, and at least one below
// and one not below it. ok is false when there is no such mid (fewer than two items).
//
// Buckets are in pseudo-random order of mids, so the items of the first ones are a random sample of all.
func (t *Table) Quantile(fraction float64) (mid uint64, ok bool) {
	sample := make([]uint64, 0, quantileSample)
	t.each(func(s Ref) bool {
		sample = append(sample, t.Mid(s))
		return len(sample) < quantileSample
	})
	if len(sample) < 2 {
		return 0, false
	}
	slices.Sort(sample)
	i := min(max(1, int(fraction*float64(len(sample)))), len(sample)-1)
	return sample[i], true
}

// AppendMids appends all mids >= from, in no order.
func (t *Table) AppendMids(dst []uint64, from uint64) []uint64 {
	t.Each(func(mid uint64, _ Ref) {
		if mid >= from {
			dst = append(dst, mid)
		}
	})
	return dst
}
