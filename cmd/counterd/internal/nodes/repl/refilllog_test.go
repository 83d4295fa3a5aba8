package repl

import (
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// TestFramesHolding: a node gives the frame that holds a log offset, whichever byte of the frame the offset is of. Without that word the
// offset must be where a frame begins.
func TestFramesHolding(t *testing.T) {
	h := &testHost{t: t, sim: vfs.NewSim()}
	s := h.open()
	defer s.Close()
	_, err := s.Replication().Lead()
	if err := errors.Join(err, s.AlterScript("add counter w\nadd column w n hint=8 max=30 suffix=n")); err != nil {
		t.Fatal(err)
	}
	ends := []uint64{h.commit()}
	for i := range 2 {
		if err := s.Set(fmt.Sprintf("%d.n", i), 7); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, h.commit())
	}
	n := newTestNode(h)
	term := termOf(s)
	ask := func(at uint64, more ...string) ([]byte, error) {
		words := [][]byte{[]byte(term), []byte(strconv.FormatUint(at, 10)), []byte(strconv.FormatUint(ends[2], 10))}
		for _, w := range more {
			words = append(words, []byte(w))
		}
		return Frames(n, words)
	}
	for at := ends[0]; at < ends[2]; at++ {
		want := ends[0]
		if at >= ends[1] {
			want = ends[1]
		}
		raw, err := ask(at, wordHolding)
		if start, ok := format.FrameHolds(raw, at); err != nil || !ok || start != want {
			t.Fatalf("offset %d: a frame at %d, want %d: %v", at, start, want, err)
		}
	}
	if raw, err := ask(ends[1]); err != nil || len(raw) != int(ends[2]-ends[1]) {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
	for _, words := range [][]string{{"around"}, {wordHolding, "x"}} {
		if _, err := ask(ends[1], words...); !errors.Is(err, ErrProtocol) {
			t.Errorf("%q: %v", words, err)
		}
	}
}
