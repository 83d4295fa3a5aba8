package resp

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/internal/testkit/seed"
)

// TestArenaKeepsApart writes many Replies of one arena at once and in turn, cuts and lengthens them: each holds the
// bytes written to it, and nothing else.
func TestArenaKeepsApart(t *testing.T) {
	racetest.Skip(t, "it starts no goroutine")
	seed := seed.Of(t)
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	a := NewArena(1 << 10)
	all := make([]Replies, 12)
	want := make([][]byte, len(all))
	var memory Region
	for step := range 200_000 {
		i := rng.IntN(len(all))
		r := &all[i]
		switch op := rng.IntN(20); op {
		case 0, 1, 2:
			a.Lend(r)
			want[i] = nil
		case 3:
			r.Drop()
			want[i] = nil
		case 4:
			if r.Own(); r.home != nil || a.open == r {
				t.Fatalf("step %d: Replies that own their memory, %d bytes, have a region", step, r.Len())
			}
		case 5:
			n := rng.IntN(r.Len() + 1)
			r.Cut(n)
			want[i] = want[i][:n:n]
		case 6:
			n := rng.IntN(r.Len() + 1)
			r.Sent(n)
			want[i] = want[i][n:]
		case 7:
			r.GiveMemory(&memory)
			want[i] = nil
		case 8:
			r.TakeMemory(&memory)
			want[i] = nil
		case 9: // as an error at the end of a round
			n := rng.IntN(r.Len() + 1)
			r.Cut(n)
			text := bytes.Repeat([]byte{byte('a' + i)}, rng.IntN(200))
			r.Error(string(text))
			want[i] = fmt.Appendf(want[i][:n:n], "-%s\r\n", text)
		default:
			text := bytes.Repeat([]byte{byte('A' + i)}, rng.IntN(30))
			r.Bulk(text)
			want[i] = fmt.Appendf(want[i], "$%d\r\n%s\r\n", len(text), text)
		}
		for k := range all {
			if !bytes.Equal(all[k].From(0), want[k]) {
				t.Fatalf("step %d: Replies %d are %q, want %q", step, k, all[k].From(0), want[k])
			}
		}
	}
	for i := range all {
		all[i].Drop()
	}
	if a.held != 0 || len(a.buf) != 0 || a.open != nil {
		t.Errorf("%d regions are held of an arena that nobody uses, %d bytes", a.held, len(a.buf))
	}
}

// TestFromDoesNotReach appends to the result of From: it must not overwrite the bytes after it.
func TestFromDoesNotReach(t *testing.T) {
	var r Replies
	r.Status("one")
	p := r.From(0)
	r.Status("two")
	_ = append(p, "xxxxxxxx"...)
	if got := string(r.From(0)); got != "+one\r\n+two\r\n" {
		t.Errorf("got %q", got)
	}
}

func BenchmarkArena(b *testing.B) {
	for _, depth := range []int{1, 64} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			b.ReportAllocs()
			a := NewArena(64 << 10)
			var r Replies
			for b.Loop() {
				a.Lend(&r)
				for range depth {
					r.Int(10406136)
				}
				r.Drop()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*depth), "ns/reply")
		})
	}
}
