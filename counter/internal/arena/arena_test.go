package arena

import (
	"math/rand/v2"
	"testing"

	testseed "github.com/counterd/counterd/internal/testkit/seed"
)

var seed = testseed.Value

// TestRandom allocates and frees at random; spans must be zero, disjoint (each keeps its own pattern) and merge back
// into whole chunks at the end.
func TestRandom(t *testing.T) {
	t.Logf("replay with -seed=%d", *seed)
	rng := rand.New(rand.NewPCG(*seed, 1))
	var a Arena
	type live struct {
		s Span
		v byte
	}
	var spans []live
	total := int64(0)
	for i := range 3000 {
		if len(spans) > 60 || (len(spans) > 0 && rng.IntN(3) == 0) {
			k := rng.IntN(len(spans))
			l := spans[k]
			for _, j := range []int{0, len(l.s.Data) / 2, len(l.s.Data) - 1} {
				if l.s.Data[j] != l.v {
					t.Fatalf("step %d: byte %d: got %d, want %d: spans overlap", i, j, l.s.Data[j], l.v)
				}
			}
			total -= int64(len(l.s.Data))
			a.Free(l.s)
			spans[k] = spans[len(spans)-1]
			spans = spans[:len(spans)-1]
			continue
		}
		n := 1 + rng.IntN(3<<20)
		if rng.IntN(100) == 0 {
			n = 70 << 20
		}
		s, err := a.Alloc(n, rng.IntN(4) == 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Data) < n || n > smallSpan && len(s.Data)%pageSize != 0 {
			t.Fatalf("step %d: got %d bytes, want %d in whole pages", i, len(s.Data), n)
		}
		v := byte(1 + rng.IntN(255))
		for _, j := range []int{0, len(s.Data) / 2, len(s.Data) - 1} {
			if s.Data[j] != 0 {
				t.Fatalf("step %d: new memory is not zero", i)
			}
			s.Data[j] = v
		}
		total += int64(len(s.Data))
		spans = append(spans, live{s, v})
		if a.Used() != total {
			t.Fatalf("step %d: Used: got %d, want %d", i, a.Used(), total)
		}
	}
	for _, l := range spans {
		a.Free(l.s)
	}
	for i, c := range a.chunks {
		if len(c.free) != 1 || c.free[0] != (hole{0, len(c.mem)}) {
			t.Errorf("chunk %d: got holes %v, want one of %d", i, c.free, len(c.mem))
		}
	}
	if a.Used() != 0 {
		t.Errorf("Used: got %d, want 0", a.Used())
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// TestPopulate: new memory is zero afterwards, and memory in use keeps its content.
func TestPopulate(t *testing.T) {
	var a Arena
	defer a.Close()
	s, err := a.Alloc(3<<20, true)
	if err != nil {
		t.Fatal(err)
	}
	Populate(s.Data)
	for i, b := range s.Data {
		if b != 0 {
			t.Fatalf("byte %d is %d", i, b)
		}
		s.Data[i] = byte(i % 251)
	}
	Populate(s.Data)
	for i, b := range s.Data {
		if b != byte(i%251) {
			t.Fatalf("byte %d is %d, want %d", i, b, i%251)
		}
	}
	small, err := a.Alloc(100, false)
	if err != nil {
		t.Fatal(err)
	}
	Populate(small.Data) // no whole page: nothing happens
}

// TestPassingSpansUseAllChunks: two large spans in turn, as those of a copy of a wide block, which do not fit into one chunk, take two chunks,
// however often they are made.
func TestPassingSpansUseAllChunks(t *testing.T) {
	var a Arena
	defer a.Close()
	for range 100 {
		first, err := a.Alloc(40<<20, true)
		if err != nil {
			t.Fatal(err)
		}
		second, err := a.Alloc(40<<20, true)
		if err != nil {
			t.Fatal(err)
		}
		a.Free(first)
		a.Free(second)
	}
	if len(a.chunks) != 2 {
		t.Errorf("got %d chunks, want 2", len(a.chunks))
	}
}

// TestHeadsLeaveNoHoles plays the life of an increasing stream: a passing span, replaced by a smaller lasting one and
// the next passing one. Lasting spans must end up dense.
func TestHeadsLeaveNoHoles(t *testing.T) {
	var a Arena
	defer a.Close()
	head, _ := a.Alloc(900<<10, true)
	const blocks = 300
	for range blocks {
		sealed, err := a.Alloc(560<<10, false)
		if err != nil {
			t.Fatal(err)
		}
		sealed.Data[0] = 1
		next, _ := a.Alloc(900<<10, true)
		a.Free(head)
		head = next
	}
	space := 0
	for _, c := range a.chunks {
		space += len(c.mem)
	}
	if want := blocks*560<<10 + 2*chunkSize; space > want {
		t.Errorf("got %d bytes of chunks, want at most %d", space, want)
	}
}
