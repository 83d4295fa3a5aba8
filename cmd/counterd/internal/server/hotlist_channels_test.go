// Scenario: clients subscribe to the top lists of columns.

package server

import (
	"strings"
	"testing"
)

// hotListener is a subscriber of top lists. Each message to it begins with before, and the news follow.
type hotListener struct {
	c      *wireClient
	before string
}

type hotListeners []hotListener

// hear reads the next message to each listener: it is want.
func (list hotListeners) hear(t *testing.T, want string) {
	t.Helper()
	for i, l := range list {
		got := strings.ReplaceAll(strings.Trim(l.c.read().String(), "[]<>"), `\"`, `"`)
		if want := l.before + `"` + want + `"`; got != want && got+"]" != want {
			t.Fatalf("listener %d: got %s, want %s", i, got, want)
		}
	}
}

// hotSubscribers subscribes to a channel on each node, and returns the method hear of the subscribers.
func hotSubscribers(t *testing.T, channel string, nodes ...*replNode) (hear func(want string)) {
	var list hotListeners
	for _, n := range nodes {
		c := n.dial()
		c.send("SUBSCRIBE " + channel)
		c.read()
		list = append(list, hotListener{c, `"message" "` + channel + `" `})
	}
	return func(want string) {
		t.Helper()
		list.hear(t, want)
	}
}

// TestHotlistChannels: subscribers of a primary and of a replica, by RESP2 and RESP3, by name and by pattern, are told the whole list
// first, and then the posts that enter and leave. A column without a list says nothing, and a user needs the right to the channel.
func TestHotlistChannels(t *testing.T) {
	a := newReplNode(t).start("")
	b := newReplNode(t).start(a.addr())
	w := a.dial()
	w.want("ALTER COLUMN weibo repost top=2", "+OK")
	w.want("COUNTER.MINCRBY 1.cntrn 10 2.cntrn 20 3.cntrn 5", "[:10 :20 :5]")
	until(t, "the replica follows", func() bool { return b.dial().do("GET 3.cntrn").Text == "5" })
	const name = "__hot__:weibo.repost"
	var listeners hotListeners
	for _, n := range []*replNode{a, b} {
		for _, proto := range []int{2, 3} {
			c, p := n.dial(), n.dial()
			if c.proto, p.proto = proto, proto; proto == 3 {
				c.do("HELLO 3")
				p.do("HELLO 3")
			}
			c.send("SUBSCRIBE __hot__:weibo.comment __hot__:weibo.none " + name)
			for range 3 {
				c.read()
			}
			p.send("PSUBSCRIBE __hot__:*")
			p.read()
			listeners = append(listeners, hotListener{c, `"message" "` + name + `" `}, hotListener{p, `"pmessage" "__hot__:*" "` + name + `" `})
		}
	}
	hear := func(want string) {
		t.Helper()
		listeners.hear(t, want)
	}
	hear(`{"whole":true,"entered":[[2,20],[1,10]],"left":[]}`)
	w.want("INCRBY 1.cntrn 3", ":13") // neither enters nor leaves
	w.want("INCRBY 3.cntrn 95", ":100")
	hear(`{"whole":false,"entered":[[3,100]],"left":[1]}`)
	w.want("DEL 2", ":1")
	hear(`{"whole":false,"entered":[[1,13]],"left":[2]}`)

	w.want("ACL SETUSER few on nopass +@all ~* resetchannels &news", "+OK")
	deaf := a.dial()
	deaf.want("AUTH few x", "+OK")
	if got := deaf.do("SUBSCRIBE " + name).Text; !strings.Contains(got, "NOPERM") {
		t.Errorf("a user without the right to the channel: %s", got)
	}
	same(t, a, b)
}
