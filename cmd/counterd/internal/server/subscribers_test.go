// Scenario: clients subscribe and publish, slow subscribers are closed.

package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/pubsub"
)

func TestPubsub(t *testing.T) {
	s := wireServe(t, nil)
	pub := wireDial(t, s, 2)
	pub.want("PUBLISH a x", ":0")
	pub.want("PUBSUB CHANNELS", "[]")
	pub.want("UNSUBSCRIBE", `["unsubscribe" nil :0]`)
	for _, proto := range []int{2, 3} {
		open, end := "[", "]"
		if proto == 3 {
			open, end = ">", "<"
		}
		sub := wireDial(t, s, proto)
		is := func(want string) {
			t.Helper()
			if got := sub.read().String(); got != open+want+end {
				t.Fatalf("RESP%d: got %s, want %s", proto, got, want)
			}
		}
		sub.send("SUBSCRIBE a b a")
		is(`"subscribe" "a" :1`)
		is(`"subscribe" "b" :2`)
		is(`"subscribe" "a" :2`)
		sub.send("PSUBSCRIBE [ac]*")
		is(`"psubscribe" "[ac]*" :3`)
		pub.want("PUBLISH a hello", ":2")
		is(`"message" "a" "hello"`)
		is(`"pmessage" "[ac]*" "a" "hello"`)
		pub.want("PUBSUB CHANNELS", `["a" "b"]`)
		pub.want("PUBSUB CHANNELS b*", `["b"]`)
		pub.want("PUBSUB NUMSUB a x", `["a" :1 "x" :0]`)
		pub.want("PUBSUB NUMPAT", ":1")
		if line := pub.do("CLIENT LIST TYPE pubsub").Text; !strings.Contains(line, " flags=PU db=0 sub=2 psub=1 ") {
			t.Errorf("CLIENT LIST TYPE pubsub: %q", line)
		}
		if proto == 2 {
			sub.want("PING", `["pong" ""]`)
			sub.want("PING x", `["pong" "x"]`)
			sub.want("GET 1.cntcm", "-ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
		} else {
			sub.want("PING", "+PONG")
			sub.want("SET 1.cntcm 5", "+OK")
		}
		sub.send("UNSUBSCRIBE")
		is(`"unsubscribe" "a" :2`)
		is(`"unsubscribe" "b" :1`)
		sub.send("PUNSUBSCRIBE [ac]* q")
		is(`"punsubscribe" "[ac]*" :0`)
		is(`"punsubscribe" "q" :0`)
		sub.want("GET 9.cntcm", "nil")
		pub.want("PUBLISH a x", ":0")
		sub.send("SUBSCRIBE z")
		is(`"subscribe" "z" :1`)
		sub.want("RESET", "+RESET")
		pub.want("PUBLISH z x", ":0")
		sub.proto = 2
		sub.send("SUBSCRIBE z")
		open, end = "[", "]"
		is(`"subscribe" "z" :1`)
		pub.want("CLIENT KILL TYPE pubsub", ":1")
		sub.ended()
		noChannels(t, pub)
	}
	testShardChannels(t, s, pub)
	long := strings.Repeat("a", pubsub.MaxName+1) // a pattern takes as long as it is, times the name
	refused := fmt.Sprintf("-ERR names of channels and patterns have at most %d bytes, got %d", pubsub.MaxName, len(long))
	for _, command := range []string{"SUBSCRIBE a ?", "PSUBSCRIBE ?", "PUBSUB CHANNELS ?", "PUBLISH ? x", "SSUBSCRIBE a ?", "SPUBLISH ? x", "PUBSUB SHARDCHANNELS ?"} {
		pub.want(strings.Replace(command, "?", long, 1), refused)
	}
	pub.want("SCAN 0 MATCH "+long, fmt.Sprintf("-ERR a pattern has at most %d bytes", pubsub.MaxName))
	noChannels(t, pub)
}

// noChannels waits until the subscriptions of connections that were killed are gone.
func noChannels(t *testing.T, pub *wireClient) {
	t.Helper()
	for end := time.Now().Add(patience); pub.do("PUBSUB CHANNELS").String() != "[]"; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("subscriptions of closed connections stay")
		}
	}
}

// testShardChannels: they are a room of their own, counted by themselves, and neither channels nor patterns see them.
func testShardChannels(t *testing.T, s *Server, pub *wireClient) {
	for _, proto := range []int{2, 3} {
		open, end := "[", "]"
		if proto == 3 {
			open, end = ">", "<"
		}
		sub := wireDial(t, s, proto)
		is := func(want string) {
			t.Helper()
			if got := sub.read().String(); got != open+want+end {
				t.Fatalf("RESP%d: got %s, want %s", proto, got, want)
			}
		}
		sub.send("SUBSCRIBE s")
		is(`"subscribe" "s" :1`)
		sub.send("SSUBSCRIBE s t s")
		is(`"ssubscribe" "s" :1`)
		is(`"ssubscribe" "t" :2`)
		is(`"ssubscribe" "s" :2`)
		sub.send("PSUBSCRIBE *")
		is(`"psubscribe" "*" :2`)
		pub.want("SPUBLISH s hello", ":1")
		is(`"smessage" "s" "hello"`)
		pub.want("PUBLISH s hello", ":2")
		is(`"message" "s" "hello"`)
		is(`"pmessage" "*" "s" "hello"`)
		pub.want("SPUBLISH u hello", ":0")
		pub.want("PUBSUB SHARDCHANNELS", `["s" "t"]`)
		pub.want("PUBSUB SHARDCHANNELS t*", `["t"]`)
		pub.want("PUBSUB SHARDNUMSUB s u", `["s" :1 "u" :0]`)
		pub.want("PUBSUB CHANNELS", `["s"]`)
		if line := pub.do("CLIENT LIST TYPE pubsub").Text; !strings.Contains(line, " flags=PU db=0 sub=1 psub=1 ssub=2 ") {
			t.Errorf("CLIENT LIST TYPE pubsub: %q", line)
		}
		sub.send("UNSUBSCRIBE")
		is(`"unsubscribe" "s" :1`)
		sub.send("PUNSUBSCRIBE")
		is(`"punsubscribe" "*" :0`)
		if proto == 2 { // it is a subscriber still
			sub.want("GET 1.cntcm", "-ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
		}
		sub.send("SUNSUBSCRIBE x s")
		is(`"sunsubscribe" "x" :2`)
		is(`"sunsubscribe" "s" :1`)
		sub.send("SUNSUBSCRIBE")
		is(`"sunsubscribe" "t" :0`)
		sub.send("SUNSUBSCRIBE")
		is(`"sunsubscribe" nil :0`)
		sub.want("GET 9.cntcm", "nil")
		sub.send("SSUBSCRIBE s")
		is(`"ssubscribe" "s" :1`)
		sub.want("RESET", "+RESET")
		pub.want("SPUBLISH s x", ":0")
		pub.want("SPUBLISH", "-ERR wrong number of arguments for 'spublish' command (usage: SPUBLISH shardchannel message)")
		pub.want("COMMAND GETKEYS SPUBLISH s x", "-ERR The command has no key arguments")
	}
}

// limitOutput sets client-output-buffer-limit and checks the answer.
func limitOutput(c *wireClient, value, want string) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c.conn, "CONFIG SET client-output-buffer-limit %q\r\n", value); err != nil {
		c.t.Fatal(err)
	}
	if got := c.read().String(); got != want {
		c.t.Errorf("%q: got %s, want %s", value, got, want)
	}
}

// TestOutputLimitConfig reads and writes client-output-buffer-limit as Redis does.
func TestOutputLimitConfig(t *testing.T) {
	s := wireServe(t, nil)
	c := wireDial(t, s, 2)
	const name, failed = "client-output-buffer-limit", "-ERR CONFIG SET failed (possibly related to argument 'client-output-buffer-limit') - "
	is := func(want string) {
		t.Helper()
		c.want("CONFIG GET "+name, `["`+name+`" "`+want+`"]`)
	}
	is("normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60")
	limitOutput(c, "pubsub 1mb 256kb 2 replica 0 0 0", "+OK")
	is("normal 0 0 0 slave 0 0 0 pubsub 1048576 262144 2")
	for value, text := range map[string]string{
		"":                          "Wrong number of arguments in buffer limit configuration.",
		"pubsub 1 2":                "Wrong number of arguments in buffer limit configuration.",
		"normal 1 1 1 master 1 2 3": "Invalid client class specified in buffer limit configuration.",
		"pubsub x 1 1":              "Error in hard, soft or soft_seconds setting in buffer limit configuration.",
		"pubsub 1 1 -1":             "Error in hard, soft or soft_seconds setting in buffer limit configuration.",
	} {
		limitOutput(c, value, failed+text)
	}
	is("normal 0 0 0 slave 0 0 0 pubsub 1048576 262144 2")
}

// TestSlowSubscriber: a subscriber that does not read is closed at the hard limit, and at the soft one when its time
// is over, and counted. No client waits for it, it takes no more memory than its limit, and a subscriber that reads
// again in time stays.
func TestSlowSubscriber(t *testing.T) {
	s := wireServe(t, nil)
	pub := wireDial(t, s, 2)
	message := strings.Repeat("x", 16<<10)
	subscribe := func() *wireClient {
		sub := wireDial(t, s, 2)
		sub.want("SUBSCRIBE a", `["subscribe" "a" :1]`)
		return sub
	}
	closed := func() int64 { return s.stats.SlowSubscribers.Load() }
	unread := s.pubsub.Unread

	limitOutput(pub, "pubsub 1mb 0 0", "+OK")
	subscribe()
	for sent := 0; closed() == 0; sent++ {
		pub.do("PUBLISH a " + message)
		if n := unread(); n > 1<<20 {
			t.Fatalf("%d bytes are unread, the limit is 1 MiB", n)
		}
		if sent > 1000 {
			t.Fatal("a subscriber that does not read is kept")
		}
	}
	until(t, "it is gone", func() bool { return pub.do("PUBSUB NUMSUB a").String() == `["a" :0]` && unread() == 0 })

	// Soft: above 64 KiB unread for more than 1 s. A subscriber that reads again in time stays.
	limitOutput(pub, "pubsub 8mb 64kb 3600", "+OK")
	reader, sent := subscribe(), 0
	for ; unread() < 256<<10; sent++ {
		pub.do("PUBLISH a " + message)
	}
	for range sent {
		reader.read()
	}
	until(t, "it has read all", func() bool { return unread() == 0 })
	limitOutput(pub, "pubsub 8mb 64kb 1", "+OK")
	subscribe()
	began := time.Now()
	for closed() == 1 && unread() < 256<<10 {
		pub.do("PUBLISH a " + message)
		reader.read()
	}
	until(t, "closed by the soft limit", func() bool {
		pub.do("PUBLISH a x")
		reader.read()
		return closed() == 2
	})
	if took := time.Since(began); took < time.Second {
		t.Errorf("the soft limit of 1 s closed after %v", took)
	}
	until(t, "one is left", func() bool { return pub.do("PUBSUB NUMSUB a").String() == `["a" :1]` })
	pub.want("PUBLISH a last", ":1")
	for reader.read().List[2].Text != "last" {
	}
	if text := pub.do("INFO stats").Text; !strings.Contains(text, "\r\nclient_output_buffer_limit_disconnections:2\r\n") {
		t.Error(text)
	}

	// A server that ends does not wait for ever for a subscriber that does not read.
	limitOutput(pub, "pubsub 8mb 0 0", "+OK")
	subscribe()
	for unread() < 512<<10 {
		pub.do("PUBLISH a " + message)
		reader.read()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if n := unread(); n != 0 {
		t.Errorf("%d bytes of nobody are unread", n)
	}
}

// TestOwnMessage: a connection that speaks RESP3 may publish to itself, and reads the message after the replies to
// its earlier commands.
func TestOwnMessage(t *testing.T) {
	s := wireServe(t, nil)
	c := wireDial(t, s, 3)
	c.want("SUBSCRIBE a", `>"subscribe" "a" :1<`)
	if _, err := c.conn.Write([]byte("PING\r\nGET 1.cntrn\r\nPUBLISH a x\r\nINCR 1.cntrn\r\nMULTI\r\nPUBLISH a y\r\nEXEC\r\n")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"+PONG", "nil", `>"message" "a" "x"<`, ":1", ":1", "+OK", "+QUEUED", `>"message" "a" "y"<`, "[:1]"} {
		if got := c.read().String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestExecRefused: EXEC that is refused before it ran says so by EXECABORT, whatever the reason, and ends the
// transaction.
func TestExecRefused(t *testing.T) {
	s := wireServe(t, func(c *config.Config) { c.RequirePass = "secret" })
	c := wireDial(t, s, 2)
	c.want("EXEC", "-EXECABORT Transaction discarded because of: NOAUTH Authentication required.")
	c.want("AUTH secret", "+OK")
	c.want("SUBSCRIBE a", `["subscribe" "a" :1]`)
	c.want("EXEC", "-EXECABORT Transaction discarded because of: Can't execute 'exec': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
	c.want("UNSUBSCRIBE a", `["unsubscribe" "a" :0]`)
	c.want("MULTI", "+OK")
	c.want("EXEC 1", "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command (usage: EXEC [IDMP producer seq [EPOCH epoch]])")
	c.want("EXEC", "-ERR EXEC without MULTI")
}

// TestLimitsWithoutTraffic: the server looks once a second for subscribers that leave too much unread.
func TestLimitsWithoutTraffic(t *testing.T) {
	s := wireServe(t, nil)
	slow, other := wireDial(t, s, 2), wireDial(t, s, 2)
	slow.want("SUBSCRIBE news", `["subscribe" "news" :1]`)
	message := strings.Repeat("x", 60_000)
	until(t, "messages that are not read", func() bool {
		other.want("PUBLISH news "+message, ":1")
		return s.pubsub.Unread() > 100_000
	})
	s.pubsub.SetLimit(pubsub.Limit{Hard: 1000})
	host{s}.EachSecond()
	until(t, "the subscriber is closed", func() bool { return s.stats.SlowSubscribers.Load() == 1 && len(s.connected()) == 1 })
}

// TestSubscriberTexts: a command that a subscriber must not send by RESP2 is refused in the words of Redis 7.
func TestSubscriberTexts(t *testing.T) {
	c := wireDial(t, wireServe(t, nil), 2)
	c.want("SUBSCRIBE news", `["subscribe" "news" :1]`)
	for line, name := range map[string]string{"GET 1": "get", "CLIENT LIST": "client|list", "config get x": "config|get", "MULTI": "multi", "HELLO 3": "hello"} {
		c.want(line, "-ERR Can't execute '"+name+"': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
	}
}
