package schema

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/testkit/seed"
)

// checkPosts compares the mids that ParsePosts reads with those of ParseMid, and the groups with those of the ids as clients hash them.
func checkPosts(t *testing.T, words [][]byte) {
	t.Helper()
	const untouched = 1<<64 - 1
	mids, groups := make([]uint64, len(words)+1), make([]uint8, len(words)+1)
	for i := range mids {
		mids[i] = untouched
	}
	n := ParsePosts(words, mids, groups)
	for i, w := range words {
		mid, ok := ParseMid(w)
		if i == n && !ok {
			break
		}
		if i >= n || !ok {
			t.Fatalf("got %d mids of %q, of which number %d is one: %v", n, words, i, ok)
		}
		if group := slot.GroupOf(slot.OfKey(fmt.Append(nil, mid))); mids[i] != mid || groups[i] != group {
			t.Fatalf("%q: got %d of group %d, want %d of group %d", w, mids[i], groups[i], mid, group)
		}
	}
	for _, mid := range mids[n:] {
		if mid != untouched {
			t.Fatalf("behind %d mids of %q, there is %d", n, words, mid)
		}
	}
}

// someWord is an id of any length, or nearly one.
func someWord(rng *rand.Rand) []byte {
	w := fmt.Append(nil, rng.Uint64()>>rng.IntN(64))
	switch rng.IntN(12) {
	case 0:
		w = append(bytes.Repeat([]byte("0"), 1+rng.IntN(20)), w...)
	case 1:
		w = append(append([]byte("{"), w...), '}')
	case 2:
		w[rng.IntN(len(w))] = byte(rng.Uint32())
	case 3:
		w = w[:rng.IntN(len(w)+1)]
	}
	return w
}

func TestParsePosts(t *testing.T) {
	seed := seed.Of(t)
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	checkPosts(t, nil)
	for tens := uint64(1); tens <= 1e18; tens *= 10 {
		checkPosts(t, [][]byte{fmt.Append(nil, tens-1), fmt.Append(nil, tens), fmt.Append(nil, 9*tens+tens/3)})
	}
	for at := range 16 { // each byte in each place
		for b := range 256 {
			w := []byte("1234567890123456")
			w[at] = byte(b)
			for n := 8; n <= 16; n++ {
				checkPosts(t, [][]byte{[]byte("19089006004"), w[:n], []byte("42"), w})
			}
		}
	}
	for range 20_000 {
		words := make([][]byte, rng.IntN(8))
		for i := range words {
			words[i] = someWord(rng)
		}
		checkPosts(t, words)
	}
}

func FuzzParsePosts(f *testing.F) {
	for _, text := range []string{"19089006004 4242424242424242 7", "0019089006004 {12345678} 9223372036854775807", "12345678 1234567x COLUMNS", ""} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) { checkPosts(t, bytes.Split(text, []byte(" "))) })
}
