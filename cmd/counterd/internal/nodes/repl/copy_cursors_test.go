// Scenario: a full copy brings the log from the oldest cursor of the feed on.

package repl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// withCursor is a primary with a cursor, behind which its log has schemas of before its snapshot, and two terms. needs is the offset of the cursor.
func withCursor(t *testing.T) (a *testHost, needs uint64) {
	t.Helper()
	a = &testHost{t: t, sim: vfs.NewSim(), options: func(o *counter.Options) { o.SegmentBytes, o.FeedRetainBytes = 1024, 1<<30 }}
	s := a.open()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		a.commit()
	}
	ok(s.AlterScript("add counter w\nadd column w n hint=8 max=30 suffix=n"))
	for i := range 50 { // log that no cursor needs
		ok(s.Set(fmt.Sprintf("%d.n", i), 7))
	}
	ok(s.Snapshot())
	ok(s.Replication().Sync())
	at, err := s.Feeds().Now(s.Replication().Written())
	ok(err)
	cursor, err := s.Feeds().Cursor("search", at)
	ok(errors.Join(err, s.Replication().AdmitCursors()))
	ok(a.set(cursor))
	for range 2 {
		ok(s.AlterScript("add column w late hint=8 max=20 suffix=late"))
		for i := range 50 {
			ok(s.Set(fmt.Sprintf("%d.late", i), 3))
		}
		ok(s.AlterScript("drop column w late"))
		ok(s.Replication().Yield())
		_, err = s.Replication().Lead()
		ok(err)
		ok(s.Snapshot())
	}
	ok(s.Set("1.n", 9))
	if first := s.Replication().First(); first == 0 || first > cursor.Offset || s.Replication().Manifests()[1].Replay < cursor.Offset {
		t.Fatalf("the log begins at %d, the cursor needs %d", first, cursor.Offset)
	}
	return a, cursor.Offset
}

// set sets a cursor.
func (h *testHost) set(cursor format.Cursor) error {
	b := h.Store().NewBatch()
	if err := b.Begin(); err != nil {
		return err
	}
	err := counter.CursorsOf(b).Set(cursor)
	b.End()
	return errors.Join(err, b.Commit())
}

// feedFrom returns the changes behind the cursor.
func feedFrom(t *testing.T, h *testHost) (changes []string, err error) {
	t.Helper()
	list := h.Store().Cursors()
	if len(list) != 1 {
		t.Fatalf("cursors: %v", list)
	}
	at, err := counter.ParseFeedPosition(list[0].Position)
	if err != nil {
		t.Fatal(err)
	}
	f, err := h.Store().Feeds().Open(at, counter.FeedFilter{})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for {
		c, err := f.Next(h.Store().Replication().Written(), 1<<20)
		if c == nil || err != nil {
			return changes, err
		}
		changes = append(changes, c.Position.String()) // which names the frame
	}
}

// TestCursorsCopied cuts the connection of a full copy at any byte. In the end the node has the log from the cursor on, each segment under
// the name of its term, and so has a replica that takes its copy of it.
func TestCursorsCopied(t *testing.T) {
	a, needs := withCursor(t)
	want, err := feedFrom(t, a)
	if err != nil || len(want) < 100 {
		t.Fatal(len(want), err)
	}
	said := a.copied(t)
	check := func(what string, c *testHost) {
		t.Helper()
		if got, err := feedFrom(t, c); err != nil || strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Fatalf("%s: the feed has %d changes, %v, want %d", what, len(got), err, len(want))
		}
		if got, want := digest(t, c.Store()), digest(t, a.Store()); got != want {
			t.Fatalf("%s: got %s, want %s", what, got, want)
		}
		past := c.Store().Replication().Lineage()
		var named format.ReplID
		terms := map[format.ReplID]bool{}
		_, err := logfile.Walk(c.disk(), "data", needs, 0, logfile.Visitor{
			Segment: func(h logfile.Header) error { named = h.History.ReplID; return nil },
			Frame: func(_ logfile.SegmentInfo, f *format.Frame) error {
				if terms[named] = true; named != past.At(f.Start).ReplID {
					t.Errorf("%s: a frame at %d is in a segment of %s", what, f.Start, named)
				}
				return nil
			},
		})
		if err != nil || len(terms) != 3 || c.Store().Replication().First() > needs {
			t.Fatalf("%s: segments of %d terms from %d on, %v", what, len(terms), c.Store().Replication().First(), err)
		}
	}
	for n := len(said); n > 0; n -= 1 + 4*len(said)/places() {
		c := &testHost{t: t, sim: vfs.NewSim(), options: a.options}
		c.open()
		if err := newTestLink(t, c, true).hears(append([]byte(hello), said[:n]...)); !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut at byte %d: %v", n, err)
		}
		if c.Store().Replication().Position() == 0 {
			if err := newTestLink(t, c, true).hears(append([]byte(hello), said...)); !errors.Is(err, io.EOF) {
				t.Fatalf("cut at byte %d: %v", n, err)
			}
			check(fmt.Sprint("cut at byte ", n), c)
		}
		if n == len(said) {
			c.again()
			check("after a restart", c)
			d := &testHost{t: t, sim: vfs.NewSim(), options: a.options}
			d.open()
			if err := newTestLink(t, d, true).hears(append([]byte(hello), c.copied(t)...)); !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			check("a replica of the replica", d)
		}
	}
}

// TestCursorMovedBehindSnapshot: the copied snapshot has an older place of the cursor than the log that is copied. The node makes snapshots of its
// own before it hears of the present place, and has the log from there on nevertheless.
func TestCursorMovedBehindSnapshot(t *testing.T) {
	a, _ := withCursor(t)
	all, err := feedFrom(t, a)
	if err != nil {
		t.Fatal(err)
	}
	at, err := counter.ParseFeedPosition(all[20])
	if err != nil {
		t.Fatal(err)
	}
	cursor, err := a.Store().Feeds().Cursor("search", at)
	if err := errors.Join(err, a.set(cursor)); err != nil {
		t.Fatal(err)
	}
	end := a.commit()
	c := &testHost{t: t, sim: vfs.NewSim(), options: a.options}
	c.open()
	l := newTestLink(t, c, true)
	said := a.copied(t)
	if err := l.hears(append([]byte(hello), said[:len(said)-10]...)); !errors.Is(err, io.ErrUnexpectedEOF) || c.Store().Replication().Position() == 0 {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Store().Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	if list := c.Store().Cursors(); len(list) != 1 || list[0].Lost || list[0].Offset < c.Store().Replication().First() {
		t.Fatalf("the cursor is %+v, and the log begins at %d", list, c.Store().Replication().First())
	}
	if got, err := feedFrom(t, c); err != nil || len(got) == 0 { // it may lead from here on
		t.Fatal(got, err)
	}
	more, err := a.goesOn(t, c)
	if err != nil {
		t.Fatal(err)
	}
	l.full = false
	if err := l.hears(append([]byte(hello), appendPing(more, end)...)); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if got, err := feedFrom(t, c); err != nil || strings.Join(got, "\n") != strings.Join(all[21:], "\n") {
		t.Errorf("the feed has %d changes, %v, want %d", len(got), err, len(all[21:]))
	}
}

// takes runs one connection, and tells whether the replica said that it takes log for cursors.
func (l *Link) takes(said []byte) (cursors bool, err error) {
	conn := &noting{scripted: scripted{in: bytes.NewReader(said)}}
	err = (&session{Link: l, conn: wire.NewConn(conn, linkBuffer)}).run()
	return strings.Contains(conn.wrote.String(), "\r\n"+capaCursors+"\r\n"), err
}

// noting is a scripted connection that keeps all bytes that are written to it.
type noting struct {
	scripted
	wrote bytes.Buffer
}

func (c *noting) Write(p []byte) (int, error) { return c.wrote.Write(p) }

// TestCursorsGivenUp: log for cursors that does not come, or finds no room, keeps no replica from its copy.
func TestCursorsGivenUp(t *testing.T) {
	a, needs := withCursor(t)
	whole := a.copied(t)
	a.noCursors = true
	short := a.copied(t)
	a.noCursors = false
	more := len(whole) - len(short)
	if more < 1000 {
		t.Fatalf("%d bytes of log for the cursor", more)
	}
	_, behindFiles := a.copiedAs(t, func(*format.BlockFile, []byte) {}, func() {})
	head, _ := splitCopy(t, whole)
	later := func(said []byte) []byte { return append([]byte(head), said[behindFiles:]...) } // the files are there
	broken := whole[:behindFiles+more/2]
	for _, test := range []struct {
		what  string
		said  []byte
		fault func(c *testHost) (clear func())
		err   error
		tries int
	}{
		{"the stream ends", broken, func(*testHost) func() { return func() {} }, nil, mostBreaks},
		{"no room for a segment", whole, func(c *testHost) func() {
			faulty := vfs.NewFaulty(c.sim)
			c.fs = faulty
			faulty.Inject(vfs.Rule{Ops: vfs.OpWrite, Glob: "*.aof" + format.StagedSuffix, Every: 1, Err: syscall.ENOSPC})
			return faulty.Clear
		}, syscall.ENOSPC, 1},
		{"less than twice the room", whole, func(c *testHost) func() {
			c.fs = cramped{c.sim}
			return func() {}
		}, syscall.ENOSPC, 1},
	} {
		c := &testHost{t: t, sim: vfs.NewSim(), options: a.options}
		clear := test.fault(c)
		c.open()
		l := newTestLink(t, c, true)
		for i := range test.tries {
			said := test.said
			if i > 0 {
				said = later(said)
			}
			takes, err := l.takes(append([]byte(hello), said...))
			if !takes || err == nil || test.err != nil && !errors.Is(err, test.err) || c.Store().Replication().Position() > 0 {
				t.Fatalf("%s, attempt %d: takes log for cursors %t, %v", test.what, i, takes, err)
			}
		}
		clear()
		takes, err := l.takes(append([]byte(hello), later(short)...))
		if takes || !errors.Is(err, io.EOF) {
			t.Fatalf("%s: takes log for cursors again %t, %v", test.what, takes, err)
		}
		if got, want := digest(t, c.Store()), digest(t, a.Store()); got != want || c.Store().Replication().First() <= needs {
			t.Errorf("%s: got %s, want %s, with the log from %d on", test.what, got, want, c.Store().Replication().First())
		}
		if _, err := feedFrom(t, c); !errors.As(err, new(*counter.FeedGoneError)) {
			t.Errorf("%s: the cursor: %v", test.what, err)
		}
		if l.breaks != 0 {
			t.Errorf("%s: %d breaks are remembered", test.what, l.breaks)
		}
	}
}

// cramped is a disk with little room left.
type cramped struct{ vfs.FS }

func (c cramped) Space(string) (vfs.Space, error) { return vfs.Space{Free: 1500, Total: 1 << 30}, nil }

// TestCursorsNotGiven: a primary that cannot read its log where the cursor needs it begins the stream at the snapshot, and a replica of an
// earlier version gets no more either.
func TestCursorsNotGiven(t *testing.T) {
	a, needs := withCursor(t)
	asks := func(change func(p *Peer)) (at uint64) {
		t.Helper()
		var ps Peers
		ps.logger = newTestNode(a).logger
		p := ps.NewPeer(&scripted{})
		defer p.Close()
		change(p)
		if _, _, err := p.Sync(a.Store(), "?", "-1"); err != nil {
			t.Fatal(err)
		}
		if _, stream, err := p.Sync(a.Store(), "?", fmt.Sprint(p.pin.Manifest.Replay)); err != nil || !stream {
			t.Fatal(err)
		}
		return p.reader.Pos()
	}
	takes := func(p *Peer) {
		if err := p.Configure("capa", []byte(capaCursors)); err != nil {
			t.Fatal(err)
		}
	}
	if at := asks(func(*Peer) {}); at <= needs {
		t.Errorf("without the capability the stream begins at %d", at)
	}
	if at := asks(takes); at != needs {
		t.Errorf("the stream begins at %d, want %d", at, needs)
	}
	segs, err := logfile.Segments(a.disk(), "data")
	if err != nil {
		t.Fatal(err)
	}
	i := len(segs) - 1
	for segs[i].Start > needs {
		i--
	}
	if err := a.sim.Damage(segs[i].Path, func(b []byte) []byte {
		b[int(needs-segs[i].Start)+format.SegmentHeaderLen+format.FrameHeaderLen] ^= 1
		return b
	}); err != nil {
		t.Fatal(err)
	}
	if at := asks(takes); at <= needs {
		t.Errorf("of damaged log the stream begins at %d", at)
	}
}
