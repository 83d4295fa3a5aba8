package console

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/counterd/counterd/internal/testkit/seed"
)

// TestHistory compares the rings with a list of all seconds: rates, percentiles of what each second did, gaps where the
// process stood still, totals that were reset.
func TestHistory(t *testing.T) {
	seed := seed.Of(t)
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var h history
	start := time.Now()
	var totals Totals
	h.add(start, totals, gauges{})
	model := [][]int64{nil} // by second
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
		totals.ColdReads += n / 5
		totals.Times[15] += n - slow // 8 us
		totals.Times[42] += slow     // 896 us
		g := gauges{memory: r.Uint64N(1 << 40), lag: r.Uint64N(1 << 40), level: Level(r.IntN(4))}
		if !h.add(start.Add(time.Duration(now)*time.Second), totals, g) {
			t.Fatal("a new second was not taken")
		}
		if h.add(start.Add(time.Duration(now)*time.Second+time.Millisecond), totals, gauges{level: Bad}) {
			t.Fatal("a second was taken twice")
		}
		want := []int64{div(n, step), div(n/4, step), div(n/10, step), 0, 0, 0, int64(g.level), int64(g.memory), int64(g.lag), div(n/5, step)}
		if n > 0 {
			want[3], want[4], want[5] = 8000, 8000, 8000
			if slow > 0 {
				want[5] = 896000
			}
		}
		for int64(len(model)) < now {
			var gap []int64
			if step == 2 { // a look that is late stands for the second before it, too
				gap = want
			}
			model = append(model, gap)
		}
		if slow*100 > n { // never: a hundredth is not more than a hundredth
			t.Fatal("the model is wrong")
		}
		model = append(model, want)

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
	if size := unsafe.Sizeof(h.fine) + unsafe.Sizeof(h.coarse); size > 32<<10 {
		t.Errorf("the rings take %d bytes", size)
	}
}

// TestLateTicks: a ticker's moments come some milliseconds late on a busy machine, the first one too, and now and then by
// most of a second. Each second has its sample all the same.
func TestLateTicks(t *testing.T) {
	seed := seed.Of(t)
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for _, first := range []time.Duration{0, 50 * time.Microsecond, time.Millisecond, 400 * time.Millisecond} {
		var h history
		base := time.Now()
		h.add(base.Add(first), Totals{}, gauges{})
		for n := 1; n < fineSpan; n++ {
			late := time.Duration(r.Int64N(int64(3 * time.Millisecond)))
			if r.IntN(20) == 0 {
				late = time.Duration(r.Int64N(int64(900 * time.Millisecond)))
			}
			h.add(base.Add(time.Duration(n)*time.Second+late), Totals{}, gauges{})
		}
		for i, s := range h.past().Fine {
			if s == nil {
				t.Errorf("first look %v late: second %d has no sample", first, i+1)
			}
		}
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
	h.add(start, totals, gauges{})
	for s := 1; s <= 20; s++ {
		if s == 15 {
			totals = Totals{}
		}
		totals.Commands += 100
		totals.Times[2] += 100
		if s == 4 {
			totals.Times[2] -= 50
			totals.Times[20] += 50 // of 20 us
		}
		g := gauges{memory: 5, lag: uint64(s)}
		if s == 7 {
			g = gauges{memory: 9, level: Bad}
		}
		h.add(start.Add(time.Duration(s)*time.Second), totals, g)
	}
	want := [][]int64{{100, 0, 0, 750, 20000, 20000, int64(Bad), 9, 10, 0}, {60, 0, 0, 750, 750, 750, 0, 5, 20, 0}}
	if got := h.past().Coarse; !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %v, want %v", got, want)
	}
}
