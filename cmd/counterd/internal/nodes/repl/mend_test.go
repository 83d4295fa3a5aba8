package repl

import (
	"errors"
	"io"
	"testing"

	"github.com/counterd/counterd/persist/format"
)

// TestMendKeepsLog cuts a copy that a replica asked for off at any byte: whatever it has acknowledged of the log it
// has then too, and as the primary has it.
func TestMendKeepsLog(t *testing.T) {
	w := newWorld(t)
	said := w.copied(t)
	over := 0
	for n := 0; n <= len(said); n += 1 + len(said)/places() {
		h := &testHost{t: t, sim: w.replica.Kill()}
		h.open()
		had := h.Store().Replication().Position()
		l := newTestLink(t, h, true)
		l.mending = true
		if err := l.hears(append([]byte(hello), said[:n]...)); err == nil {
			t.Fatalf("cut at byte %d: no error", n)
		}
		if h.opens > 1 {
			over++
		}
		if at := w.sound(t, h); at < had {
			t.Fatalf("cut at byte %d: the log ends at %d, %d was acknowledged", n, at, had)
		}
	}
	if over == 0 {
		t.Error("no copy came through")
	}
}

// TestNoMend: of a primary that has lost posts, or has another past, no copy is taken for those that are lost here, and
// the link goes on from the log.
func TestNoMend(t *testing.T) {
	w := newWorld(t)
	for name, change := range map[string]func(m *format.Manifest, l *format.Lineage){
		"none": func(*format.Manifest, *format.Lineage) {},
		"a lost range": func(m *format.Manifest, _ *format.Lineage) {
			b := &m.Counters[0].Blocks[0]
			b.Tier, b.Name = format.TierCold, format.LostName(format.ImageName(1, 1))
		},
		"another past":   func(_ *format.Manifest, l *format.Lineage) { *l = (&format.Lineage{}).Begin(0) },
		"a shorter past": func(_ *format.Manifest, l *format.Lineage) { *l = l.Begin(w.behind - 1) },
	} {
		h := &testHost{t: t, sim: w.replica.Kill()}
		s := h.open()
		l := newTestLink(t, h, true)
		l.mending, l.mends = true, 1
		m := *w.primary.Store().Replication().Manifests()[0]
		m.Counters = append(m.Counters[:0:0], m.Counters...)
		m.Counters[0].Blocks = append(m.Counters[0].Blocks[:0:0], m.Counters[0].Blocks...)
		past := w.primary.Store().Replication().Lineage()
		change(&m, &past)
		err := (&session{Link: l}).mendable(s, &past, &m)
		if (err == nil) != (name == "none") {
			t.Errorf("%s: %v", name, err)
		}
		l.mended(err)
		if l.full || l.mending || (l.mends == maxMends) != errors.Is(err, errNoMend) {
			t.Errorf("%s: full %t, mending %t, %d mends", name, l.full, l.mending, l.mends)
		}
		if err := l.hears(append([]byte(hello), w.goesOn(t)...)); !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
		w.sound(t, h)
	}
}
