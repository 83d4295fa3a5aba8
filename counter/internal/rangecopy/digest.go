package rangecopy

import (
	"fmt"

	"github.com/counterd/counterd/schema"
)

// Digest is a sum over items that does not depend on how they are stored: nodes with the same items have the same
// digest, whatever their blocks and tiers, and whatever columns they once had. Two that differ are found by comparing
// halves of the range.
type Digest struct {
	Items uint64
	Sum   uint64
}

func (d Digest) String() string { return fmt.Sprintf("items=%d digest=%016x", d.Items, d.Sum) }

// Bounds returns the bounds of part i of a range that is cut into equal parts, the last ones shorter or empty. They
// depend on the range only, so that nodes whose blocks have other bounds cut alike.
func Bounds(lo, hi uint64, parts, i int) (from, to uint64) {
	width := partWidth(lo, hi, parts)
	from = lo + min(width*uint64(i), hi-lo)
	return from, from + min(width, hi-from)
}

func partWidth(lo, hi uint64, parts int) uint64 { return max(1, (hi-lo+uint64(parts)-1)/uint64(parts)) }

// Sums are the digests of the parts of a range on the way.
type Sums struct {
	lo, width uint64
	Parts     []Digest
	def       *schema.Counter // of names
	// Hashes of the columns' names. Their ids and order tell what was dropped and when, which is no difference of items.
	names []uint64
}

// NewSums begins the digests of a range in equal parts. REQUIRES lo <= hi <= 2^63 and parts > 0.
func NewSums(lo, hi uint64, parts int) *Sums {
	return &Sums{lo: lo, width: partWidth(lo, hi, parts), Parts: make([]Digest, parts)}
}

// Of says which counter's rows come next.
func (s *Sums) Of(def *schema.Counter) {
	if s.def == def {
		return
	}
	s.def, s.names = def, s.names[:0]
	for i := range def.Columns { // FNV-1a, mixed
		h := uint64(14695981039346656037)
		for _, c := range []byte(def.Columns[i].Name) {
			h = (h ^ uint64(c)) * 1099511628211
		}
		s.names = append(s.names, mix(h))
	}
}

// Add adds a row in schema order, whose mid is in the range. REQUIRES Of.
func (s *Sums) Add(mid uint64, row []uint64) {
	h := mix(mid)
	total := h
	for c, v := range row {
		total += mix(h ^ v ^ s.names[c])
	}
	sum := &s.Parts[(mid-s.lo)/s.width]
	sum.Items++
	sum.Sum += total
}

// mix is splitmix64's finalizer: each bit of x changes half of the result's.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
