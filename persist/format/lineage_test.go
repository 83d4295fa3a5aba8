package format

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/counterd/counterd/internal/testkit/damagetest"
)

func TestLineageCommon(t *testing.T) {
	a := Lineage{Terms: []Term{{ReplID{1}, 1, 0}}}
	b := a.Begin(100) // promoted at 100
	for _, c := range []struct {
		l, o       *Lineage
		lEnd, oEnd uint64
		want       uint64
		ok         bool
	}{
		{&a, &a, 50, 70, 50, true},    // the primary lost its tail
		{&a, &a, 70, 50, 50, true},    // the replica is behind
		{&b, &a, 180, 150, 100, true}, // the old primary went on alone
		{&b, &a, 180, 80, 80, true},
		{&a, &b, 150, 180, 100, true},
		{&b, &b, 180, 150, 150, true},
		{&a, &Lineage{Terms: []Term{{ReplID{9}, 1, 0}}}, 1, 1, 0, false},
		{&a, &Lineage{}, 1, 0, 0, false},
	} {
		if got, ok := c.l.Common(c.lEnd, c.o, c.oEnd); got != c.want || ok != c.ok {
			t.Errorf("%v to %d and %v to %d agree up to %d %t, want %d %t", c.l.Terms, c.lEnd, c.o.Terms, c.oEnd, got, ok, c.want, c.ok)
		}
	}
	if cut := b.Cut(100); len(cut.Terms) != 1 {
		t.Errorf("cut at a term's start: %v", cut.Terms)
	}
	for range 2 * maxTerms {
		b = b.Begin(200 + uint64(len(b.Terms)))
	}
	if len(b.Terms) > maxTerms || len(b.AppendText(nil)) > MaxLineageText {
		t.Errorf("%d terms of %d bytes", len(b.Terms), len(b.AppendText(nil)))
	}
}

// TestLineageAhead: a replica knows terms of its primary that begin behind the end of its own log. They make no byte of it
// one that it has, and a log that is merely the beginning of another one is told from one that differs.
func TestLineageAhead(t *testing.T) {
	t1 := Lineage{Terms: []Term{{ReplID{1}, 1, 0}}}
	t2 := Lineage{Terms: append(slices.Clone(t1.Terms), Term{ReplID{2}, 2, 100})}
	t3 := Lineage{Terms: append(slices.Clone(t2.Terms), Term{ReplID{3}, 3, 110})}
	fork := Lineage{Terms: append(slices.Clone(t1.Terms), Term{ReplID{4}, 2, 80})}
	for _, c := range []struct {
		name         string
		mine, theirs *Lineage
		end, at      uint64 // of mine, of theirs
		common       uint64
		begins       bool
	}{
		{"the same term", &t1, &t1, 80, 120, 80, true},
		{"it has as much", &t1, &t1, 80, 80, 80, false},
		{"it has more", &t1, &t1, 120, 80, 80, false},
		{"it knows of a later term, they have the one before", &t3, &t2, 80, 105, 80, true},
		{"it knows of two later terms, they of none", &t3, &t1, 80, 120, 80, true},
		{"they have the later terms", &t1, &t3, 80, 120, 80, true},
		{"it ends where its next term begins, they went on in the one before", &t2, &t1, 100, 120, 100, false},
		{"it ends where the term begins that both have", &t2, &t2, 100, 120, 100, true},
		{"it leads since then, and they went on", &fork, &t1, 80, 120, 80, false},
		{"they know of a term that they have nothing of", &t2, &t3, 120, 105, 105, false},
		{"they began the next term before its end", &t2, &t3, 130, 140, 110, false},
		{"strangers", &t1, &Lineage{Terms: []Term{{ReplID{9}, 1, 0}}}, 80, 120, 0, false},
	} {
		if at, _ := c.mine.Common(c.end, c.theirs, c.at); at != c.common {
			t.Errorf("%s: the logs agree up to %d, want %d", c.name, at, c.common)
		}
		if got := c.mine.Begins(c.end, c.theirs, c.at); got != c.begins {
			t.Errorf("%s: got begins %t, want %t", c.name, got, c.begins)
		}
	}
}

// TestAdmits: a frame is admitted where the history has its term, and nowhere else.
func TestAdmits(t *testing.T) {
	l := Lineage{Terms: []Term{{ReplID{1}, 3, 50}, {ReplID{2}, 5, 100}, {ReplID{3}, 6, 200}}}
	for _, c := range []struct {
		at    uint64
		epoch uint32
		want  bool
	}{
		{150, 5, true}, {100, 5, true}, {199, 5, true}, {200, 6, true}, {1000, 6, true}, {60, 3, true},
		{150, 6, false}, {150, 4, false}, {150, 3, false}, {200, 7, false}, {1 << 40, 7, false}, {60, 5, false},
		{60, 2, true},  // the oldest term that is kept stands for those before it
		{20, 2, true},  // as before it
		{20, 3, false}, // a term begins where it begins
		{100, 3, true}, // part of a frame that a restore kept
		{101, 3, false},
	} {
		err := l.Admits(c.at, c.epoch)
		if errors.Is(err, ErrTerm) == c.want || err == nil != c.want {
			t.Errorf("a frame of epoch %d at %d: %v", c.epoch, c.at, err)
		}
	}
	if err := (&Lineage{}).Admits(0, 1); !errors.Is(err, ErrTerm) {
		t.Errorf("a history without terms: %v", err)
	}
}

// TestLineageCursors: only a log that may have cursors has a text of version 2, which older programs refuse, and all that follows it
// has one too.
func TestLineageCursors(t *testing.T) {
	l := Lineage{Terms: []Term{{ReplID{1}, 1, 0}}}
	golden(t, "HISTORY-v1", l.AppendText(nil))
	l.Cursors = true
	text := golden(t, "HISTORY-v2", l.AppendText(nil))
	got, err := DecodeLineage("x", text)
	if err != nil || !got.Cursors || len(got.Terms) != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	next, cut := l.Begin(10), l.Cut(0)
	if !next.Cursors || !cut.Cursors {
		t.Error("the next history forgets that there may be cursors")
	}
	var newer *VersionError
	text = bytes.Replace(text[:bytes.Index(text, []byte("end "))], []byte("history 2"), []byte("history 4"), 1)
	if _, err := DecodeLineage("x", fmt.Appendf(text, "%s%08x\n", manifestEnd, Checksum(text))); !errors.As(err, &newer) {
		t.Errorf("of version 4: %v", err)
	}
}

// TestLineageNeedsSnapshot: only a log that needs a snapshot has a text of version 3, with or without cursors, and so has all that follows it.
func TestLineageNeedsSnapshot(t *testing.T) {
	l := Lineage{Terms: []Term{{ReplID{1}, 1, 0}}, NeedsSnapshot: true}
	for _, cursors := range []bool{false, true} {
		l.Cursors = cursors
		if got, err := DecodeLineage("x", l.AppendText(nil)); err != nil || !got.NeedsSnapshot || got.Cursors != cursors || len(got.Terms) != 1 {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	golden(t, "HISTORY-v3", l.AppendText(nil))
	next, cut := l.Begin(10), l.Cut(0)
	if !next.NeedsSnapshot || !cut.NeedsSnapshot {
		t.Error("the next history forgets that the log needs a snapshot")
	}
}

// TestLineageDamage: any damage of the file HISTORY is found.
func TestLineageDamage(t *testing.T) {
	l := Lineage{Replica: true, Terms: []Term{{ReplID{1}, 1, 0}, {ReplID{2}, 4, 77}}, Installing: InstallName, Cutting: true, CuttingAt: 77, CuttingChain: 5, NeedsSnapshot: true}
	damagetest.AllFound(t, l.AppendText(nil), isDamage, func(b []byte) error {
		_, err := DecodeLineage("HISTORY", b)
		return err
	})
}

func FuzzLineage(f *testing.F) {
	l := Lineage{Replica: true, Terms: []Term{{ReplID{1}, 1, 0}, {ReplID{2}, 4, 77}}}
	f.Add(l.AppendText(nil))
	l.Installing = InstallClear
	f.Add(l.AppendText(nil))
	l.Installing = InstallName
	l.Cutting, l.CuttingAt, l.CuttingChain = true, 77, 5
	f.Add(l.AppendText(nil))
	l.Cursors = true
	f.Add(l.AppendText(nil))
	l.NeedsSnapshot = true
	f.Add(l.AppendText(nil))
	f.Add([]byte("counterd history 4\nend crc32c 00000000\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := DecodeLineage("x", text)
		if told, terr := ParseLineage("x", text); terr == nil && (err != nil || told.Cutting || told.Installing != InstallNone) {
			t.Errorf("%q is taken from another node: %+v", text, told)
		}
		if err == nil && !bytes.Equal(l.AppendText(nil), text) {
			t.Errorf("%q reads as %+v", text, l)
		}
	})
}
