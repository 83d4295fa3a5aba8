package repl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"testing"

	"github.com/counterd/counterd/counter/datadir"
	"github.com/counterd/counterd/persist/archive"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/past"
	"github.com/counterd/counterd/persist/vfs"
)

// laterTerms is a primary whose log has two terms behind its newest snapshot.
func laterTerms(t *testing.T) *testHost {
	t.Helper()
	a := &testHost{t: t, sim: vfs.NewSim()}
	s := a.open()
	if err := s.AlterScript("add counter w\nadd column w n hint=8 max=30 suffix=n"); err != nil {
		t.Fatal(err)
	}
	for term := range 3 {
		if term > 0 {
			if err := s.Replication().Yield(); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Replication().Lead(); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 10 {
			if err := s.Set(fmt.Sprintf("%d.n", 20*term+i), 7); err != nil {
				t.Fatal(err)
			}
			a.commit()
		}
		if term == 0 {
			if err := s.Snapshot(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return a
}

// goesOn is what a node says to one that asks for the log behind its own: an error, or the stream.
func (h *testHost) goesOn(t *testing.T, other *testHost) (said []byte, err error) {
	t.Helper()
	var ps Peers
	p := ps.NewPeer(&scripted{})
	defer p.Close()
	past, at := other.Store().Replication().Lineage(), other.Store().Replication().Position()
	if err := p.Configure("history", past.AppendText(nil)); err != nil {
		t.Fatal(err)
	}
	reply, stream, err := p.Sync(h.Store(), past.Current().ReplID.String(), strconv.FormatUint(at, 10))
	if err != nil {
		return fmt.Appendf(nil, "-%v\r\n", err), err
	}
	if !stream {
		return nil, fmt.Errorf("got %.60q, want the log from %d", reply, at)
	}
	return append(reply, h.stream(t, at)...), nil
}

// TestCopyKnowsLaterTerms takes a full copy of a snapshot behind which the primary's log has two more terms, cut off at
// any byte, with and without a restart there: in the end the history is the primary's, and so nobody takes anything back
// when this node leads.
func TestCopyKnowsLaterTerms(t *testing.T) {
	a := laterTerms(t)
	want, end := a.Store().Replication().Lineage(), a.Store().Replication().Position()
	said := a.copied(t)
	for n := len(said); n > 0; n -= 1 + 4*len(said)/places() {
		for _, restarts := range []bool{false, true} {
			c := &testHost{t: t, sim: vfs.NewSim()}
			c.open()
			err := newTestLink(t, c, true).hears(append([]byte(hello), said[:n]...))
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("cut at byte %d: %v", n, err)
			}
			if restarts {
				c.again()
			}
			if n < len(said) || restarts {
				more, full := a.copied(t), c.Store().Replication().Position() == 0
				if !full {
					if more, err = a.goesOn(t, c); err != nil {
						t.Fatalf("cut at byte %d: %v", n, err)
					}
				}
				if err := newTestLink(t, c, full).hears(append([]byte(hello), more...)); !errors.Is(err, io.EOF) {
					t.Fatalf("cut at byte %d: %v", n, err)
				}
			}
			log := c.Store().Replication()
			if past := log.Lineage(); log.Position() != end || !slices.Equal(past.Terms, want.Terms) {
				t.Fatalf("cut at byte %d: the log ends at %d with the history %v, want %d, %v", n, log.Position(), past.Terms, end, want.Terms)
			}
			if _, err := log.Lead(); err != nil {
				t.Fatal(err)
			}
			if err := a.Store().Replication().Yield(); err != nil {
				t.Fatal(err)
			}
			if _, err := c.goesOn(t, a); err != nil {
				t.Fatalf("cut at byte %d: the node that was copied is told %v", n, err)
			}
		}
	}
}

// TestStaleHistory: frames of a term that the primary's answer did not speak of, as it was promoted meanwhile, are not
// taken. The store stays open, and the next connection brings the history.
func TestStaleHistory(t *testing.T) {
	a := laterTerms(t)
	whole := a.Store().Replication().Lineage()
	second := whole.Terms[1].Start
	c := &testHost{t: t, sim: vfs.NewSim()}
	c.open()
	old := whole.Cut(second)
	text, id := old.AppendText(nil), old.Current().ReplID
	said := append(fmt.Appendf([]byte(hello), "+CONTINUE %s 0 %d\r\n%s\r\n", id, len(text), text), a.stream(t, 0)...)
	l := newTestLink(t, c, false)
	if err := l.hears(said); !errors.Is(err, format.ErrTerm) {
		t.Fatalf("got %v, want ErrTerm", err)
	}
	if at := c.Store().Replication().Position(); at != second || c.opens != 1 {
		t.Fatalf("the log ends at %d, want %d; the store was opened %d times", at, second, c.opens)
	}
	more, err := a.goesOn(t, c)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.hears(append([]byte(hello), more...)); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if x, y := digest(t, a.Store()), digest(t, c.Store()); x != y {
		t.Fatalf("%s and %s", x, y)
	}
	// Nor by a full copy.
	copied := a.copied(t)
	own := whole.AppendText(nil)
	for _, r := range [][2][]byte{{own, text}, {fmt.Appendf(nil, " %d\r\n", len(own)), fmt.Appendf(nil, " %d\r\n", len(text))}, {[]byte(whole.Current().ReplID.String()), []byte(id.String())}} {
		copied = bytes.ReplaceAll(copied, r[0], r[1])
	}
	d := &testHost{t: t, sim: vfs.NewSim()}
	d.open()
	if err := newTestLink(t, d, true).hears(append([]byte(hello), copied...)); !errors.Is(err, format.ErrTerm) {
		t.Fatalf("a full copy: got %v, want ErrTerm", err)
	}
	if at := d.Store().Replication().Position(); at > second {
		t.Fatalf("a full copy: the log ends at %d, want %d at most", at, second)
	}
}

// chain is a primary, a replica that is behind it, and one that has everything by a full copy: what it has before its
// snapshot is in that alone.
func chain(t *testing.T) (a, behind, ahead *testHost) {
	t.Helper()
	a = laterTerms(t)
	all := frames(t, a.Store(), 0)
	behind = &testHost{t: t, sim: vfs.NewSim()}
	if _, err := behind.open().Replication().Follow(a.Store().Replication().Lineage()); err != nil {
		t.Fatal(err)
	}
	for _, f := range all[:15] {
		if _, err := behind.Store().Replication().Replicate(f); err != nil {
			t.Fatal(err)
		}
	}
	behind.commit()
	if err := errors.Join(behind.Store().Snapshot(), a.Store().Snapshot()); err != nil {
		t.Fatal(err)
	}
	if err := a.Store().Set("1.n", 8); err != nil {
		t.Fatal(err)
	}
	a.commit()
	ahead = a.copy(t)
	if first := ahead.Store().Replication().First(); first <= behind.Store().Replication().Position() {
		t.Fatalf("the log begins at %d, want it behind what the other has", first)
	}
	return a, behind, ahead
}

// copy is another node, by a full copy.
func (h *testHost) copy(t *testing.T) *testHost {
	t.Helper()
	c := &testHost{t: t, sim: vfs.NewSim()}
	c.open()
	if err := newTestLink(t, c, true).hears(append([]byte(hello), h.copied(t)...)); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	c.opens = 1
	return c
}

// TestAheadOfReplica: a node that is told to follow a replica which has the beginning of its log is told to come again,
// and keeps its data. It goes on when the other has caught up. Of one that leads by now, and so will never have it, it
// takes what agrees, and what it had is saved.
func TestAheadOfReplica(t *testing.T) {
	a, b, c := chain(t)
	at := c.Store().Replication().Position()
	had := digest(t, c.Store())
	said, err := b.goesOn(t, c)
	var notYet *notYetError
	if !errors.As(err, &notYet) || notYet.end != b.Store().Replication().Written() {
		t.Fatalf("got %v, want NOTYET", err)
	}
	l := newTestLink(t, c, false)
	var waits *NotYetError
	if err := l.hears(append([]byte(hello), said...)); !errors.As(err, &waits) || waits.Own != at {
		t.Fatalf("got %v, want that it waits", err)
	}
	kept := func(when string) {
		t.Helper()
		tails, archives, err := past.ListDiverged(c.sim, "data")
		if times, _ := l.node.Cuts(); err != nil || times != 0 || len(tails)+len(archives) != 0 || digest(t, c.Store()) != had || c.Store().Replication().Position() < at {
			t.Fatalf("%s: cut %d times, saved %v, %v, the log ends at %d, want %d: %v", when, times, tails, archives, c.Store().Replication().Position(), at, err)
		}
	}
	kept("told to wait")
	// A full copy of it, cut off anywhere: it takes nothing back either.
	copied := b.copied(t)
	for n := 0; n < len(copied); n += 1 + 4*len(copied)/places() {
		if err := l.again().hears(append([]byte(hello), copied[:n]...)); err == nil {
			t.Fatalf("cut at byte %d: no error", n)
		}
		kept(fmt.Sprintf("a copy cut at byte %d", n))
	}
	if err := l.again().hears(append([]byte(hello), copied...)); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	kept("a copy of a node that is behind")
	if c.opens != 1 {
		t.Fatalf("the store was opened %d times", c.opens)
	}
	// As that one catches up while it is copied.
	more := a.stream(t, b.Store().Replication().Position())
	if err := l.again().hears(append(append([]byte(hello), copied...), more...)); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	kept("a copy of a node that caught up")
	if c.opens != 2 {
		t.Fatalf("the store was opened %d times, want 2", c.opens)
	}
	// It leads: the log that this node has is none that will come again. The one that it has goes less far back than that.
	c = a.copy(t)
	l = newTestLink(t, c, false)
	if _, err := b.Store().Replication().Lead(); err != nil {
		t.Fatal(err)
	}
	said, err = b.goesOn(t, c)
	var diverged *divergedError
	if !errors.As(err, &diverged) || diverged.offset != b.Store().Replication().Written() {
		t.Fatalf("of one that leads: %v, want DIVERGED", err)
	}
	if err := l.hears(append([]byte(hello), said...)); err != nil {
		t.Fatal(err)
	}
	if times, _ := l.node.Cuts(); times != 0 || !l.full {
		t.Fatalf("cut %d times; asks for a full copy: %t", times, l.full)
	}
	if err := l.again().hears(append([]byte(hello), b.copied(t)...)); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	times, tail := l.node.Cuts()
	if times != 1 || tail.To != at || tail.File == "" {
		t.Fatalf("cut %d times, saved %+v, want all up to %d", times, tail, at)
	}
	archive, err := archive.Open(c.sim, tail.File)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	restored := &testHost{t: t, sim: vfs.NewSim()}
	if _, err := datadir.Restore(archive, archive.Path(), restored.sim, "data", datadir.Target{Offset: archive.End()}, datadir.RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	restored.open()
	if got := digest(t, restored.Store()); got != had {
		t.Fatalf("%s was saved of %s", got, had)
	}
	if x, y := digest(t, b.Store()), digest(t, c.Store()); x != y {
		t.Fatalf("%s and %s", x, y)
	}
}

// again is another link of the same node.
func (l *Link) again() *Link {
	return &Link{node: l.node, ctx: l.ctx, up: make(chan struct{}), downSince: l.downSince}
}
