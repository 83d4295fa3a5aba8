// Scenario: clients send every kind of command at once while others are killed, unblocked, paused and evicted.

package server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/testkit/resptest"
	"github.com/counterd/counterd/internal/testkit/seed"
)

// chaosClient counts on a post of its own, by pipelines of all kinds of commands cut into pieces anywhere, and holds
// every byte of every reply against what it has to be. When its connection ends it must find as many changes as were
// acknowledged, or as many more as were on their way.
type chaosClient struct {
	t     *testing.T
	s     *Server
	rng   *rand.Rand
	mid   int
	proto int
	conn  net.Conn
	r     *bufio.Reader
	id    int64 // of the connection

	acked, sent int64 // value of the counter: at least, and at most
	value       int64 // after all that was sent, on a connection that lives
}

func (c *chaosClient) null() string {
	if c.proto == 3 {
		return "_\r\n"
	}
	return "$-1\r\n"
}

// connect dials until it is let in, and reads where the counter stands. What the server had read of the connection
// before is executed by then.
func (c *chaosClient) connect() {
	until(c.t, "the last connection's end", func() bool { return c.s.front.Session(c.id) == nil })
	for deadline := time.Now().Add(3 * time.Minute); ; {
		conn, err := net.Dial("unix", c.s.config.Get().UnixSocket)
		if err != nil {
			c.t.Error(err)
			return
		}
		_ = conn.SetDeadline(deadline)
		c.conn, c.r, c.proto = conn, bufio.NewReader(conn), 2
		var got int64
		if _, err := fmt.Fprintf(conn, "CLIENT ID\r\nINCRBY %d.cntrn 0\r\n", c.mid); err == nil {
			if _, err = fmt.Fscanf(c.r, ":%d\r\n:%d\r\n", &c.id, &got); err == nil {
				if got < c.acked || got > c.sent {
					c.t.Errorf("post %d is %d, of %d acknowledged and %d sent changes", c.mid, got, c.acked, c.sent)
				}
				c.acked, c.sent, c.value = got, got, got
				if c.rng.IntN(2) == 0 {
					return
				}
				if _, err := io.WriteString(conn, "HELLO 3\r\n"); err == nil {
					if _, err := resptest.Read(c.r, 3); err == nil {
						c.proto = 3
						return
					}
				}
			}
		}
		conn.Close()
		if time.Now().After(deadline) {
			c.t.Error("no connection")
			return
		}
	}
}

// command returns one and its reply.
func (c *chaosClient) command() (request, reply string) {
	incr := func() int64 { c.value++; return c.value }
	array := func(words ...string) string {
		var b strings.Builder
		fmt.Fprintf(&b, "*%d\r\n", len(words))
		for _, w := range words {
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
		}
		return b.String()
	}
	bulk := func(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }
	key := fmt.Sprintf("%d.cntrn", c.mid)
	switch c.rng.IntN(16) {
	case 0:
		return "PING\r\n", "+PONG\r\n"
	case 1:
		text := strings.Repeat(string(rune('a'+c.mid%26)), c.rng.IntN(3000))
		return array("ECHO", text), bulk(text)
	case 2:
		text := strings.Repeat(string(rune('A'+c.mid%26)), c.rng.IntN(300_000))
		return array("ECHO", text), bulk(text)
	case 3:
		return array("GET", key), bulk(fmt.Sprint(c.value))
	case 4:
		return array("GET", fmt.Sprintf("%d.cntcm", c.mid+1_000_000)), c.null()
	case 5:
		return array("SET", key, "x"), "-ERR value is not an integer or out of range\r\n"
	case 6:
		return "MULTI\r\n" + array("INCR", key) + array("GET", key) + "EXEC\r\n",
			fmt.Sprintf("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:%d\r\n%s", incr(), bulk(fmt.Sprint(c.value)))
	case 7:
		return "MULTI\r\n" + array("INCR", key) + "DISCARD\r\n", "+OK\r\n+QUEUED\r\n+OK\r\n"
	case 8:
		return "CLIENT REPLY OFF\r\n" + array("INCR", key) + "CLIENT REPLY ON\r\n", func() string { incr(); return "+OK\r\n" }()
	case 9:
		return "CLIENT REPLY SKIP\r\n" + array("INCR", key), func() string { incr(); return "" }()
	case 10:
		return "WAIT 0 0\r\n", ":0\r\n"
	case 11:
		return "MULTI\r\nWAIT 1 0\r\n" + array("INCR", key) + "EXEC\r\n", fmt.Sprintf("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:0\r\n:%d\r\n", incr())
	case 12:
		return "OBJECT FREQ x y\r\n", "-ERR wrong number of arguments for 'object|freq' command (usage: OBJECT FREQ key)\r\n"
	default:
		return array("INCR", key), fmt.Sprintf(":%d\r\n", incr())
	}
}

// pipeline sends some commands and reads their replies; false when the connection has ended.
func (c *chaosClient) pipeline() bool {
	var requests, replies bytes.Buffer
	for range 1 + c.rng.IntN(40) {
		request, reply := c.command()
		requests.WriteString(request)
		replies.WriteString(reply)
	}
	requests.WriteString("PING\r\n") // whose reply says that also a change without one was made
	replies.WriteString("+PONG\r\n")
	c.sent = c.value
	giveUp := c.rng.IntN(20) == 0 // close anywhere
	text := requests.Bytes()
	if giveUp {
		text = text[:c.rng.IntN(len(text)+1)]
	}
	var sending sync.WaitGroup
	pieces := rand.New(rand.NewPCG(c.rng.Uint64(), 0))
	conn := c.conn
	sending.Go(func() {
		for len(text) > 0 {
			n := min(len(text), 1+pieces.IntN(20_000))
			if pieces.IntN(10) == 0 {
				n = 1
			}
			if _, err := conn.Write(text[:n]); err != nil {
				return
			}
			text = text[n:]
		}
	})
	defer sending.Wait()
	if giveUp {
		sending.Wait()
		if c.rng.IntN(2) == 0 {
			_ = conn.(*net.UnixConn).CloseWrite()
			_, _ = io.Copy(io.Discard, c.r)
		}
		conn.Close()
		return false
	}
	want := replies.Bytes()
	got := make([]byte, len(want))
	n, err := io.ReadFull(c.r, got)
	if !bytes.Equal(got[:n], want[:n]) {
		i := 0
		for got[i] == want[i] {
			i++
		}
		c.t.Errorf("post %d, byte %d of %d: got %.60q, want %.60q", c.mid, i, len(want), got[i:n], want[i:])
		conn.Close()
		return false
	}
	if err != nil {
		conn.Close()
		return false
	}
	c.acked = c.value
	return true
}

// TestChaos has clients do all they can at once while others are killed, unblocked, paused and evicted.
func TestChaos(t *testing.T) {
	seed := seed.Of(t)
	t.Logf("seed %d", seed)
	s := wireServeStore(t, t.TempDir(), counter.Options{SnapshotGrowth: -1}, nil)
	const workers, rounds = 12, 20
	var working sync.WaitGroup
	var left atomic.Int64
	left.Store(workers)
	for i := range workers {
		c := &chaosClient{t: t, s: s, rng: rand.New(rand.NewPCG(seed, uint64(i))), mid: 100 + i, proto: 2}
		working.Go(func() {
			defer left.Add(-1)
			c.connect()
			for range rounds {
				if t.Failed() {
					return
				}
				if !c.pipeline() {
					c.connect()
				}
			}
			c.conn.Close()
		})
	}
	working.Go(func() { // slow subscribers and whoever publishes to them
		rng := rand.New(rand.NewPCG(seed, 1000))
		for left.Load() > 0 {
			conn, err := net.Dial("unix", s.config.Get().UnixSocket)
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, "HELLO 3\r\nSUBSCRIBE a\r\nPUBLISH a "+strings.Repeat("x", rng.IntN(100_000))+"\r\nWAIT 1 0\r\nINCR 1.cntrn\r\n")
			time.Sleep(time.Duration(rng.IntN(3)) * time.Millisecond)
			conn.Close()
		}
	})
	working.Go(func() {
		rng := rand.New(rand.NewPCG(seed, 1001))
		for left.Load() > 0 {
			list := s.connected()
			if len(list) > 0 {
				k := list[rng.IntN(len(list))]
				switch rng.IntN(8) {
				case 0:
					k.session.Conn().Close()
				case 1:
					k.blocking.unblock(errUnblocked)
				case 2:
					s.role.PauseWrites(time.Minute)
				case 3:
					s.front.LimitMemory(int64(rng.IntN(4 << 20)))
					s.front.Evict()
					s.front.LimitMemory(config.DefaultClientsLimit)
				default:
					_ = k.info.line()
				}
			}
			time.Sleep(time.Duration(rng.IntN(5)) * time.Millisecond)
			s.role.EndPause()
		}
	})
	working.Wait()
	until(t, "all connections forgotten", func() bool { return len(s.connected()) == 0 })
	until(t, "nothing held", func() bool {
		return s.front.Held() == 0 && s.pubsub.Unread() == 0 && s.front.Blocked() == 0
	})
	if n := s.stats.Panics.Load(); n != 0 {
		t.Errorf("%d panics", n)
	}
}
