// Scenario: every encoding of a part gives back what it was given

package page

import (
	"slices"
	"testing"

	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/testkit/coldtest"
)

// padded returns b as a page would hold it.
func padded(b []byte) *Cutter {
	return &Cutter{B: append(slices.Clone(b), make([]byte, TailLen)...), End: len(b)}
}

// TestLadder: the planned size is the encoded one, and get and the cursor give back every value.
func TestLadder(t *testing.T) {
	rnd := newRand(t)
	var tl tally
	var pl planner
	for range 300 {
		n := 1 + rnd.IntN(1<<rnd.IntN(12))
		value := coldtest.Values(rnd, uint8(1+rnd.IntN(64)))
		v := make([]uint64, n)
		for i := range v {
			v[i] = value()
		}
		tl.count(v)
		p := pl.plan(&tl)
		b, _, _ := appendLadder(nil, &p, slices.Clone(v), nil, nil)
		if len(b) != p.size {
			t.Fatalf("%d values in %d bytes, planned %d", n, len(b), p.size)
		}
		if most := 12 + bytesFor(64*n); p.size > most {
			t.Errorf("%d values in %d bytes, plain they take %d", n, p.size, most)
		}
		var lc ladderCursor
		c := padded(b)
		lc.init(c, n)
		if c.Bad || c.Pos != c.End {
			t.Fatalf("cursor: bad %v, %d of %d bytes", c.Bad, c.Pos, c.End)
		}
		var first firstLevel
		c = padded(b)
		if first.parse(c, n); c.Bad {
			t.Fatalf("first level: %+v", first)
		}
		for i, want := range v {
			if got, ok := lc.next(c.B); !ok || got != want {
				t.Fatalf("cursor: value %d of %d is %d, want %d", i, n, got, want)
			}
			g := padded(b)
			if got := LadderGet(g, n, i); g.Bad || got != want {
				t.Fatalf("get: value %d of %d is %d, want %d", i, n, got, want)
			}
			g.Bad = false
			if got := first.get(g, n, i); g.Bad || got != want {
				t.Fatalf("get with the first level parsed: value %d of %d is %d, want %d", i, n, got, want)
			}
			first.touch(g.B, n, i)
		}
		if _, ok := lc.next(c.B); ok {
			t.Fatal("cursor goes on behind the last value")
		}
	}
}

// TestLadderShapes: the usual encodings are what the planner makes of the data they are for.
func TestLadderShapes(t *testing.T) {
	var tl tally
	var pl planner
	for _, c := range []struct {
		name   string
		value  func(i int) uint64
		levels int
		size   int // at most
	}{
		{"constant", func(int) uint64 { return 12345 }, 1, 5},
		{"bit-packed", func(i int) uint64 { return 1<<40 + uint64(i*37%64) }, 1, 1 + 6 + 1 + 6*128},
		{"with exceptions", func(i int) uint64 { return uint64(i*37%16) + uint64(i%200/199)<<40 }, 3, 530 + 10 + 30},
		{"few ones", func(i int) uint64 { return uint64(i % 100 / 99) }, 2, 20},
	} {
		v := make([]uint64, 1024)
		for i := range v {
			v[i] = c.value(i)
		}
		tl.count(v)
		if p := pl.plan(&tl); p.levels != c.levels || p.size > c.size {
			t.Errorf("%s: %d levels %v, %d bytes; want %d levels, %d bytes at most", c.name, p.levels, p.w, p.size, c.levels, c.size)
		}
	}
}

// TestBitset compares rank and the cursor with a plain set, sparse and dense.
func TestBitset(t *testing.T) {
	rnd := newRand(t)
	for range 200 {
		n := 1 + rnd.IntN(1<<rnd.IntN(14))
		share := rnd.Float64() * rnd.Float64()
		in := make([]bool, n)
		var pos []int32
		for i := range in {
			if rnd.Float64() < share {
				in[i] = true
				pos = append(pos, int32(i))
			}
		}
		if len(pos) == 0 {
			in[n-1], pos = true, []int32{int32(n - 1)}
		}
		b := appendBitset(nil, n, pos)
		if want := BitsetSize(n, len(pos)); len(b) != want {
			t.Fatalf("%d of %d in %d bytes, planned %d", len(pos), n, len(b), want)
		}
		c := padded(b)
		var s bitset
		s.parse(c, n)
		if c.Bad || c.Pos != c.End || int(s.m) != len(pos) {
			t.Fatalf("bad %v, %d of %d bytes, %d of %d positions", c.Bad, c.Pos, c.End, s.m, len(pos))
		}
		var cur bitsetCursor
		cur.init(&s, c.B)
		rank := 0
		for i, want := range in {
			if r, got := s.rank(c.B, i); r != rank || got != want {
				t.Fatalf("rank(%d) of %d = %d, %v, want %d, %v", i, n, r, got, rank, want)
			}
			if cur.step() != want {
				t.Fatalf("cursor at %d of %d: %v", i, n, !want)
			}
			if want {
				rank++
			}
		}
	}
}

// TestMids compares search and the cursor with the plain list for each kind of part, and has each kind chosen.
func TestMids(t *testing.T) {
	rnd := newRand(t)
	var kinds [3]int
	for range 300 {
		n := 1 + rnd.IntN(1<<rnd.IntN(12))
		gap := coldtest.Gaps(rnd)
		mids := []uint64{rnd.Uint64N(1 << 50)}
		for len(mids) < n {
			mids = append(mids, mids[len(mids)-1]+gap())
		}
		e := Encoder{OneGroup: rnd.IntN(2) == 0, Group: uint8(rnd.IntN(256))}
		if e.OneGroup {
			for i := range mids {
				if mids[i] = slot.Least(e.Group, mids[i]); i > 0 && mids[i] <= mids[i-1] {
					mids[i] = slot.Least(e.Group, mids[i-1]+1)
				}
			}
		}
		p := planMids(e.keys(mids))
		if kinds[p.kind]++; e.OneGroup {
			p.Size++
		}
		b := appendMids(nil, &p, e.keys(mids), e.OneGroup, e.Group, nil)
		if len(b) != p.Size {
			t.Fatalf("kind %d: %d ids in %d bytes, planned %d", p.kind, n, len(b), p.Size)
		}
		c := padded(b)
		var v midsView
		v.parse(c, n)
		if c.Bad || c.Pos != c.End {
			t.Fatalf("kind %d: bad %v, %d of %d bytes", p.kind, c.Bad, c.Pos, c.End)
		}
		var cur midsCursor
		cur.init(&v, c.B)
		for i, mid := range mids {
			if got, ok := cur.next(); !ok || got != mid {
				t.Fatalf("kind %d: id %d of %d is %d, want %d", p.kind, i, n, got, mid)
			}
			for _, x := range []uint64{mid, mid - 1, mid + 1, mid + gap()/2, rnd.Uint64() >> 1, maxMid, 0} {
				want, in := slices.BinarySearch(mids, x)
				if got, found := v.Search(c.B, x); got != want || found != in {
					t.Fatalf("kind %d: search(%d) of %d ids = %d, %v, want %d, %v", p.kind, x, n, got, found, want, in)
				}
			}
		}
	}
	if slices.Contains(kinds[:], 0) {
		t.Errorf("kinds chosen %v: one was not tried", kinds)
	}
}

// TestSelect compares select and rank with counting bit by bit.
func TestSelect(t *testing.T) {
	rnd := newRand(t)
	for range 200 {
		nbits, off := 1+rnd.IntN(1<<(1+rnd.IntN(16))), rnd.IntN(20)
		share := rnd.Float64()
		b := make([]byte, off+bytesFor(nbits)+TailLen)
		for i := range b { // also around the bits
			for k := range 8 {
				if rnd.Float64() < share {
					b[i] |= 1 << k
				}
			}
		}
		total := rank1(b, off, nbits)
		ones, zeros := 0, 0
		step := 1 + rnd.IntN(50)
		for i := range nbits {
			if i%step == 0 {
				if got := rank1(b, off, i); got != ones {
					t.Fatalf("rank1(%d) = %d, want %d", i, got, ones)
				}
			}
			if b[off+i>>3]>>(i&7)&1 == 1 {
				ones++
				continue
			}
			if zeros++; zeros%step == 0 || zeros == nbits-total {
				if got := select0(b, off, nbits, zeros); got != i+1 {
					t.Fatalf("select0(%d) of %d = %d, want %d", zeros, nbits, got, i+1)
				}
			}
		}
	}
}
