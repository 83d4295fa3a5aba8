package repl

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/testkit/damagetest"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/past"
	"github.com/counterd/counterd/persist/vfs"
)

// elect makes a the primary of an epoch and b its replica, with changes that are confirmed, and returns how many there
// are and where the log ends. b knows that they are confirmed.
func elect(t *testing.T, a, b *member, epoch uint64, changes int) (end uint64) {
	t.Helper()
	a.lead(epoch, b.id)
	b.follow(a, epoch)
	if a.host.Store().Schema().Counter("w") == nil {
		a.schema()
	}
	for range changes {
		if err := a.add(1); err != nil {
			t.Fatal(err)
		}
	}
	end = a.host.Store().Replication().Position()
	eventually(t, "the replica hears that it is confirmed", func() bool { return b.confirmed() >= end })
	return end
}

// confirmed is up to where the node knows that its log is confirmed.
func (m *member) confirmed() uint64 {
	m.node.confirmed.mu.Lock()
	defer m.node.confirmed.mu.Unlock()
	return m.node.confirmed.known.offset
}

// refuses waits until the node says that it does not follow, and checks that it has what it had.
func (m *member) refuses(want uint64) {
	m.t.Helper()
	eventually(m.t, "it refuses to be cut", func() bool { info, _ := m.node.Link(); return info.Lacks != 0 })
	if times, _ := m.node.Cuts(); times != 0 || m.get(1) != want || m.host.Store().Replication().Behind() {
		m.t.Fatalf("%s was cut %d times, has %d, want %d; behind %t", m.id, times, m.get(1), want, m.host.Store().Replication().Behind())
	}
	if err := m.node.Connected(); err == nil {
		m.t.Fatal("its link is up")
	}
}

// TestConfirmedIsKept: a primary comes with an older copy of its directory, or with an empty one, and leads. The replica
// keeps what was confirmed, through restarts, and gives it up when a person says so by FORCE-UNCLEAN: saved before, and
// behind until it has caught up.
func TestConfirmedIsKept(t *testing.T) {
	for _, empty := range []bool{false, true} {
		a, b := newMember(t, "a", counter.SyncAlways), newMember(t, "b", counter.SyncAlways)
		elect(t, a, b, 1, 3)
		older := a.sim.Kill()
		if empty {
			older = vfs.NewSim()
		}
		end := elect(t, a, b, 1, 4)
		a.kill()
		a.sim = older
		a.start()
		a.lead(2)
		if empty {
			a.schema()
		}
		if err := a.add(1); err != nil { // alone
			t.Fatal(err)
		}
		b.follow(a, 2)
		b.refuses(7)
		b.kill()
		b.start()
		b.follow(a, 2)
		b.refuses(7)
		b.node.Shard(0, 0) // nothing new
		b.follow(a, 3)
		a.lead(3)
		b.refuses(7)

		a.lead(4)
		b.node.Shard(0, 4)
		b.follow(a, 4)
		eventually(t, "it follows", func() bool { return b.node.Connected() == nil && b.get(1) == a.get(1) })
		if times, tail := b.node.Cuts(); times != 1 || tail.To != end || tail.File == "" {
			t.Fatalf("cut %d times, saved %+v, want up to %d", times, tail, end)
		}
		eventually(t, "it is behind no more", func() bool { return !b.host.Store().Replication().Behind() })
		b.kill()
		a.kill()
	}
}

// TestConfirmedEndIsGone: the newest frames of the log of a node in sync are zeros, and DURABLE is gone, so that the log looks whole. CONFIRMED tells that
// acknowledged changes are missing: the node counts as behind, so it does not lead before it has caught up, and tells another node so while it cannot
// open its data. A log that was cut because a person gave the changes up lacks nothing.
func TestConfirmedEndIsGone(t *testing.T) {
	a, b := newMember(t, "a", counter.SyncAlways), newMember(t, "b", counter.SyncAlways)
	from := elect(t, a, b, 1, 3)
	end := elect(t, a, b, 1, 4)
	b.kill()
	for name, c := range map[string]struct {
		gone  bool // the end is gone
		given bool // the changes were given up
		full  bool // the disk takes nothing
	}{"whole": {}, "gone": {gone: true}, "gone, a full disk": {gone: true, full: true}, "given up": {gone: true, given: true}} {
		h := electedHost(t, b.sim.Kill(), "boot "+strconv.Itoa(b.boot))
		if c.gone {
			segs, err := logfile.ListSegments(h.sim, "data")
			if err == nil {
				last := segs[len(segs)-1]
				err = errors.Join(h.sim.Damage(last.Path, func(b []byte) []byte { clear(b[last.Offset(from):]); return b }), logfile.DropClaim(h.sim, "data"))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		short, err := past.ReadLogEnd(h.sim, "data")
		if err != nil || c.gone != (short.Offset < end) {
			t.Fatalf("%s: the log ends at %d, and ended at %d; %v", name, short.Offset, end, err)
		}
		if c.given {
			l, err := logfile.ReadLineage(h.sim, "data")
			if err == nil {
				l.Add(format.Term{ReplID: format.NewReplID(), Epoch: 3, Start: short.Offset})
				err = logfile.WriteLineage(h.sim, "data", &l)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		closed := newTestNode(h)
		closed.settings = func() Settings { return Settings{BootID: "boot " + strconv.Itoa(b.boot)} }
		closed.healing.tellEnd("data", clusterSearch{})()
		if closed.healing.closed.behind != (c.gone && !c.given) {
			t.Errorf("%s: as long as it is closed, it says that it is behind: %t", name, closed.healing.closed.behind)
		}
		if c.full {
			h.sim.SetCapacity(1)
		}
		n := newTestNode(h)
		s, err := n.Open(t.Context(), "data", clusterSearch{}, func() (*counter.Store, error) { return h.open(), nil })
		if err != nil {
			t.Fatal(err)
		}
		if s.Replication().Behind() != (c.gone && !c.given) {
			t.Errorf("%s: behind: %t", name, s.Replication().Behind())
		}
		h.sim.SetCapacity(0)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestConfirmedTermIsGone: a node that lagged gets the end of one term and all of the next one in one segment of its log. The newest frames are zeros, from
// the earlier term on, and DURABLE is gone. The start forgets the later term, as the log has nothing of it, but the node counts as behind nevertheless: also if
// the process ended behind that, and it starts again. Where a later primary had less of the log, the changes were given up.
func TestConfirmedTermIsGone(t *testing.T) {
	a, b := newMember(t, "a", counter.SyncAlways), newMember(t, "b", counter.SyncAlways)
	elect(t, a, b, 1, 3)
	b.kill()
	a.node.Require(nil)
	var from uint64
	for range 2 {
		from = a.host.Store().Replication().Position()
		if err := a.add(1); err != nil {
			t.Fatal(err)
		}
	}
	b.start()
	elect(t, a, b, 2, 4)
	b.kill()
	h := electedHost(t, b.sim.Kill(), "boot "+strconv.Itoa(b.boot))
	segs, err := logfile.ListSegments(h.sim, "data")
	if err == nil {
		last := segs[len(segs)-1]
		err = errors.Join(h.sim.Damage(last.Path, func(b []byte) []byte { clear(b[last.Offset(from):]); return b }), logfile.DropClaim(h.sim, "data"))
	}
	if err != nil {
		t.Fatal(err)
	}
	given := electedHost(t, h.sim.Kill(), "boot "+strconv.Itoa(b.boot))
	l, err := logfile.ReadLineage(given.sim, "data")
	if err == nil {
		l.Terms[1] = format.Term{ReplID: format.NewReplID(), Epoch: 3, Start: from}
		err = logfile.WriteLineage(given.sim, "data", &l)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		host   *testHost
		twice  bool // a process has opened the directory before
		behind bool
	}{"gone": {host: h, behind: true}, "gone, and started twice": {host: electedHost(t, h.sim.Kill(), "boot "+strconv.Itoa(b.boot)), twice: true, behind: true}, "given up": {host: given}} {
		if c.twice {
			if err := c.host.open().Close(); err != nil {
				t.Fatal(err)
			}
		}
		s, err := newTestNode(c.host).Open(t.Context(), "data", clusterSearch{}, func() (*counter.Store, error) { return c.host.open(), nil })
		if err != nil {
			t.Fatal(err)
		}
		if past := s.Replication().Lineage(); s.Replication().Behind() != c.behind || s.Replication().Position() > from || len(past.Terms) == 2 && c.behind {
			t.Errorf("%s: behind %t, the log ends at %d, want %d, of %d terms", name, s.Replication().Behind(), s.Replication().Position(), from, len(past.Terms))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestConfirmedEnds: what was confirmed in another shard, or in another history of the node's own log, keeps nothing.
func TestConfirmedEnds(t *testing.T) {
	a, b := newMember(t, "a", counter.SyncAlways), newMember(t, "b", counter.SyncAlways)
	elect(t, a, b, 1, 3)
	past := b.host.Store().Replication().Lineage()
	c := &b.node.confirmed
	var lacking *ConfirmedError
	if err := c.allows(&past, 1); !errors.As(err, &lacking) || lacking.At != 1 || lacking.Epoch != 1 || lacking.Confirmed != b.confirmed() {
		t.Errorf("got %v", err)
	}
	if err := c.allows(&past, b.confirmed()); err != nil {
		t.Errorf("an unconfirmed tail: %v", err)
	}
	if err := c.allows(&format.Lineage{Terms: []format.Term{{ReplID: format.ReplID{9}, Epoch: 1}}}, 1); err != nil {
		t.Errorf("another history: %v", err)
	}
	c.of(0, 1)
	if err := c.allows(&past, 1); err == nil {
		t.Error("it was confirmed in the epoch that a person began: nothing is given up")
	}
	c.of(2, 0)
	if err := c.allows(&past, 1); err != nil {
		t.Errorf("another shard: %v", err)
	}
}

// TestUnconfirmedIsCut: an old primary's tail that nobody confirmed is cut as ever, and the node is behind, also where it
// is killed in the middle, until it has caught up.
func TestUnconfirmedIsCut(t *testing.T) {
	a, b, c := newMember(t, "a", counter.SyncAlways), newMember(t, "b", counter.SyncAlways), newMember(t, "c", counter.SyncAlways)
	end := elect(t, a, b, 1, 3)
	b.kill()
	_ = a.later(1)
	if err := a.host.Store().Replication().Sync(); err != nil {
		t.Fatal(err)
	}
	b.start()
	b.lead(2, "a")
	a.silent.Store(true)
	a.follow(c, 2) // which answers nothing that helps
	l := newTestLink(t, a.host, false)
	l.node, l.id, l.epoch = a.node, "b", 2
	said := append([]byte("+PONG\r\n+OK\r\n+OK\r\n+OK\r\n+LEADS 2\r\n+OK\r\n"), []byte("-DIVERGED 1\r\n")...)
	var lacking *ConfirmedError
	if err := l.hears(said); !errors.As(err, &lacking) {
		t.Fatalf("below what it confirmed itself: %v", err)
	}
	if a.host.Store().Replication().Behind() {
		t.Fatal("behind, and nothing was cut")
	}
	said, err := b.host.goesOn(t, a.host)
	var diverged *divergedError
	if !errors.As(err, &diverged) || diverged.offset != end {
		t.Fatalf("got %v, want DIVERGED %d", err, end)
	}
	if err := l.hears(append([]byte("+PONG\r\n+OK\r\n+OK\r\n+OK\r\n+LEADS 2\r\n+OK\r\n"), said...)); err != nil {
		t.Fatal(err)
	}
	if at := a.host.Store().Replication().Position(); at != end || !a.host.Store().Replication().Behind() {
		t.Fatalf("the log ends at %d, want %d; behind %t", at, end, a.host.Store().Replication().Behind())
	}
	a.kill()
	a.start()
	if !a.host.Store().Replication().Behind() {
		t.Fatal("a restart made it electable")
	}
	a.follow(b, 2)
	eventually(t, "it has caught up", func() bool { return !a.host.Store().Replication().Behind() })
}

// TestConfirmedIsNoted: what rose last is written down, though nothing rises behind it, and nothing is behind the end of
// the node.
func TestConfirmedIsNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewSim()
		if err := disk.MkdirAll("data"); err != nil {
			t.Fatal(err)
		}
		c := &confirmed{logger: slog.New(slog.DiscardHandler)}
		c.open(disk, "data")
		noted := func() uint64 {
			synctest.Wait()
			text, err := vfs.ReadFile(disk, "data/"+confirmedName, maxConfirmed)
			if err != nil && !isNotExist(err) {
				t.Fatal(err)
			}
			n, _ := parseConfirmed(text)
			return n.offset
		}
		c.raise(format.ReplID{1}, 1, 1)
		time.Sleep(time.Millisecond)
		if got := noted(); got != 1 {
			t.Errorf("%d was noted, want 1 at once", got)
		}
		for i := range uint64(9) {
			c.raise(format.ReplID{1}, 1, i+2)
		}
		time.Sleep(noteEvery)
		if got := noted(); got != 10 {
			t.Errorf("%d was noted, want 10", got)
		}
		c.raise(format.ReplID{1}, 1, 11)
		time.Sleep(noteEvery / 2)
		if got := noted(); got != 10 {
			t.Errorf("%d was noted at once", got)
		}
		time.Sleep(noteEvery)
		if got := noted(); got != 11 {
			t.Errorf("%d was noted, want 11", got)
		}
		c.raise(format.ReplID{1}, 1, 12)
		c.close()
		if got := noted(); got != 12 {
			t.Errorf("%d was noted at the end, want 12", got)
		}
		ops := disk.Ops()
		c.raise(format.ReplID{1}, 1, 13)
		time.Sleep(2 * noteEvery)
		if synctest.Wait(); disk.Ops() != ops {
			t.Error("something was written behind the end")
		}
	})
}

// TestConfirmedNote: the file is read as it was written, and nothing else is.
func TestConfirmedNote(t *testing.T) {
	want := confirmedNote{shard: 7, history: format.ReplID{1, 2}, epoch: 9, offset: 1 << 40}
	if got, ok := parseConfirmed(want.text()); !ok || got != want {
		t.Errorf("got %+v, %t", got, ok)
	}
	text := want.text()
	for i := range text {
		bad := append([]byte(nil), text...)
		bad[i] ^= 1
		if got, ok := parseConfirmed(bad); ok {
			t.Errorf("byte %d changed: got %+v", i, got)
		}
		if _, ok := parseConfirmed(text[:i]); ok {
			t.Errorf("cut at byte %d: it was taken", i)
		}
	}
}

// TestCaughtUpUnderLoad: a node that is behind has caught up when what its primary named first is durable here, although
// each later ping names an end that is not.
func TestCaughtUpUnderLoad(t *testing.T) {
	a, b := newMember(t, "a", counter.SyncAlways), newMember(t, "b", counter.SyncAlways)
	elect(t, a, b, 1, 3)
	log := a.host.Store().Replication() // which no link touches: a leads
	if err := log.MarkBehind(); err != nil {
		t.Fatal(err)
	}
	l := newTestLink(t, a.host, false)
	l.node, l.id = a.node, "b"
	s := &session{Link: l}
	first := log.Durable() + 1
	for i := range uint64(3) {
		if s.caughtUp(log, first+1000*i); !log.Behind() {
			t.Fatal("it lacks what its primary named first")
		}
	}
	_ = a.later(1)
	if err := log.Sync(); err != nil {
		t.Fatal(err)
	}
	if s.caughtUp(log, log.Durable()+1000); log.Behind() {
		t.Error("it has what its primary named first, and is behind for as long as changes come")
	}
}

// TestCutAtTerm: a node cuts frames that nobody confirmed for a primary whose term begins there. It is electable as soon as it follows, although
// nothing more becomes durable on it. A node that was behind before is not.
func TestCutAtTerm(t *testing.T) {
	for _, before := range []bool{false, true} {
		a, b, c := newMember(t, "a", counter.SyncNo), newMember(t, "b", counter.SyncNo), newMember(t, "c", counter.SyncNo)
		end := elect(t, a, b, 1, 3)
		b.kill()
		_ = a.later(1)
		if err := a.host.Store().Replication().Sync(); err != nil {
			t.Fatal(err)
		}
		b.start()
		b.lead(2)
		if before {
			if err := a.host.Store().Replication().MarkBehind(); err != nil {
				t.Fatal(err)
			}
		}
		said, err := b.host.goesOn(t, a.host)
		var diverged *divergedError
		if !errors.As(err, &diverged) || diverged.offset != end {
			t.Fatalf("got %v, want DIVERGED %d", err, end)
		}
		a.silent.Store(true)
		a.follow(c, 2) // which answers nothing that helps
		l := newTestLink(t, a.host, false)
		l.node, l.id, l.epoch = a.node, "b", 2
		hello := []byte("+PONG\r\n+OK\r\n+OK\r\n+OK\r\n+LEADS 2\r\n+OK\r\n")
		if err := l.hears(slices.Concat(hello, said)); err != nil || !a.host.Store().Replication().Behind() {
			t.Fatalf("%v, behind %t", err, a.host.Store().Replication().Behind())
		}
		if said, err = b.host.goesOn(t, a.host); err != nil {
			t.Fatal(err)
		}
		line, _, _ := bytes.Cut(said, []byte("\r\n"))
		answer, err := parseAnswer(string(line))
		if err != nil {
			t.Fatal(err)
		}
		_ = l.hears(slices.Concat(hello, said[:len(line)+2+answer.lineage+2])) // and the link ends without a message of the stream
		if got := a.host.Store().Replication().Behind(); got != before {
			t.Errorf("behind %t, want %t", got, before)
		}
	}
}

// TestCaughtUpWithoutSync: under appendfsync no nothing else makes the log of a node durable.
func TestCaughtUpWithoutSync(t *testing.T) {
	a, b := newMember(t, "a", counter.SyncNo), newMember(t, "b", counter.SyncNo)
	elect(t, a, b, 1, 3)
	b.stop(true, 1)
	b.start()
	if !b.host.Store().Replication().Behind() {
		t.Fatal("a node that lost power lacks nothing")
	}
	b.follow(a, 1)
	eventually(t, "it has caught up", func() bool { return !b.host.Store().Replication().Behind() })
}

// TestConfirmedDamage: any damage of the file CONFIRMED is found: it never says another offset, epoch or history.
func TestConfirmedDamage(t *testing.T) {
	damaged := errors.New("no note")
	n := confirmedNote{shard: 3, history: format.ReplID{1, 2, 19: 9}, epoch: 7, offset: 1 << 40}
	damagetest.AllFound(t, n.text(), func(err error) bool { return err == damaged }, func(b []byte) error {
		if _, ok := parseConfirmed(b); !ok {
			return damaged
		}
		return nil
	})
}
