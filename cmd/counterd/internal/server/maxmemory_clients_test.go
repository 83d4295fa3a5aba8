// Scenario: connections hold more memory than maxmemory-clients allows, in every way there is, and the largest are closed.

package server

import (
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/pubsub"
	"github.com/counterd/counterd/internal/testkit/racetest"
	"github.com/counterd/counterd/internal/testkit/resptest"
)

// TestMaxMemoryClients has connections that do not read what they asked for, and some that hold as much in other ways:
// the largest are closed, and the others, small or with CLIENT NO-EVICT, are not.
func TestMaxMemoryClients(t *testing.T) {
	const limit = 8 << 20
	s := wireServe(t, func(c *config.Config) { c.MaxMemoryClients = config.ClientsLimit{Bytes: limit} })
	admin := wireDial(t, s, 2)
	admin.want("CONFIG GET maxmemory-clients", fmt.Sprintf(`["maxmemory-clients" "%d"]`, limit))
	small := make([]*wireClient, 100)
	for i := range small {
		small[i] = wireDial(t, s, 2)
		small[i].want("PING", "+PONG")
	}
	kept := wireDial(t, s, 2)
	kept.want("CLIENT NO-EVICT on", "+OK")
	part := "*3\r\n$4\r\nMGET\r\n$1000000\r\n" + strings.Repeat("x", 900_000)
	send := func(c *wireClient, text string) { _, _ = io.WriteString(c.conn, text) } // it may be closed by now
	send(kept, part)
	evicted := func() int64 { return s.stats.EvictedClients.Load() }
	const size = 1<<20 - 100
	echo := fmt.Sprintf("*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n", size, strings.Repeat("x", size))
	for name, big := range map[string]string{
		"replies not read": strings.Repeat(echo, 3),
		"half a command":   part,
		"MULTI":            "MULTI\r\n" + echo,
		"REPLCONF":         "REPLCONF listening-port 1\r\n" + part,
	} {
		before := evicted()
		all := make([]*wireClient, 16)
		for i := range all {
			all[i] = wireDial(t, s, 2)
			go send(all[i], big)
		}
		until(t, name+": some closed", func() bool { return evicted() > before })
		until(t, name+": the others within the limit", func() bool { return s.front.Held() <= limit })
		for _, c := range all {
			c.conn.Close()
		}
		until(t, name+": all forgotten", func() bool { return len(s.connected()) == len(small)+2 })
	}
	for _, c := range small {
		c.want("PING", "+PONG")
	}
	send(kept, strings.Repeat("x", 100_000)+"\r\n$1\r\n1\r\n")
	if got := kept.read().String(); got != "[nil nil]" {
		t.Errorf("got %s", got)
	}
	until(t, "nothing is held", func() bool { return s.front.Held() < 1<<20 })
	if n := infoField(t, admin, "evicted_clients"); n != fmt.Sprint(evicted()) {
		t.Errorf("evicted_clients:%s, want %d", n, evicted())
	}
}

// sendArgs sends one command of any bytes and returns the reply.
func (c *wireClient) sendArgs(args ...string) string {
	c.t.Helper()
	if _, err := c.conn.Write(resptest.Append(nil, args...)); err != nil {
		c.t.Fatal(err)
	}
	return c.read().String()
}

// TestUnknownNamesAreForgotten: the name of a command that is none may be as long as an argument, and is not kept.
func TestUnknownNamesAreForgotten(t *testing.T) {
	racetest.Skip(t, "one client asks at a time")
	s := wireServe(t, nil)
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	const n = 48
	name := strings.Repeat("x", 1<<20)
	before := heap()
	for range n {
		c := wireDial(t, s, 2)
		if got := c.sendArgs(name); !strings.HasPrefix(got, "-ERR unknown command 'xxx") {
			t.Fatalf("got %.100s", got)
		}
		c.want("PING", "+PONG")
	}
	if grown := heap() - before; grown > n<<20/2 {
		t.Errorf("%d connections at rest hold %d bytes", n, grown)
	}
}

// TestSubscriptionsAreHeld: long names of channels count as what a connection holds, and have a limit.
func TestSubscriptionsAreHeld(t *testing.T) {
	racetest.Skip(t, "one client asks at a time")
	s := wireServe(t, nil)
	c := wireDial(t, s, 3)
	name := strings.Repeat("x", pubsub.MaxName-10)
	const most = 32 << 20 // bytes of names
	last := ""
	const many = 64 // names of one command
	for i := 0; !strings.HasPrefix(last, "-ERR too many subscriptions"); i += many {
		if i > most/pubsub.MaxName {
			t.Fatalf("%d subscriptions of 1 KiB: %.100s", i, last)
		}
		words := []string{"SUBSCRIBE"}
		for n := range many {
			words = append(words, fmt.Sprint(i+n)+name)
		}
		last = c.sendArgs(words...)
		for n := 1; n < many && last[0] == '>'; n++ {
			last = c.read().String()
		}
	}
	held := func() int64 { return s.front.Held() }
	until(t, "the names count", func() bool { return held() > most/2 && held() < 2*most })
	for _, word := range []string{"UNSUBSCRIBE", "PSUBSCRIBE", "PUNSUBSCRIBE", "PSUBSCRIBE"} {
		if got := c.sendArgs(word, "0"+name); got[0] != '>' {
			t.Fatalf("%s: %.100s", word, got)
		}
	}
	c.want("RESET", "+RESET")
	until(t, "nothing is held", func() bool { return held() < 1<<20 })
}

// TestLongTransaction: a transaction whose replies pass their limit is executed in whole, but they are not kept, and
// the connection is closed.
func TestLongTransaction(t *testing.T) {
	racetest.Skip(t, "one client asks at a time")
	s := wireServe(t, nil)
	c, other := wireDial(t, s, 2), wireDial(t, s, 2)
	other.want("ADD COUNTER wide", "+OK")
	for i := range 32 {
		other.want(fmt.Sprintf("ADD COLUMN wide c%d hint=1 max=63 default=9223372036854775807", i), "+OK")
	}
	other.want("INCRBY wide:1.c0 -1", ":9223372036854775806")
	const n = 20_000 // 20,000 times 32 columns of 22 bytes: 14 MB
	read := "COUNTER.MGET wide" + strings.Repeat(" 1", n)
	c.want("MULTI", "+OK")
	c.want("INCR 1.cntrn", "+QUEUED")
	for range maxExecReplies/(n*32*22) + 1 {
		c.want(read, "+QUEUED")
	}
	c.want("INCR 1.cntrn", "+QUEUED")
	c.send("EXEC")
	c.ended()
	other.want("GET 1.cntrn", `"2"`)
	c = wireDial(t, s, 2)
	c.want("MULTI", "+OK")
	c.want(read, "+QUEUED")
	c.send("EXEC")
	if got := c.read(); len(got.List) != 1 || len(got.List[0].List) != n {
		t.Errorf("got %.100s", got)
	}
}

// TestMaxMemoryClientsSet changes the limit while connections hold much: the next look closes them.
func TestMaxMemoryClientsSet(t *testing.T) {
	s := wireServe(t, nil)
	admin, big := wireDial(t, s, 2), wireDial(t, s, 2)
	if _, err := io.WriteString(big.conn, "*2\r\n$4\r\nECHO\r\n$1000000\r\n"+strings.Repeat("x", 900_000)); err != nil {
		t.Fatal(err)
	}
	until(t, "the half command", func() bool { return s.front.Held() > 900_000 })
	for _, c := range []struct{ value, want string }{
		{"5%", "+OK"}, // of no maxmemory
		{"101%", "-ERR CONFIG SET failed (possibly related to argument 'maxmemory-clients') - argument must be a percentage between 0% and 100%, or a number of bytes"},
		{"x", "-ERR CONFIG SET failed (possibly related to argument 'maxmemory-clients') - argument must be a percentage between 0% and 100%, or a number of bytes"},
		{"0", "+OK"},
		{"64mb", "+OK"},
	} {
		admin.want("CONFIG SET maxmemory-clients "+c.value, c.want)
	}
	admin.want("CONFIG GET maxmemory-clients", `["maxmemory-clients" "67108864"]`)
	s.front.Evict()
	if n := s.stats.EvictedClients.Load(); n != 0 {
		t.Fatalf("%d closed", n)
	}
	admin.want("CONFIG SET maxmemory-clients 512kb", "+OK")
	s.front.Evict()
	big.ended()
	admin.want("PING", "+PONG")
}

// TestClientListShowsMemory: what a connection leaves unread is seen while it does.
func TestClientListShowsMemory(t *testing.T) {
	s := wireServe(t, nil)
	admin, slow := wireDial(t, s, 2), wireDial(t, s, 2)
	id := slow.do("CLIENT ID").N
	go func() {
		_, _ = io.WriteString(slow.conn, strings.Repeat("ECHO "+strings.Repeat("x", 60_000)+"\r\n", 30))
	}()
	until(t, "unread bytes in CLIENT LIST", func() bool {
		f := clientLine(t, strings.TrimSuffix(admin.do(fmt.Sprintf("CLIENT LIST ID %d", id)).Text, "\n"))
		obl, _ := strconv.Atoi(f["obl"])
		omem, _ := strconv.Atoi(f["omem"])
		total, _ := strconv.Atoi(f["tot-mem"])
		return obl > 0 && omem >= obl && total >= omem
	})
}

func TestProtocolErrorsAreCounted(t *testing.T) {
	s := wireServe(t, nil)
	admin, c := wireDial(t, s, 2), wireDial(t, s, 2)
	c.want("PING", "+PONG")
	if _, err := io.WriteString(c.conn, "*x\r\n"); err != nil {
		t.Fatal(err)
	}
	if got := c.read().String(); got != "-ERR Protocol error: invalid multibulk length" {
		t.Errorf("got %s", got)
	}
	c.ended()
	if n := infoField(t, admin, "protocol_errors"); n != "1" {
		t.Errorf("protocol_errors:%s", n)
	}
}

func infoField(t *testing.T, c *wireClient, name string) string {
	t.Helper()
	fields, _ := infoFields(t, c.do("INFO everything").Text)
	return fields[name]
}

// TestForwardingHolds: the memory for commands of several shards counts as that of the connection, and little of it is kept behind a command of very many posts.
func TestForwardingHolds(t *testing.T) {
	k := serveForward(t, 2, func(c *config.Config) { // a shard of a busy machine has its time
		c.Cluster.NodeTimeout = int((2 * patience).Milliseconds())
	})
	admin, c := k.dial(0, 2), k.forward(0, 2)
	id := c.do("CLIENT ID").N
	kept := func() (n int) { // beside buffers
		f := clientLine(t, strings.TrimSuffix(admin.do(fmt.Sprintf("CLIENT LIST ID %d", id)).Text, "\n"))
		for i, name := range []string{"tot-mem", "qbuf", "qbuf-free", "argv-mem", "multi-mem", "rbs"} {
			bytes, err := strconv.Atoi(f[name])
			if err != nil {
				t.Fatal(err)
			}
			if n -= bytes; i == 0 {
				n = bytes
			}
		}
		return n
	}
	pages := func(posts int) (all []byte) {
		for page := range 64 {
			words := []string{"COUNTER.MGET", "weibo"}
			for i := range posts {
				words = append(words, strconv.Itoa(1_000_003*(page*posts+i)))
			}
			all = resptest.Append(all, words...)
		}
		return all
	}
	ask := func(all []byte, replies int) {
		if _, err := c.conn.Write(all); err != nil {
			t.Fatal(err)
		}
		for range replies {
			if v := c.read(); v.Kind != '*' {
				t.Fatal(v)
			}
		}
	}
	if n := kept(); n > 64<<10 {
		t.Errorf("a new connection keeps %d bytes", n)
	}
	held := k.srv[0].front.Held()
	ask(pages(20), 64)
	until(t, "memory for 64 pages", func() bool { n := kept(); return n > 10_000 && k.srv[0].front.Held() >= held+int64(n)/2 })
	keys := []string{"MGET"}
	for i := range 60_000 {
		keys = append(keys, strconv.Itoa(1_000_003*i)+".cntcm")
	}
	ask(resptest.Append(nil, keys...), 1)
	c.want("PING", "+PONG") // the connection has reported its memory by then
	if n := kept(); n > 300_000 {
		t.Errorf("a connection keeps %d bytes behind a command of 60,000 posts", n)
	}
}
