// Scenario: a listener for reads only refuses everything else.

package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/slowlog"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/testkit/freeport"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/internal/testkit/resptest"
	"github.com/counterd/counterd/internal/testkit/seed"
)

// readerDial connects to the port for reads.
func readerDial(t testing.TB, s *Server, proto int) *wireClient {
	t.Helper()
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.config.Get().ReadonlyPort)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	c := &wireClient{t: t, conn: conn, r: bufio.NewReader(conn), proto: proto}
	if proto == 3 {
		c.do("HELLO 3")
	}
	return c
}

const readerRefuses = "-READONLY This port is for reads only: it accepts no changes."

// TestReadonlyPort reads, and is refused everything else, before and after all that could lift it.
func TestReadonlyPort(t *testing.T) {
	s := wireServe(t, func(c *config.Config) { c.ReadonlyPort = freeport.Take(t) })
	owner := wireDial(t, s, 2)
	owner.want("INCRBY 1.cntrn 7", ":7")
	for _, proto := range []int{2, 3} {
		c := readerDial(t, s, proto)
		refused := func() {
			t.Helper()
			c.want("GET 1.cntrn", `"7"`)
			c.want("COUNTER.MGET weibo 1", "[[:0 :7]]")
			c.want("INCR 1.cntrn", readerRefuses)
			c.want("FLUSHALL", readerRefuses)
			c.want("DROP COUNTER weibo", readerRefuses)
			c.want("CONFIG SET timeout 5", "-NOPERM This port is for reads only: 'config set' is not allowed on it")
			c.want("CLIENT LIST", "-NOPERM This port is for reads only: 'client list' is not allowed on it")
			c.want("REPLCONF capa psync2", "-NOPERM This port is for reads only: 'replconf' is not allowed on it")
			c.want("PSYNC ? -1", "-NOPERM This port is for reads only: 'psync' is not allowed on it")
			c.want("PUBLISH a b", "-NOPERM This port is for reads only: 'publish' is not allowed on it")
			c.want("MULTI", "+OK")
			c.want("GET 1.cntrn", "+QUEUED")
			c.want("INCR 1.cntrn", readerRefuses)
			c.want("EXEC", "-EXECABORT Transaction discarded because of previous errors.")
			c.want("MULTI", "+OK")
			c.want("GET 1.cntrn", "+QUEUED")
			c.want("EXEC", `["7"]`)
			c.want("WAIT 0 0", "-NOPERM This port is for reads only: 'wait' is not allowed on it")
		}
		refused()
		c.want("AUTH default whatever", "+OK") // there is no password: any is right
		refused()
		c.want("READWRITE", "-ERR This instance has cluster support disabled")
		refused()
		if got := c.do("CLIENT INFO").Text; !strings.Contains(got, " flags=r ") {
			t.Errorf("CLIENT INFO: got %q, want flags=r", got)
		}
		c.do("SUBSCRIBE a")
		owner.want("PUBLISH a hello", ":1")
		if got := c.read().String(); !strings.Contains(got, "hello") {
			t.Errorf("a subscriber read %s, want the message", got)
		}
		c.send("INCR 1.cntrn")
		if got := c.read().String(); proto == 2 && !strings.HasPrefix(got, "-ERR") && !strings.HasPrefix(got, "-READONLY") || proto == 3 && got != readerRefuses {
			t.Errorf("a subscriber's INCR was answered with %s", got)
		}
		c.do("UNSUBSCRIBE a")
		refused()
		c.want("RESET", "+RESET")
		if c.proto == 3 {
			c.do("HELLO 3")
		}
		refused()
	}
	owner.want("GET 1.cntrn", `"7"`)
	owner.want("CONFIG GET readonly-maxclients", `["readonly-maxclients" "10000"]`)
	if got := owner.do("INFO server").Text; !strings.Contains(got, fmt.Sprintf("readonly_port:%d\r\n", s.config.Get().ReadonlyPort)) {
		t.Errorf("INFO server does not name the port: %q", got)
	}
}

// TestReadonlyLimit: neither kind of connection takes the other's places.
func TestReadonlyLimit(t *testing.T) {
	s := wireServe(t, func(c *config.Config) { c.ReadonlyPort, c.ReadonlyClients, c.MaxClients = freeport.Take(t), 2, 2 })
	first := wireDial(t, s, 2)
	first.want("PING", "+PONG")
	readers := []*wireClient{readerDial(t, s, 2), readerDial(t, s, 2)}
	for _, r := range readers {
		r.want("PING", "+PONG")
	}
	full := readerDial(t, s, 2)
	if got := full.read().String(); got != "-ERR max number of clients reached" {
		t.Errorf("a third reader was answered with %s", got)
	}
	second := wireDial(t, s, 2)
	second.want("PING", "+PONG")
	if got := second.do("INFO clients").Text; !strings.Contains(got, "connected_clients:4\r\n") || !strings.Contains(got, "readonly_clients:2\r\n") || !strings.Contains(got, "readonly_maxclients:2\r\n") {
		t.Errorf("INFO clients: %q", got)
	}
	if got := wireDial(t, s, 2).read().String(); got != "-ERR max number of clients reached" {
		t.Errorf("a third client was answered with %s", got)
	}
	readers[0].conn.Close()
	until(t, "the reader's end", func() bool { return strings.Contains(second.do("INFO clients").Text, "readonly_clients:1\r\n") })
	readerDial(t, s, 2).want("PING", "+PONG")
	second.want("CONFIG SET readonly-maxclients 1", "+OK")
	if got := readerDial(t, s, 2).read().String(); got != "-ERR max number of clients reached" {
		t.Errorf("a reader above the new limit was answered with %s", got)
	}
}

// TestReadonlyPassword: a password is wanted there too, and does not make a writer.
func TestReadonlyPassword(t *testing.T) {
	s := wireServe(t, func(c *config.Config) { c.ReadonlyPort, c.RequirePass = freeport.Take(t), "secret" })
	c := readerDial(t, s, 2)
	c.want("GET 1.cntrn", "-NOAUTH Authentication required.")
	c.want("INCR 1.cntrn", "-NOAUTH Authentication required.")
	c.want("AUTH secret", "+OK")
	c.want("GET 1.cntrn", "nil")
	c.want("INCR 1.cntrn", readerRefuses)
	c.proto = 3
	c.do("HELLO 3 AUTH default secret")
	c.want("INCR 1.cntrn", readerRefuses)
}

// TestReadonlyPortOfReplica: a replica has one as well, and tells reads from writes in the same words.
func TestReadonlyPortOfReplica(t *testing.T) {
	primary := newReplNode(t).start("")
	primary.dial().want("INCRBY 5.cntrn 3", ":3")
	replica := newReplNode(t)
	replica.change = func(c *config.Config) { c.ReadonlyPort = freeport.Take(t) }
	replica.start(fmt.Sprintf("127.0.0.1 %d", primary.port))
	c := readerDial(t, replica.srv, 2)
	until(t, "the post on the replica", func() bool { return c.do("GET 5.cntrn").Text == "3" })
	c.want("INCR 5.cntrn", readerRefuses)
	c.want("REPLICAOF NO ONE", "-NOPERM This port is for reads only: 'replicaof' is not allowed on it")
}

// hostileWords are arguments that mean something somewhere.
var hostileWords = []string{"1", "0", "-1", "5", "1.cntrn", "1", "weibo:1", "2.cntcm", "weibo", "comment", "repost", "*", "ON", "OFF", "NO", "ONE", "YES", "secret", "default", "timeout",
	"maxclients", "hint=8", "max=32", "ABORT", "NOW", "127.0.0.1", "9223372036854775807", "TYPE", "normal", "ADDR", "ID", "SKIPME", "readonly-port", "?", "capa", "psync2", ""}

// hostileArgs makes arguments that fit a syntax, more or less.
func hostileArgs(rng *rand.Rand, args []command.Argument) (words []string) {
	for _, a := range args {
		if a.Optional && rng.IntN(2) == 0 {
			continue
		}
		for {
			if a.Token != "" {
				words = append(words, a.Token)
			}
			switch a.Kind {
			case "block":
				words = append(words, hostileArgs(rng, a.Args)...)
			case "oneof":
				words = append(words, hostileArgs(rng, a.Args[rng.IntN(len(a.Args)):][:1])...)
			case "pure-token":
			case "key":
				words = append(words, []string{"1.cntrn", "1", "2.cntcm", "weibo:3"}[rng.IntN(4)])
			default:
				words = append(words, hostileWords[rng.IntN(len(hostileWords))])
			}
			if !a.Multiple || rng.IntN(2) == 0 {
				break
			}
		}
	}
	return words
}

// TestReadonlyNumbered: what is kept of a transaction with a number is a change, although it only reads.
func TestReadonlyNumbered(t *testing.T) {
	port := freeport.Take(t)
	s := wireServe(t, func(c *config.Config) { c.ReadonlyPort = port })
	c := readerDial(t, s, 2)
	for range 2 { // by arguments, by the connection
		c.want("MULTI", "+OK")
		c.want("GET 1.cntrn", "+QUEUED")
		c.want("EXEC IDMP p 1", "-EXECABORT Transaction discarded because of: "+command.ErrReaderWrites)
		c.do("CLIENT IDMP p 5")
		c.want("MULTI", "+OK")
		c.want("GET 1.cntrn", "+QUEUED")
		c.want("EXEC", "-EXECABORT Transaction discarded because of: "+command.ErrReaderWrites)
		c.want("CLIENT IDMP OFF", "+OK")
	}
	c.want("MULTI", "+OK")
	c.want("GET 1.cntrn", "+QUEUED")
	c.want("EXEC", "[nil]")
	if got := wireDial(t, s, 2).do("COUNTER.PRODUCERS").List; len(got) != 0 {
		t.Errorf("producers: %s", got)
	}
}

// TestReadonlyHostile sends every command of the table, with arguments of its syntax and without sense, alone, in
// transactions and behind all that changes a connection's state. Nothing on the server is another afterwards.
func TestReadonlyHostile(t *testing.T) {
	racetest.Skip(t, "one client asks at a time")
	seed := seed.Of(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	port := freeport.Take(t)
	s := wireServeStore(t, t.TempDir(), counter.Options{SnapshotGrowth: -1}, func(c *config.Config) { c.ReadonlyPort, c.SlowlogSlower = port, -1 })
	ended := make(chan struct{}, 1)
	s.Terminate = func() { ended <- struct{}{} }
	owner, listener := wireDial(t, s, 2), wireDial(t, s, 2)
	listener.do("PSUBSCRIBE *")
	owner.want("INCRBY 1.cntrn 7", ":7")
	owner.want("SET 2.cntcm 9", "+OK")
	state := func() string {
		var b strings.Builder
		for _, q := range []string{"SCHEMA", "COUNTER.DIGEST", "CONFIG GET *", "ROLE", "LASTSAVE", "DBSIZE", "COUNTER.BLOCKS", "SLOWLOG LEN", "CLIENT ID", "PUBSUB NUMPAT"} {
			b.WriteString(q + " " + owner.do(q).String() + "\n")
		}
		fmt.Fprintln(&b, "log", s.store().Replication().Position(), "changes are let pass", s.role.Lets(command.Write))
		return b.String()
	}
	s.slow.Add(slowlog.Entry{Args: []string{"kept"}})
	before := state()
	var c *wireClient
	open := func() {
		if c != nil {
			c.conn.Close()
		}
		c = readerDial(t, s, 2)
	}
	open()
	try := func(list ...[]string) {
		var b []byte
		for _, words := range list {
			b = resptest.Append(b, words...)
		}
		if _, err := c.conn.Write(resptest.Append(b, "ECHO", "end")); err != nil {
			open()
			return
		}
		for {
			v, err := resptest.Read(c.r, resptest.Any)
			if errors.Is(err, io.EOF) { // it was QUIT
				open()
				return
			}
			if err != nil {
				t.Fatalf("%q: %v", list, err)
			}
			if v.Text == "end" || v.Kind == '-' && strings.Contains(v.Text, "'echo'") { // a subscriber's
				return
			}
		}
	}
	known := command.NewTable(allRows())
	known.Each(func(cmd *row) {
		args, err := command.ParseSyntax(cmd.Syntax)
		if err != nil {
			t.Fatal(err)
		}
		for range 8 {
			words := strings.Split(cmd.Name, "|")
			if rng.IntN(2) == 0 {
				words[0] = strings.ToUpper(words[0])
			}
			if rng.IntN(4) > 0 {
				words = append(words, hostileArgs(rng, args)...)
			} else {
				for range rng.IntN(5) {
					words = append(words, hostileWords[rng.IntN(len(hostileWords))])
				}
			}
			if cmd.Is("client|reply") && len(words) > 2 { // no answer to wait for
				words[2] = "ON"
			}
			open()
			for range rng.IntN(3) {
				try([][]string{{"HELLO", "3"}, {"AUTH", "x"}, {"RESET"}, {"WATCH", "1.cntrn"}, {"CLIENT", "SETNAME", "x"}, {"READWRITE"}, {"SUBSCRIBE", "a"}, {"REPLCONF", "capa", "x"}}[rng.IntN(8)])
			}
			if rng.IntN(3) == 0 {
				try([]string{"MULTI"}, words, []string{"EXEC"}, []string{"RESET"})
			}
			try(words, []string{"RESET"})
		}
		if after := state(); after != before {
			t.Fatalf("after %s:\n%s\nbefore:\n%s", cmd.Name, after, before)
		}
	})
	select {
	case <-ended:
		t.Error("the server was told to end")
	default:
	}
	owner.want("PUBLISH end x", ":1")
	if got := listener.read().String(); !strings.Contains(got, `"end"`) {
		t.Errorf("a subscriber heard %s before the end", got)
	}
}
