package coldstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/counterd/counterd/coldstore/page"
	"github.com/counterd/counterd/internal/testkit/racetest"
)

// TestCodes: codes rise with values, cover all of them without a gap, and are off by a quarter at most.
func TestCodes(t *testing.T) {
	for c := 0; c < 256; c++ {
		low, high := codeLow(uint8(c)), codeHigh(uint8(c))
		if codeOf(low) != uint8(c) || codeOf(high) != uint8(c) || low > high {
			t.Fatalf("code %d: %d..%d are of codes %d and %d", c, low, high, codeOf(low), codeOf(high))
		}
		if c < 255 && codeLow(uint8(c+1)) != high+1 {
			t.Fatalf("code %d ends at %d, the next begins at %d", c, high, codeLow(uint8(c+1)))
		}
		if high-low > low/4 {
			t.Fatalf("code %d: %d..%d is too wide", c, low, high)
		}
	}
	if codeLow(0) != 0 || codeHigh(255) != math.MaxUint64 {
		t.Fatal("codes do not cover all values")
	}
}

// TestBounds compares the bounds of random files with their rows.
func TestBounds(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	rnd := newRand(t)
	for range 10 {
		r := &rows{meta: metaOf(8, 64, 40, 1)}
		for range 1 + rnd.IntN(4) {
			r.addRandom(rnd, 1+rnd.IntN(6000))
		}
		f := r.open(t, nil)
		for col := range r.meta.Columns {
			least, most := uint64(math.MaxUint64), uint64(0)
			ends := make([][2]uint64, f.Pages())
			for i := range ends {
				ends[i][0] = math.MaxUint64
			}
			for i, mid := range r.mids {
				v := r.vals[i][col]
				e := &ends[f.page(mid)]
				e[0], e[1] = min(e[0], v), max(e[1], v)
				least, most = min(least, v), max(most, v)
			}
			if lo, hi := f.Bounds(col); lo != least || hi != most {
				t.Fatalf("column %d: got %d..%d, want %d..%d", col, lo, hi, least, most)
			}
			for i, e := range ends {
				lo, hi := f.PageBounds(i, col)
				if lo > e[0] || hi < e[1] || codeOf(lo) != codeOf(e[0]) || codeOf(hi) != codeOf(e[1]) {
					t.Fatalf("column %d, page %d: got %d..%d, want %d..%d rounded outwards", col, i, lo, hi, e[0], e[1])
				}
			}
		}
	}
	empty := &rows{meta: metaOf(8)}
	if lo, hi := empty.open(t, nil).Bounds(0); lo != 0 || hi != 0 {
		t.Errorf("bounds of nothing: %d..%d", lo, hi)
	}
}

// TestWrongBounds: bounds that are not those of the rows leave out rows in silence, so Verify finds them out, and what
// is no bounds at all does not open.
func TestWrongBounds(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	_, good := sample(t)
	foot := good[len(good)-footerSize:]
	at := int(binary.LittleEndian.Uint64(foot[16:])) + 8*int(binary.LittleEndian.Uint32(foot[8:]))
	end := len(good) - footerSize - page.TailLen
	found, refused := 0, 0
	for bit := at * 8; bit < end*8; bit++ {
		b := bytes.Clone(good)
		b[bit>>3] ^= 1 << (bit & 7)
		mendChecksums(b)
		f, err := Open(&memFS{b: b}, "mem", nil)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			refused++
			continue
		}
		if err := f.Verify(nil); errors.Is(err, ErrCorrupt) {
			found++
		}
		f.Close()
	}
	// What is left are bits that fill up a byte.
	t.Logf("%d bits: %d do not open, %d were found by Verify", (end-at)*8, refused, found)
	if refused == 0 || refused+found < (end-at)*6 {
		t.Errorf("of %d bits %d were refused and %d found", (end-at)*8, refused, found)
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		b := make([]byte, rnd.IntN(100))
		for i := range b {
			b[i] = byte(rnd.IntN(256) & (rnd.IntN(256) | 1)) // few bits
		}
		if all, ok := parseBounds(b, 1+rnd.IntN(3), rnd.IntN(20)); ok && len(all) == 0 {
			t.Fatal("no columns")
		}
	}
}

// TestBrokenBounds: the bounds of a file that cannot be read admit every value, so that a scan with a condition meets the
// file's error and does not pass the file over.
func TestBrokenBounds(t *testing.T) {
	f := Broken("gone.cold", metaOf(8, 64), 5, errors.New("gone"))
	for col := range 2 {
		if least, most := f.Bounds(col); least != 0 || most != math.MaxUint64 {
			t.Errorf("column %d: got %d to %d, want all values", col, least, most)
		}
	}
}
