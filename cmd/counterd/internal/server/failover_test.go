// Scenario: CLIENT PAUSE and FAILOVER hold commands back, and a FAILOVER loses no change.

package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/role"
	"github.com/counterd/counterd/internal/testkit/resptest"
)

// untilBlocked waits until n connections wait in a command.
func untilBlocked(t *testing.T, s *Server, n int64) {
	t.Helper()
	until(t, fmt.Sprintf("%d connections wait", n), func() bool { return s.front.Blocked() == n })
}

func TestPause(t *testing.T) {
	s := wireServe(t, nil)
	control, a, b := wireDial(t, s, 2), wireDial(t, s, 2), wireDial(t, s, 2)
	a.want("SET 1.cntcm 1", "+OK")

	// Changes wait, queued ones too; everything else goes on. What was answered before is sent.
	control.want("CLIENT PAUSE 600000 WRITE", "+OK")
	control.want("CLIENT PAUSE 1 WRITE", "+OK") // not shorter
	_, _ = io.WriteString(a.conn, "GET 1.cntcm\r\nINCR 1.cntcm\r\nGET 1.cntcm\r\n")
	if v := a.read().String(); v != `"1"` {
		t.Errorf("before the pause: %s", v)
	}
	b.want("MULTI", "+OK")
	b.want("GET 1.cntcm", "+QUEUED")
	b.send("INCR 1.cntcm")
	untilBlocked(t, s, 2)
	control.want("GET 1.cntcm", `"1"`)
	control.want("PUBLISH x y", ":0")
	if line := control.do("CLIENT LIST").Text; strings.Count(line, "bU db=0") != 2 || strings.Count(line, " cmd=incr") != 2 {
		t.Errorf("CLIENT LIST:\n%s", line)
	}
	control.want("CLIENT UNPAUSE", "+OK")
	for _, want := range []string{":2", `"2"`} {
		if v := a.read().String(); v != want {
			t.Errorf("after the pause: got %s, want %s", v, want)
		}
	}
	if v := b.read().String(); v != "+QUEUED" {
		t.Errorf("queued: %s", v)
	}
	// EXEC of changes waits, of reads it does not.
	control.want("CLIENT PAUSE 600000 WRITE", "+OK")
	b.send("EXEC")
	a.want("MULTI", "+OK")
	a.want("GET 1.cntcm", "+QUEUED")
	a.want("EXEC", `["2"]`)
	untilBlocked(t, s, 1)
	control.want("CLIENT UNPAUSE", "+OK")
	if v := b.read().String(); v != `["2" :3]` {
		t.Errorf("EXEC: %s", v)
	}

	// To say REPLCONF does not make a client's changes pass.
	control.want("CLIENT PAUSE 600000 WRITE", "+OK")
	b.want("REPLCONF listening-port 1", "+OK")
	b.want("GET 1.cntcm", `"3"`)
	b.send("DECR 1.cntcm")
	untilBlocked(t, s, 1)
	control.want("CLIENT UNPAUSE", "+OK")
	if v := b.read().String(); v != ":2" {
		t.Errorf("after the pause: %s", v)
	}
	b.want("INCR 1.cntcm", ":3")

	// ALL holds back everything, CLIENT UNPAUSE too, until the time is over.
	began := time.Now()
	control.want("CLIENT PAUSE 200 ALL", "+OK")
	control.want("CLIENT UNPAUSE", "+OK")
	a.want("GET 1.cntcm", `"3"`)
	if took := time.Since(began); took < 190*time.Millisecond {
		t.Errorf("the pause of 200 ms took %v", took)
	}
	control.want("CLIENT PAUSE 100 WRITE", "+OK")
	a.want("INCR 1.cntcm", ":4")
	until(t, "the guard is open", func() bool { return s.role.Lets(command.Write) })
	untilBlocked(t, s, 0)

	// CLIENT REPLY SKIP of a command that waits leaves out that reply only.
	control.want("CLIENT PAUSE 50 WRITE", "+OK")
	_, _ = io.WriteString(a.conn, "GET 1.cntcm\r\nCLIENT REPLY SKIP\r\nINCR 1.cntcm\r\nGET 1.cntcm\r\n")
	for _, want := range []string{`"4"`, `"5"`} {
		if v := a.read().String(); v != want {
			t.Errorf("CLIENT REPLY SKIP: got %s, want %s", v, want)
		}
	}

	// A server that ends does not wait for a pause, and does not execute what waited.
	control.want("CLIENT PAUSE 600000 WRITE", "+OK")
	a.send("INCR 1.cntcm")
	untilBlocked(t, s, 1)
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := resptest.Read(a.r, 2); err == nil {
		t.Error("a change that waited was answered by a server that ends")
	}
}

// deafReplica follows a node's log and acknowledges nothing. It announces port.
func deafReplica(t *testing.T, a *replNode, port int) *wireClient {
	t.Helper()
	return deafReplicaAs(t, a, port, fmt.Sprint(port))
}

// deafReplicaAs is one of a process.
func deafReplicaAs(t *testing.T, a *replNode, port int, process string) *wireClient {
	t.Helper()
	c := a.dial()
	c.want(fmt.Sprintf("REPLCONF listening-port %d ip-address 127.0.0.1", port), "+OK")
	c.want("REPLCONF version counterd capa counterd1 process "+process, "+OK")
	c.send("PSYNC ? -1")
	blobs := func(kind string, n int) uint64 {
		line, err := c.r.ReadString('\n')
		f := strings.Fields(line)
		if err != nil || f[0] != kind {
			t.Fatalf("PSYNC: %q %v", line, err)
		}
		for _, size := range f[3 : 3+n] {
			k, _ := strconv.Atoi(size)
			if _, err := c.r.Discard(k + 2); err != nil {
				t.Fatal(err)
			}
		}
		offset, _ := strconv.ParseUint(f[2], 10, 64)
		return offset
	}
	at := blobs("+FULLRESYNC", 2)
	c.send(fmt.Sprintf("PSYNC ? %d", at))
	blobs("+CONTINUE", 1)
	until(t, "it is online", func() bool {
		return strings.Contains(a.dial().do("INFO replication").Text, fmt.Sprintf("port=%d,state=online", port))
	})
	return c
}

// TestFailoverHeld: changes of every kind that FAILOVER holds back are refused as the role goes, and change nothing.
// Their connections go on.
func TestFailoverHeld(t *testing.T) {
	a := newReplNode(t).start("")
	c := newReplNode(t).start(a.addr())
	a.dial().want("SET 1.cntcm 5", "+OK")
	until(t, "the replica follows", func() bool { return a.dial().do("WAIT 1 100").N == 1 })
	b := listenAs(t, 0)
	deaf := deafReplica(t, a, b.port())
	type heldChange struct {
		command string
		conn    *wireClient
	}
	var held []heldChange
	for _, command := range []string{"INCR 1.cntcm", "INCR 1.cntcm IDMP p 1", "SET 9.cntcm 1", "DEL 1", "FLUSHALL", "COUNTER.DRAIN 1.cntcm",
		"COUNTER.UPDATE weibo WHERE cntcm > 0 INCRBY cntcm 1", "ADD COLUMN weibo more hint=4 max=8", "EXEC"} {
		held = append(held, heldChange{command, a.dial()})
		if command == "EXEC" {
			held[len(held)-1].conn.want("MULTI", "+OK")
			held[len(held)-1].conn.want("INCR 1.cntcm", "+QUEUED")
		}
	}
	a.dial().want(fmt.Sprintf("FAILOVER TO 127.0.0.1 %d", b.port()), "+OK")
	for _, h := range held {
		h.conn.send(h.command)
	}
	untilBlocked(t, a.srv, int64(len(held)))
	log := a.srv.Store().Replication()
	deaf.send(fmt.Sprintf("REPLCONF ACK %d", log.Position()))
	until(t, "the replica was told", func() bool { return b.told.Load() == 1 })
	c.dial().want("REPLICAOF NO ONE", "+OK") // and b follows it, which ends the failover
	deaf.conn.Close()
	until(t, "its link is down", func() bool { return a.info("connected_slaves") == "0" })
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case b.roles <- follower(c.port, repl.LinkConnected, 1<<40):
			case <-ended:
				return
			}
		}
	}()
	for _, h := range held {
		want := "-" + items.ErrReadOnly
		if h.command == "EXEC" {
			want = "-EXECABORT Transaction discarded because of: " + items.ErrReadOnly
		}
		if got := h.conn.read().String(); got != want {
			t.Errorf("%s: %s", h.command, got)
		}
		h.conn.want("PING", "+PONG")
	}
	until(t, "it follows", func() bool { return a.info("master_link_status") == "up" })
	a.dial().want("GET 1.cntcm", `"5"`)
	same(t, c, a)
}

// TestFailoverThatIsNot: timeouts, ABORT in both phases and targets that cannot be told. Changes wait meanwhile and
// then go on.
func TestFailoverThatIsNot(t *testing.T) {
	a := newReplNode(t).start("")
	w, writer := a.dial(), a.dial()
	w.want("FAILOVER", "-ERR FAILOVER requires connected replicas.")
	w.want("FAILOVER ABORT", "-ERR No failover in progress.")
	nobody, err := net.Listen("tcp", "127.0.0.1:0") // takes connections once it is asked to
	if err != nil {
		t.Fatal(err)
	}
	defer nobody.Close()
	port := nobody.Addr().(*net.TCPAddr).Port
	to := fmt.Sprintf("TO 127.0.0.1 %d", port)
	w.want("SET 1.cntcm 1", "+OK")
	deafReplica(t, a, port)
	term := len(a.srv.Store().Replication().Lineage().Terms)
	w.want("FAILOVER TO 127.0.0.1 1", "-ERR FAILOVER target HOST and PORT is not a replica.")
	w.want("FAILOVER "+to+" FORCE", "-ERR FAILOVER with force option requires both a timeout and target HOST and IP.")

	// TIMEOUT.
	w.want("FAILOVER "+to+" TIMEOUT 200", "+OK")
	writer.want("INCR 1.cntcm", ":2")
	until(t, "no failover", func() bool { return a.info("master_failover_state") == role.PhaseNone })

	// ABORT while waiting.
	w.want("FAILOVER", "+OK")
	if phase := a.info("master_failover_state"); phase != role.PhaseWaiting {
		t.Errorf("master_failover_state:%s", phase)
	}
	w.want("FAILOVER", "-ERR FAILOVER already in progress.")
	w.want("REPLICAOF NO ONE", "-ERR REPLICAOF not allowed while failing over.")
	writer.send("INCR 1.cntcm")
	untilBlocked(t, a.srv, 1)
	if role := a.info("role"); role != "master" {
		t.Errorf("role:%s", role)
	}
	w.want("GET 1.cntcm", `"2"`)
	w.want("FAILOVER ABORT", "+OK")
	if v := writer.read().String(); v != ":3" {
		t.Errorf("after ABORT: %s", v)
	}
	if n := len(a.srv.Store().Replication().Lineage().Terms); n != term {
		t.Errorf("an aborted failover began %d new histories", n-term)
	}

	// FORCE to a target that hears and never answers, then ABORT: this is the primary again.
	until(t, "no failover", func() bool { return a.info("master_failover_state") == role.PhaseNone })
	w.want("FAILOVER "+to+" FORCE TIMEOUT 50", "+OK")
	conn, err := nobody.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || line != "*3\r\n" {
		t.Fatalf("the target was told %q %v", line, err)
	}
	if phase := a.info("master_failover_state"); phase != role.PhaseTelling {
		t.Errorf("master_failover_state:%s", phase)
	}
	w.want("INCR 1.cntcm", "-READONLY You can't write against a read only replica.")
	w.want("FAILOVER ABORT", "+OK")
	until(t, "this is the primary again", func() bool { return w.do("INCR 1.cntcm").String() == ":4" })
	until(t, "no failover", func() bool { return a.info("master_failover_state") == role.PhaseNone })

	// FORCE to a target that is not there.
	deafReplica(t, a, port)
	nobody.Close()
	w.want("FAILOVER "+to+" FORCE TIMEOUT 50", "+OK")
	until(t, "no failover", func() bool { return a.info("master_failover_state") == role.PhaseNone })
	w.want("INCR 1.cntcm", ":5")
}

// TestFailoverLosesNothing hands the role over under load, to and fro: every increment that was answered is there,
// once, and connections that stay get READONLY at the node that is no primary any more and nothing else.
func TestFailoverLosesNothing(t *testing.T) {
	a, b := newReplNode(t), newReplNode(t)
	a.start("")
	b.start(a.addr())
	same(t, a, b)
	b.dial().want("FAILOVER", "-ERR FAILOVER is not valid when server is a replica.")
	waiting := a.dial()
	waiting.send("WAIT 2 0")
	untilBlocked(t, a.srv, 1)
	var answered atomic.Int64
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for i, n := range []*replNode{a, b, a, b} {
		c := n.dial()
		writers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				change := "INCR 1.cntcm"
				if i > 1 { // a transaction, which is refused as a whole
					c.want("MULTI", "+OK")
					switch v := c.do(change); {
					case v.String() == "+QUEUED":
					case strings.HasPrefix(v.Text, "READONLY "):
						c.want("DISCARD", "+OK")
						continue
					default:
						t.Errorf("queueing: %s", v)
						return
					}
					change = "EXEC"
				}
				switch v := c.do(change); {
				case v.Kind == ':', v.Kind == '*' && len(v.List) == 1 && v.List[0].Kind == ':':
					answered.Add(1)
				case v.Kind == '*' && strings.HasPrefix(v.List[0].Text, "READONLY "), strings.HasPrefix(v.Text, "READONLY "),
					strings.HasPrefix(v.Text, "EXECABORT Transaction discarded because of: READONLY "):
				default:
					t.Errorf("%s: %s", change, v)
					return
				}
			}
		})
	}
	for i := range 6 {
		before := answered.Load()
		until(t, "changes are taken", func() bool { return answered.Load() > before+20 })
		a.dial().want("FAILOVER", "+OK")
		until(t, "b leads", func() bool { return !b.srv.Store().Replica() && a.info("master_link_status") == "up" })
		until(t, "no failover", func() bool { return a.info("master_failover_state") == role.PhaseNone })
		if i == 0 {
			if v := waiting.read().String(); !strings.HasPrefix(v, "-UNBLOCKED ") {
				t.Errorf("WAIT at a node that became a replica: %s", v)
			}
			if _, err := resptest.Read(waiting.r, 2); err == nil {
				t.Error("the connection of that WAIT is open")
			}
		}
		a, b = b, a
	}
	close(stop)
	writers.Wait()
	same(t, a, b)
	if got := a.dial().do("GET 1.cntcm").Text; got != strconv.FormatInt(answered.Load(), 10) {
		t.Errorf("got %s, want the %d that were answered", got, answered.Load())
	}
	if n, m := a.info("counterd_diverged_cuts"), b.info("counterd_diverged_cuts"); n != "0" || m != "0" {
		t.Errorf("%s and %s cuts", n, m)
	}
}

// TestReplicaCountsOnce: a connection of a replica that was cut on its side only is no second replica, for WAIT,
// WAITAOF and min-replicas; and it is closed as soon as the replica comes again, if it is the same process.
func TestReplicaCountsOnce(t *testing.T) {
	a := newReplNode(t).start("")
	w := a.dial()
	w.want("SET 1.cntcm 1", "+OK")
	w.want("WAITAOF 1 0 0", "[:1 :0]")
	end := a.srv.Store().Replication().Position()
	follows := func(port int, process string) *wireClient {
		c := deafReplicaAs(t, a, port, process)
		c.send(fmt.Sprintf("REPLCONF ACK %d FACK %d", end, end))
		return c
	}
	counts := func(n int) {
		t.Helper()
		until(t, fmt.Sprintf("%d replicas", n), func() bool { // fewer for a moment, until the new connection of one has told how far it is
			return w.do(fmt.Sprintf("WAIT %d 1", n+1)).N == int64(n) && w.do(fmt.Sprintf("WAITAOF 0 %d 1", n+1)).String() == fmt.Sprintf("[:1 :%d]", n)
		})
		w.want("CONFIG SET min-replicas-to-write 1", "+OK")
		if got := a.info("min_slaves_good_slaves"); got != fmt.Sprint(n) {
			t.Errorf("%s good replicas, want %d", got, n)
		}
		w.want("CONFIG SET min-replicas-to-write 0", "+OK")
	}
	follows(1001, "one")
	counts(1)
	follows(1001, "another") // the old one's machine was switched off
	counts(1)
	second := follows(1002, "two")
	counts(2)
	follows(1002, "two")
	counts(2)
	for {
		if _, err := second.r.ReadByte(); err != nil { // pings before
			break
		}
	}
	until(t, "the old connection is forgotten", func() bool { return a.info("connected_slaves") == "3" })
}
