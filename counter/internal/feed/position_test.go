package feed

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/counterd/counterd/internal/slot"
)

// TestPositionText: consumers store these texts, so later versions must read and write them unchanged.
func TestPositionText(t *testing.T) {
	term, before := TermID{0x5f, 0x3a, 0x9c, 0x0d, 0x12, 0xe4, 0xb7, 0x88}, TermID{1, 2, 3, 4, 5, 6, 7, 8}
	var some slot.Set
	some.Add(0)
	some.Add(255)
	for _, w := range []struct {
		p    Position
		text string
	}{
		{Position{}, "1-0000000000000000-0-0-"},
		{Position{Frame: 1048576, Term: term, Epoch: 12}, "1-5f3a9c0d12e4b788-12-1048576-"},
		{Position{Frame: 1048576, Into: 213, Term: term, Epoch: 12}, "1-5f3a9c0d12e4b788-12-1048576+213-"},
		{Position{Frame: 1048576, Into: 213, Term: term, Epoch: 12, Before: before, Since: 36}, "1-5f3a9c0d12e4b788-12-1048576+213-0102030405060708-36-"},
		{Position{Frame: 1<<63 - 1, Into: 1<<32 - 1, Term: term, Epoch: 1<<32 - 1, Before: before, Since: 1<<63 - 1, Coming: some},
			"1-5f3a9c0d12e4b788-4294967295-9223372036854775807+4294967295-0102030405060708-9223372036854775807-g0100000000000000" + strings.Repeat("0", 32) + "0000000000000080-"},
		{Position{Frame: 7, Term: term, Epoch: 1, Coming: some}, "1-5f3a9c0d12e4b788-1-7-g0100000000000000" + strings.Repeat("0", 32) + "0000000000000080-"},
	} {
		got := w.p.String()
		if len(got) != len(w.text)+4 || got[:len(w.text)] != w.text {
			t.Errorf("got %s, want %sXXXX", got, w.text)
		}
		if p, err := ParsePosition(got); p != w.p || err != nil {
			t.Errorf("%s: got %+v, %v, want %+v", got, p, err, w.p)
		}
		if len(got) > MaxPositionText {
			t.Errorf("%s is longer than %d bytes", got, MaxPositionText)
		}
	}
}

// TestWriter: a writer of many positions writes each as it would be alone.
func TestWriter(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var w Writer
	p := Position{}
	for range 1000 {
		switch rng.IntN(8) {
		case 0:
			p.Term[rng.IntN(8)]++
		case 1:
			p.Epoch++
		case 2:
			p.Before[rng.IntN(8)], p.Since = byte(rng.IntN(2)), rng.Uint64()>>1
		case 3:
			p.Coming = slot.Set{rng.Uint64() & 1}
		default:
			p.Frame, p.Into = rng.Uint64()>>1, rng.Uint32N(2)
		}
		if p.Before == (TermID{}) {
			p.Since = 0
		}
		text := string(w.Append(nil, &p))
		if text != p.String() {
			t.Fatalf("got %s, want %s", text, p)
		}
		if got, err := ParsePosition(text); got != p || err != nil {
			t.Fatalf("%s: got %+v, %v, want %+v", text, got, err, p)
		}
	}
}

// FuzzPosition: a text that is no position gives a *MalformedError, and a position has one text.
func FuzzPosition(f *testing.F) {
	good := Position{Frame: 1 << 40, Into: 49, Term: TermID{1}, Epoch: 3, Before: TermID{2}, Since: 99}.String()
	f.Add(good)
	for i := range good {
		f.Add(good[:i] + "0" + good[i+1:])
		f.Add(good[:i])
	}
	f.Add("1-----")
	f.Add("2-5f3a9c0d12e4b788-12-1048576-0000")
	f.Add(strings.Repeat("1-", 200))
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePosition(text)
		if err == nil && p.String() != text {
			t.Errorf("%q was read as %+v, which is %q", text, p, p)
		}
		var bad *MalformedError
		if err != nil && (!errors.As(err, &bad) || !errors.Is(err, ErrMalformed) || p != (Position{})) {
			t.Errorf("%q: got %+v, %v", text, p, err)
		}
	})
}
