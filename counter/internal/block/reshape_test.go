package block

import (
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/counterd/counterd/counter/internal/arena"
	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/schema"
)

// TestGrowKeepsWidths: a sealed block that is full grows and keeps its widths and values, but chooses widths where more values overflow than it has
// room for.
func TestGrowKeepsWidths(t *testing.T) {
	rng := seed.Rand(t)
	sch, err := schema.ParseScript(strings.NewReader("add counter c\nadd column c v hint=16 max=32\nadd column c w hint=8 max=32 default=3"), schema.Empty())
	if err != nil {
		t.Fatal(err)
	}
	for _, crowded := range []bool{false, true} {
		var columns Columns
		if err := columns.Define(sch.Counter("c")); err != nil {
			t.Fatal(err)
		}
		ks, err := NewKeyspace(&Environment{Arena: new(arena.Arena), IDs: new(atomic.Uint64), Seed: rng.Uint64(), BlockItems: 2048, Files: new(ColdFiles)}, columns, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(ks.Free)
		want := map[uint64]uint64{}
		add := func(mid, v uint64) {
			b := ks.Lock(mid)
			p, err := ks.Find(b, mid)
			if err == nil {
				b, p.Ref, err = ks.Ensure(b, mid, p)
			}
			if err != nil {
				t.Fatal(err)
			}
			b.Tab.Set(p.Ref, 0, v)
			want[mid] = v
			b.Mu.Unlock()
		}
		for range 1000 {
			add(rng.Uint64N(1<<20), rng.Uint64N(3)*rng.Uint64N(100))
		}
		b := ks.Lock(0)
		b, done, err := ks.Seal(b)
		b.Mu.Unlock()
		if err != nil || !done {
			t.Fatalf("the block was not sealed: %v", err)
		}
		if crowded {
			b = ks.Lock(0)
			b.Tab.Each(func(mid uint64, ref hot.Ref) { want[mid] = math.MaxUint16; b.Tab.Set(ref, 0, math.MaxUint16) })
			b.Mu.Unlock()
		}
		was, end := b.Tab.Layout(), b.Hi
		for ks.Dir.Load().Find(0) == b {
			add(rng.Uint64N(end), rng.Uint64N(3))
		}
		b = ks.Lock(0)
		if kept := b.Tab.Layout() == was; kept == crowded || b.Tab.Crowded() || b.Hi != end {
			t.Errorf("more values than there is room for: %v; widths were kept: %v; crowded: %v; the block ends at %d, before at %d", crowded, kept, b.Tab.Crowded(), b.Hi, end)
		}
		b.Mu.Unlock()
		for mid, v := range want {
			b := ks.Lock(mid)
			if p, err := ks.Find(b, mid); err != nil || !p.Found() || b.Tab.Get(p.Ref, 0) != v || b.Tab.Get(p.Ref, 1) != 3 {
				t.Fatalf("item %d is %+v, %v, want %d", mid, p, err, v)
			}
			b.Mu.Unlock()
		}
	}
}
