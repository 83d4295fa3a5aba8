// Scenario: messages reach the subscribers of replicas in the order of changes.

package server

import (
	"fmt"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/persist/format"
)

// TestPublishToReplicas: what is published on a primary reaches subscribers of its replicas and of theirs, behind the
// changes that were made before it, and leaves the log as it is. What is published on a replica stays there.
func TestPublishToReplicas(t *testing.T) {
	a := newReplNode(t).start("")
	b := newReplNode(t).start(a.addr())
	c := newReplNode(t).start(b.addr())
	w := a.dial()
	w.want("SET 1.cntcm 0", "+OK")
	until(t, "the replicas follow", func() bool {
		return c.info("master_link_status") == "up" && b.info("master_link_status") == "up" && c.dial().do("GET 1.cntcm").Text == "0"
	})
	nodes := []*replNode{a, b, c}
	subscribers := make([]*wireClient, 3)
	for i, n := range nodes {
		subscribers[i] = n.dial()
		subscribers[i].want("SUBSCRIBE news", `["subscribe" "news" :1]`)
		subscribers[i].want("PSUBSCRIBE n*s", `["psubscribe" "n*s" :2]`)
	}
	for i := range 50 {
		w.want("INCR 1.cntcm", fmt.Sprintf(":%d", i+1))
		end := a.srv.Store().Replication().Position()
		if i%2 == 0 {
			w.want(fmt.Sprintf("PUBLISH news %d", i), ":2")
		} else {
			w.want("MULTI", "+OK")
			w.want("INCRBY 1.cntcm 0", "+QUEUED")
			w.want(fmt.Sprintf("PUBLISH news %d", i), "+QUEUED")
			w.want("EXEC", fmt.Sprintf("[:%d :2]", i+1))
		}
		if i%2 == 0 && a.srv.Store().Replication().Position() != end {
			t.Fatal("PUBLISH changed the log")
		}
		for j, s := range subscribers {
			if got, want := s.read().String(), fmt.Sprintf(`["message" "news" "%d"]`, i); got != want {
				t.Fatalf("node %d: got %s, want %s", j, got, want)
			}
			if got, want := s.read().String(), fmt.Sprintf(`["pmessage" "n*s" "news" "%d"]`, i); got != want {
				t.Fatalf("node %d: got %s, want %s", j, got, want)
			}
			nodes[j].dial().want("GET 1.cntcm", fmt.Sprintf(`"%d"`, i+1))
		}
	}
	shard := c.dial()
	shard.want("SSUBSCRIBE news", `["ssubscribe" "news" :1]`)
	w.want("SPUBLISH news shard", ":0")
	if got, want := shard.read().String(), `["smessage" "news" "shard"]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	b.dial().want("PUBLISH news here", ":2")
	w.want("PUBLISH news last", ":2")
	for i, want := range []string{"last", "here", "last"} {
		if got := subscribers[i].read().List[2].Text; got != want {
			t.Errorf("node %d: got %s, want %s", i, got, want)
		}
	}
	same(t, a, b, c)
}

// TestSentAway: clients of a node that was the primary are closed when a Sentinel names another, once for each
// Sentinel, as a client may ask any of them; and nobody else.
func TestSentAway(t *testing.T) {
	a := newReplNode(t).start("")
	b := newReplNode(t).start(a.addr())
	until(t, "the replica follows", func() bool { return b.info("master_link_status") == "up" && a.info("connected_slaves") == "1" })
	sentinel := a.dial()
	sentinel.want("CLIENT SETNAME sentinel-0123-cmd", "+OK")
	says := func(who string, port, epoch int) {
		t.Helper()
		sentinel.want(fmt.Sprintf("PUBLISH __sentinel__:hello 127.0.0.1,26379,%s,%d,mymaster,127.0.0.1,%d,%d", who, epoch, port, epoch), ":0")
	}
	plain, subscriber := a.dial(), a.dial()
	subscriber.want("SUBSCRIBE x", `["subscribe" "x" :1]`)
	says("one", a.port, 1)
	says("two", a.port, 1)
	says("one", b.port, 0) // old
	plain.want("PING", "+PONG")
	plain.want(fmt.Sprintf("FAILOVER TO 127.0.0.1 %d", b.port), "+OK")
	until(t, "the role is handed over", func() bool {
		return a.info("role") == "slave" && b.info("role") == "master" && a.info("master_link_status") == "up"
	})
	plain.want("SET 1.cntcm 1", "-"+items.ErrReadOnly) // Sentinel would still send it here
	says("one", b.port, 2)
	plain.ended()
	subscriber.ended()
	late := a.dial() // by the other Sentinel
	late.want("PING", "+PONG")
	says("one", b.port, 2)
	late.want("PING", "+PONG")
	says("two", b.port, 2)
	late.ended()
	reader := a.dial()
	says("two", b.port, 2)
	says("one", b.port, 2)
	reader.want("PING", "+PONG")
	if a.info("master_link_status") != "up" {
		t.Error("the link was cut")
	}
}

// TestPublishToOlderReplica: a replica that did not say that it takes messages of PUBLISH, as it is of a build that
// does not know them and would drop the link, is sent the log alone.
func TestPublishToOlderReplica(t *testing.T) {
	a := newReplNode(t).start("")
	old := deafReplica(t, a, 1)
	a.dial().want("PUBLISH news x", ":0")
	a.dial().want("SET 7.cntcm 1", "+OK")
	for {
		kind, err := old.r.ReadByte()
		if err != nil {
			t.Fatal(err)
		}
		size := 0
		switch kind {
		case 'P':
			size = 8
		case 'F':
			head, err := old.r.Peek(format.FrameHeaderLen)
			if err != nil {
				t.Fatal(err)
			}
			size = format.FrameHeaderLen + int(format.FramePayloadLen(head))
		case 'G':
		default:
			t.Fatalf("a message of kind %q", kind)
		}
		if _, err := old.r.Discard(size); err != nil {
			t.Fatal(err)
		}
		if kind == 'F' {
			return // what was published stands before it
		}
	}
}
