package repl

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/testkit/busystore"
	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// testHost is a server without connections: a store on a simulated disk.
type testHost struct {
	t    testing.TB
	sim  *vfs.Sim
	fs   vfs.FS // to the same through something; nil: sim itself
	seed uint64 // of hashes; 0: 1

	noCursors bool // a replica that copies it takes no log for cursors
	// options changes those of the store; nil: it does not.
	options func(o *counter.Options)
	store   atomic.Pointer[counter.Store]
	opens   int
}

func (h *testHost) open() *counter.Store {
	h.t.Helper()
	o := counter.Options{FS: h.disk(), Manual: true, BlockItems: 16, SnapshotGrowth: -1, HashSeed: max(h.seed, 1)}
	if h.options != nil {
		h.options(&o)
	}
	s, err := counter.Open("data", o)
	if err != nil {
		h.t.Fatalf("the store cannot be opened any more: %v", err)
	}
	h.store.Store(s)
	h.opens++
	return s
}

func (h *testHost) disk() vfs.FS {
	if h.fs != nil {
		return h.fs
	}
	return h.sim
}

func (h *testHost) Store() *counter.Store        { return h.store.Load() }
func (h *testHost) RoleChanged()                 {}
func (h *testHost) Publish(bool, string, []byte) {}

func (h *testHost) Reopen(change func(dir string) error) error {
	old := h.store.Load()
	err := old.Close()
	if err == nil {
		err = change("data")
	}
	h.open()
	return err
}

// commit makes what was done part of the log.
func (h *testHost) commit() uint64 {
	h.t.Helper()
	log := h.Store().Replication()
	at := log.Position()
	if err := log.CommitHere(at); err != nil {
		h.t.Fatal(err)
	}
	return at
}

// digest tells what a store holds.
func digest(t testing.TB, s *counter.Store) string {
	t.Helper()
	text, err := busystore.Digest(s)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// once adds 1 to a key as a numbered change, and tells whether that was a repeat and what it answered.
func once(t testing.TB, s *counter.Store, producer string, seq uint64, key string) (repeat bool, n uint64) {
	t.Helper()
	b := s.NewBatch()
	if err := b.Begin(); err != nil {
		t.Fatal(err)
	}
	k, _ := b.Schema().ParseKey([]byte(key))
	b.Add(counter.Op{Kind: counter.OpAdd, Counter: k.Counter, Column: int16(k.Col), Mid: k.Mid, Arg: 1})
	o, _ := b.Once(0)
	o.Producer, o.Seq = []byte(producer), seq
	b.Run()
	b.End()
	if err := errors.Join(o.Err, b.Op(0).Err, b.Commit()); err != nil {
		t.Fatal(err)
	}
	return o.Repeat, o.Result.N
}

func newTestNode(h *testHost) *Node {
	n := NewNode(h, func() Settings { return Settings{Port: 1, Timeout: time.Second} }, slog.New(slog.DiscardHandler))
	n.fs = h.disk()
	return n
}

// scripted is a connection on which everything that the other side will ever say is there from the beginning.
type scripted struct {
	net.Conn // nil: what is not defined here is not called
	in       io.Reader
	closed   atomic.Bool
}

func (c *scripted) Read(p []byte) (int, error) {
	if c.closed.Load() {
		return 0, net.ErrClosed
	}
	return c.in.Read(p)
}
func (c *scripted) Write(p []byte) (int, error)      { return len(p), nil }
func (c *scripted) Close() error                     { c.closed.Store(true); return nil }
func (c *scripted) SetDeadline(time.Time) error      { return nil }
func (c *scripted) SetReadDeadline(time.Time) error  { return nil }
func (c *scripted) SetWriteDeadline(time.Time) error { return nil }
func (c *scripted) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

const hello = "+PONG\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n" // to PING and five times REPLCONF

// world is a primary with snapshots and a log, and a replica that has the beginning of it.
type world struct {
	primary *testHost
	replica *vfs.Sim // its disk, to be forked
	ends    []uint64 // of frames
	states  map[uint64]string
	behind  uint64 // where the replica's log ends
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{primary: &testHost{t: t, sim: vfs.NewSim()}, states: map[uint64]string{}}
	b := &testHost{t: t, sim: vfs.NewSim()}
	a := w.primary.open()
	b.open()
	w.states[0] = digest(t, b.Store())
	note := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		end := w.primary.commit()
		w.ends, w.states[end] = append(w.ends, end), digest(t, a)
	}
	note(a.AlterScript("add counter w\nadd column w n hint=8 max=30 suffix=n\nadd column w m hint=4 max=32 suffix=m"))
	for i := range 200 { // enough for a block that is full
		if err := a.Set(fmt.Sprintf("%d.m", 10*i), 7); err != nil {
			t.Fatal(err)
		}
	}
	note(nil)
	for i := range 80 {
		note(a.Set(fmt.Sprintf("%d.n", i), uint64(i*1000)))
		if i%3 == 0 {
			once(t, a, fmt.Sprint("producer", i%5), uint64(i), "7.m")
			note(nil)
		}
		switch i {
		case 40, 50:
			if err := a.Admin().Demote("w", 3); i == 40 && err != nil {
				t.Fatal(err)
			}
			note(a.Set("3.n", uint64(i)))
			if err := a.Snapshot(); err != nil { // a hot, a cold and an overlay's file
				t.Fatal(err)
			}
		case 45:
			note(a.Set("3.n", 9))
		case 60:
			if _, err := b.Store().Replication().Follow(a.Replication().Lineage()); err != nil {
				t.Fatal(err)
			}
			for _, f := range frames(t, a, 0) {
				if _, err := b.Store().Replication().Replicate(f); err != nil {
					t.Fatal(err)
				}
			}
			w.behind = b.commit()
			if err := errors.Join(b.Store().Snapshot(), b.Store().Replication().Sync(), b.Store().Close()); err != nil {
				t.Fatal(err)
			}
			w.replica = b.sim.Kill()
		case 65:
			note(a.AlterScript("add column w o hint=4 max=9 default=3 suffix=o"))
		case 70:
			batch := a.NewBatch()
			err := batch.BeginExclusive()
			if err == nil {
				err = batch.Whole().Clear()
				batch.End()
			}
			note(err)
		}
	}
	return w
}

// frames reads a log from an offset on.
func frames(t testing.TB, s *counter.Store, from uint64) (all [][]byte) {
	t.Helper()
	r, err := s.Replication().NewReader(from)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		f, err := r.TryNext()
		if err != nil {
			t.Fatal(err)
		}
		if f == nil {
			return all
		}
		all = append(all, bytes.Clone(f.Raw))
	}
}

// stream is what the primary sends from an offset on.
func (w *world) stream(t testing.TB, from uint64) []byte { return w.primary.stream(t, from) }

func (h *testHost) stream(t testing.TB, from uint64) (out []byte) {
	out = appendPing(out, h.Store().Replication().Written())
	for _, f := range frames(t, h.Store(), from) {
		out = append(append(out, msgFrame), f...)
	}
	return append(out, msgGetAck)
}

// goesOn is what the primary says to the replica that asks for the log.
func (w *world) goesOn(t testing.TB) []byte {
	t.Helper()
	var ps Peers
	p := ps.NewPeer(&scripted{})
	defer p.Close()
	past := w.primary.Store().Replication().Lineage()
	if err := p.Configure("history", past.AppendText(nil)); err != nil {
		t.Fatal(err)
	}
	reply, _, err := p.Sync(w.primary.Store(), past.Current().ReplID.String(), strconv.FormatUint(w.behind, 10))
	if err != nil {
		t.Fatal(err)
	}
	return append(reply, w.stream(t, w.behind)...)
}

// copied is what the primary says to one that asks for a full copy.
func (w *world) copied(t testing.TB) []byte { return w.primary.copied(t) }

// copied is what a node says to one that asks it for a full copy.
func (h *testHost) copied(t testing.TB) []byte {
	t.Helper()
	out, _ := h.copiedAs(t, func(*format.BlockFile, []byte) {}, func() {})
	return out
}

// hears runs one connection of the replica to a primary that says what is given, and returns the replica and why the
// connection ended.
func (w *world) hears(t testing.TB, said []byte, full bool) (*testHost, error) {
	t.Helper()
	h := &testHost{t: t, sim: w.replica.Kill()}
	h.open()
	return h, newTestLink(t, h, full).hears(said)
}

func newTestLink(t testing.TB, h *testHost, full bool) *Link {
	return &Link{node: newTestNode(h), ctx: t.Context(), full: full, up: make(chan struct{}), downSince: time.Now()}
}

// hears runs one connection to a primary that says what is given, and returns why it ended.
func (l *Link) hears(said []byte) error {
	s := &session{Link: l, conn: wire.NewConn(&scripted{in: bytes.NewReader(said)}, linkBuffer)}
	return s.run()
}

// sound checks that a replica holds a state that the primary had at the offset where its log ends, and that a restart
// brings the same back.
func (w *world) sound(t testing.TB, h *testHost) (at uint64) {
	t.Helper()
	at = h.Store().Replication().Position()
	want, ok := w.states[at]
	if got := digest(t, h.Store()); !ok || got != want {
		t.Fatalf("at %d: got %s, want %s", at, got, want)
	}
	h.again()
	if got := digest(t, h.Store()); h.Store().Replication().Position() != at || got != want {
		t.Fatalf("at %d, after a restart %d: got %s, want %s", at, h.Store().Replication().Position(), got, want)
	}
	if err := h.Store().Close(); err != nil {
		t.Fatal(err)
	}
	return at
}

// again restarts a host.
func (h *testHost) again() {
	h.t.Helper()
	h.commit()
	if err := h.Store().Close(); err != nil {
		h.t.Fatal(err)
	}
	h.open()
}

// sealedWhole is the same as one change.
func sealedWhole(start uint64, records []byte) []byte {
	raw := sealed(start, records)
	raw[7] |= 0x80
	binary.LittleEndian.PutUint32(raw, crc32.Checksum(raw[4:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// sealed is the frame of some records, with everything right but perhaps them.
func sealed(start uint64, records []byte) []byte {
	raw := make([]byte, format.FrameHeaderLen, format.FrameHeaderLen+len(records))
	binary.LittleEndian.PutUint32(raw[4:], uint32(len(records)))
	binary.LittleEndian.PutUint64(raw[8:], start)
	raw = append(raw, records...)
	binary.LittleEndian.PutUint32(raw, crc32.Checksum(raw[4:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}
