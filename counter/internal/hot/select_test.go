package hot

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/counterd/counterd/counter/internal/arena"
)

// randomSelection is one on t; some gives values that its items have.
func randomSelection(rng *rand.Rand, t *Table, some func(c int) uint64, mid func() uint64) *Selection {
	q := &Selection{Hi: math.MaxUint64, NoMids: rng.IntN(4) == 0, Plain: rng.IntN(3) == 0}
	if rng.IntN(3) == 0 {
		a, b := mid(), mid()
		q.Lo, q.Hi = min(a, b), max(a, b)
	}
	for range rng.IntN(3) {
		r := Range{Column: rng.IntN(int(t.items.count)), Hi: math.MaxUint64}
		a, b := some(r.Column), some(r.Column)
		switch rng.IntN(5) {
		case 0:
			r.Lo, r.Hi = a, a
		case 1:
			r.Lo = a
		case 2:
			r.Hi = a
		case 3:
			r.Lo, r.Hi = min(a, b), max(a, b)
		case 4:
			r.Lo = t.items.column(r.Column).mask()
		}
		for range max(0, rng.IntN(4)-2) {
			r.Not = append(r.Not, some(r.Column))
		}
		q.Ranges = append(q.Ranges, r)
	}
	for range rng.IntN(4) {
		c := rng.IntN(int(t.items.count)+1) - 1
		q.Columns, q.Defaults = append(q.Columns, c), append(q.Defaults, rng.Uint64N(9))
	}
	return q
}

func (r *Range) meets(v uint64) bool { return v >= r.Lo && v <= r.Hi && !slices.Contains(r.Not, v) }

// TestSelect compares what Select finds in random tables with a loop over the model.
func TestSelect(t *testing.T) {
	rng := newRand(t)
	for _, widths := range [][]uint8{{4, 32}, {16, 32, 16, 32, 8, 32}, {1, 64, 63, 63, 3, 20}, {64, 64, 2, 9}, {60, 63, 5, 5}} {
		l := layout(t, widths...)
		tab := newTable(Config{Lo: 1000, Hi: 1000 + 1<<30, Buckets: 1 + rng.IntN(60), Layout: l, Seed: rng.Uint64(), Overflow: rng.IntN(2) * 100})
		m := model{}
		mid := func() uint64 { return tab.lo + rng.Uint64N(2000)*7 }
		for i := range 2000 {
			if !step(t, rng, tab, m, mid()) || i%20 > 0 {
				continue
			}
			mids := slices.Collect(maps.Keys(m))
			some := func(c int) uint64 {
				if len(mids) == 0 || rng.IntN(4) == 0 {
					return randomValue(rng, &l.Fields[c])
				}
				return m[mids[rng.IntN(len(mids))]][c]
			}
			q := randomSelection(rng, tab, some, mid)
			var want [][]uint64
			for mid, row := range m {
				ok := mid >= q.Lo && mid <= q.Hi
				for k := range q.Ranges {
					ok = ok && q.Ranges[k].meets(row[q.Ranges[k].Column])
				}
				if !ok {
					continue
				}
				out := []uint64{mid}
				if q.NoMids {
					out[0] = 0
				}
				for k, c := range q.Columns {
					if c < 0 {
						out = append(out, q.Defaults[k])
					} else {
						out = append(out, row[c])
					}
				}
				want = append(want, out)
			}
			var flat []uint64
			chunk := 1 + rng.IntN(20)
			for b := 0; b < tab.Buckets(); b += chunk {
				flat = tab.Select(flat, b, min(b+chunk, tab.Buckets()), q)
			}
			var got [][]uint64
			for row := range slices.Chunk(flat, 1+len(q.Columns)) {
				if q.NoMids && (q.Lo > tab.lo || q.Hi < tab.hi-1) {
					row[0] = 0 // known, and not asked for
				}
				got = append(got, row)
			}
			slices.SortFunc(got, slices.Compare[[]uint64])
			slices.SortFunc(want, slices.Compare[[]uint64])
			if !slices.EqualFunc(got, want, slices.Equal[[]uint64]) {
				t.Fatalf("widths %v, %+v: got %d rows, want %d\n%v\n%v", widths, q, len(got), len(want), got, want)
			}
			for c := range l.Fields {
				most := uint64(0)
				for _, row := range m {
					most = max(most, row[c])
				}
				col := tab.items.column(c)
				switch got := tab.Most(c); {
				case got < most, got > most && most >= col.mark(), got > tab.Limit(c):
					t.Fatalf("widths %v: most of column %d: got %d, want %d", widths, c, got, most)
				}
			}
		}
	}
}

// BenchmarkSelect finds the items of a sealed block that few, some or all meet; beside it a plain loop over arrays. An
// operation is an item.
func BenchmarkSelect(b *testing.B) {
	const items = 64 << 10
	rng := rand.New(rand.NewPCG(1, 2))
	c := Config{Lo: 1 << 40, Hi: 1<<40 + items*4000, Buckets: BucketsFor(items, 0.925), Layout: layout(b, 4, 32, 4, 32, 3, 32), Seed: 7, Overflow: items / 20}
	var a arena.Arena
	defer a.Close()
	span, err := a.Alloc(c.Bytes(), false)
	if err != nil {
		b.Fatal(err)
	}
	tab := New(c, span.Data)
	var mids []uint64
	var cols [3][]uint64
	for range items {
		mid := c.Lo + rng.Uint64N(items*4000)
		ref, found, err := tab.Insert(mid)
		if err != nil {
			b.Fatal(err)
		}
		if found {
			continue
		}
		mids = append(mids, mid)
		for k := range cols {
			v := uint64(0)
			if rng.IntN(100) < 14 {
				v = uint64(rng.ExpFloat64() * 6)
			}
			if rng.IntN(1000) < 3 {
				v = uint64(rng.ExpFloat64() * 5000)
			}
			tab.Set(ref, k, v)
			cols[k] = append(cols[k], v)
		}
	}
	out := make([]uint64, 0, 5*items)
	for _, test := range []struct {
		name   string
		lo, hi uint64
	}{{"few", 10, 11}, {"rare", 1000, math.MaxUint64}, {"some", 1, math.MaxUint64}, {"all", 0, math.MaxUint64}} {
		q := &Selection{Hi: math.MaxUint64, Columns: []int{0, 1, 2}}
		if test.lo > 0 {
			q.Ranges = []Range{{Column: 0, Lo: test.lo, Hi: test.hi}}
		}
		b.Run(fmt.Sprintf("rows=%s/table", test.name), func(b *testing.B) {
			b.SetBytes(int64(tab.Bytes() / tab.Len()))
			for left := b.N; left > 0; left -= tab.Len() {
				out = tab.Select(out[:0], 0, tab.Buckets(), q)
			}
		})
		b.Run(fmt.Sprintf("rows=%s/arrays", test.name), func(b *testing.B) {
			b.SetBytes(32)
			for left := b.N; left > 0; left -= len(mids) {
				out = out[:0]
				for k, mid := range mids {
					if v := cols[0][k]; v >= test.lo && v <= test.hi {
						out = append(out, mid, v, cols[1][k], cols[2][k])
					}
				}
			}
		})
	}
}
