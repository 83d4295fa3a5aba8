package replication

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/resptest"
	"github.com/redis/go-redis/v9"
)

// twoPairs are a primary and its replica of each kind, spoken to alike.
type twoPairs struct {
	t     testing.TB
	nodes [2][2]*harness.Server // redis, counterd; primary, replica
}

func newTwoPairs(t testing.TB) (p *twoPairs, ok bool) {
	t.Helper()
	redis, ok := harness.StartRedis(t)
	if !ok {
		return nil, false
	}
	ours := harness.Start(t)
	harness.RunScript(t, ours.Dial(t), harness.PlainScript)
	follower, _ := harness.StartRedis(t, "--replicaof", fmt.Sprintf("127.0.0.1 %d", redis.Port))
	p = &twoPairs{t: t, nodes: [2][2]*harness.Server{{redis, follower}, {ours, harness.Start(t, "--replicaof", fmt.Sprintf("127.0.0.1 %d", ours.Port))}}}
	p.linked()
	return p, true
}

// linked waits until the replicas follow and their primaries have heard of it.
func (p *twoPairs) linked() {
	p.t.Helper()
	for _, pair := range p.nodes {
		harness.Eventually(p.t, time.Minute, pair[1].Name+" replica follows", func() bool {
			return strings.Contains(harness.ReplicationField(pair[0], "slave0"), "state=online") && harness.ReplicationField(pair[1], "master_link_status") == "up"
		})
	}
}

// phone is a connection to the same node of both pairs.
type phone struct {
	p     *twoPairs
	conns [2]*harness.Conn
}

func (p *twoPairs) dial(node int) *phone {
	return &phone{p, [2]*harness.Conn{p.nodes[0][node].Dial(p.t), p.nodes[1][node].Dial(p.t)}}
}

// send sends a request; REPLICA in it is the port of the replica.
func (c *phone) send(line string) {
	c.p.t.Helper()
	for i, one := range c.conns {
		words := strings.Fields(line)
		for j := range words {
			if words[j] == "REPLICA" {
				words[j] = strconv.Itoa(c.p.nodes[i][1].Port)
			}
		}
		one.Write(string(resptest.Append(nil, words...)))
	}
}

// read reads a reply from both, which must be equal, and returns it.
func (c *phone) read(line string) string {
	c.p.t.Helper()
	redis, ours := c.conns[0].Reply().Raw, harness.WithoutHint(c.conns[1].Reply().Raw)
	if redis != ours {
		c.p.t.Errorf("%s\n redis %q\n ours  %q", line, redis, ours)
	}
	return ours
}

func (c *phone) do(line string) string {
	c.p.t.Helper()
	c.send(line)
	return c.read(line)
}

// all runs a script. Of a line that begins with "?" the reply's first byte must be equal: to Redis its own pings are
// something to wait for, so that how many replicas have acknowledged is a matter of chance.
func (c *phone) all(script string) {
	c.p.t.Helper()
	for line := range strings.SplitSeq(strings.TrimSpace(script), "\n") {
		line, loose := strings.CutPrefix(strings.TrimSpace(line), "? ")
		if !loose {
			c.do(line)
			continue
		}
		c.send(line)
		if redis, ours := c.conns[0].Reply().Raw, c.conns[1].Reply().Raw; redis[0] != ours[0] {
			c.p.t.Errorf("%s\n redis %q\n ours  %q", line, redis, ours)
		}
	}
}

// field waits until a line of INFO replication of a node has a value on both.
func (p *twoPairs) field(node int, name, want string) {
	p.t.Helper()
	for _, pair := range p.nodes {
		harness.Eventually(p.t, time.Minute, pair[0].Name+" "+name+":"+want, func() bool { return harness.ReplicationField(pair[node], name) == want })
	}
}

// replicas sends a signal to the replicas.
func (p *twoPairs) replicas(sig syscall.Signal) {
	p.t.Helper()
	for _, pair := range p.nodes {
		if sig == syscall.SIGSTOP {
			pair[1].Freeze(p.t)
		} else if err := pair[1].Cmd.Process.Signal(sig); err != nil {
			p.t.Fatal(err)
		}
	}
}

// blocked waits until n connections wait in a command on both primaries.
func (p *twoPairs) blocked(n int) {
	p.t.Helper()
	for _, pair := range p.nodes {
		c := pair[0].Dial(p.t)
		harness.Eventually(p.t, time.Minute, "connections wait", func() bool {
			return strings.Contains(c.Do("INFO", "clients").Raw, "blocked_clients:"+strconv.Itoa(n)+"\r\n")
		})
		c.Close()
	}
}

// TestRolesAsRedis compares what the commands of replication, and refusals that a role brings, answer with
// redis-server.
func TestRolesAsRedis(t *testing.T) {
	t.Parallel() // it waits most of the time
	p, ok := newTwoPairs(t)
	if !ok {
		return
	}
	primary, replica := p.dial(0), p.dial(1)
	primary.all(`
		FAILOVER TO
		FAILOVER TO a
		FAILOVER TO a b
		FAILOVER TO 127.0.0.1 REPLICA FORCE
		FAILOVER FORCE
		FAILOVER FORCE FORCE
		FAILOVER TIMEOUT x
		FAILOVER TIMEOUT 0
		FAILOVER TIMEOUT -1
		FAILOVER TIMEOUT
		FAILOVER ABORT
		FAILOVER ABORT TIMEOUT 3
		FAILOVER TIMEOUT 3 ABORT
		FAILOVER TO 127.0.0.1 99999
		FAILOVER TO 127.0.0.1 -1
		FAILOVER TO 127.0.0.1 REPLICA TO 127.0.0.1 REPLICA
		FAILOVER TIMEOUT 5 TIMEOUT 5
		FAILOVER FORCE TIMEOUT 5
		FAILOVER to 127.0.0.1 REPLICA force
		FAILOVER x
		CLIENT PAUSE
		CLIENT PAUSE x
		CLIENT PAUSE -1
		CLIENT PAUSE 0
		CLIENT PAUSE 10 foo
		CLIENT PAUSE 99999999999999999999
		CLIENT UNPAUSE
		CLIENT UNPAUSE x
		SET n:1 1
		WAIT 1 20000
		? WAIT 0 0
		? WAIT -1 0
		? WAIT 2 1
		WAIT x 0
		WAIT 1 x
		WAIT 1 -1
		WAIT 1
		WAIT x x
		MULTI
		WAIT 5 0
		? EXEC
		CONFIG SET min-replicas-to-write 5
		SET n:1 1
		GET n:1
		DEL n:1
		FLUSHALL
		MULTI
		SET n:1 1
		EXEC
		MULTI
		GET n:1
		EXEC
		CONFIG SET min-replicas-to-write 0
		SET n:1 2
		WAIT 1 20000
		REPLICAOF NO ONE
		REPLICAOF a
		REPLICAOF a b
		REPLICAOF a -1`)
	replica.all(`
		FAILOVER
		FAILOVER ABORT
		FAILOVER TO a 1
		WAIT 0 0
		WAIT x y
		SET n:1 5
		GET n:1
		FLUSHALL
		MULTI
		SET n:1 5
		EXEC
		MULTI
		GET n:1
		WAIT 0 0
		EXEC
		CONFIG SET replica-serve-stale-data no
		GET n:1
		REPLICAOF 127.0.0.1 1
		GET n:1
		SET n:1 1
		PING
		EXISTS n:1
		TYPE n:1
		DBSIZE
		WAIT 0 0
		FAILOVER
		WATCH n:1
		UNWATCH
		MULTI
		GET n:1
		EXEC
		PUBLISH x y
		CONFIG SET replica-serve-stale-data yes
		GET n:1
		SET n:1 1
		REPLICAOF NO ONE
		REPLICAOF NO ONE
		SET n:1 7
		GET n:1`)
}

// TestFailoverAsRedis compares a whole failover with redis-server's: what answers, waits, is refused and goes on, and
// when.
func TestFailoverAsRedis(t *testing.T) {
	t.Parallel() // it waits most of the time
	p, ok := newTwoPairs(t)
	if !ok {
		return
	}
	control, writer, other, waiting, queued := p.dial(0), p.dial(0), p.dial(0), p.dial(0), p.dial(0)
	p.replicas(syscall.SIGSTOP)
	t.Cleanup(func() { p.replicas(syscall.SIGCONT) }) // before they are ended: cleanups run backwards
	control.all("SET n:1 1\nWAIT 1 1")

	// The time is over, or it is aborted: what waited goes on. The commands behind the first FAILOVER must come before its time is over,
	// also on a busy machine.
	control.all("FAILOVER TO 127.0.0.1 REPLICA TIMEOUT 4000\nFAILOVER\nREPLICAOF NO ONE\nREPLICAOF a 1\nREPLICAOF a b")
	p.field(0, "role", "master")
	writer.do("INCR n:1")
	p.field(0, "master_failover_state", "no-failover")
	control.do("FAILOVER")
	p.field(0, "master_failover_state", "waiting-for-sync")
	writer.send("INCR n:1")
	p.blocked(1)
	control.all("GET n:1\nFAILOVER ABORT\nFAILOVER ABORT")
	writer.read("INCR n:1")

	// It takes place.
	queued.all("MULTI\nINCR n:1")
	waiting.all("SET n:2 1")
	waiting.send("WAIT 1 0")
	p.blocked(1)
	control.do("FAILOVER TO 127.0.0.1 REPLICA")
	writer.send("INCR n:1")
	other.all("MULTI\nGET n:1")
	other.send("INCR n:1")
	p.blocked(3)
	p.replicas(syscall.SIGCONT)
	writer.read("INCR n:1")
	other.read("INCR n:1")
	other.do("EXEC")
	queued.do("EXEC")
	writer.do("GET n:1")
	p.field(0, "master_failover_state", "no-failover")
	p.field(0, "role", "slave")
	p.field(1, "role", "master")
	p.field(0, "master_link_status", "up")
	p.dial(1).all("GET n:1\nINCR n:1\nWAIT 1 20000")
	control.do("GET n:1")
	// A WAIT may have been answered before the role went, or is ended with its connection.
	for _, c := range waiting.conns {
		if v := c.Reply().Raw; v != ":1\r\n" && !strings.HasPrefix(v, "-UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)") {
			t.Errorf("WAIT: %q", v)
		}
	}
}

// TestFailoverUnderLoad hands the role over 20 times while go-redis clients, which follow it by trying the other node
// after READONLY, count. Each change that was answered must be there, once, and nothing else.
func TestFailoverUnderLoad(t *testing.T) {
	a := harness.Start(t)
	harness.RunScript(t, a.Dial(t), harness.PlainScript)
	b := harness.Start(t, "--replicaof", fmt.Sprintf("127.0.0.1 %d", a.Port))
	nodes := [2]*harness.Server{a, b}
	const writers = 4
	rounds := max(4, harness.Scaled(6))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var primary, refused atomic.Int64
	var counts [writers]atomic.Int64
	var wg sync.WaitGroup
	for w := range writers {
		clients := [2]*redis.Client{harness.GoRedis(t, a, 0), harness.GoRedis(t, b, 0)}
		key := "n:" + strconv.Itoa(w)
		wg.Go(func() {
			for ctx.Err() == nil {
				now := primary.Load()
				var n int64
				var err error
				if w%2 == 0 {
					n, err = clients[now].Incr(context.Background(), key).Result()
				} else { // a transaction of two
					pipe := clients[now].TxPipeline()
					pipe.Incr(context.Background(), "n:"+strconv.Itoa(100+w))
					last := pipe.Incr(context.Background(), key)
					_, err = pipe.Exec(context.Background())
					n = last.Val()
				}
				switch {
				case err == nil:
					if want := counts[w].Add(1); n != want {
						t.Errorf("%s: increment %d answered %d", key, want, n)
						return
					}
				case strings.Contains(err.Error(), "READONLY"), strings.HasPrefix(err.Error(), "EXECABORT"), harness.RefusedByDisk("-" + err.Error()):
					refused.Add(1)
					time.Sleep(time.Millisecond)
				default:
					t.Errorf("%s: %v", key, err)
					return
				}
			}
		})
	}
	longest := time.Duration(0)
	for i := range rounds {
		from, to := nodes[i%2], nodes[1-i%2]
		harness.Eventually(t, time.Minute, "the replica follows", func() bool {
			return harness.ReplicationField(to, "master_link_status") == "up" && strings.Contains(harness.ReplicationField(from, "slave0"), "state=online")
		})
		before := counts[0].Load()
		harness.Eventually(t, time.Minute, "the writers write", func() bool { return counts[0].Load() > before })
		began := time.Now()
		from.Dial(t).Want("+OK\r\n", "FAILOVER", "TO", "127.0.0.1", strconv.Itoa(to.Port), "TIMEOUT", "20000")
		harness.Eventually(t, time.Minute, "the role has changed", func() bool {
			return harness.ReplicationField(to, "role") == "master" && harness.ReplicationField(from, "master_failover_state") == "no-failover"
		})
		longest = max(longest, time.Since(began))
		primary.Store(int64(1 - i%2))
	}
	time.Sleep(50 * time.Millisecond)
	cancel()
	wg.Wait()
	last, other := nodes[rounds%2], nodes[1-rounds%2]
	c := last.Dial(t)
	harness.Eventually(t, time.Minute, "the other node has everything", func() bool { return c.Do("WAIT", "1", "1000").Raw == ":1\r\n" })
	total := int64(0)
	for w := range writers {
		total += counts[w].Load()
		want := strconv.FormatInt(counts[w].Load(), 10)
		keys := []string{"n:" + strconv.Itoa(w)}
		if w%2 == 1 {
			keys = append(keys, "n:"+strconv.Itoa(100+w))
		}
		for _, key := range keys {
			c.Want(fmt.Sprintf("$%d\r\n%s\r\n", len(want), want), "GET", key)
		}
	}
	if x, y := c.Do("COUNTER.DIGEST").Raw, other.Dial(t).Do("COUNTER.DIGEST").Raw; x != y {
		t.Errorf("digests %q and %q", x, y)
	}
	for _, n := range nodes {
		if cuts := harness.ReplicationField(n, "counterd_diverged_cuts"); cuts != "0" {
			t.Errorf("port %d took back changes %s times", n.Port, cuts)
		}
	}
	t.Logf("%d failovers, %d changes answered, %d refused; the longest failover took %v", rounds, total, refused.Load(), longest.Round(time.Millisecond))
}
