package slot

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Set is a set of groups of hash slots, a bit each: group g is bit g%64 of word g/64. Its text is ranges of
// groups, "0-84,200"; the empty set's is empty.
type Set [Groups / 64]uint64

// AllGroups is every group.
func AllGroups() Set { return Set{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)} }

// Has tells whether a group is in the set.
func (s *Set) Has(group uint8) bool { return s[group>>6]>>(group&63)&1 != 0 }

// Add puts a group in.
func (s *Set) Add(group uint8) { s[group>>6] |= 1 << (group & 63) }

// Remove takes a group out.
func (s *Set) Remove(group uint8) { s[group>>6] &^= 1 << (group & 63) }

// Len is how many groups there are.
func (s *Set) Len() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// Empty tells whether there is none.
func (s *Set) Empty() bool { return *s == Set{} }

// Union is the groups in either set, Minus those not in other, Both those in both.
func (s Set) Union(other Set) Set {
	for i := range s {
		s[i] |= other[i]
	}
	return s
}

// Minus is the groups of s that are not in other.
func (s Set) Minus(other Set) Set {
	for i := range s {
		s[i] &^= other[i]
	}
	return s
}

// Both is the groups that are in both.
func (s Set) Both(other Set) Set {
	for i := range s {
		s[i] &= other[i]
	}
	return s
}

// List lists the groups, rising.
func (s *Set) List() (list []int) {
	for g := range Groups {
		if s.Has(uint8(g)) {
			list = append(list, g)
		}
	}
	return list
}

// Range is neighbouring groups, both ends included.
type Range struct{ First, Last uint8 }

// Ranges lists the set, rising.
func (s *Set) Ranges() []Range {
	var list []Range
	for g := range Groups {
		switch n := len(list); {
		case !s.Has(uint8(g)):
		case n > 0 && int(list[n-1].Last) == g-1:
			list[n-1].Last = uint8(g)
		default:
			list = append(list, Range{uint8(g), uint8(g)})
		}
	}
	return list
}

// String is the text.
func (s Set) String() string {
	var b strings.Builder
	for i, r := range s.Ranges() {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(int(r.First)))
		if r.Last != r.First {
			b.WriteString("-" + strconv.Itoa(int(r.Last)))
		}
	}
	return b.String()
}

// ParseSet is the inverse of String.
func ParseSet(text string) (s Set, err error) {
	if text == "" {
		return s, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		first, last, ranged := strings.Cut(part, "-")
		if !ranged {
			last = first
		}
		a, err1 := strconv.ParseUint(first, 10, 8)
		b, err2 := strconv.ParseUint(last, 10, 8)
		if err1 != nil || err2 != nil || a > b {
			return Set{}, fmt.Errorf("got groups %.100q, want ranges like 0-84,200 of groups from 0 to %d", text, Groups-1)
		}
		for g := a; g <= b; g++ {
			s.Add(uint8(g))
		}
	}
	return s, nil
}

// MarshalText is String, for JSON.
func (s Set) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is ParseSet.
func (s *Set) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSet(string(text))
	return err
}
