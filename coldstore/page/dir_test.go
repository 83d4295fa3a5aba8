package page

import (
	"slices"
	"testing"

	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/testkit/coldtest"
)

// TestPageDir compares reads by a directory with the rows: pages of mids of all kinds, of a group and of all, with and
// without a common row, of few and many columns; mids that are there, that are not, and that are far away.
func TestPageDir(t *testing.T) {
	rnd := newRand(t)
	built, sets, strides, others := 0, 0, 0, 0
	for range 400 {
		n := 1 + rnd.IntN(1<<rnd.IntN(13))
		cols := 1 + rnd.IntN(7)
		gap := coldtest.Gaps(rnd)
		mids := []uint64{rnd.Uint64N(1 << 50)}
		for len(mids) < n {
			mids = append(mids, mids[len(mids)-1]+gap())
		}
		e := Encoder{Cols: cols, OneGroup: rnd.IntN(3) == 0, Group: uint8(rnd.IntN(256))}
		if e.OneGroup {
			for i := range mids {
				if mids[i] = slot.Least(e.Group, mids[i]); i > 0 && mids[i] <= mids[i-1] {
					mids[i] = slot.Least(e.Group, mids[i-1]+1)
				}
			}
		}
		columns := make([][]uint64, cols)
		share, top, usual := rnd.Float64(), uint64(1)<<rnd.IntN(40), uint64(rnd.IntN(2)*rnd.IntN(300))
		for i := range mids {
			live := rnd.Float64() < share*share
			for c := range columns {
				if i == 0 {
					columns[c] = make([]uint64, n)
				}
				columns[c][i] = usual
				if live {
					columns[c][i] = rnd.Uint64N(1 + rnd.Uint64N(top))
				}
			}
		}
		var p Plan
		e.Plan(&p, mids, columns, n)
		page := e.AppendPage(nil, &p, mids, columns)
		if len(page) > 1<<MaxShift {
			continue
		}
		var d Dir
		if bad := d.Build(page, cols); bad != "" {
			t.Fatalf("a good page is taken for damaged: %s", bad)
		}
		if d.State != DirReady {
			if others++; len(page) <= 4096 && n <= dirRows && p.Mids.kind != midsGaps {
				t.Fatalf("no directory of %d rows in %d bytes, kind %d", n, len(page), p.Mids.kind)
			}
			continue
		}
		built++
		if d.presence {
			sets++
		}
		if d.kind == midsStride {
			strides++
		}
		dst, some, got := make([]uint64, cols), make([]int, 1+rnd.IntN(cols)), make([]uint64, cols)
		for i, mid := range mids {
			d.Touch(page, mid)
			if found, bad := d.Get(page, mid, nil, dst); !found || bad != "" {
				t.Fatalf("row %d of %d: %v %q", i, n, found, bad)
			}
			for k := range some {
				some[k] = rnd.IntN(cols)
			}
			if found, bad := d.Get(page, mid, some, got); !found || bad != "" {
				t.Fatalf("row %d of %d, columns %v: %v %q", i, n, some, found, bad)
			}
			for c := range columns {
				if dst[c] != columns[c][i] {
					t.Fatalf("row %d of %d, column %d is %d, want %d", i, n, c, dst[c], columns[c][i])
				}
			}
			for k, c := range some {
				if got[k] != columns[c][i] {
					t.Fatalf("row %d of %d, column %d alone is %d, want %d", i, n, c, got[k], columns[c][i])
				}
			}
			for _, x := range []uint64{mid - 1, mid + 1, mid + gap()/2, rnd.Uint64() >> 1, maxMid, 0} {
				d.Touch(page, x)
				if _, in := slices.BinarySearch(mids, x); in {
					continue
				}
				if found, bad := d.Get(page, x, nil, dst); found || bad != "" {
					t.Fatalf("%d, which is not there: %v %q", x, found, bad)
				}
			}
		}
	}
	if built < 100 || sets < 20 || strides == 0 || others == 0 {
		t.Errorf("%d pages have a directory, %d of them a common row, %d a stride; %d have none", built, sets, strides, others)
	}
}

// TestTouchAnything: touch looks at a directory that another goroutine may be writing: it finds anything, and stays
// within the page.
func TestTouchAnything(t *testing.T) {
	rnd := newRand(t)
	page := make([]byte, 4096)
	for range 20000 {
		d := Dir{
			first: rnd.Uint64() >> rnd.IntN(64), step: rnd.Uint64() >> rnd.IntN(64), n: uint16(rnd.Uint32()), hbits: uint16(rnd.Uint32()),
			low: uint16(rnd.Uint32()), high: uint16(rnd.Uint32()), live: uint16(rnd.Uint32()), State: DirReady, kind: uint8(rnd.IntN(4)),
			oneGroup: rnd.IntN(2) == 0, l: uint8(rnd.Uint32()), shift: uint8(rnd.Uint32()), cols: uint8(rnd.Uint32()), presence: rnd.IntN(2) == 0,
		}
		for i := range d.samples {
			d.samples[i] = uint16(rnd.Uint32())
		}
		for i := range d.levels {
			d.levels[i] = firstLevel{levels: uint8(rnd.IntN(3)), w: uint8(rnd.Uint32()), l: uint8(rnd.Uint32()), m: uint16(rnd.Uint32()),
				set: uint16(rnd.Uint32()), high: uint16(rnd.Uint32()), at: uint16(rnd.Uint32())}
		}
		d.Touch(page, rnd.Uint64()>>rnd.IntN(64))
	}

}
