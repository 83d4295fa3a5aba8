package popular

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/testkit/seed"
)

// TestTop samples a skewed stream on a clock of its own: the posts that come most are found, in order, at about their
// rates, among a million others; a day later, others are.
func TestTop(t *testing.T) {
	seed := seed.Of(t)
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	now := time.Unix(1_700_000_000, 0)
	p := New(now)
	const step = time.Millisecond
	play := func(first uint64, seconds int) {
		for range seconds * 1000 { // a sample each ms: 512,000 operations a second
			now = now.Add(step)
			post := Post{1, 1_000_000 + rng.Uint64N(1<<40)}
			switch n := rng.IntN(100); {
			case n < 20:
				post.Mid = first
			case n < 30:
				post.Mid = first + 1
			case n < 34:
				post.Mid = first + 2
			}
			p.Sample(now, post, rng.IntN(4) == 0)
			p.Sample(now, Post{2, first}, false) // of another counter
		}
	}
	check := func(first uint64) {
		t.Helper()
		for _, byWrites := range []bool{true, false} {
			top := p.Top(now, 1, 3, byWrites)
			if len(top) != 3 {
				t.Fatalf("got %v", top)
			}
			for i, want := range []float64{0.2, 0.1, 0.04} {
				r := top[i]
				if r.Mid != first+uint64(i) {
					t.Errorf("place %d: got %d, want %d", i, r.Mid, first+uint64(i))
				}
				reads, writes := want*1000*Every*3/4, want*1000*Every/4
				if math.Abs(r.Reads-reads) > reads/4 || math.Abs(r.Writes-writes) > writes/4 {
					t.Errorf("%d: got %.0f reads and %.0f writes a second, want %.0f, %.0f", r.Mid, r.Reads, r.Writes, reads, writes)
				}
			}
		}
	}
	play(10, 20)
	check(10) // soon behind the beginning
	play(10, 300)
	check(10)
	now = now.Add(24 * time.Hour)
	play(20, 300)
	check(20)
	now = now.Add(24 * time.Hour)
	for _, r := range p.Top(now, 1, 1024, false) {
		if r.Reads > 0.04 {
			t.Errorf("a day later %d has %f", r.Mid, r.Reads)
		}
	}
	if n := len(p.reads.list); n > places || n != len(p.reads.by) {
		t.Errorf("%d places, %d known", n, len(p.reads.by))
	}
	if top := p.Top(now, 3, 10, true); len(top) != 0 {
		t.Errorf("a counter without posts has %v", top)
	}
}

// TestBounds plays posts with steady rates that are sampled as the server does, among many others, so that entries are taken over. The true rates are within
// their bounds in about 95 of 100 cases.
func TestBounds(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed.Of(t), 3))
	inside, all, narrow := 0, 0, 0
	for range 12 {
		now := time.Unix(1_700_000_000, 0)
		p := New(now)
		const posts, perSecond = 60, 200_000.0 // post k has 1/(k+2) of a third of the operations
		sum := 0.0
		for k := range posts {
			sum += 1 / float64(k+2)
		}
		rate := func(k int) float64 { return perSecond / 3 / float64(k+2) / sum }
		for gap := 0; now.Before(time.Unix(1_700_000_240, 0)); {
			gap = 1 + rng.IntN(2*Every)
			now = now.Add(time.Duration(float64(gap) / perSecond * float64(time.Second)))
			post := Post{1, 1000 + rng.Uint64N(1<<40)}
			if u := rng.Float64() * 3 * sum; u < sum {
				k := 0
				for u -= 1 / float64(2); u > 0; u -= 1 / float64(k+2) {
					k++
				}
				post.Mid = uint64(k)
			}
			p.Sample(now, post, false)
		}
		known := map[uint64]Rate{}
		for _, r := range p.Top(now, 1, 1024, false) {
			known[r.Mid] = r
		}
		for k := range posts {
			r, ok := known[uint64(k)]
			if !ok {
				continue
			}
			all++
			if r.ReadBounds.Least <= rate(k) && rate(k) <= r.ReadBounds.Most {
				inside++
			}
			if r.ReadBounds.Most < 2*r.ReadBounds.Least {
				narrow++
			}
			if r.ReadBounds.Least > r.Reads || r.Reads > r.ReadBounds.Most || r.WriteBounds.Least != 0 || r.WriteBounds.Most < Every/60 {
				t.Fatalf("got %+v", r)
			}
		}
		if w := p.Window(now); w < 58 || w > 60 {
			t.Errorf("a window of %f", w)
		}
	}
	if all < 300 || float64(inside) < 0.9*float64(all) || narrow == 0 {
		t.Errorf("%d of %d rates are within their bounds, %d are narrow", inside, all, narrow)
	}
	t.Logf("%d of %d rates are within their bounds, %d are narrow", inside, all, narrow)
}

func BenchmarkSample(b *testing.B) {
	now := time.Now()
	p := New(now)
	rng := rand.New(rand.NewPCG(1, 1))
	for b.Loop() {
		p.Sample(now, Post{1, rng.Uint64N(1 << 14)}, false)
	}
}
