// Scenario: replicas follow a primary: full copies, resumption, divergence, and tools that act as replicas.

package server

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/testkit/freeport"
	"github.com/counterd/counterd/persist/archive"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// replNode is a server with a data directory, on a TCP port that it keeps over restarts.
type replNode struct {
	t    *testing.T
	dir  string
	port int
	srv  *Server
	opts counter.Options
	log  testLog

	change func(*config.Config) // nil: nothing

	listening func()  // called by start before there is a store; may be nil
	opens     *Server // that start has made last
	id        string  // of a cluster's node; empty: it is none
}

// testLog is what a node said in its log. It may be written to by several goroutines at once.
type testLog struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (l *testLog) Write(p []byte) (int, error) {
	if os.Getenv("REPL_LOG") != "" {
		_, _ = os.Stderr.Write(p)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// forget forgets what a node has said.
func (n *replNode) forget() {
	n.log.mu.Lock()
	defer n.log.mu.Unlock()
	n.log.text.Reset()
}

// said tells whether a node has said something in its log.
func (n *replNode) said(words string) bool {
	n.log.mu.Lock()
	defer n.log.mu.Unlock()
	return strings.Contains(n.log.text.String(), words)
}

func newReplNode(t *testing.T) *replNode {
	t.Helper()
	n := &replNode{t: t, dir: t.TempDir(), port: freeport.Take(t)}
	n.opts = counter.Options{BlockItems: 64, SnapshotGrowth: -1, HashSeed: 1, RetainBytes: 1 << 30}
	t.Cleanup(n.stop)
	return n
}

// start starts it; primary is "" or "host port".
func (n *replNode) start(primary string) *replNode {
	n.t.Helper()
	logger := slog.New(slog.NewTextHandler(&n.log, nil)).With("port", n.port)
	n.opts.Logger, n.opts.Elected = logger, n.id != ""
	start := serverStart{log: logger}
	start.change = func(c *config.Config) {
		c.Port, c.UnixSocket, c.Dir, c.ReplicaOf = n.port, "", n.dir, primary
		if n.change != nil {
			n.change(c)
		}
	}
	start.made = func(s *Server) {
		n.opens = s
		if n.id != "" {
			s.role.Elect(n.id, func() {})
		}
		s.Open = func() (*counter.Store, error) { return counter.Open(n.dir, n.opts) }
	}
	start.listen = func(*Server) {
		if n.listening != nil {
			n.listening()
		}
	}
	start.open = func(s *Server) (*counter.Store, error) { return s.OpenStore() }
	if primary == "" {
		start.schema = wireSchema
	}
	s := startServer(n.t, start)
	n.srv = s
	return n
}

func (n *replNode) stop() {
	if n.srv == nil {
		return
	}
	stopServer(n.t, n.srv)
	n.srv = nil
}

func (n *replNode) addr() string { return fmt.Sprintf("127.0.0.1 %d", n.port) }

func (n *replNode) dial() *wireClient {
	n.t.Helper()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", n.port))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return &wireClient{t: n.t, conn: conn, r: bufio.NewReader(conn), proto: 2}
}

func (n *replNode) info(field string) string {
	n.t.Helper()
	c := n.dial()
	defer c.conn.Close()
	for line := range strings.SplitSeq(c.do("INFO all").Text, "\r\n") {
		if name, value, ok := strings.Cut(line, ":"); ok && name == field {
			return value
		}
	}
	return ""
}

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	untilEach(t, 5*time.Millisecond, what, ok)
}

// untilEach waits for a condition whose check is expensive: every 5 ms, the checks alone would keep the processor busy.
func untilEach(t *testing.T, pause time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(pause) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// same waits until nodes have the same log end and compares their digests and logs.
func same(t *testing.T, nodes ...*replNode) {
	t.Helper()
	for _, n := range nodes[1:] {
		samePosts(t, nodes[0], n)
		sameLog(t, nodes[0], n)
	}
}

// samePosts waits until a replica is at the end of its primary's log, and compares their posts.
func samePosts(t *testing.T, first, n *replNode) {
	t.Helper()
	until(t, fmt.Sprintf("node %d at the end of node %d's log", n.port, first.port), func() bool {
		return n.srv.Store().Replica() && n.info("master_link_status") == "up" && n.srv.Store().Replication().Written() == first.srv.Store().Replication().Position()
	})
	until(t, fmt.Sprintf("node %d answers", n.port), func() bool { // a node that was healed says so in INFO a moment before
		return !strings.HasPrefix(n.dial().do("COUNTER.DIGEST").String(), "-MASTERDOWN")
	})
	if a, b := first.dial().do("COUNTER.DIGEST").String(), n.dial().do("COUNTER.DIGEST").String(); a != b {
		t.Errorf("digests %s and %s", a, b)
	}
}

// sameLog compares the frames that two logs both have. It begins again where a snapshot removes frames meanwhile.
func sameLog(t *testing.T, a, b *replNode) {
	t.Helper()
	err := compareLogs(a, b)
	for errors.Is(err, format.ErrGone) {
		err = compareLogs(a, b)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func compareLogs(a, b *replNode) error {
	la, lb := a.srv.Store().Replication(), b.srv.Store().Replication()
	from := max(la.First(), lb.First())
	ra, err := la.NewReader(from)
	if err != nil {
		return err
	}
	defer ra.Close()
	rb, err := lb.NewReader(from)
	if err != nil {
		return err
	}
	defer rb.Close()
	for {
		fa, err := ra.TryNext()
		if err != nil {
			return err
		}
		fb, err := rb.TryNext()
		if err != nil || fa == nil || fb == nil {
			return err
		}
		if string(fa.Raw) != string(fb.Raw) {
			return fmt.Errorf("the logs differ at %d and %d", fa.Start, fb.Start)
		}
	}
}

func TestReplication(t *testing.T) {
	a, b, c := newReplNode(t), newReplNode(t), newReplNode(t)
	a.start("")
	w := a.dial()
	w.want("SET 7.cntcm 5", "+OK")
	b.start(a.addr())
	same(t, a, b)
	r := b.dial()
	r.want("GET 7.cntcm", `"5"`)
	r.want("INCR 7.cntcm", "-READONLY You can't write against a read only replica.")
	r.want("ADD COUNTER x", "-READONLY You can't write against a read only replica.")
	w.want("ADD COLUMN weibo like hint=8 max=32 suffix=cntlk", "+OK")
	w.want("SET 7.cntlk 9", "+OK")
	w.want("WAIT 1 10000", ":1")
	w.want("WAITAOF 1 1 10000", "[:1 :1]")
	r.want("GET 7.cntlk", `"9"`)
	if role := w.do("ROLE").String(); !strings.HasPrefix(role, `["master" :`) || !strings.Contains(role, strconv.Itoa(b.port)) {
		t.Errorf("ROLE %s", role)
	}
	if role := r.do("ROLE").String(); !strings.HasPrefix(role, fmt.Sprintf(`["slave" "127.0.0.1" :%d "connected" :`, a.port)) {
		t.Errorf("ROLE %s", role)
	}
	if line := a.info("slave0"); !strings.HasPrefix(line, fmt.Sprintf("ip=127.0.0.1,port=%d,state=online,offset=", b.port)) {
		t.Errorf("slave0:%s", line)
	}
	w.want("CLIENT KILL TYPE replica", ":1")
	for i := range 500 {
		w.want("INCR "+strconv.Itoa(i)+".cntrn", ":1")
	}
	same(t, a, b)

	// A replica of the replica, by a full copy of a snapshot and the log behind it.
	w.save()
	w.want("COUNTER.DEMOTE weibo 3", "+OK")
	same(t, a, b)
	r.want("COUNTER.DEMOTE weibo 3", "+OK") // tiers are each node's own
	r.want("GET 3.cntrn", `"1"`)
	r.want("COUNTER.PROMOTE weibo 3", "+OK")
	w.save()
	w.want("FLUSHALL", "+OK")
	w.want("INCR 900.cntrn", ":1")
	same(t, a, b)
	b.dial().save()
	b.dial().save()
	c.start(b.addr())
	same(t, b, c)
	w.want("INCR 901.cntrn", ":1")
	same(t, a, b)
	same(t, b, c)

	// A->B->C to A->{B,C} and the end of A: no full copies.
	full := func() string { return a.info("sync_full") + b.info("sync_full") + c.info("sync_full") }
	before := full()
	c.dial().want("REPLICAOF 127.0.0.1 "+strconv.Itoa(a.port), "+OK")
	same(t, a, b, c)
	w.want("FAILOVER TO 127.0.0.1 "+strconv.Itoa(b.port)+" TIMEOUT 10000", "+OK")
	until(t, "b leads", func() bool { return !b.srv.Store().Replica() })
	until(t, "no failover", func() bool { return a.info("master_failover_state") == "no-failover" })
	b.dial().want("INCR 901.cntrn", ":2")
	same(t, b, a)
	c.dial().want("REPLICAOF 127.0.0.1 "+strconv.Itoa(b.port), "+OK")
	b.dial().want("WAIT 2 10000", ":2")
	same(t, b, a, c)
	if after := full(); after != before {
		t.Errorf("full copies: %s before and %s after", before, after)
	}

	// Restarts of both sides.
	a.stop()
	b.dial().want("INCR 901.cntrn", ":3")
	a.start(b.addr())
	same(t, b, a)
	b.stop()
	b.start("")
	b.dial().want("INCR 901.cntrn", ":4")
	same(t, b, a, c)
}

// TestFullCopy sends a snapshot with hot, cold and overlay files.
func TestFullCopy(t *testing.T) {
	a, b := newReplNode(t), newReplNode(t)
	a.start("")
	w := a.dial()
	for i := range 1000 {
		w.want(fmt.Sprintf("SET %d.cntcm %d", i, i*3), "+OK")
	}
	w.save()
	w.want("COUNTER.DEMOTE weibo 3", "+OK")
	w.want("INCR 4.cntcm", ":13")
	w.save()
	w.want("SET 5.cntcm 1", "+OK")
	b.start("")
	b.dial().want("SET 77777.cntcm 1", "+OK") // its own, which goes
	b.dial().save()
	b.dial().want("INCR 77777.cntcm", ":2")
	b.dial().want("REPLICAOF 127.0.0.1 "+strconv.Itoa(a.port), "+OK")
	same(t, a, b)
	b.dial().want("GET 77777.cntcm", "nil")
	b.dial().want("GET 4.cntcm", `"13"`)
	saved, _ := filepath.Glob(filepath.Join(b.dir, "diverged-*"))
	if last := b.info("counterd_diverged_last"); len(saved) != 1 || !strings.HasSuffix(last, ",items=1,file="+saved[0]) || b.info("counterd_diverged_cuts") != "1" {
		t.Fatalf("saved %v, counterd_diverged_last:%s", saved, last)
	}
	archive, err := archive.Open(vfs.OS(), saved[0])
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	own, err := counter.Open(saved[0], counter.Options{FS: vfs.NewView(archive, nil), Manual: true})
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if n, found, err := own.Get("77777.cntcm"); n != 2 || !found || err != nil {
		t.Errorf("the saved data has %d, %t, %v, want 2", n, found, err)
	}
	if n := a.info("sync_full"); n != "1" {
		t.Errorf("%s full copies, want 1", n)
	}
	b.dial().save()
	b.stop()
	w.want("SET 6.cntcm 1", "+OK")
	b.start(a.addr())
	same(t, a, b)
	if n := a.info("sync_full"); n != "1" {
		t.Errorf("%s full copies after a restart, want 1", n)
	}
}

// TestDivergence: two primaries after a partition. What one of them took alone is cut, saved and counted.
// TestReplicaTransactions runs transactions of some hundred changes on a primary, while connections to a replica, and
// to a replica of that, read the first and the last key of each in all ways that read both at once: they are never
// apart. Then the replica leads, and its replica's readers see the same.
func TestReplicaTransactions(t *testing.T) {
	a, b, c := newReplNode(t), newReplNode(t), newReplNode(t)
	a.start("")
	b.start(a.addr())
	same(t, a, b)
	c.start(b.addr())
	same(t, a, b, c)
	const first, last = 5, 900000000000
	transaction := func(w *wireClient, n int) {
		t.Helper()
		w.send("MULTI")
		w.send(fmt.Sprintf("INCR %d.cntcm", first))
		for i := range n {
			w.send(fmt.Sprintf("INCR %d.cntcm", 1000*(i+1)))
		}
		w.send(fmt.Sprintf("INCR %d.cntcm", last))
		w.send("EXEC")
		for range n + 3 {
			w.read()
		}
		if r := w.read(); len(r.List) != n+2 {
			t.Fatalf("EXEC: %s", r)
		}
	}
	var readers sync.WaitGroup
	stop := make(chan struct{})
	apart := make(chan string, 10)
	// read looks until stop, and tells what differs.
	read := func(values func() (string, string)) {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if x, y := values(); x != y {
					apart <- fmt.Sprintf("%s and %s", x, y)
					return
				}
			}
		})
	}
	for _, n := range []*replNode{b, c} {
		mget, items, exec := n.dial(), n.dial(), n.dial()
		read(func() (string, string) {
			v := mget.do(fmt.Sprintf("MGET %d.cntcm %d.cntcm", first, last))
			if len(v.List) != 2 {
				return v.String(), "two values"
			}
			return v.List[0].String(), v.List[1].String()
		})
		read(func() (string, string) {
			v := items.do(fmt.Sprintf("COUNTER.MGET weibo %d %d", first, last))
			if len(v.List) != 2 {
				return v.String(), "two items"
			}
			return v.List[0].String(), v.List[1].String()
		})
		read(func() (string, string) {
			exec.do("MULTI")
			exec.do(fmt.Sprintf("GET %d.cntcm", first))
			exec.do(fmt.Sprintf("GET %d.cntcm", last))
			v := exec.do("EXEC")
			if len(v.List) != 2 {
				return v.String(), "two values"
			}
			return v.List[0].String(), v.List[1].String()
		})
	}
	w := a.dial()
	for range 30 {
		transaction(w, 600)
	}
	same(t, a, b, c)
	b.dial().want("REPLICAOF NO ONE", "+OK")
	w = b.dial()
	for range 20 {
		transaction(w, 600)
	}
	same(t, b, c)
	close(stop)
	readers.Wait()
	select {
	case text := <-apart:
		t.Errorf("half a transaction: %s", text)
	default:
	}
}

func TestDivergence(t *testing.T) {
	a, b := newReplNode(t), newReplNode(t)
	a.start("")
	a.dial().want("SET 1.cntcm 1", "+OK")
	b.start(a.addr())
	same(t, a, b)
	b.dial().want("REPLICAOF NO ONE", "+OK")
	for range 5 {
		a.dial().do("INCR 1.cntcm") // alone
	}
	b.dial().want("SET 2.cntcm 8", "+OK")
	a.dial().want("REPLICAOF 127.0.0.1 "+strconv.Itoa(b.port), "+OK")
	same(t, b, a)
	a.dial().want("GET 1.cntcm", `"1"`)
	if n := a.info("counterd_diverged_cuts"); n != "1" {
		t.Errorf("%s cuts, want 1", n)
	}
	if last := a.info("counterd_diverged_last"); !strings.Contains(last, ",sets=5,deletes=0,") {
		t.Errorf("counterd_diverged_last:%s", last)
	}
	if files, _ := filepath.Glob(filepath.Join(a.dir, "diverged-*.aof")); len(files) != 1 {
		t.Errorf("saved tails: %v", files)
	}
	if n := b.info("sync_full"); n != "0" {
		t.Errorf("%s full copies, want none", n)
	}
}

func TestMinReplicas(t *testing.T) {
	a, b := newReplNode(t), newReplNode(t)
	a.start("")
	w := a.dial()
	w.want("CONFIG SET min-replicas-to-write 1 min-replicas-max-lag 5", "+OK")
	until(t, "refused", func() bool {
		return w.do("INCR 1.cntcm").String() == "-NOREPLICAS Not enough good replicas to write."
	})
	w.want("GET 1.cntrn", w.do("GET 1.cntrn").String())
	b.start(a.addr())
	until(t, "taken", func() bool { return w.do("INCR 1.cntcm").Kind == ':' })
	same(t, a, b)
}
