package window

import (
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/counterd/counterd/counter/internal/arena"
	"github.com/counterd/counterd/counter/internal/block"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/schema"
)

// space is that of a derived column, in memory.
func space(t *testing.T, column string) (*schema.Derived, *block.Keyspace) {
	t.Helper()
	sch, err := schema.ParseScript(strings.NewReader("add counter c\nadd column c v hint=8 suffix=v\nadd column c d "+column+" of=v"), schema.Empty())
	if err != nil {
		t.Fatal(err)
	}
	of := &sch.Counter("c").Derived[0]
	var columns block.Columns
	if err := columns.Define(of.Space); err != nil {
		t.Fatal(err)
	}
	ks, err := block.NewKeyspace(&block.Environment{Arena: new(arena.Arena), IDs: new(atomic.Uint64), Seed: 1, BlockItems: 1024, Files: new(block.ColdFiles)}, columns, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ks.Free)
	return of, ks
}

// TestPlaceModel: additions to few posts, at moments that are mostly less than a window apart. After each one, and later, the count of a post is that of a
// list of its additions.
func TestPlaceModel(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	type addition struct {
		at int64
		n  uint64
	}
	rng := seed.Rand(t)
	for _, column := range []string{"window=10s/1s", "window=1h/5m", "window=60m/1m", "window=3d/1d", "window=1h/1h", "decay=1m", "decay=6h"} {
		of, ks := space(t, column)
		step := of.Window.Bucket
		if of.Decays() {
			step = of.HalfLife / 3
		}
		added := map[uint64][]addition{}
		at := Moment{}
		now := 1_795_000_000 + rng.Int64N(1<<20)
		for i := range 5000 {
			switch rng.IntN(6) {
			case 0, 1, 2:
				now += rng.Int64N(step)
			case 3:
				now += rng.Int64N(5 * step)
			case 4:
				now += rng.Int64N(15 * step)
			}
			mid, n := rng.Uint64N(7), 1+rng.Uint64N(1<<rng.IntN(20))
			p := Place{Of: of, Ks: ks, Block: ks.Lock(mid)}
			err := p.Find(mid)
			if err == nil {
				err = p.Ensure(mid)
			}
			if err != nil {
				t.Fatal(err)
			}
			at.Set(now)
			p.Add(n, &at, nil)
			p.Block.Mu.Unlock()
			added[mid] = append(added[mid], addition{now, n})
			mid = rng.Uint64N(7)
			later := now + rng.Int64N(20*step)*rng.Int64N(2)
			want, exact := uint64(0), 0.0
			for _, a := range added[mid] {
				if !of.Decays() && of.Window.At(a.at) > of.Window.At(later)-int64(of.Window.Buckets()) {
					want += a.n
				}
				if of.Decays() {
					exact += float64(a.n) * math.Exp2(float64(a.at-later)/float64(of.HalfLife))
				}
			}
			p = Place{Of: of, Ks: ks, Block: ks.Lock(mid)}
			if err = p.Find(mid); err != nil {
				t.Fatal(err)
			}
			got, err := p.Sum(mid, later)
			p.Block.Mu.Unlock()
			if err != nil || !of.Decays() && got != want || of.Decays() && math.Abs(float64(got)-exact) > 0.51+exact/1e6 {
				t.Fatalf("%s, addition %d: at %d post %d has %d, %v, want %d, or %g if it decays", column, i, later, mid, got, err, want, exact)
			}
		}
	}
}
