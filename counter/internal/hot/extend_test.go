package hot

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/schema"
)

// TestExtend: a table with other columns has the items of the old one in their places, the values of the columns that both have, and defaults elsewhere. It is
// as good as any other: items are added, changed and deleted.
func TestExtend(t *testing.T) {
	rng := newRand(t)
	column := func(id int) schema.Column {
		most := uint8(1 + rng.IntN(63))
		col := schema.Column{ID: uint16(id), Max: most, Hint: 1 + uint8(rng.IntN(int(most)))}
		if rng.IntN(3) == 0 {
			col.Default = min(schema.Limit(most), uint64(rng.IntN(100)))
		}
		return col
	}
	for round := range 300 {
		var was, is []schema.Column
		for id := 1; id <= 1+rng.IntN(12); id++ {
			col := column(id)
			switch rng.IntN(4) {
			case 0:
				is = append(is, col)
			case 1:
				was = append(was, col)
			default:
				was, is = append(was, col), append(is, col)
			}
		}
		widths := make([]uint8, len(was))
		for i := range was {
			widths[i] = 1 + uint8(rng.IntN(int(was[i].Max)))
		}
		l, err := schema.NewLayoutWidths(was, widths)
		if err != nil {
			t.Fatal(err)
		}
		n := []int{0, 1, 9, 500, 2000}[rng.IntN(5)]
		c := Config{Lo: 100, Hi: 100 + 1<<(16+rng.IntN(40)), Layout: l, Seed: rng.Uint64(), Overflow: rng.IntN(2) * 20, Probes: uint(rng.IntN(2) * 9)}
		if c.Buckets = BucketsFor(n, 0.9); rng.IntN(3) == 0 {
			c.Hi = EndMid
		}
		if rng.IntN(3) == 0 {
			c.OneGroup, c.Group = true, uint8(rng.IntN(256))
		}
		some := func() uint64 {
			mid := c.Lo + rng.Uint64N(c.Hi-c.Lo)
			for c.OneGroup && slot.Group(mid) != c.Group {
				mid = c.Lo + rng.Uint64N(c.Hi-c.Lo)
			}
			return mid
		}
		src := newTable(c)
		m := model{}
		for tries := 0; len(m) < n && tries < 4*n && step(t, rng, src, m, some()); tries++ {
		}
		least := []uint8{2, youngBits, math.MaxUint8}[rng.IntN(3)]
		next, ok := Extended(src, is, least)
		if !ok {
			t.Fatalf("round %d: columns %v do not follow %v", round, is, was)
		}
		dst := newTable(next)
		ExtendTo(src, dst)
		want := model{}
		for mid, row := range m {
			values := make([]uint64, len(is))
			for i := range is {
				if at := l.Index(is[i].ID); at >= 0 {
					values[i] = row[at]
				} else {
					values[i] = is[i].Default
				}
			}
			want[mid] = values
			from, _ := src.Find(mid)
			if to, found := dst.Find(mid); !found || from != to {
				t.Fatalf("round %d: %d is at %d, %v, want %d", round, mid, to, found, from)
			}
			for i := range is {
				if got := dst.Get(from, i); got != values[i] {
					t.Fatalf("round %d: %d has %d in column %d of %v, want %d; it was %v in %v", round, mid, got, i, is, values[i], row, was)
				}
			}
		}
		compare(t, src, m)
		compare(t, dst, want)
		for range 300 {
			if !step(t, rng, dst, want, some()) {
				break
			}
		}
		compare(t, dst, want)
	}
}

// youngBits is how many bits package block gives a new column.
const youngBits = 4

// TestExtendRefused: a column with another max may have values that look like its marks before.
func TestExtendRefused(t *testing.T) {
	src := newTable(Config{Lo: 1, Hi: 100, Buckets: 3, Layout: layout(t, 8, 8, 4, 32)})
	for _, most := range []uint8{7, 9} {
		if c, ok := Extended(src, []schema.Column{{ID: 1, Hint: 4, Max: most}, {ID: 2, Hint: 4, Max: 32}}, 4); ok {
			t.Errorf("max %d in the place of 8: got %v", most, c.Layout)
		}
	}
}

// BenchmarkExtend adds a column to a block of 64 Ki items with three, in place and by a copy.
func BenchmarkExtend(b *testing.B) {
	const items = 64 << 10
	rng := rand.New(rand.NewPCG(1, 2))
	src := newTable(Config{Lo: 1 << 50, Hi: 1<<50 + items*4001, Buckets: BucketsFor(items, 0.925), Layout: layout(b, 4, 32, 4, 32, 4, 32), Seed: 7, Overflow: 3000})
	for mid := src.lo; src.Len() < items; mid += 1 + rng.Uint64N(7900) {
		s, _, err := src.Insert(mid)
		if err != nil {
			b.Fatal(err)
		}
		if rng.IntN(5) == 0 {
			src.Set(s, rng.IntN(3), uint64(1/(1.0001-rng.Float64())))
		}
	}
	columns := []schema.Column{{ID: 1, Hint: 16, Max: 32}, {ID: 2, Hint: 16, Max: 32}, {ID: 3, Hint: 8, Max: 32}, {ID: 4, Hint: 16, Max: 32}}
	c, ok := Extended(src, columns, youngBits)
	if !ok {
		b.Fatal("it cannot be extended")
	}
	mem := make([]byte, c.Bytes())
	b.Run("ExtendTo", func(b *testing.B) {
		for b.Loop() {
			clear(mem)
			dst := New(c, mem)
			ExtendTo(src, &dst)
		}
	})
	b.Run("CopyTo", func(b *testing.B) {
		other := c
		other.Seed++
		for b.Loop() {
			d := NewDemand(columns)
			src.Survey(d, src.lo, src.hi, nil)
			d.Choose(c.Buckets*8, 4)
			clear(mem)
			dst := New(other, mem)
			if err := src.CopyTo(&dst); err != nil {
				b.Fatal(err)
			}
		}
	})
}
