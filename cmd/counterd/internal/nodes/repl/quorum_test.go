package repl

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/persist/vfs"
)

// electedNode is a node "a" of a cluster, without connections.
func electedNode(t *testing.T) (*testHost, *Node) {
	t.Helper()
	h := &testHost{t: t, sim: vfs.NewSim(), options: func(o *counter.Options) { o.Elected = true }}
	h.open()
	t.Cleanup(func() { _ = h.Store().Close() })
	n := NewNode(h, func() Settings { return Settings{Timeout: time.Minute, NodeID: "a", FS: h.disk()} }, slog.New(slog.DiscardHandler))
	return h, n
}

// TestQuorum: the log is confirmed up to the offset that the last links of the required nodes acknowledged in this epoch. Nothing is
// confirmed before the required nodes are known.
func TestQuorum(t *testing.T) {
	h, n := electedNode(t)
	log, q := h.Store().Replication(), &n.peers.quorum
	confirmed := func(what string, want uint64) {
		t.Helper()
		if got := log.Confirmed(); got != want {
			t.Errorf("%s: confirmed up to %d, want %d", what, got, want)
		}
	}
	link := func(epoch uint64) *Peer {
		p := n.peers.NewPeer(&scripted{})
		p.nodeID, p.epoch = "b", epoch
		q.joined(p)
		return p
	}
	lead := func(epoch uint64) {
		t.Helper()
		if err := n.LeadAt(epoch); err != nil {
			t.Fatal(err)
		}
	}
	lead(4)
	first := link(4)
	q.ack(first, 100, 100)
	confirmed("before anybody is required", 0)
	n.Require([]string{"a", "b"})
	confirmed("what it had acknowledged", 100)

	second := link(4)
	q.ack(first, 900, 900)
	n.Require([]string{"a", "b"})
	confirmed("by a link that was replaced", 0)
	q.ack(second, 200, 200)
	confirmed("by the link behind it", 200)
	q.left(first)
	if _, _, _, ok := n.peers.Acked("b"); !ok {
		t.Error("the end of the replaced link ends the other one")
	}

	if err := n.FollowAt(Address{"127.0.0.1", 1}, "b", 3); !errors.Is(err, counter.ErrEpoch) {
		t.Errorf("the epoch before: %v", err)
	}
	if q.leads() != 4 {
		t.Errorf("leads %d, want 4 still", q.leads())
	}
	lead(5)
	confirmed("in a new epoch", 0)
	third := link(5)
	q.ack(third, 200, 200)
	n.Require([]string{"b"})
	confirmed("as much as in the epoch before", 200)
	q.ack(second, 300, 300)
	confirmed("by a link of the epoch before", 200)

	if err := n.Rest(); err != nil {
		t.Fatal(err)
	}
	q.ack(third, 400, 400)
	confirmed("by a node that rests", 200)
	if q.leads() != 0 {
		t.Errorf("a node that rests leads epoch %d", q.leads())
	}
}

// TestOtherEpoch: a replica follows the node that leads in the epoch of its link, and takes frames of no later one.
func TestOtherEpoch(t *testing.T) {
	h, n := electedNode(t)
	dial := func(said string) *session {
		return &session{Link: &Link{node: n, id: "b", epoch: 4, ctx: t.Context(), up: make(chan struct{})}, conn: wire.NewConn(&scripted{in: strings.NewReader(said)}, 4<<10)}
	}
	for said, want := range map[string]error{"+LEADS 4\r\n": nil, "+LEADS 3\r\n": ErrNotLeading, "+LEADS 5\r\n": ErrNotLeading, "+RESTS 4\r\n": ErrNotLeading, "+EPOCH 5\r\n": counter.ErrEpoch, "+OK\r\n": ErrProtocol} {
		if err := dial(said).introduce(); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", said, err, want)
		}
	}
	frame := sealed(h.Store().Replication().Position(), nil)
	frame[32] = 5 // its epoch
	if err := dial(string(append([]byte{msgFrame}, frame...))).stream(); !errors.Is(err, ErrProtocol) {
		t.Errorf("a frame of epoch 5 on a link of epoch 4: %v", err)
	}
}

// TestAcknowledgesDurable: a replica of a cluster under appendfsync always acknowledges what a power loss does not take back.
func TestAcknowledgesDurable(t *testing.T) {
	h, n := electedNode(t)
	if err := n.LeadAt(1); err != nil {
		t.Fatal(err)
	}
	log := h.Store().Replication()
	log.Confirm(counter.Everywhere)
	if err := h.Store().AlterScript("add counter w\nadd column w n hint=8 max=30 suffix=n"); err != nil {
		t.Fatal(err)
	}
	written := h.commit()
	h.Store().Admin().SetAppendFsync(counter.SyncAlways)
	durable := log.Durable()
	if durable >= written {
		t.Fatalf("durable up to %d, want less than %d", durable, written)
	}
	for id, want := range map[string]uint64{"b": durable, "": written} {
		conn := &recorded{}
		s := &session{Link: &Link{node: n, id: id}, conn: wire.NewConn(conn, 4<<10)}
		if err := s.ack(); err != nil {
			t.Fatal(err)
		}
		if got := string(conn.said); !strings.Contains(got, fmt.Sprintf("\r\nACK\r\n$%d\r\n%d\r\n", len(fmt.Sprint(want)), want)) {
			t.Errorf("link to %q: %q, want %d", id, got, want)
		}
	}
}

// recorded is a connection that keeps all bytes that are written to it.
type recorded struct {
	scripted
	said []byte
}

func (c *recorded) Write(p []byte) (int, error) {
	c.said = append(c.said, p...)
	return len(p), nil
}

// TestOneReplica: a replica with two connections counts once, and the older one does not count when the newer is there.
func TestOneReplica(t *testing.T) {
	ps := Peers{timeout: func() time.Duration { return time.Minute }}
	link := func(process string, port int) *Peer {
		p := ps.NewPeer(&scripted{})
		p.process, p.ip, p.port = process, "10.0.0.1", port
		p.online.Store(true)
		ps.add(p)
		p.applied.Store(100)
		return p
	}
	first := link("x", 7)
	link("y", 7) // another process at the same address
	link("z", 8)
	if applied, durable := ps.Count(100); applied != 2 || durable != 0 {
		t.Errorf("%d have it, %d on disk, want 2 and 0", applied, durable)
	}
	ps.replace(link("x", 9))
	if first.online.Load() {
		t.Error("the connection before counts")
	}
}

// TestSafeBeforeItIsAReplica: a node that is to follow, and whose disk keeps it from becoming a replica, shows nothing to feeds: no primary
// has told it the safe offset.
func TestSafeBeforeItIsAReplica(t *testing.T) {
	h := &testHost{t: t, sim: vfs.NewSim()}
	h.open()
	defer h.Store().Close()
	n := newTestNode(h)
	if err := errors.Join(h.Store().AlterScript("add counter w"), h.Store().Replication().Sync()); err != nil {
		t.Fatal(err)
	}
	if n.peers.Safe() == 0 {
		t.Error("a primary shows nothing")
	}
	n.mu.Lock()
	n.link = &Link{node: n}
	n.mu.Unlock()
	if safe := n.peers.Safe(); safe != 0 || h.Store().Replica() {
		t.Errorf("it shows changes up to %d", safe)
	}
}

// TestAloneTellsDurable: no other node must have the log of a primary that does not sync each change. A replica, which has synced the changes, shows those in
// its feed that are durable on the primary too: a power failure takes the others back.
func TestAloneTellsDurable(t *testing.T) {
	for _, policy := range []counter.SyncPolicy{counter.SyncEverySec, counter.SyncNo} {
		a, b := newMember(t, "a", policy), newMember(t, "b", counter.SyncAlways)
		a.lead(1)
		b.follow(a, 1)
		a.schema()
		if err := errors.Join(a.add(1), a.host.Store().Replication().Sync(), a.add(1)); err != nil {
			t.Fatal(err)
		}
		log := a.host.Store().Replication()
		end := log.Position()
		eventually(t, "the replica has the changes", func() bool { return b.host.Store().Replication().Durable() >= end })
		if log.Durable() >= end {
			t.Fatalf("%v: the primary has synced the last change", policy)
		}
		p := &Peer{peers: a.node.Peers(), store: a.host.Store(), nodeID: "b"}
		if told, shown := p.safe(), b.node.Peers().Safe(); told > log.Durable() || shown > log.Durable() {
			t.Errorf("%v: the primary tells %d, and the replica shows %d, want at most %d", policy, told, shown, log.Durable())
		}
		a.node.Require([]string{"a", "b"})
		eventually(t, "the replica shows what both nodes have", func() bool { return b.node.Peers().Safe() >= end })
		if err := errors.Join(a.add(1), log.Sync()); err != nil {
			t.Fatal(err)
		}
		a.node.Require([]string{"a"})
		eventually(t, "the replica shows what is durable", func() bool { return b.node.Peers().Safe() >= log.Durable() })
		a.kill()
		b.kill()
	}
}

// TestGoesAlone: a primary is about to have the cluster name it alone in sync. Changes are confirmed as far as they are durable on it, besides those that were
// before, and replicas are told of durable changes only.
func TestGoesAlone(t *testing.T) {
	h, n := electedNode(t)
	log, q := h.Store().Replication(), &n.peers.quorum
	if err := n.LeadAt(1); err != nil {
		t.Fatal(err)
	}
	n.Require(nil)
	if err := h.Store().AlterScript("add counter c\nadd column c n hint=8 suffix=n"); err != nil {
		t.Fatal(err)
	}
	b := n.peers.NewPeer(&scripted{})
	b.nodeID, b.epoch, b.store = "b", 1, h.Store()
	q.joined(b)
	n.Require([]string{"a", "b"})
	add := func() uint64 {
		t.Helper()
		batch := h.Store().NewBatch()
		if err := batch.Begin(); err != nil {
			t.Fatal(err)
		}
		k, _ := batch.Schema().ParseKey([]byte("1.n"))
		batch.Add(counter.Op{Kind: counter.OpAdd, Counter: k.Counter, Column: int16(k.Col), Mid: k.Mid, Arg: 1})
		batch.Run()
		batch.End()
		end := h.commit()
		q.ack(b, end, end)
		return end
	}
	want := func(what string, confirmed, told uint64) {
		t.Helper()
		if got, tells := log.Confirmed(), b.safe(); got != confirmed || tells != told {
			t.Errorf("%s: confirmed up to %d, and replicas are told %d, want %d and %d", what, got, tells, confirmed, told)
		}
	}
	both := add()
	durable := log.Durable()
	if durable >= both {
		t.Fatal("the log is durable")
	}
	want("two nodes in sync", both, both)
	n.Peers().Alone(true, true)
	want("about to be alone", both, durable)
	later := add()
	want("and the other acknowledges more", both, durable)
	if err := log.Sync(); err != nil {
		t.Fatal(err)
	}
	n.Peers().Alone(true, true)
	want("and the log is synced", later, later)
	more := add()
	n.Peers().Alone(true, false)
	want("alone, and another one joins", more, later)
	n.Peers().Alone(false, false)
	want("two nodes in sync again", more, more)
	n.Peers().Alone(true, true)
	if err := n.LeadAt(2); err != nil {
		t.Fatal(err)
	}
	if q.alone.Load() || q.both {
		t.Error("a new term begins alone")
	}
}

// TestCareful: a replica that is careful acknowledges the changes that it has acknowledged before, and others only when they are durable on it.
func TestCareful(t *testing.T) {
	a, b := newMember(t, "a", counter.SyncEverySec), newMember(t, "b", counter.SyncEverySec)
	a.lead(1)
	a.schema()
	b.follow(a, 1)
	log := b.host.Store().Replication()
	acked := func() uint64 {
		written, _, _, _ := a.node.Peers().Acked("b")
		return written
	}
	add := func() uint64 {
		t.Helper()
		if err := a.add(1); err != nil {
			t.Fatal(err)
		}
		end := a.host.Store().Replication().Position()
		eventually(t, "the replica has the change", func() bool { return log.Written() >= end })
		return end
	}
	before := add()
	eventually(t, "it is acknowledged", func() bool { return acked() == before })
	if log.Durable() >= before {
		t.Fatal("the replica has synced the change")
	}
	b.node.Peers().Careful(true)
	after := add()
	heard := func() (at time.Time) { _, _, at, _ = a.node.Peers().Acked("b"); return at }
	for range 2 { // acknowledgements that were made behind the change
		last := heard()
		eventually(t, "another acknowledgement", func() bool { return heard().After(last) })
	}
	if got := acked(); got != before {
		t.Errorf("the replica acknowledges %d, want %d", got, before)
	}
	if err := log.Sync(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the durable change is acknowledged", func() bool { return acked() == after })
	b.node.Peers().Careful(false)
	last := add()
	eventually(t, "each change is acknowledged again", func() bool { return acked() == last })
	a.kill()
	b.kill()
}
