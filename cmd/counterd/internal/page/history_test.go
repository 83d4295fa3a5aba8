package page

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"
)

// TestHistory compares the rings with a list of all seconds: rates, percentiles of what each second did, gaps where the
// process stood still, totals that were reset.
func TestHistory(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var h history
	start := time.Now()
	var totals Totals
	h.add(start, totals, OK)
	model := [][]int64{nil} // by second
	done := make([]Totals, 1)
	levels := []Level{OK}
	for now := int64(0); now < 2*coarseSpan*coarseStep; {
		step := int64(1)
		if r.IntN(50) == 0 {
			step += r.Int64N(30)
		}
		now += step
		n := r.Int64N(1000) * step
		slow := n / 100 // of a hundred one is slow, and of a thousand two
		totals.Commands += n
		totals.Writes += n / 4
		totals.Errors += n / 10
		totals.Times[3] += n - slow
		totals.Times[10] += slow
		level := Level(r.IntN(4))
		if !h.add(start.Add(time.Duration(now)*time.Second), totals, level) {
			t.Fatal("a new second was not taken")
		}
		if h.add(start.Add(time.Duration(now)*time.Second+time.Millisecond), totals, Bad) {
			t.Fatal("a second was taken twice")
		}
		for int64(len(model)) < now {
			model, done, levels = append(model, nil), append(done, done[len(done)-1]), append(levels, OK)
		}
		want := []int64{div(n, step), div(n/4, step), div(n/10, step), 0, 0, 0, int64(level)}
		if n > 0 {
			want[3], want[4], want[5] = 8, 8, 8
			if slow > 0 {
				want[5] = 1024
			}
		}
		if slow*100 > n { // never: a hundredth is not more than a hundredth
			t.Fatal("the model is wrong")
		}
		model, done, levels = append(model, want), append(done, totals), append(levels, level)

		p := h.past()
		if p.Second != now || p.Began != start.UnixMilli() {
			t.Fatalf("second %d of %d", p.Second, now)
		}
		if want := model[max(1, now-fineSpan+1) : now+1]; !slices.EqualFunc(p.Fine, want, slices.Equal) {
			t.Fatalf("second %d: the last seconds differ: %v, want %v", now, p.Fine, want)
		}
		if fine, _ := h.newest(); !slices.Equal(fine, want) {
			t.Fatalf("second %d: got %v, want %v", now, fine, want)
		}
		if p.Tenth != now/coarseStep || int64(len(p.Coarse)) != min(now/coarseStep, coarseSpan) {
			t.Fatalf("second %d: %d stretches up to %d", now, len(p.Coarse), p.Tenth)
		}
	}
	if size := unsafe.Sizeof(h.fine) + unsafe.Sizeof(h.coarse); size > 14<<10 {
		t.Errorf("the rings take %d bytes", size)
	}
}

// div rounds as a rate is rounded.
func div(n, by int64) int64 { return (2*n + by) / (2 * by) }

// TestTenSeconds: a sample of ten seconds has their mean rate, the percentiles of all of them, and the worst of their
// levels; totals that were reset in between count from 0.
func TestTenSeconds(t *testing.T) {
	var h history
	start := time.Now()
	var totals Totals
	h.add(start, totals, OK)
	for s := 1; s <= 20; s++ {
		if s == 15 {
			totals = Totals{}
		}
		totals.Commands += 100
		totals.Times[2] += 100
		if s == 4 {
			totals.Times[2] -= 50
			totals.Times[20] += 50
		}
		level := OK
		if s == 7 {
			level = Bad
		}
		h.add(start.Add(time.Duration(s)*time.Second), totals, level)
	}
	want := [][]int64{{100, 0, 0, 4, 1 << 20, 1 << 20, int64(Bad)}, {60, 0, 0, 4, 4, 4, 0}}
	if got := h.past().Coarse; !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %v, want %v", got, want)
	}
}
