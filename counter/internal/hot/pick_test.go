package hot

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/counterd/counterd/internal/slot"
)

// TestPick compares the items that Pick and Select find in random tables.
func TestPick(t *testing.T) {
	rng := newRand(t)
	begun, wide, aside, unfit := 0, 0, 0, 0
	for _, widths := range [][]uint8{{4, 32}, {16, 32, 8, 32, 2, 32}, {1, 64, 3, 20}, {7, 7}, {16, 32, 16, 32, 8, 32}, {64, 64}} {
		for range 6 {
			l := layout(t, widths...)
			c := Config{Lo: 1000, Hi: 1000 + 1<<(15+rng.IntN(20)), Buckets: 1 + rng.IntN(60), Layout: l, Seed: rng.Uint64(), Overflow: rng.IntN(2) * 100}
			if rng.IntN(6) == 0 {
				c.Buckets = 60 + rng.IntN(3000) // some of which have no item in the first buckets
			}
			c.OneGroup, c.Group = rng.IntN(2) == 0, uint8(rng.IntN(256))
			switch rng.IntN(4) {
			case 0:
				c.Hi = EndMid // as of an open block
			case 1:
				c.Lo = 0 // as of the first block
			}
			tab := newTable(c)
			m := model{}
			mid := func() uint64 {
				for {
					mid := 1000 + rng.Uint64N(2000)*7
					if c.OneGroup {
						mid = slot.Post(c.Group, slot.Number(mid))
					}
					if mid >= tab.lo && mid < tab.hi {
						return mid
					}
				}
			}
			for i := range 1500 {
				if !step(t, rng, tab, m, mid()) || i%20 > 0 {
					continue
				}
				q := randomSelection(rng, tab, func(c int) uint64 { return randomValue(rng, &l.Fields[c]) }, mid)
				q.NoMids = false
				for more := rng.IntN(4) == 0; more && len(q.Columns) < mostFields; { // as of a table that lacks most of the columns of its counter
					q.Columns, q.Defaults = append(q.Columns, -1), append(q.Defaults, rng.Uint64())
				}
				var p Picked
				p.Plain = rng.IntN(3) == 0
				if !p.Begin(tab, q, rng.IntN(4) == 0) {
					continue
				}
				begun++
				if p.Wide {
					wide++
				}
				want, from := []uint64(nil), 0
				for from < tab.Buckets() {
					to := min(from+1+rng.IntN(20), tab.Buckets())
					tab.Pick(&p, from, to, q)
					want = tab.Select(want, from, to, q)
					from = to
				}
				if len(p.aside) > 0 {
					aside++
				}
				if p.Unfit { // as happens in a range without an end, or from 0 on
					if p.Wide || tab.lo > 0 && tab.hi < EndMid {
						t.Fatalf("mids from %d to %d, wide words %t: a key does not fit", tab.lo, tab.hi, p.Wide)
					}
					unfit++
					if !p.Begin(tab, q, true) {
						t.Fatal("the items cannot be picked as wide ones")
					}
					if tab.Pick(&p, 0, tab.Buckets(), q); p.Unfit {
						t.Fatal("a key does not fit a wide word")
					}
				}
				slices.SortFunc(p.Words, func(a, b uint64) int {
					if a>>p.Low != b>>p.Low && cmp.Compare(a, b) != p.Compare(a, b) {
						t.Fatalf("words %x and %x are not in the order of their mids", a, b)
					}
					return p.Compare(a, b)
				})
				got := p.AppendRows([]uint64{5}, p.Words)[1:]
				w := 1 + len(q.Columns)
				rows := slices.SortedFunc(slices.Chunk(want, w), slices.Compare[[]uint64])
				if !slices.EqualFunc(slices.Collect(slices.Chunk(got, w)), rows, slices.Equal[[]uint64]) {
					t.Fatalf("widths %v, %+v: got %v, want %v", widths, q, got, rows)
				}
				for k, word := range p.Words {
					if lo, hi := p.Bounds(word, word); lo > rows[k][0] || hi < rows[k][0] {
						t.Fatalf("word %x of mid %d: mids from %d to %d", word, rows[k][0], lo, hi)
					}
					if k == 0 || p.Words[k-1]>>p.Low == word>>p.Low {
						continue
					}
					before := p.Words[k-1] >> p.Low
					between := (before + 1 + rng.Uint64N(word>>p.Low-before)) << p.Low
					lo, _ := p.Bounds(between, between)
					_, hi := p.Bounds(between-1, between-1)
					if first, second := rows[k-1][0], rows[k][0]; first >= lo || second < lo || first > hi || second <= hi {
						t.Fatalf("a bound between mids %d and %d: got mids from %d on, and up to %d", first, second, lo, hi)
					}
				}
			}
		}
	}
	t.Logf("%d tables with a key that does not fit a narrow word", unfit)
	if begun < 100 || wide < 10 || wide > begun-10 || aside < 10 {
		t.Fatalf("%d tables were picked from, %d as wide items, %d with values in the overflow table", begun, wide, aside)
	}
}

// BenchmarkPick finds all items of a table.
func BenchmarkPick(b *testing.B) {
	const items = 65_536
	rng := rand.New(rand.NewPCG(1, 2))
	tab := newTable(Config{Lo: 1 << 40, Hi: 1<<40 + items*4000, Buckets: BucketsFor(items, 0.9), Layout: layout(b, 6, 32, 5, 32, 4, 32), Seed: 7})
	for range items {
		s, _, err := tab.Insert(tab.lo + rng.Uint64N(tab.hi-tab.lo))
		if err != nil {
			b.Fatal(err)
		}
		tab.Set(s, 0, rng.Uint64N(60))
	}
	q := &Selection{Hi: EndMid, Columns: []int{0, 1, 2}, Defaults: []uint64{0, 0, 0}}
	var p Picked
	var rows []uint64
	for b.Loop() {
		if !p.Begin(tab, q, false) {
			b.Fatal("the items cannot be picked")
		}
		for from := 0; from < tab.Buckets(); from += 64 {
			tab.Pick(&p, from, min(from+64, tab.Buckets()), q)
			rows = p.AppendRows(rows[:0], p.Words)
			p.Words = p.Words[:0]
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(tab.Len()), "ns/item")
}
