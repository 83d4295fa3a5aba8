package argqueue

import (
	"bytes"
	"testing"

	"github.com/counterd/counterd/internal/testkit/seed"
)

// TestQueue: commands of all sizes come back as they were added, also from memory of earlier queues.
func TestQueue(t *testing.T) {
	rng := seed.Rand(t)
	sizes := []int{0, 1, 20, 127, 128, 300, 5_000, chunkSize / 2, chunkSize - 3, chunkSize, 3 * chunkSize}
	type added struct {
		name int
		args [][]byte
	}
	for round := range 40 {
		var q Queue
		var model []added
		bytesLeft := 1 << 20
		for range rng.IntN([]int{3, 100, 3000}[round%3]) {
			c := added{name: rng.IntN(300)}
			for range rng.IntN(5) {
				size := sizes[rng.IntN(5)]
				if rng.IntN(100) == 0 {
					size = sizes[rng.IntN(len(sizes))]
				}
				c.args = append(c.args, bytes.Repeat([]byte{byte(rng.Uint32())}, size))
				bytesLeft -= size
			}
			if rng.IntN(500) == 0 {
				c.args = make([][]byte, 70_000) // more than a chunk has bytes
			}
			if model = append(model, c); bytesLeft < 0 {
				break
			}
			own := make([][]byte, len(c.args))
			for i, a := range c.args {
				own[i] = bytes.Clone(a)
			}
			q.Add(c.name, own)
			for _, a := range own {
				clear(a) // they are the caller's
			}
		}
		if bytesLeft < 0 {
			model = model[:len(model)-1]
		}
		if q.Len() != len(model) {
			t.Fatalf("%d commands, want %d", q.Len(), len(model))
		}
		for range 2 {
			i := 0
			for name, args := range q.All() {
				want := model[i]
				same := name == want.name && len(args) == len(want.args)
				for j := range args {
					same = same && bytes.Equal(args[j], want.args[j])
				}
				if !same {
					t.Fatalf("round %d: command %d is %d with %d arguments, want %d with %d, or they differ", round, i, name, len(args), want.name, len(want.args))
				}
				if i++; i == len(model)/2 && round%5 == 0 {
					break
				}
			}
			if round%5 != 0 && i != len(model) {
				t.Fatalf("%d commands, want %d", i, len(model))
			}
		}
		if round%2 == 0 {
			if q.Free(); q.Len() != 0 {
				t.Fatal("an empty queue has commands")
			}
		}
	}
}

// TestAppendToArgument: an append to an argument does not reach into the next one.
func TestAppendToArgument(t *testing.T) {
	var q Queue
	q.Add(0, [][]byte{[]byte("ab"), []byte("cd")})
	for _, args := range q.All() {
		if _ = append(args[0], 'x', 'y', 'z'); string(args[1]) != "cd" {
			t.Errorf("got %q", args[1])
		}
	}
}
