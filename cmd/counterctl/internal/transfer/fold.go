package transfer

import (
	"cmp"
	"math"
	"slices"

	"github.com/counterd/counterd/cmd/counterctl/internal/mapping"
)

// ordered is an item with its place in its chunk.
type ordered struct {
	mapping.Item
	n uint32
}

// folder sorts the items of a chunk and makes one of those of a number.
type folder struct {
	sorted []ordered
	items  []mapping.Item
}

// fold returns one item for each number, with the effect of all its items in their order, sorted by mid: blocks and cold
// pages are then gone to once, and new posts come in the order that packs densest. The slice is the folder's, and valid
// until the next call.
func (f *folder) fold(items []mapping.Item) []mapping.Item {
	f.items = f.items[:0]
	for _, i := range f.sort(items) {
		if last := len(f.items) - 1; last >= 0 && f.items[last].Mid == i.Mid && f.items[last].Column == i.Column {
			f.items[last] = both(f.items[last], i.Item)
			continue
		}
		f.items = append(f.items, i.Item)
	}
	return f.items
}

// sort returns all items, sorted by mid, column and order. The slice is the folder's, and valid until the next call.
func (f *folder) sort(items []mapping.Item) []ordered {
	f.sorted = f.sorted[:0]
	for n, i := range items {
		f.sorted = append(f.sorted, ordered{i, uint32(n)})
	}
	slices.SortFunc(f.sorted, func(a, b ordered) int {
		if a.Mid != b.Mid {
			return cmp.Compare(a.Mid, b.Mid)
		}
		if a.Column != b.Column {
			return cmp.Compare(a.Column, b.Column)
		}
		return cmp.Compare(a.n, b.n)
	})
	return f.sorted
}

// both returns one item with the effect of a and then b. A number that a Delete took away counts as 0 for an Add behind
// it, as Redis has it. Sums stay within 64 bits: a larger sum exceeds every column too.
func both(a, b mapping.Item) mapping.Item {
	if b.Op != mapping.Add {
		return b
	}
	switch a.Op {
	case mapping.Delete:
		b.Op = mapping.Set
		return b
	default:
		a.Value = clampedSum(a.Value, b.Value)
		return a
	}
}

func clampedSum(a, b int64) int64 {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < math.MinInt64-b:
		return math.MinInt64
	}
	return a + b
}
