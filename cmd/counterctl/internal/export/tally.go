package export

import (
	"fmt"
	"math/big"
	"math/bits"
	"strings"
)

// Tally is how many posts there are and what their columns add up to.
type Tally struct {
	Posts uint64
	Sums  []Sum
}

// Sum is a sum of values: 128 bits do for 2^64 of them.
type Sum struct{ Hi, Lo uint64 }

// Add adds a value.
func (s *Sum) Add(v uint64) {
	var carry uint64
	s.Lo, carry = bits.Add64(s.Lo, v, 0)
	s.Hi += carry
}

func (s Sum) String() string {
	n := new(big.Int).SetUint64(s.Hi)
	return n.Lsh(n, 64).Or(n, new(big.Int).SetUint64(s.Lo)).String()
}

// ParseSum reads a sum.
func ParseSum(text string) (Sum, error) {
	n, ok := new(big.Int).SetString(text, 10)
	if !ok || n.Sign() < 0 || n.BitLen() > 128 {
		return Sum{}, fmt.Errorf("%.50q is no sum", text)
	}
	return Sum{Hi: new(big.Int).Rsh(n, 64).Uint64(), Lo: new(big.Int).And(n, new(big.Int).SetUint64(1<<64-1)).Uint64()}, nil
}

// NewTally returns that of no posts.
func NewTally(columns int) *Tally { return &Tally{Sums: make([]Sum, columns)} }

// Add adds a post.
func (t *Tally) Add(values []uint64) {
	t.Posts++
	for i, v := range values {
		t.Sums[i].Add(v)
	}
}

// Equal tells whether two are of the same posts, as far as a count and sums tell.
func (t *Tally) Equal(o *Tally) bool {
	if t.Posts != o.Posts || len(t.Sums) != len(o.Sums) {
		return false
	}
	for i, s := range t.Sums {
		if s != o.Sums[i] {
			return false
		}
	}
	return true
}

// Text writes a tally of a table as "280000 posts, sums repost=5 comment=0".
func (t *Tally) Text(table *Table) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d posts", t.Posts)
	if len(t.Sums) > 0 {
		b.WriteString(", sums")
	}
	table.names(func(i int, name string) { fmt.Fprintf(&b, " %s=%v", name, t.Sums[i]) })
	return b.String()
}
