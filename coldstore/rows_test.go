package coldstore

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/counterd/counterd/coldstore/page"
	"github.com/counterd/counterd/internal/testkit/racetest"
)

// columnsOf turns rows into columns.
func columnsOf(r *rows, n int) [][]uint64 {
	cols := make([][]uint64, n)
	for _, v := range r.vals {
		for c := range cols {
			cols[c] = append(cols[c], v[c])
		}
	}
	return cols
}

// TestRows takes rows to pages and back: random values, which are large, and those of posts, which are not.
func TestRows(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	rnd := newRand(t)
	var enc RowsEncoder
	var dec Rows
	for i := range 60 {
		r := posts(rnd, 1+rnd.IntN(5000), 4000)
		if i%2 == 0 {
			r = &rows{meta: metaOf(64, 64, 64)}
			r.addRandom(rnd, 1+rnd.IntN(6000))
		}
		cols, limit := columnsOf(r, 3), 1+rnd.IntN(5000)
		for at := 0; at < len(r.mids); {
			rest := [][]uint64{cols[0][at:], cols[1][at:], cols[2][at:]}
			page, n := enc.Append([]byte("head"), r.mids[at:], rest, limit)
			if page = page[4:]; n < 1 || n > limit || len(page) > MaxRowsBytes {
				t.Fatalf("%d of %d rows, at most %d, in %d bytes", n, len(r.mids)-at, limit, len(page))
			}
			if err := dec.Reset(page, 3); err != nil || dec.Len() != n {
				t.Fatal(dec.Len(), err)
			}
			vals := make([]uint64, 3)
			for range n {
				mid, ok, err := dec.Next(vals)
				if err != nil || !ok || mid != r.mids[at] || !slices.Equal(vals, r.vals[at][:3]) {
					t.Fatalf("row %d: got %d %v %v %v, want %d %v", at, mid, vals, ok, err, r.mids[at], r.vals[at])
				}
				at++
			}
			if _, ok, err := dec.Next(vals); ok || err != nil {
				t.Fatal("a row behind the last", err)
			}
			if err := dec.Reset(page[:len(page)-1], 3); !errors.Is(err, ErrCorrupt) {
				t.Fatal("a page that is cut short:", err)
			}
			page[rnd.IntN(len(page))] ^= 1 << rnd.IntN(8)
			if err := dec.Reset(page, 3); !errors.Is(err, ErrCorrupt) {
				t.Fatal("a page with another bit:", err)
			}
		}
	}
}

// FuzzRows reads any bytes as a page of rows, with the right checksum: rising mids, no more rows than it says, no panic.
func FuzzRows(f *testing.F) {
	rnd := rand.New(rand.NewPCG(7, 8))
	var enc RowsEncoder
	for range 5 {
		r := posts(rnd, 1+rnd.IntN(500), 4000)
		raw, _ := enc.Append(nil, r.mids, columnsOf(r, 3), 1000)
		f.Add(raw, byte(3))
	}
	f.Fuzz(func(t *testing.T, raw []byte, cols byte) {
		var dec Rows
		if len(raw) >= page.HeadLen {
			page.Seal(raw, 0)
		}
		if err := dec.Reset(raw, int(cols)); err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		vals, last := make([]uint64, cols), uint64(0)
		for i := 0; ; i++ {
			mid, ok, err := dec.Next(vals)
			if err != nil && !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			if err != nil || !ok {
				return
			}
			if i >= dec.Len() || i > 0 && mid <= last {
				t.Fatalf("row %d of %d: %d behind %d", i, dec.Len(), mid, last)
			}
			last = mid
		}
	})
}
