package repl

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/internal/monotonic"
	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/past"
	"github.com/counterd/counterd/persist/vfs"
)

// places is at how many bytes of what a primary says something happens.
func places() int {
	if testing.Short() {
		return 8
	}
	return 150
}

// TestSession lets a replica hear a primary in all three ways, whole and cut off at any byte.
func TestSession(t *testing.T) {
	w := newWorld(t)
	end := w.ends[len(w.ends)-1]
	for _, c := range []struct {
		name string
		said []byte
		full bool
		want uint64
	}{
		{"goes on", w.goesOn(t), false, end},
		{"full copy", w.copied(t), true, end},
		{"diverged", fmt.Appendf(nil, "-DIVERGED %d\r\n", w.ends[3]), false, w.ends[3]},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, err := w.hears(t, append([]byte(hello), c.said...), c.full)
			if err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			if at := w.sound(t, h); at != c.want {
				t.Errorf("the log ends at %d, want %d", at, c.want)
			}
			for n := 0; n < len(c.said); n += 1 + len(c.said)/places() {
				h, err := w.hears(t, append([]byte(hello), c.said[:n]...), c.full)
				if err == nil {
					t.Fatalf("cut at byte %d: no error", n)
				}
				if at := w.sound(t, h); at != w.behind && c.name == "diverged" || at == 0 {
					t.Fatalf("cut at byte %d: the log ends at %d, want %d", n, at, w.behind)
				}
			}
		})
	}
}

// TestPromotedOnce: a replica that got a full copy, or the log, and is promoted answers what was done before for
// whoever asks again.
func TestPromotedOnce(t *testing.T) {
	w := newWorld(t)
	for name, said := range map[string][]byte{"goes on": w.goesOn(t), "full copy": w.copied(t)} {
		t.Run(name, func(t *testing.T) {
			h, err := w.hears(t, append([]byte(hello), said...), name == "full copy")
			if err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			if _, err := h.Store().Replication().Lead(); err != nil {
				t.Fatal(err)
			}
			before := digest(t, h.Store())
			for i := 0; i < 80; i += 3 {
				_, want := once(t, w.primary.Store(), fmt.Sprint("producer", i%5), uint64(i), "7.m")
				if repeat, n := once(t, h.Store(), fmt.Sprint("producer", i%5), uint64(i), "7.m"); !repeat || n != want {
					t.Errorf("number %d of producer%d: got repeat %v, %d, want %d", i, i%5, repeat, n, want)
				}
			}
			if now := digest(t, h.Store()); now != before {
				t.Errorf("repeats changed %s to %s", before, now)
			}
			if repeat, _ := once(t, h.Store(), "producer0", 100, "7.m"); repeat {
				t.Error("a new number was answered as if it was made before")
			}
			if err := h.Store().Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestOlderPrimary lets a replica hear a primary of a version that knows no option of its own but the version: replicas
// are upgraded first.
func TestOlderPrimary(t *testing.T) {
	w := newWorld(t)
	end := w.ends[len(w.ends)-1]
	for _, known := range []bool{false, true} {
		option := func(name string) string {
			if known {
				return "+OK\r\n"
			}
			return fmt.Sprintf("-ERR unrecognized REPLCONF option: %q\r\n", name)
		}
		hello := "+PONG\r\n+OK\r\n+OK\r\n" + option("process") + option("hurry") + "+OK\r\n"
		h := &testHost{t: t, sim: w.replica.Kill()}
		h.open()
		l := newTestLink(t, h, false)
		l.node.peers.Hurry() // a client waits for changes
		conn := &recorded{scripted: scripted{in: bytes.NewReader(append([]byte(hello), w.goesOn(t)...))}}
		if err := (&session{Link: l, conn: wire.NewConn(conn, linkBuffer)}).run(); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if n := strings.Count(string(conn.said), "\r\nHURRY\r\n"); known != (n == 1) {
			t.Errorf("the primary, which knows it: %t, is asked %d times to hurry", known, n)
		}
		if at := w.sound(t, h); at != end {
			t.Errorf("the log ends at %d, want %d", at, end)
		}
	}
}

// TestToldHistory: a replica whose log needs a snapshot does not tell its primary, which may be of a version that refuses such a history.
func TestToldHistory(t *testing.T) {
	w := newWorld(t)
	h := &testHost{t: t, sim: w.replica.Kill()}
	mine, err := logfile.ReadLineage(h.sim, "data")
	if err != nil {
		t.Fatal(err)
	}
	mine.NeedsSnapshot = true
	if err := logfile.WriteLineage(h.sim, "data", &mine); err != nil {
		t.Fatal(err)
	}
	h.open()
	conn := &recorded{scripted: scripted{in: bytes.NewReader(append([]byte(hello), w.goesOn(t)...))}}
	if err := (&session{Link: newTestLink(t, h, false), conn: wire.NewConn(conn, linkBuffer)}).run(); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if said := string(conn.said); !strings.Contains(said, "counterd history 1\n") {
		t.Errorf("the replica says %q", said)
	}
	if l := h.store.Load().Replication().Lineage(); !l.NeedsSnapshot {
		t.Error("the replica forgets that its log needs a snapshot")
	}
}

// TestBadFrames sends frames with right checksums and records that cannot be applied: nothing is changed by them, now
// and after a restart.
func TestBadFrames(t *testing.T) {
	w := newWorld(t)
	reply := w.goesOn(t)
	reply = reply[:bytes.Index(reply, []byte("crc32c "))+len("crc32c ")+8+3] // without the stream
	good := format.AppendSet(nil, 1, 1, 3, 77)
	schema := func(oldnew ...string) []byte { // the schema that is in force where the replica's log ends, with something replaced
		text := "schema format=1\nadd counter w id=1\nadd column w n hint=8 max=30 default=0 suffix=n id=1\n" +
			"add column w m hint=4 max=32 default=0 suffix=m id=2\nnext column w id=3\nnext counter id=2\n"
		return format.AppendSchema(nil, strings.NewReplacer(oldnew...).Replace(text))
	}
	for name, records := range map[string][]byte{
		"unknown kind":     {99},
		"cut short":        good[:len(good)-1],
		"mid of 2^63":      format.AppendSet(nil, 1, 1, 1<<63, 1),
		"delete of 2^63":   format.AppendDelete(nil, 1, 1<<63),
		"value too large":  format.AppendSet(nil, 1, 1, 3, 1<<30),
		"item too large":   format.AppendSetItem(nil, 1, 3, []format.ColumnValue{{Column: 1, Value: 1}, {Column: 2, Value: 1 << 40}}),
		"counter 2^32-1":   schema("counter w id=1", "counter w id=4294967295", "next counter id=2", "next counter id=4294967296"),
		"narrower column":  schema("max=30", "max=8"),
		"other default":    schema("max=30 default=0", "max=30 default=5"),
		"no schema":        format.AppendSchema(nil, "schema format=1\nadd nonsense\n"),
		"behind good ones": append(format.AppendFlush(bytes.Clone(good)), 99),
	} {
		for _, frame := range [][]byte{sealed(w.behind, records), sealedWhole(w.behind, records)} {
			said := append(append([]byte(hello), reply...), msgFrame)
			h, err := w.hears(t, append(said, frame...), false)
			if !errors.Is(err, format.ErrCorrupt) {
				t.Errorf("%s: got %v, want ErrCorrupt", name, err)
			}
			if at := w.sound(t, h); at != w.behind {
				t.Errorf("%s: the log ends at %d, want %d", name, at, w.behind)
			}
			if h.opens != 2 {
				t.Errorf("%s: the store was opened %d times", name, h.opens-1)
			}
		}
	}
	// One that is one change, with a FLUSHALL and a schema in it, is applied.
	text := w.primary.Store().Schema().AppendText(nil)
	records := format.AppendSet(format.AppendSchema(format.AppendFlush(bytes.Clone(good)), string(text)), 1, 1, 5, 78)
	said := append(append([]byte(hello), reply...), msgFrame)
	h, err := w.hears(t, append(said, sealedWhole(w.behind, records)...), false)
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if _, found, err := h.Store().Get("3.n"); found || err != nil {
		t.Errorf("3.n is there behind FLUSHALL: %v", err)
	}
	if v, _, err := h.Store().Get("5.n"); v != 78 || err != nil {
		t.Errorf("5.n is %d, %v", v, err)
	}
}

// TestBadHistory answers with a past that speaks of what only this node may begin, in words that would empty its
// directory at the next start, or of offsets that no log has: nothing is taken of it.
func TestBadHistory(t *testing.T) {
	w := newWorld(t)
	past := w.primary.Store().Replication().Lineage()
	id := past.Current().ReplID
	for _, lines := range []string{
		"install clear\nterm %s epoch 1 start 0\n",
		"install name\nterm %s epoch 1 start 0\n",
		"cut 0 chain 00000000\nterm %s epoch 1 start 0\n",
		"term %s epoch 1 start 18446744073709551615\n",
		"",
	} {
		text := "counterd history 1\nreplica false\n" + lines
		replID := id.String()
		if lines == "" {
			replID = strings.Repeat("0", 40)
		} else {
			text = fmt.Sprintf(text, id)
		}
		text += fmt.Sprintf("end crc32c %08x\n", crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli)))
		said := fmt.Appendf([]byte(hello), "+CONTINUE %s %d %d\r\n%s\r\n", replID, w.behind, len(text), text)
		h, err := w.hears(t, said, false)
		if !errors.Is(err, format.ErrCorrupt) && !errors.Is(err, ErrProtocol) {
			t.Errorf("%q: %v, want it refused", lines, err)
		}
		if at := w.sound(t, h); at != w.behind {
			t.Errorf("%q: the log ends at %d, want %d", lines, at, w.behind)
		}
	}
}

// TestStranger lets a primary whose past is another go on with the replica's log, or give it a full copy as if nothing
// were lost by that: the one is refused, and what the replica has is saved before the other.
func TestStranger(t *testing.T) {
	w := newWorld(t)
	mine := w.primary.Store().Replication().Lineage()
	for _, lineage := range []format.Lineage{
		{Terms: []format.Term{{ReplID: format.ReplID{9}, Epoch: 1}}},
		{Terms: append(slices.Clone(mine.Terms), format.Term{ReplID: format.ReplID{9}, Epoch: mine.Current().Epoch, Start: w.ends[3]})}, // agrees up to there
	} {
		text, id := lineage.AppendText(nil), lineage.Current().ReplID
		said := fmt.Appendf([]byte(hello), "+CONTINUE %s %d %d\r\n%s\r\n", id, w.behind, len(text), text)
		h, err := w.hears(t, append(said, w.stream(t, w.behind)...), false)
		if !errors.Is(err, ErrProtocol) {
			t.Errorf("%+v: %v, want it refused", lineage, err)
		}
		if at := w.sound(t, h); at != w.behind {
			t.Errorf("the log ends at %d, want %d", at, w.behind)
		}
		copied := w.copied(t)
		own := mine.AppendText(nil)
		copied = bytes.ReplaceAll(copied, fmt.Appendf(nil, " %d\r\n", len(own)), fmt.Appendf(nil, " %d\r\n", len(text)))
		copied = bytes.ReplaceAll(bytes.ReplaceAll(copied, own, text), []byte("+CONTINUE "+mine.Current().ReplID.String()), []byte("+CONTINUE "+id.String()))
		copied = bytes.ReplaceAll(copied, []byte("+FULLRESYNC "+mine.Current().ReplID.String()), []byte("+FULLRESYNC "+id.String()))
		h, err = w.hears(t, append([]byte(hello), copied...), false)
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		_, archives, err := past.ListDiverged(h.sim, "data")
		if err != nil || len(archives) != 1 {
			t.Errorf("%+v: saved %v, %v", lineage, archives, err)
		}
	}
}

// TestBadSnapshot sends snapshots with one byte changed in a file: the replica keeps what it has.
func TestBadSnapshot(t *testing.T) {
	w := newWorld(t)
	said := w.copied(t)
	at := bytes.Index(said, []byte("\r\n$")) + 1 // the first file's head
	files := said[at:bytes.Index(said, []byte("\r\n+CONTINUE"))]
	for i := 12; i < len(files); i += 1 + len(files)/places() {
		bad := append([]byte(hello), said...)
		bad[len(hello)+at+i] ^= 4
		h, err := w.hears(t, bad, true)
		if err == nil {
			t.Fatalf("byte %d changed: no error", i)
		}
		if got := w.sound(t, h); got != w.behind {
			t.Fatalf("byte %d changed: the log ends at %d, want %d as before: %v", i, got, w.behind, err)
		}
	}
}

// TestFailedCut answers an offset within a frame: nothing is cut, and it does not count.
func TestFailedCut(t *testing.T) {
	w := newWorld(t)
	h := &testHost{t: t, sim: w.replica.Kill()}
	h.open()
	n := newTestNode(h)
	s := &session{Link: &Link{node: n}, conn: wire.NewConn(&scripted{in: strings.NewReader(hello + "-DIVERGED " + strconv.FormatUint(w.ends[3]+5, 10) + "\r\n")}, linkBuffer)}
	if err := s.run(); err == nil {
		t.Error("no error")
	}
	if times, _ := n.Cuts(); times != 0 {
		t.Errorf("%d cuts counted", times)
	}
	if at := w.sound(t, h); at != w.behind {
		t.Errorf("the log ends at %d, want %d", at, w.behind)
	}
}

// TestPinsEnd asks for snapshots again and again on one connection: when it is closed the log is kept for nobody.
func TestPinsEnd(t *testing.T) {
	h := &testHost{t: t, sim: vfs.NewSim()}
	s := h.open()
	if err := s.AlterScript("add counter w\nadd column w n hint=8 max=32 suffix=n"); err != nil {
		t.Fatal(err)
	}
	work := func() {
		for i := range 100 {
			if err := s.Set(fmt.Sprintf("%d.n", i), 5); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	work()
	var ps Peers
	p := ps.NewPeer(&scripted{})
	for range 3 {
		if _, _, err := p.Sync(s, "?", "-1"); err != nil {
			t.Fatal(err)
		}
	}
	needed := p.pin.Manifest.Replay
	p.Close()
	for range 4 {
		if _, err := s.Replication().Lead(); err != nil { // a new history begins a new segment: there is something to drop
			t.Fatal(err)
		}
		work()
	}
	if first := s.Replication().First(); first <= needed {
		t.Errorf("the log still begins at %d, the snapshot needed it from %d", first, needed)
	}
}

// TestLateFeed lets the past of the log change between the answer to PSYNC and the stream: the replica is cut off, to
// learn of it.
func TestLateFeed(t *testing.T) {
	w := newWorld(t)
	a := w.primary.Store()
	ps := newTestNode(w.primary).Peers()
	conn := &scripted{}
	p := ps.NewPeer(conn)
	past := a.Replication().Lineage()
	if err := p.Configure("history", past.AppendText(nil)); err != nil {
		t.Fatal(err)
	}
	if _, stream, err := p.Sync(a, past.Current().ReplID.String(), strconv.FormatUint(w.behind, 10)); err != nil || !stream {
		t.Fatal(stream, err)
	}
	if err := a.Replication().Yield(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Replication().Lead(); err != nil {
		t.Fatal(err)
	}
	ps.DisconnectAll()
	p.Feed()
	if !conn.closed.Load() {
		t.Error("the connection goes on with a past that is no more")
	}
	p.Close()
}

// TestSnapshotOfAnotherStore replaces the store between the announcement of a snapshot and the stream.
func TestSnapshotOfAnotherStore(t *testing.T) {
	w := newWorld(t)
	p := newTestNode(w.primary).Peers().NewPeer(&scripted{})
	defer p.Close()
	if _, _, err := p.Sync(w.primary.Store(), "?", "-1"); err != nil {
		t.Fatal(err)
	}
	replay := strconv.FormatUint(p.pin.Manifest.Replay, 10)
	w.primary.again()
	if reply, stream, err := p.Sync(w.primary.Store(), "?", replay); err == nil {
		t.Errorf("answered %q, %v", reply, stream)
	}
}

// FuzzPrimary lets a replica hear anything in the place of a primary. It must end with an error, hold a state that the
// true primary had at the offset where its log ends, now and after a restart, and have taken no memory that what came
// does not vouch for.
func FuzzPrimary(f *testing.F) {
	w := newWorld(f)
	f.Add(uint8(4), w.goesOn(f))
	f.Add(uint8(20), w.copied(f))
	f.Add(uint8(4), fmt.Appendf(nil, "-DIVERGED %d\r\n", w.ends[3]))
	f.Add(uint8(4), []byte("-DIVERGED 18446744073709551615\r\n"))
	f.Add(uint8(4), []byte("-LOADING it is\r\n"))
	f.Add(uint8(0), []byte("-NOAUTH Authentication required.\r\n\n\n\n"))
	f.Add(uint8(4), []byte("+FULLRESYNC x 18446744073709551615 99999999999 99999999999\r\n"))
	huge := sealed(w.behind, nil)
	huge[7] = 0xff
	f.Add(uint8(4), append(append(w.goesOn(f)[:600], msgFrame), huge...))
	f.Fuzz(func(t *testing.T, how uint8, said []byte) {
		answers := strings.SplitAfter(hello, "\n")
		said = append([]byte(strings.Join(answers[:how%5], "")), said...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		h, _ := w.hears(t, said, how&16 != 0)
		runtime.ReadMemStats(&after)
		if took, most := after.TotalAlloc-before.TotalAlloc, uint64(48<<20+64*len(said)); took > most {
			t.Errorf("%d bytes heard made the replica take %d bytes of memory", len(said), took)
		}
		w.sound(t, h)
	})
}

// FuzzFrame sends any records in a frame that is right otherwise: they are applied all or not at all, and what was
// applied comes back after a restart.
func FuzzFrame(f *testing.F) {
	w := newWorld(f)
	reply := w.goesOn(f)
	reply = reply[:bytes.Index(reply, []byte("crc32c "))+len("crc32c ")+8+3]
	for _, frame := range frames(f, w.primary.Store(), w.behind) {
		f.Add(frame[format.FrameHeaderLen:])
	}
	f.Add(format.AppendSet(format.AppendFlush(format.AppendDelete(nil, 1, 3)), 1, 1, 1<<63-1, 1<<30-1))
	f.Add(format.AppendSetItem(nil, 1, 5, []format.ColumnValue{{Column: 1, Value: 1}, {Column: 2, Value: 1 << 20}, {Column: 9, Value: 1 << 63}}))
	once := format.AppendOnce(format.AppendDefine(nil, 3, 1, 2, []byte("me")), 3, 4, 5, 77, format.Result{})
	f.Add(format.AppendSet(once, 1, 1, 3, 4))
	f.Add(once)
	f.Add(format.AppendSchema(nil, "schema format=1\nnext counter id=2\n"))
	f.Fuzz(func(t *testing.T, records []byte) {
		if len(records) > 1<<20 {
			return
		}
		frame := sealed(w.behind, records)
		said := append(append([]byte(hello), reply...), msgFrame)
		h, err := w.hears(t, append(said, frame...), false)
		refused := errors.Is(err, format.ErrCorrupt)
		if h.opens != 1 {
			t.Fatalf("the store had to be opened again: %v", err)
		}
		at := h.Store().Replication().Position()
		if want := w.behind + uint64(len(frame)); refused && at != w.behind || !refused && at != want {
			t.Fatalf("%v: the log ends at %d, want %d or %d", err, at, w.behind, want)
		}
		now := digest(t, h.Store())
		if refused && now != w.states[w.behind] {
			t.Fatalf("refused, and %s became %s", w.states[w.behind], now)
		}
		h.again()
		if again := digest(t, h.Store()); again != now || h.Store().Replication().Position() != at {
			t.Fatalf("a restart made %s of %s", again, now)
		}
		if err := h.Store().Close(); err != nil {
			t.Fatal(err)
		}
	})
}

var _ Host = (*testHost)(nil)

// TestFedPeer lets a replica that is being fed send what belongs before the stream: it is refused, and the log's pin is
// the feeder's alone (for the race detector).
func TestFedPeer(t *testing.T) {
	w := newWorld(t)
	a := w.primary.Store()
	ps := newTestNode(w.primary).Peers()
	for range 20 {
		p := ps.NewPeer(&scripted{})
		past := a.Replication().Lineage()
		if err := p.Configure("history", past.AppendText(nil)); err != nil {
			t.Fatal(err)
		}
		at := strconv.FormatUint(w.behind, 10)
		if _, stream, err := p.Sync(a, past.Current().ReplID.String(), at); err != nil || !stream {
			t.Fatal(stream, err)
		}
		if p.Hurry(w.behind) {
			t.Error("it hurries in front of the stream")
		}
		p.Feed()
		if !p.Hurry(w.behind) {
			t.Error("it is not asked to hurry in the stream")
		}
		for p.sent.Load() < w.ends[len(w.ends)-1] {
			if err := p.Configure("capa", []byte("counterd1")); err == nil {
				t.Error("an option was taken")
			}
			if _, _, err := p.Fetch("hot", "1-5.hot"); err == nil {
				t.Error("a file was opened")
			}
			if _, _, err := p.Sync(a, "?", "-1"); err == nil {
				t.Error("a second PSYNC was answered")
			}
			_ = p.Info()
		}
		p.Close()
	}
}

// TestLostCopy announces a snapshot to a replica that is not heard of again: it is lost after the time of a silent
// link, unless it says that it lives; in the stream it is not this that ends it.
func TestLostCopy(t *testing.T) {
	w := newWorld(t)
	n := newTestNode(w.primary)
	timeout := 2 * time.Hour
	n.peers.timeout = func() time.Duration { return timeout }
	p := n.Peers().NewPeer(&scripted{})
	defer p.Close()
	long := func() { p.acked.Store(int64(monotonic.Of(time.Now().Add(-3 * time.Hour)))) }
	if long(); p.Lost() {
		t.Error("lost before it was told of a snapshot")
	}
	if _, _, err := p.Sync(w.primary.Store(), "?", "-1"); err != nil || p.Lost() {
		t.Errorf("%v, lost %t at once", err, p.Lost())
	}
	if long(); !p.Lost() {
		t.Error("kept for ever")
	}
	if p.Ack(0, 0); p.Lost() {
		t.Error("lost, and it said that it lives")
	}
	long()
	if p.Heard(); p.Lost() {
		t.Error("lost, and it takes a file")
	}
	if _, stream, err := p.Sync(w.primary.Store(), "?", strconv.FormatUint(p.pin.Manifest.Replay, 10)); err != nil || !stream {
		t.Fatal(err)
	}
	if long(); p.Lost() {
		t.Error("lost in the stream")
	}
}

// TestDamagedLog asks for log that is damaged on the primary's disk: the replica gets a full copy, not the same error
// again and again.
func TestDamagedLog(t *testing.T) {
	w := newWorld(t)
	a := w.primary.Store()
	past := a.Replication().Lineage()
	ask := func() (reply []byte, stream bool, err error) {
		t.Helper()
		p := newTestNode(w.primary).Peers().NewPeer(&scripted{})
		defer p.Close()
		if err := p.Configure("history", past.AppendText(nil)); err != nil {
			t.Fatal(err)
		}
		return p.Sync(a, past.Current().ReplID.String(), strconv.FormatUint(w.behind, 10))
	}
	if reply, stream, err := ask(); err != nil || !stream || !strings.HasPrefix(string(reply), "+CONTINUE ") {
		t.Fatalf("%.60q %v %v", reply, stream, err)
	}
	segs, err := logfile.Segments(w.primary.disk(), a.Path())
	if err != nil {
		t.Fatal(err)
	}
	i := len(segs) - 1
	for segs[i].Start > w.behind {
		i--
	}
	f, err := w.primary.disk().OpenRW(segs[i].Path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{0xee, 0xee}, int64(64+w.behind-segs[i].Start+40)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if reply, stream, err := ask(); err != nil || stream || !strings.HasPrefix(string(reply), "+FULLRESYNC ") {
		t.Fatalf("%.60q %v %v", reply, stream, err)
	}
}
