package server

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"
	"time"
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
		if line := pub.do("CLIENT LIST TYPE pubsub").text; !strings.Contains(line, " flags=PU db=0 sub=2 psub=1 ") {
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
	}
	for range 100 { // the killed ones are gone soon
		if pub.do("PUBSUB CHANNELS").String() == "[]" {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("subscriptions of closed connections stay")
}

// TestSlowSubscriber: who does not read is closed, and nobody waits for it.
func TestSlowSubscriber(t *testing.T) {
	s := wireServe(t, nil)
	sub, pub := wireDial(t, s, 2), wireDial(t, s, 2)
	sub.want("SUBSCRIBE a", `["subscribe" "a" :1]`)
	if unix, ok := sub.conn.(*net.UnixConn); ok {
		_ = unix.SetReadBuffer(4096)
	}
	message := string(bytes.Repeat([]byte{'x'}, 1<<19))
	for sent := 0; ; sent++ {
		if pub.do("PUBLISH a "+message).n == 0 {
			break
		}
		if sent > 2*maxPending/len(message) {
			t.Fatal("a subscriber that does not read is kept")
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
}
