package format

import "testing"

// TestLineageHolds: a log holds a place of an epoch's log if it went through that term as far.
func TestLineageHolds(t *testing.T) {
	l := Lineage{Terms: []Term{{NewReplID(), 3, 0}, {NewReplID(), 5, 100}}}
	for _, c := range []struct {
		epoch  uint32
		offset uint64
		want   bool
	}{
		{3, 50, true}, {3, 100, true}, {3, 101, false}, {5, 101, true}, {5, 300, true}, {5, 301, false},
		{4, 50, false}, {6, 50, false}, {2, 50, false}, // the log knows no such term
	} {
		if got := l.Holds(c.epoch, c.offset, 300); got != c.want {
			t.Errorf("offset %d of epoch %d: got %v, want %v", c.offset, c.epoch, got, c.want)
		}
	}
	late := Lineage{Terms: []Term{{NewReplID(), 3, 100}}}
	if late.Holds(2, 50, 300) {
		t.Error("it is believed to hold an epoch that it never had")
	}
	full := Lineage{}
	for i := range uint32(maxTerms + 3) { // the first three are forgotten
		full.Add(Term{NewReplID(), 1 + i, 10 * uint64(i)})
	}
	if !full.Holds(2, 30, 1e6) || full.Holds(2, 31, 1e6) {
		t.Error("a term that was forgotten ends where the first that is known begins")
	}
}
