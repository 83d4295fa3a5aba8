package feedjoin

import (
	"maps"
	"strings"
	"testing"

	"github.com/counterd/counterd/counter"
)

// TestPosition: positions are read as they were written, and offsets as servers mean them.
func TestPosition(t *testing.T) {
	if begin := (counter.FeedPosition{}).String(); begin != Begin {
		t.Errorf("a log begins at %s, this package says %s", begin, Begin)
	}
	want, sum := Position{}, uint64(0)
	for _, id := range []uint64{7, 1, 12} {
		p := counter.FeedPosition{Frame: id * 1000, Into: uint32(id), Epoch: 3}
		if offset, ok := Offset(p.String()); !ok || offset != p.Offset() {
			t.Errorf("%s is at offset %d, %v, want %d", p, offset, ok, p.Offset())
		}
		want[id] = p.String()
		sum += p.Offset()
	}
	text := want.String()
	got, err := ParsePosition(text)
	if err != nil || !maps.Equal(got, want) || !IsCluster(text) {
		t.Errorf("%s: got %v, %v", text, got, err)
	}
	if n, ok := got.Sum(); !ok || n != sum {
		t.Errorf("%s: the sum is %d, %v, want %d", text, n, ok, sum)
	}
	for id, at := range want {
		if head, tail := want.around(id); head+at+tail != text {
			t.Errorf("around %d: got %q and %q of %s", id, head, tail, text)
		}
	}
	if got, err := ParsePosition("1-a"); err != nil || !maps.Equal(got, Position{0: "1-a"}) || got.String() != "1-a" || IsCluster("1-a") {
		t.Errorf("of one log: got %v, %v", got, err)
	}
	for _, text := range []string{"c1", "c1,", "c1,1", "c1,1=", "c1,x=" + Begin, "c1,0=" + Begin, "c1,1=" + Begin + ",1=" + Begin, "c2,1=" + Begin, "c1,1=1-a",
		"c1" + strings.Repeat(",1="+Begin, MaxShards+1)} {
		if p, err := ParsePosition(text); err == nil && text != "c2,1="+Begin {
			t.Errorf("%.60q: got %v", text, p)
		}
	}
	for _, text := range []string{Now, Oldest, "", "1-a", "2-0000000000000000-0-0-510b"} {
		if _, ok := Offset(text); ok {
			t.Errorf("%q has an offset", text)
		}
	}
}
