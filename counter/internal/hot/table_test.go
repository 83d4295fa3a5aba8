package hot

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/counterd/counterd/internal/slot"
	testseed "github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/schema"
)

var seed = testseed.Value

func newRand(t testing.TB) *rand.Rand {
	t.Logf("replay with -seed=%d", *seed)
	return rand.New(rand.NewPCG(*seed, 0))
}

// columns are pairs of hint and max.
func layout(t testing.TB, widths ...uint8) *schema.Layout {
	var cols []schema.Column
	for i := 0; i < len(widths); i += 2 {
		cols = append(cols, schema.Column{ID: uint16(1 + i/2), Hint: widths[i], Max: widths[i+1]})
	}
	l, err := schema.NewLayout(cols)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func newTable(c Config) *Table {
	c.Buckets = int(primeAtLeast(uint64(c.Buckets)))
	t := New(c, make([]byte, c.Bytes()))
	return &t
}

// model is the obviously right table.
type model map[uint64][]uint64

// randomValue is mostly small, sometimes at the edge of the packed width, sometimes anything.
func randomValue(rng *rand.Rand, f *schema.Field) uint64 {
	switch rng.IntN(4) {
	case 0:
		return min(f.Limit(), f.Mark()-2+uint64(rng.IntN(5)))
	case 1:
		return rng.Uint64() & f.Limit()
	default:
		return min(f.Limit(), uint64(rng.IntN(3)))
	}
}

// step does one random operation on both and compares the answer. It answers false when the table is full.
func step(t *testing.T, rng *rand.Rand, tab *Table, m model, mid uint64) bool {
	t.Helper()
	want, there := m[mid]
	s, found := tab.Find(mid)
	if found != there {
		t.Fatalf("Find(%d): got %v, want %v", mid, found, there)
	}
	if found {
		if got := tab.Mid(s); got != mid {
			t.Fatalf("Mid(%d): got %d, want %d", s, got, mid)
		}
		for c := range want {
			if got := tab.Get(s, c); got != want[c] {
				t.Fatalf("mid %d column %d: got %d, want %d", mid, c, got, want[c])
			}
		}
	}
	switch rng.IntN(4) {
	case 0:
		if found {
			tab.Delete(s)
			delete(m, mid)
		}
		return true
	default:
		s, again, err := tab.Insert(mid)
		if errors.Is(err, ErrFull) {
			if there {
				t.Fatalf("Insert(%d): full, but it is there", mid)
			}
			return false
		}
		if again != there {
			t.Fatalf("Insert(%d): got found %v, want %v", mid, again, there)
		}
		if !there {
			want = make([]uint64, tab.items.count)
			for c := range want {
				want[c] = tab.items.preset(c)
			}
			m[mid] = want
		}
		if len(want) > 0 {
			c := rng.IntN(len(want))
			was := want[c]
			want[c] = randomValue(rng, &tab.items.layout.Fields[c])
			switch rng.IntN(3) {
			case 0:
				tab.Set(s, c, want[c])
			case 1:
				old, sum, ok := tab.Add(s, c, int64(want[c])-int64(was), tab.Limit(c))
				if old != was || sum != want[c] || !ok {
					t.Fatalf("Add of %d column %d: got %d, %d, %v, want %d, %d", mid, c, old, sum, ok, was, want[c])
				}
			default:
				addIf(t, rng, tab, s, c, was, want)
			}
		}
		return true
	}
}

// addIf sets column c of an item, whose value is was, to want[c] by AddIf beside a column without values in the overflow table. Before that it tries calls that
// change nothing.
func addIf(t *testing.T, rng *rand.Rand, tab *Table, s Ref, c int, was uint64, want []uint64) {
	t.Helper()
	for k := range want {
		if k == c || tab.items.column(k).plain != 0 {
			continue
		}
		if sum, ok := AddIf(tab, s, k, want[k]^1, c, 1, tab.Limit(c)); ok {
			t.Fatalf("AddIf: column %d is %d: got %d", k, want[k], sum)
		}
		if was > 0 {
			if _, ok := AddIf(tab, s, k, want[k], c, 0, was-1); ok {
				t.Fatalf("AddIf to %d, above %d", was, was-1)
			}
		}
		if rng.IntN(2) == 0 {
			continue
		}
		if sum, ok := AddIf(tab, s, k, want[k], c, int64(want[c])-int64(was), tab.Limit(c)); !ok || sum != want[c] {
			t.Fatalf("AddIf: got %d, %v, want %d", sum, ok, want[c])
		}
		return
	}
	tab.Set(s, c, want[c])
}

func compare(t *testing.T, tab *Table, m model) {
	t.Helper()
	if err := tab.Check(); err != nil {
		t.Fatal(err)
	}
	if tab.Len() != len(m) {
		t.Fatalf("Len: got %d, want %d", tab.Len(), len(m))
	}
	mids := tab.AppendMids(nil, 0)
	slices.Sort(mids)
	for i, mid := range mids {
		if _, ok := m[mid]; !ok || i > 0 && mids[i-1] == mid {
			t.Fatalf("mid %d is in the table, and not once in the model", mid)
		}
	}
}

// TestModel plays random operations against a map: every size from one bucket on, ranges from one key to all,
// layouts from nothing to 60 columns, few distinct keys so that they come, go and come back.
func TestModel(t *testing.T) {
	rng := newRand(t)
	sixty := make([]uint8, 120)
	for i := range 60 {
		sixty[2*i+1] = uint8(1 + rng.IntN(64))
		sixty[2*i] = uint8(1 + rng.IntN(int(sixty[2*i+1])))
	}
	layouts := map[string]*schema.Layout{
		"seed": layout(t, 16, 32, 16, 32, 8, 32), "bit": layout(t, 1, 1), "word": layout(t, 64, 64), "tiny hint": layout(t, 1, 64),
		"none": layout(t), "wide overflow": layout(t, 8, 63, 3, 40), "sixty": layout(t, sixty...),
	}
	ranges := [][2]uint64{{0, 1}, {5, 12}, {0, 1000}, {1 << 40, 1<<40 + 1<<20}, {0, EndMid}, {EndMid - 100, EndMid}, {EndMid - 1, EndMid}}
	for name, l := range layouts {
		for _, r := range ranges {
			for _, buckets := range []int{1, 2, 3, 5, 13, 67} {
				c := Config{Lo: r[0], Hi: r[1], Buckets: buckets, Layout: l, Seed: rng.Uint64(), Overflow: rng.IntN(30)}
				c.Group = slot.Group(r[1] - 1)
				c.OneGroup = rng.IntN(2) == 0
				tab := newTable(c)
				keys := make([]uint64, tab.Slots()+5)
				for i := range keys {
					keys[i] = r[0] + rng.Uint64N(r[1]-r[0])
				}
				keys[0], keys[1] = r[0], r[1]-1
				for i := range keys {
					if !c.OneGroup {
						break
					}
					if keys[i] = slot.Least(c.Group, keys[i]); keys[i] >= r[1] {
						keys[i] = r[1] - 1
					}
				}
				m := model{}
				for i := range 400 {
					step(t, rng, tab, m, keys[rng.IntN(len(keys))])
					if i%50 == 0 {
						compare(t, tab, m)
					}
				}
				if t.Failed() {
					t.Fatalf("layout %s, range %v, %d buckets", name, r, buckets)
				}
				compare(t, tab, m)
			}
		}
	}
}

// TestDegenerateHash takes keys that all start at one bucket, as a hash gone bad or tampered ids would. The table must
// stay right, and refuse in bounded time.
func TestDegenerateHash(t *testing.T) {
	rng := newRand(t)
	l := layout(t, 16, 32)
	tab := newTable(Config{Lo: 1000, Hi: EndMid, Buckets: 101, Layout: l, Seed: rng.Uint64()})
	var keys []uint64
	for q := uint64(0); len(keys) < 600; q++ {
		if k := tab.geo.unplace(7, q, 0); k >= tab.lo && k < tab.hi {
			keys = append(keys, k)
		}
	}
	for _, k := range keys {
		if b, _, _ := tab.geo.place(k); b != 7 {
			t.Fatalf("place(%d): got bucket %d, want 7", k, b)
		}
	}
	m := model{}
	full := 0
	for range 5000 {
		if !step(t, rng, tab, m, keys[rng.IntN(len(keys))]) {
			full++
		}
	}
	compare(t, tab, m)
	t.Logf("%d items of %d slots, %d inserts refused", tab.Len(), tab.Slots(), full)
}

// TestDeleteLeavesNoTrail fills and empties a table again and again: nothing may be left that a lookup walks along.
func TestDeleteLeavesNoTrail(t *testing.T) {
	rng := newRand(t)
	tab := newTable(Config{Lo: 0, Hi: 1 << 30, Buckets: 61, Layout: layout(t, 8, 8), Seed: 1})
	for range 50 {
		var slots []Ref
		for {
			s, found, err := tab.Insert(rng.Uint64N(1 << 30))
			if err != nil {
				break
			}
			if !found {
				slots = append(slots, s)
			}
		}
		if load := float64(tab.Len()) / float64(tab.Slots()); load < 0.9 {
			t.Fatalf("full at load %.2f", load)
		}
		rng.Shuffle(len(slots), func(i, j int) { slots[i], slots[j] = slots[j], slots[i] })
		for _, s := range slots {
			tab.Delete(s)
		}
	}
	for b := range tab.geo.m {
		if c := load8(tab.items.base, tab.items.at(uint64(b))+laneBytes); c != 0 {
			t.Errorf("bucket %d of the empty table: got passed %d, want 0", b, c)
		}
	}
}

// TestProof checks what the package comment claims of every (bucket, quotient, probe): the sequence visits all buckets
// once, and the key comes back from each.
func TestProof(t *testing.T) {
	configs := func(f func(c Config)) {
		for _, m := range []int{1, 2, 3, 5, 7, 31, 37, 101, 1009} {
			for _, end := range []uint64{EndMid, 12345 + 300*uint64(m), 12345 + 3000*uint64(m) - 1} {
				f(Config{Lo: 12345, Hi: end, Buckets: m, Seed: 99})
			}
		}
	}
	configs(func(c Config) {
		m := uint64(c.Buckets)
		g := newGeometry(&c)
		for q := uint64(0); q < 300; q++ {
			for _, r := range []uint64{0, m / 2, m - 1} {
				mid := g.base + q*m + r
				b, twisted, h := g.place(mid)
				if want := q + g.twist(r); twisted != want&g.mask() {
					t.Fatalf("%+v: place(%d): got quotient %d, want %d", c, mid, twisted, want&g.mask())
				}
				seen := make([]bool, m)
				for i := range m {
					if seen[b] {
						t.Fatalf("%+v, quotient %d: bucket %d twice", c, twisted, b)
					}
					seen[b] = true
					if back := g.unplace(b, twisted, uint(i)); back != mid {
						t.Fatalf("%+v: unplace(%d,%d,%d): got %d, want %d", c, b, twisted, i, back, mid)
					}
					b = (b + g.step(h)) % m
				}
			}
		}
	})
	rng := newRand(t)
	for range 100000 {
		m := primeAtLeast(1 + rng.Uint64N(1<<20))
		g := newGeometry(&Config{Hi: EndMid, Buckets: int(m)})
		x := rng.Uint64() >> rng.IntN(64)
		if q, r := g.divmod(x); q != x/m || r != x%m {
			t.Fatalf("divmod(%d) by %d: got %d, %d", x, m, q, r)
		}
	}
}

// TestCopyTo re-packs tables of every small size into every other, with the same and with other columns.
func TestCopyTo(t *testing.T) {
	rng := newRand(t)
	colsA := []schema.Column{{ID: 1, Hint: 8, Max: 32}, {ID: 2, Hint: 3, Max: 60, Default: 5}, {ID: 4, Hint: 16, Max: 16}}
	colsB := []schema.Column{{ID: 2, Hint: 20, Max: 60, Default: 5}, {ID: 4, Hint: 16, Max: 16}, {ID: 9, Hint: 2, Max: 30, Default: 77}}
	la, _ := schema.NewLayout(colsA)
	lb, _ := schema.NewLayout(colsB)
	for n := range 200 {
		src := newTable(Config{Lo: 100, Hi: 5000, Buckets: BucketsFor(n, 0.9), Layout: la, Seed: rng.Uint64()})
		m := model{}
		for len(m) < n && step(t, rng, src, m, 100+rng.Uint64N(4900)) {
		}
		lo := 100 + rng.Uint64N(2400)
		hi := lo + 1 + rng.Uint64N(5000-lo)
		dst := newTable(Config{Lo: lo, Hi: hi, Buckets: BucketsFor(len(m), 0.8), Layout: lb, Seed: rng.Uint64()})
		if err := src.CopyTo(dst); err != nil {
			t.Fatal(err)
		}
		want := model{}
		for mid, v := range m {
			if mid >= lo && mid < hi {
				want[mid] = []uint64{v[1], v[2], 77}
			}
		}
		if got := count(src, lo, hi); got != len(want) {
			t.Fatalf("Count: got %d, want %d", got, len(want))
		}
		low := newTable(Config{Lo: lo, Hi: lo + (hi-lo+1)/2, Buckets: BucketsFor(len(m), 0.8), Layout: lb, Seed: rng.Uint64()})
		tabs := []*Table{low}
		if low.hi < hi {
			tabs = append(tabs, newTable(Config{Lo: low.hi, Hi: hi, Buckets: BucketsFor(len(m), 0.8), Layout: la, Seed: rng.Uint64(), Overflow: 3}))
		}
		if err := src.CopyTo(tabs...); err != nil {
			t.Fatal(err)
		}
		compare(t, dst, want)
		found := 0
		for _, part := range tabs {
			if err := part.Check(); err != nil {
				t.Fatal(err)
			}
			found += part.Len()
		}
		if found != len(want) {
			t.Fatalf("two tables: got %d items, want %d", found, len(want))
		}
		for mid, v := range want {
			part := tabs[0]
			if mid >= part.hi {
				part = tabs[1]
			}
			for _, tab := range []*Table{dst, part} {
				s, _ := tab.Find(mid)
				for c := range tab.items.layout.Fields {
					got := tab.Get(s, c)
					from := src.items.layout.Index(tab.items.layout.Fields[c].ID)
					switch {
					case from < 0 && got != v[2], from >= 0 && got != m[mid][from]:
						t.Fatalf("mid %d column %d: got %d, want %v or %v", mid, c, got, v, m[mid])
					}
				}
			}
		}
	}
}

// count is how many items have mids in [lo, hi).
func count(t *Table, lo, hi uint64) int {
	d := NewDemand(nil)
	t.Survey(d, lo, hi, nil)
	return d.Items
}

func TestQuantile(t *testing.T) {
	tab := newTable(Config{Lo: 0, Hi: EndMid, Buckets: BucketsFor(100000, 0.9), Layout: layout(t, 8, 8), Seed: 3})
	if _, ok := tab.Quantile(0.5); ok {
		t.Error("an empty table has a quantile")
	}
	tab.Insert(0)
	if _, ok := tab.Quantile(0.5); ok {
		t.Error("a table of one item has a quantile")
	}
	for i := range uint64(100000) {
		tab.Insert(i * 1000)
	}
	for _, f := range []float64{0, 0.1, 0.5, 0.984, 1} {
		mid, ok := tab.Quantile(f)
		rank := float64(count(tab, 0, mid)) / float64(tab.Len())
		if !ok || rank < f-0.08 || rank > f+0.08 || rank == 0 || rank == 1 {
			t.Errorf("Quantile(%v): got %d at rank %v", f, mid, rank)
		}
	}
}

func TestNoAllocation(t *testing.T) {
	tab := newTable(Config{Lo: 0, Hi: 1 << 30, Buckets: 1009, Layout: layout(t, 16, 32, 16, 32, 8, 32), Seed: 3})
	i := uint64(0)
	if n := testing.AllocsPerRun(2000, func() {
		i += 4001
		s, _, _ := tab.Insert(i)
		tab.Set(s, 1, tab.Get(s, 1)+1)
		tab.Prefetch(i)
		if i%3 == 0 {
			tab.Delete(s)
		}
	}); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}

// FuzzOverflow plays a byte string as operations on the overflow table.
func FuzzOverflow(f *testing.F) {
	f.Add([]byte("\x01\x02\x03\xff\x80\x81\x82"), true, uint8(3))
	f.Fuzz(func(t *testing.T, ops []byte, wide bool, room uint8) {
		o := overflow{wide: wide, words: make([]uint64, overflowPlaces(int(room))*overflowWidth(wide))}
		m := map[uint64]uint64{}
		for i, op := range ops {
			key := uint64(op&0x3f) * 0x10001
			if op&0x40 != 0 {
				o.delete(key)
				delete(m, key)
			} else {
				o.set(key, uint64(i))
				m[key] = uint64(i)
			}
			if o.n != len(m) {
				t.Fatalf("step %d: got %d entries, want %d", i, o.n, len(m))
			}
			for k, v := range m {
				if got := o.get(k); got != v {
					t.Fatalf("step %d: key %d: got %d, want %d", i, k, got, v)
				}
			}
		}
	})
}

func Example() {
	l, _ := schema.NewLayout([]schema.Column{{ID: 1, Hint: 8, Max: 32}})
	c := Config{Lo: 0, Hi: 1 << 40, Buckets: BucketsFor(1000, 0.9), Layout: l}
	t := New(c, make([]byte, c.Bytes()))
	s, _, _ := t.Insert(123456789)
	t.Set(s, 0, 987654)
	fmt.Println(t.Mid(s), t.Get(s, 0), t.Overflows())
	// Output: 123456789 987654 1
}

// TestTableLines: the fields that find an item are in a table's first cache line, those that read and change columns in the
// second.
func TestTableLines(t *testing.T) {
	const line = 64
	var tab Table
	at := unsafe.Offsetof(tab.items)
	if end := at + unsafe.Offsetof(tab.items.rest) + 1; end > line {
		t.Errorf("the fields that find an item end at %d, want at most %d", end, line)
	}
	if near := at + unsafe.Offsetof(tab.items.near); near != line {
		t.Errorf("the columns begin at %d, want %d", near, line)
	}
	if end := at + unsafe.Offsetof(tab.items.over) + unsafe.Sizeof(tab.items.over); end > 2*line {
		t.Errorf("the overflow table's header ends at %d, want at most %d", end, 2*line)
	}
}

// TestPeek: Peek gives a hint. Items that have come, gone and changed places with others since then are found, or not, as without it.
func TestPeek(t *testing.T) {
	rng := newRand(t)
	for _, span := range []uint64{300, 1 << 40} { // with a rest of the quotient in the items too
		c := Config{Lo: 1000, Hi: 1000 + span, Buckets: BucketsFor(250, 0.95), Layout: layout(t, 4, 32), Seed: rng.Uint64()}
		tab := New(c, make([]byte, c.Bytes()))
		mids := make([]uint64, 300)
		for i := range mids {
			mids[i] = c.Lo + uint64(i)*(span/300)
		}
		homes := make([]Home, len(mids))
		there := map[uint64]bool{}
		hints, stale := 0, 0
		for range 200_000 {
			i := rng.IntN(len(mids))
			mid := mids[i]
			switch rng.IntN(4) {
			case 0:
				if s, _, err := tab.Insert(mid); err == nil {
					there[mid] = true
					tab.Set(s, 0, randomValue(rng, &c.Layout.Fields[0]))
				}
			case 1:
				if s, found := tab.Find(mid); found {
					tab.Delete(s)
					delete(there, mid)
				}
			case 2:
				if homes[i] = tab.Prefetch(mid); rng.IntN(2) == 0 {
					tab.Peek(&homes[i])
				} else {
					PeekColumn(&tab, &homes[i], rng.IntN(3)) // the last one is none
				}
			default:
				h := homes[i]
				if h == (Home{}) {
					continue
				}
				s, found := tab.FindAt(h)
				if found != there[mid] || found && tab.Mid(s) != mid {
					t.Fatalf("post %d: found %v at %d, which has post %d; want %v", mid, found, s, tab.Mid(s), there[mid])
				}
				if h.seen > 0 {
					hints++
					if !found || uint8(s&7) != h.seen-1 {
						stale++
					}
				}
			}
		}
		if hints < 1000 || stale < 100 {
			t.Errorf("span %d: %d hints, of which %d were stale, want 1000 and 100", span, hints, stale)
		}
	}
}
