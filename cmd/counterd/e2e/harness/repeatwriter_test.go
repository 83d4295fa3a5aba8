package harness

import (
	"math/rand/v2"
	"testing"

	"github.com/counterd/counterd/internal/testkit/seed"
)

// TestAdd: each change adds something, so that a post tells whether it was made. The first change of seed 505273781940 added 0, and a test took it for
// made before the server had read it.
func TestAdd(t *testing.T) {
	for _, from := range []uint64{505273781940, seed.Of(t)} {
		w := &RepeatWriter{Rng: rand.New(rand.NewPCG(from, 0))}
		for i := range 10_000 {
			was := w.Sums
			if w.Incr("1"); w.Sums == was {
				t.Fatalf("seed %d: change %d adds nothing", from, i)
			}
		}
	}
}
