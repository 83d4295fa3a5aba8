// Scenario: scans of stores with very many counters, and posts that are drawn by chance.

package counter

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/counterd/counterd/counter/internal/scancache"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/persist/vfs"
)

// scanAll scans the whole store and calls each between the calls. It fails on an item met twice.
func scanAll(t *testing.T, s *Store, count int, each func(call int)) map[string]bool {
	t.Helper()
	met := map[string]bool{}
	for cursor, call := uint64(0), 0; call == 0 || cursor != 0; call++ {
		b := s.NewBatch()
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		items, next, err := NewReader(b).Scan(nil, cursor, count)
		b.End()
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range items {
			key := fmt.Sprintf("%s:%d", it.Counter.Name, it.Mid)
			if met[key] {
				t.Errorf("%s twice", key)
			}
			met[key] = true
		}
		cursor = next
		each(call)
	}
	return met
}

// TestScanManyCounters: a scan sorts blocks when it comes to them, not with each call, however many counters there are;
// and finds what was there throughout once, though items come and go meanwhile. Blocks are larger than a copy of so
// many counters.
func TestScanManyCounters(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	rng := newRand(t)
	const counters, items = 64, 3000
	var script strings.Builder
	for i := range counters {
		fmt.Fprintf(&script, "add counter c%d\nadd column c%d n hint=2 max=8 suffix=s%d\n", i, i, i)
	}
	for _, count := range []int{10, 100, 5000} {
		s := openDir(t, "data", Options{FS: vfs.NewSim(), Manual: true, HashSeed: rng.Uint64()}, script.String())
		want := map[string]bool{}
		b := s.NewBatch()
		if err := b.Begin(); err != nil {
			t.Fatal(err)
		}
		few := b.Schema().Counters()[:3] // the others have a tenth
		for _, c := range b.Schema().Counters() {
			n := items
			if !slices.Contains(few, c) {
				n /= 10
			}
			for range n {
				mid := rng.Uint64N(1 << 40)
				b.Add(Op{Kind: OpSet, Counter: c, Mid: mid, Arg: 1})
				want[fmt.Sprintf("%s:%d", c.Name, mid)] = true
			}
		}
		b.Run()
		b.End()
		made := s.data.Scans.Made
		calls := 0
		met := scanAll(t, s, count, func(call int) {
			calls++
			if err := b.Begin(); err != nil {
				t.Fatal(err)
			}
			defer b.End()
			b.Reset()
			c, mid := b.Schema().Counters()[call%counters], rng.Uint64N(1<<40)
			b.Add(Op{Kind: OpSet, Counter: c, Mid: mid, Arg: 1})
			if call%2 == 0 {
				b.Add(Op{Kind: OpDelete, Counter: c, Mid: mid})
			}
			b.Run()
		})
		for key := range want {
			if !met[key] {
				t.Errorf("count %d: %s was not met", count, key)
			}
		}
		// One for each counter and some more for the first three, in a few calls on the way from one copy to the next:
		// 67 to 96.
		if n := int(s.data.Scans.Made - made); n > 3*counters {
			t.Errorf("count %d: %d copies of blocks were made by %d calls", count, n, calls)
		}
		for cursor, copies := range s.data.Scans.At {
			n := 0
			for _, c := range copies {
				n += len(c.Mids)
			}
			if n > 2*max(scancache.Ahead, counters*scancache.LeastAhead) {
				t.Errorf("the copies kept for cursor %d have %d mids", cursor, n)
			}
		}
	}
}

// TestRandomItem: every item comes up, none that is not there, and no block is sorted for it.
func TestRandomItem(t *testing.T) {
	s := openDir(t, "data", Options{FS: vfs.NewSim(), Manual: true}, "add counter c\nadd column c n hint=2 max=8 suffix=n\n")
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		t.Fatal(err)
	}
	defer b.End()
	def := b.Schema().Counter("c")
	if _, ok, err := NewReader(b).RandomItem(BlockInfo{Counter: def}); ok || err != nil {
		t.Errorf("of nothing it found something, or %v", err)
	}
	const items = 20
	for i := range uint64(items) {
		b.Add(Op{Kind: OpSet, Counter: def, Mid: i * 1000, Arg: 1})
	}
	b.Run()
	met, made := map[uint64]bool{}, s.data.Scans.Made
	for range 100 * items { // one is missed once in 10^43 runs
		mid, ok, err := NewReader(b).RandomItem(BlockInfo{Counter: def})
		if !ok || err != nil || mid%1000 != 0 || mid >= items*1000 {
			t.Fatalf("%d, %v, %v", mid, ok, err)
		}
		met[mid] = true
	}
	if len(met) != items || s.data.Scans.Made != made {
		t.Errorf("%d items of %d came up, %d blocks were sorted", len(met), items, s.data.Scans.Made-made)
	}
}
