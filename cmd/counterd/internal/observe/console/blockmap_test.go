package console

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/seed"
)

// blocksOf gives the blocks of a source.
type blocksOf struct {
	Source
	blocks  []Block
	midTime MidTime
	err     error
}

func (s blocksOf) MidTime() MidTime { return s.midTime }

func (s blocksOf) Walk(f func(Block)) error {
	for _, b := range s.blocks {
		f(b)
	}
	return s.err
}

// manyBlocks are n blocks of random kinds of each of some counters.
func manyBlocks(r *rand.Rand, counters, n int) (all []Block) {
	for c := range counters {
		lo := uint64(0)
		for i := range n {
			b := Block{Counter: string(rune('a'+c%26)) + string(rune('a'+c/26)), Lo: lo, Hi: lo + 1 + r.Uint64N(1<<30), Posts: r.IntN(65536), Idle: int64(r.IntN(100)) - 1,
				Bytes: r.IntN(1 << 20), Uses: r.Uint32()}
			if r.IntN(2) == 0 {
				b.Cold, b.Overlay, b.Index, b.FileBytes, b.Lost = true, r.IntN(100), int64(r.IntN(1000)), int64(r.IntN(1<<20)), r.IntN(50) == 0
			}
			if i == n-1 {
				b.Hi, b.Open = math.MaxInt64, true
			}
			lo = b.Hi
			all = append(all, b)
		}
	}
	return all
}

// TestMapBounds: however many blocks there are, the cells are few, their sums are those of the blocks, and they are in
// order.
func TestMapBounds(t *testing.T) {
	seed := seed.Of(t)
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, size := range []struct{ counters, blocks int }{{0, 0}, {1, 1}, {1, 255}, {1, 256}, {1, 257}, {1, 5000}, {3, 999}, {100, 77}, {300, 20}} {
		blocks := manyBlocks(r, size.counters, size.blocks)
		var m mapper
		got, err := m.walk(blocksOf{blocks: blocks}, size.counters, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		sums := make(map[string]Cell)
		for _, b := range blocks {
			c := sums[b.Counter]
			o := Cell{Bytes: int64(b.Bytes) + b.Index, Disk: b.FileBytes, Blocks: 1}
			if b.Cold {
				o.Cold, o.Overlay = int64(b.Posts), int64(b.Overlay)
			} else {
				o.Hot = int64(b.Posts)
			}
			if b.Lost {
				o.Lost = 1
			}
			c.merge(&o)
			sums[b.Counter] = c
		}
		cells := 0
		for _, row := range got.Rows {
			cells += len(row.Cells)
			var sum Cell
			last := uint64(0)
			for i, c := range row.Cells {
				if i > 0 && c.lo <= last {
					t.Fatalf("%+v: cell %d of %s begins at %d, behind %d", size, i, row.Counter, c.lo, last)
				}
				if last = c.lo; c.Blocks != row.Each && i < len(row.Cells)-1 {
					t.Fatalf("%+v: cell %d has %d blocks, want %d", size, i, c.Blocks, row.Each)
				}
				sum.merge(&c)
			}
			w := sums[row.Counter]
			if sum.Hot != w.Hot || sum.Cold != w.Cold || sum.Overlay != w.Overlay || sum.Bytes != w.Bytes || sum.Disk != w.Disk || sum.Blocks != w.Blocks || sum.Lost != w.Lost {
				t.Errorf("%+v: %s: cells sum to %+v, want %+v", size, row.Counter, sum, w)
			}
			if int64(row.Blocks) != int64(w.Blocks) || row.Posts != w.Hot+w.Cold {
				t.Errorf("%+v: %s has %d posts in %d blocks", size, row.Counter, row.Posts, row.Blocks)
			}
		}
		if cells > maxCells || len(got.Rows)+got.Left != size.counters {
			t.Errorf("%+v: %d cells of %d and %d counters", size, cells, len(got.Rows), got.Left)
		}
		if n := len(encode(got).gzip); n > 95<<10 {
			t.Errorf("%+v: %d bytes compressed", size, n)
		}
	}
}

// TestMapUses: operations a second are those between two walks, also when the count wraps around, a block was split, or
// a tier changed.
func TestMapUses(t *testing.T) {
	var m mapper
	now := time.Now()
	clock := func() time.Time { return now }
	first := []Block{{Counter: "a", Lo: 0, Uses: 100}, {Counter: "a", Lo: 50, Uses: math.MaxUint32 - 9}, {Counter: "a", Lo: 90, Uses: 7}, {Counter: "b", Lo: 0, Uses: 5}}
	if _, err := m.walk(blocksOf{blocks: first}, 2, clock); err != nil {
		t.Fatal(err)
	}
	if _, err := m.walk(blocksOf{blocks: first[:1], err: errors.New("closed")}, 2, clock); err == nil {
		t.Fatal("a walk that broke off made a map")
	}
	now = now.Add(10 * time.Second)
	second := []Block{{Counter: "a", Lo: 0, Uses: 400}, {Counter: "a", Lo: 25, Uses: 99}, {Counter: "a", Lo: 50, Uses: 10}, {Counter: "a", Lo: 90, Uses: 30, Cold: true}, {Counter: "b", Lo: 0, Uses: 5}}
	got, err := m.walk(blocksOf{blocks: second}, 2, clock)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{30, 0, 2, 20} {
		if uses := got.Rows[0].Cells[i].Uses; uses != want {
			t.Errorf("cell %d: %v a second, want %v", i, uses, want)
		}
	}
	if uses := got.Rows[1].Cells[0].Uses; uses != 0 {
		t.Errorf("of b: %v a second, want 0", uses)
	}
}

// TestMidTime: mids have dates only where the setting says how they carry time. A counter of nanoseconds, which is also a
// mid of Twitter's in 2024, and plain numbers have none.
func TestMidTime(t *testing.T) {
	for _, c := range []struct {
		kind MidTime
		mid  uint64
		want string
	}{
		{Weibo, 3655529446300818, "2013-12-14T13:59:59Z"}, {Snowflake, 1237914060000000000, "2020-03-12T01:31:25Z"},
		{NoTime, 3655529446300818, ""}, {NoTime, 1237914060000000000, ""}, {NoTime, 1750000000000000000, ""}, {"", 888888, ""},
	} {
		src := blocksOf{blocks: []Block{{Counter: "a", Lo: 0}, {Counter: "a", Lo: c.mid}}, midTime: c.kind}
		m, err := new(mapper).walk(src, 1, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if at := m.Rows[0].Cells[1].Time; at != 0 {
			got = time.UnixMilli(at).UTC().Format(time.RFC3339)
		}
		if got != c.want || m.Rows[0].Cells[0].Time != 0 {
			t.Errorf("%q, %d: got %q, want %q", c.kind, c.mid, got, c.want)
		}
	}
}
