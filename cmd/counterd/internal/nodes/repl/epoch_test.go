package repl

import (
	"errors"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/wire"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/vfs"
)

// member is a node of a cluster that can be killed and started again: its store is on a simulated disk, its links are
// real connections.
type member struct {
	t        testing.TB
	id       string
	sync     counter.SyncPolicy
	sim      *vfs.Sim
	boot     int
	compares time.Duration // Settings.CompareBudget; set before start

	host     *testHost
	alive    *atomic.Bool // what a client is told while it is set it has heard
	node     *Node
	listen   net.Listener
	address  Address
	silent   atomic.Bool // what it sends as a primary, and takes as acknowledgements, is lost
	learned  atomic.Uint64
	mu       sync.Mutex
	conns    map[net.Conn]bool
	stopping bool
	serving  sync.WaitGroup
}

// newMember makes a node of an empty disk, and starts it.
func newMember(t testing.TB, id string, sync counter.SyncPolicy) *member {
	m := &member{t: t, id: id, sync: sync, sim: vfs.NewSim()}
	m.start()
	t.Cleanup(func() {
		if m.node != nil {
			m.kill()
		}
	})
	return m
}

func (m *member) start() {
	m.t.Helper()
	m.host, m.alive = &testHost{t: m.t, sim: m.sim}, new(atomic.Bool)
	m.alive.Store(true)
	m.host.options = func(o *counter.Options) {
		o.Elected, o.BootID, o.AppendFsync, o.Manual = true, "boot "+strconv.Itoa(m.boot), m.sync, m.sync != counter.SyncAlways
	}
	m.host.open()
	m.node = NewNode(m.host, func() Settings {
		return Settings{Port: 1, Timeout: 5 * time.Second, NodeID: m.id, CompareBudget: m.compares}
	}, slog.New(slog.DiscardHandler))
	m.node.peers.comparer.pass, m.node.peers.comparer.rest = time.Millisecond, 100*time.Microsecond
	m.node.fs = m.sim
	m.node.OnEpoch(func(epoch uint64) { m.learned.Store(epoch) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		m.t.Fatal(err)
	}
	m.listen, m.conns, m.stopping = l, map[net.Conn]bool{}, false
	m.address = Address{"127.0.0.1", l.Addr().(*net.TCPAddr).Port}
	m.serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			m.mu.Lock()
			m.conns[conn] = true
			if m.stopping {
				conn.Close()
			}
			m.mu.Unlock()
			m.serving.Go(func() { m.serve(conn) })
		}
	})
}

// serve answers what a replica says, as package role does.
func (m *member) serve(conn net.Conn) {
	defer conn.Close()
	p := m.node.Peers().NewPeer(conn)
	defer p.Close()
	r := wire.NewReader(conn, 4<<10)
	for {
		v, err := r.ReadValue()
		if err != nil || len(v.Array) == 0 {
			return
		}
		args := make([]string, len(v.Array))
		for i := range args {
			args[i] = v.Array[i].Text()
		}
		reply := "+PONG\r\n"
		switch {
		case args[0] == "PING":
		case args[0] == "REPLCONF" && args[1] == "ACK":
			if reply = ""; !m.silent.Load() {
				written, _ := strconv.ParseUint(args[2], 10, 64)
				durable, _ := strconv.ParseUint(args[4], 10, 64)
				p.Ack(written, durable)
			}
		case args[0] == "REPLCONF" && args[1] == "compare":
			words := make([][]byte, len(args)-2)
			for i := range words {
				words[i] = []byte(args[2+i])
			}
			if reply = ""; p.Compared(words) != nil {
				return
			}
		case args[0] == "REPLCONF":
			reply = ""
			for i := 1; i+1 < len(args); i += 2 {
				if err := p.Configure(args[i], []byte(args[i+1])); err != nil {
					reply = "-ERR " + err.Error() + "\r\n"
				}
			}
			if reply == "" {
				reply = "+" + p.Welcome() + "\r\n"
			}
		case args[0] == "PSYNC":
			if text := p.Refusal(); text != "" {
				reply = "-" + text + "\r\n"
				break
			}
			out, stream, err := p.Sync(m.host.Store(), args[1], args[2])
			if err != nil {
				reply = "-" + err.Error() + "\r\n"
				break
			}
			if reply = string(out); stream {
				if _, err := conn.Write(out); err != nil {
					return
				}
				reply = ""
				p.Feed()
			}
		}
		if _, err := conn.Write([]byte(reply)); err != nil {
			return
		}
	}
}

// stop ends the process at once, and leaves its disk as it is then: but for what was not synced, where power is lost.
func (m *member) stop(power bool, seed uint64) {
	m.t.Helper()
	m.listen.Close()
	m.mu.Lock()
	m.stopping = true
	for c := range m.conns {
		c.Close()
	}
	m.mu.Unlock()
	if err := m.node.Close(m.t.Context()); err != nil && m.t.Context().Err() == nil {
		m.t.Error(err)
	}
	m.serving.Wait()
	m.alive.Store(false) // what it said until here it has
	next := m.sim.Kill()
	if power {
		next = m.sim.Crash(seed, int(seed%100))
		m.boot++
	}
	_ = m.host.Store().Close()
	m.sim, m.node = next, nil
}

func (m *member) kill() { m.stop(false, 0) }

// follow makes m a replica of a primary.
func (m *member) follow(p *member, epoch uint64) {
	m.t.Helper()
	if err := m.node.FollowAt(p.address, p.id, epoch); err != nil {
		m.t.Fatalf("%s: %v", m.id, err)
	}
}

func (m *member) lead(epoch uint64, required ...string) {
	m.t.Helper()
	if err := m.node.LeadAt(epoch); err != nil {
		m.t.Fatalf("%s: %v", m.id, err)
	}
	m.node.Require(append(required, m.id))
}

// schema makes the column that add counts in.
func (m *member) schema() {
	m.t.Helper()
	if err := m.host.Store().AlterScript("add counter w\nadd column w n hint=8 max=30 suffix=n"); err != nil {
		m.t.Fatal(err)
	}
}

// add adds 1 to a post's counter, and tells what came of it.
func (m *member) add(mid uint64) error {
	_, err := m.host.Store().Incr(strconv.FormatUint(mid, 10)+".n", 1)
	return err
}

// get reads it without waiting for others.
func (m *member) get(mid uint64) uint64 {
	m.t.Helper()
	b := m.host.Store().NewBatch()
	if err := b.Begin(); err != nil {
		return 0
	}
	defer b.End()
	k, ok := b.Schema().ParseKey([]byte(strconv.FormatUint(mid, 10) + ".n"))
	if !ok {
		return 0
	}
	b.Add(counter.Op{Kind: counter.OpGet, Counter: k.Counter, Column: int16(k.Col), Mid: k.Mid})
	b.Run()
	return b.Op(0).Value
}

// eventually waits for a condition that nothing else than other goroutines bring about.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in a minute: %s", what)
		}
	}
}

func unconfirmed(err error) bool {
	var uncertain *counter.UncertainError
	var elsewhere *persist.UnconfirmedError
	return errors.As(err, &uncertain) && errors.As(err, &elsewhere)
}

// later runs an add that is to wait, and gives its error.
func (m *member) later(mid uint64) <-chan error {
	done := make(chan error, 1)
	before := m.host.Store().Replication().Position()
	go func() { done <- m.add(mid) }()
	eventually(m.t, "the change is made", func() bool { return m.host.Store().Replication().Position() > before })
	return done
}

func waits(t testing.TB, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		t.Fatalf("acknowledged, or not, at once: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
}

// TestElected takes three nodes through an election: what is acknowledged all required nodes have, who waits learns at
// once what it cannot know, and nobody helps a primary whose epoch is over.
func TestElected(t *testing.T) {
	a, b, c := newMember(t, "a", counter.SyncEverySec), newMember(t, "b", counter.SyncEverySec), newMember(t, "c", counter.SyncEverySec)
	if err := a.host.Store().AlterScript("add counter w"); !errors.Is(err, counter.ErrReplica) {
		t.Fatalf("a node that rests takes a change: %v", err)
	}
	if err := a.node.LeadAt(1); err != nil {
		t.Fatal(err)
	}
	go a.schema()
	eventually(t, "somebody waits", a.host.Store().Replication().Awaited) // as nobody knows who must have it
	if from := a.node.Require([]string{"a"}); from == 0 {
		t.Fatal("there is something to have")
	}
	if err := a.add(1); err != nil {
		t.Fatal(err)
	}
	from := a.node.Require([]string{"a", "b", "c"})
	done := a.later(1)
	waits(t, done)
	b.follow(a, 1)
	eventually(t, "b has it", func() bool { w, _, _, ok := a.node.Peers().Acked("b"); return ok && w > from })
	waits(t, done)
	c.follow(a, 1)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if b.get(1) != 2 || c.get(1) != 2 {
		t.Fatalf("b has %d, c has %d, want 2", b.get(1), c.get(1))
	}

	// One goes. Who waits is told as soon as there is doubt, and others go on when it is not required any more.
	c.kill()
	done = a.later(1)
	read := make(chan error, 1)
	go func() {
		_, _, err := a.host.Store().Get("1.n")
		read <- err
	}()
	waits(t, done)
	waits(t, read)
	a.node.Doubt(errors.New("c does not answer"))
	if err := <-done; !unconfirmed(err) || !strings.Contains(err.Error(), "c does not answer") {
		t.Fatalf("in doubt: %v", err)
	}
	if err := <-read; !unconfirmed(err) {
		t.Fatalf("a reader in doubt: %v", err)
	}
	if err := a.add(1); !unconfirmed(err) {
		t.Fatalf("a change in doubt: %v", err)
	}
	a.node.Doubt(nil)
	done = a.later(1)
	waits(t, done)
	a.node.Require([]string{"a", "b"})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if b.get(1) != 5 {
		t.Fatalf("b has %d, want 5", b.get(1))
	}

	// It comes back and is required again: what is acknowledged from there on it has.
	c.start()
	c.follow(a, 1)
	from = a.node.Require([]string{"a", "b", "c"})
	eventually(t, "c has all", func() bool { w, _, _, _ := a.node.Peers().Acked("c"); return w >= from })
	if err := a.add(1); err != nil || c.get(1) != 6 {
		t.Fatalf("%v, c has %d, want 6", err, c.get(1))
	}

	// b is elected. a does not know, and has what only it has; it learns by who means it in a later epoch.
	b.lead(2, "c")
	done = a.later(1)
	waits(t, done)
	stray := b.later(1)
	waits(t, stray)
	if err := a.node.LeadAt(1); err != nil {
		t.Fatal(err) // it does so
	}
	c.follow(a, 3) // as if it had been told so
	eventually(t, "a hears of it", func() bool { return a.learned.Load() == 3 })
	if got := a.node.Epoch(); got != 1 { // which anybody could have said
		t.Fatalf("a took over epoch %d of a word", got)
	}
	waits(t, done) // it may yet be confirmed, whoever decides on roles knows
	b.follow(a, 3) // which is none: it says so, and b waits
	if err := <-stray; !unconfirmed(err) || !errors.Is(err, counter.ErrDeposed) {
		t.Fatalf("deposed: %v", err)
	}
	b.lead(4, "a", "c")
	c.follow(b, 4)
	a.follow(b, 4)
	if err := <-done; !unconfirmed(err) || !errors.Is(err, counter.ErrDeposed) {
		t.Fatalf("deposed: %v", err)
	}
	if err := b.add(1); err != nil {
		t.Fatal(err)
	}
	if a.get(1) != 8 || b.get(1) != 8 || c.get(1) != 8 { // 6, what b kept of its own, and this
		t.Fatalf("a, b and c have %d, %d, %d, want 8", a.get(1), b.get(1), c.get(1))
	}
	if times, _ := a.node.Cuts(); times != 1 {
		t.Fatalf("a was cut back %d times", times)
	}
}

// TestStrangeEpoch: a connection that speaks of an epoch of nobody's stops neither a primary nor uses up epochs.
func TestStrangeEpoch(t *testing.T) {
	a, b := newMember(t, "a", counter.SyncEverySec), newMember(t, "b", counter.SyncEverySec)
	a.lead(1)
	a.schema()
	b.follow(a, 1)
	a.node.Require([]string{"a", "b"})
	if err := a.add(1); err != nil {
		t.Fatal(err)
	}
	for _, epoch := range []uint64{2, counter.MaxEpoch} {
		p := a.node.Peers().NewPeer(&scripted{})
		for _, o := range [][2]string{{"node-id", "x"}, {"epoch", strconv.FormatUint(epoch, 10)}, {"to", "a"}} {
			if err := p.Configure(o[0], []byte(o[1])); err != nil {
				t.Fatal(err)
			}
		}
		if got := p.Welcome(); got != "RESTS 1" {
			t.Errorf("epoch %d: got %s", epoch, got)
		}
		eventually(t, "it is heard", func() bool { return a.learned.Load() == epoch })
		if err := a.add(1); err != nil {
			t.Fatal(err)
		}
	}
	a.lead(2, "b") // what is heard is no epoch of its own
	b.follow(a, 2)
	if err := a.add(1); err != nil || a.get(1) != 4 {
		t.Fatalf("%v, a has %d, want 4", err, a.get(1))
	}
}
