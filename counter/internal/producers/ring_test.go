package producers

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRing: entries that fit a narrow ring and others, against a slice.
func TestRing(t *testing.T) {
	t.Logf("-seed=%d", *seed)
	for run := range 30 {
		rnd := rand.New(rand.NewPCG(*seed, uint64(run)))
		var r ring
		var want []entry
		next, widened, narrowed := uint64(1)<<rnd.IntN(40), 0, 0
		for step := range 2000 {
			next += 1 + rnd.Uint64N(4)
			e := entry{seq: next, value: rnd.Uint64() >> 33, meta: rnd.Uint32()}
			if step/500%2 == 1 { // the others come at times
				switch rnd.IntN(50) {
				case 0:
					e.value <<= 20
				case 1:
					e.size = 7
				case 2:
					next += 1 << 33
					e.seq = next
				}
			}
			if rnd.IntN(10) == 0 {
				e.seq -= min(e.seq, rnd.Uint64N(300))
			}
			i, found := r.find(e.seq)
			at, there := slices.BinarySearchFunc(want, e, func(a, b entry) int { return int(min(max(int64(a.seq-b.seq), -1), 1)) })
			if int(i) != at || found != there {
				t.Fatalf("run %d step %d: %d, %v, want %d, %v", run, step, i, found, at, there)
			}
			if found || i == 0 && r.n == Window {
				continue
			}
			wide := r.wide
			dropped, full := r.insert(i, e)
			want = slices.Insert(want, at, e)
			if full != (len(want) > Window) || full && dropped != want[0] {
				t.Fatalf("run %d step %d: dropped %+v, %v, want %+v", run, step, dropped, full, want[0])
			}
			if full {
				want = want[1:]
			}
			if rnd.IntN(100) == 0 {
				r.shrink()
			}
			if r.wide && !wide {
				widened++
			} else if wide && !r.wide {
				narrowed++
			}
			if step%20 == 0 {
				for k := range want {
					if got := r.at(uint32(k)); got != want[k] || r.seqAt(uint32(k)) != got.seq {
						t.Fatalf("run %d step %d: entry %d is %+v, want %+v", run, step, k, got, want[k])
					}
				}
			}
		}
		if widened == 0 || narrowed == 0 {
			t.Errorf("run %d: %d times wide, %d times narrow", run, widened, narrowed)
		}
	}
}
