package durable

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/counterd/counterd/coldstore"
)

// TestScrubHurried: an operator is not told to wait for a round of the background, which takes hours. That round goes on at the
// rate alone, and another one is made behind it.
func TestScrubHurried(t *testing.T) {
	c := NewScrubber(nil, nil)
	c.Budget.CPU.Store(1)
	c.running.Store(true)
	p := c.pacer()
	p.bytes = scrubTurn
	if d := p.due(); d < time.Hour {
		t.Errorf("a turn of the background is paid for by %v", d)
	}
	if err := c.Begin(); err != nil {
		t.Fatal(err)
	}
	if d := p.due(); d > time.Second {
		t.Errorf("a turn that is waited for is paid for by %v", d)
	}
	if err := c.Begin(); !errors.Is(err, ErrScrubbing) {
		t.Errorf("%v, want ErrScrubbing", err)
	}
	if len(c.now) != 1 || !c.Totals().Under {
		t.Errorf("%d rounds are asked for, %+v", len(c.now), c.Totals())
	}
}

// TestScrubBeginsAnywhere: a process that ends before a round has read all files comes to each of them in one of its lives. The next
// round of the same process begins at the first file.
func TestScrubBeginsAnywhere(t *testing.T) {
	list := make([]ranged, 4)
	for i := range list {
		list[i].file = &coldstore.File{}
	}
	first := map[*coldstore.File]bool{}
	for range 1000 { // 1 in 10^124 runs leaves one out
		c := NewScrubber(nil, nil)
		turn := c.inTurn(list)
		first[turn[0].file] = true
		if len(turn) != len(list) || slices.ContainsFunc(list, func(r ranged) bool { return !slices.Contains(turn, r) }) {
			t.Fatalf("%d files, want all %d", len(turn), len(list))
		}
		if again := c.inTurn(list); !slices.Equal(again, list) {
			t.Fatal("the second round begins elsewhere")
		}
	}
	if len(first) != len(list) {
		t.Errorf("%d of %d files were read first", len(first), len(list))
	}
	if turn := NewScrubber(nil, nil).inTurn(nil); len(turn) != 0 {
		t.Errorf("%d files of none", len(turn))
	}
}

// TestKnows: a reader that meets damage which was found already does not have the log verified again.
func TestKnows(t *testing.T) {
	c := NewScrubber(nil, nil)
	c.broken = map[uint64]BadLog{100: {100, 200}}
	for at, want := range map[uint64]bool{99: false, 100: true, 199: true, 200: false} {
		if c.Knows(at) != want {
			t.Errorf("%d: %t, want %t", at, !want, want)
		}
	}
}
