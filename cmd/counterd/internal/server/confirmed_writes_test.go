// Scenario: replies wait until another node has confirmed the change.

package server

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
)

// newMember starts a node of a cluster, which rests.
func newMember(t *testing.T, id string) *replNode {
	n := newReplNode(t)
	n.id = id
	return n.start("")
}

func (n *replNode) repl() *repl.Node { return n.srv.role.Replication() }

// follows makes n a replica of a node that leads in an epoch.
func (n *replNode) follows(p *replNode, epoch uint64) {
	n.t.Helper()
	if err := n.repl().FollowAt(repl.Address{Host: "127.0.0.1", Port: p.port}, p.id, epoch); err != nil {
		n.t.Fatal(err)
	}
}

// twoMembers are a node that leads in epoch 1 with a schema, alone, and one that follows it.
func twoMembers(t *testing.T) (a, b *replNode) {
	t.Helper()
	a, b = newMember(t, "a"), newMember(t, "b")
	if err := a.repl().LeadAt(1); err != nil {
		t.Fatal(err)
	}
	a.repl().Require([]string{"a"})
	if err := a.srv.Store().AlterScript(wireSchema); err != nil {
		t.Fatal(err)
	}
	b.follows(a, 1)
	return a, b
}

// silent tells whether nothing has come on a connection.
func (c *wireClient) silent() bool {
	_ = c.conn.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
	defer c.conn.SetReadDeadline(time.Now().Add(patience))
	_, err := c.r.Peek(1)
	return err != nil
}

// TestConfirmed has clients change and read on a primary of which another node must have what they are told. Nobody is
// told anything before, and who waits takes no goroutine.
func TestConfirmed(t *testing.T) {
	a, b := twoMembers(t)
	all := make([]*wireClient, 4*runtime.GOMAXPROCS(0))
	for i := range all {
		all[i] = a.dial()
		all[i].want(fmt.Sprintf("INCR %d.cntrn", i), ":1")
	}
	reader, control := a.dial(), a.dial()
	a.repl().Require([]string{"a", "c"}) // who is not there
	goroutines := runtime.NumGoroutine()
	before := a.srv.Store().Replication().Position()
	for i, c := range all {
		c.send(fmt.Sprintf("INCR %d.cntrn", i))
		if i%2 == 0 {
			c.send("PING") // answered in order
		}
	}
	until(t, "all have changed", func() bool { return a.calls() >= 2*len(all) })
	control.want("PING", "+PONG")
	if n := runtime.NumGoroutine(); n > goroutines+len(all)/2+5 { // that of a PING behind may go on elsewhere
		t.Errorf("%d goroutines, %d before", n, goroutines)
	}
	reader.send("GET 1.cntrn")
	for i, c := range append(all, reader) {
		if !c.silent() {
			t.Fatalf("client %d was told %s, and nobody else has it", i, c.read())
		}
	}
	if a.srv.Store().Replication().Position() == before || !a.srv.Store().Replication().Awaited() {
		t.Fatal("nothing was changed, or nobody waits")
	}
	a.repl().Require([]string{"a", "b"})
	for i, c := range all {
		if got := c.read().String(); got != ":2" {
			t.Fatalf("client %d: %s", i, got)
		}
		if i%2 == 0 {
			if got := c.read().String(); got != "+PONG" {
				t.Fatalf("client %d: %s", i, got)
			}
		}
	}
	if got := reader.read().String(); got != `"2"` {
		t.Fatalf("the reader: %s", got)
	}
	for i := range all { // it was acknowledged, so b has it now
		if v, _, err := b.srv.Store().Get(fmt.Sprintf("%d.cntrn", i)); v != 2 || err != nil {
			t.Fatalf("b has %d of %d, %v", v, i, err)
		}
	}
	for range 50 { // each acknowledged one by one
		all[0].do("INCR 0.cntrn")
	}
	if v, _, _ := b.srv.Store().Get("0.cntrn"); v != 52 {
		t.Fatalf("b has %d, want 52", v)
	}
}

// calls is how many commands were executed.
func (n *replNode) calls() int { return int(n.srv.commands.Calls()) }

// TestUnconfirmed ends the waiting in every other way: by doubt, by the loss of the role, by the client, by the server.
func TestUnconfirmed(t *testing.T) {
	a, _ := twoMembers(t)
	c, d, gone := a.dial(), a.dial(), a.dial()
	c.want("INCR 1.cntrn", ":1")
	a.repl().Require([]string{"a", "c"})
	awaits := func(conns ...*wireClient) {
		t.Helper()
		calls := a.calls()
		for i, c := range conns {
			c.send(fmt.Sprintf("INCR %d.cntrn", 10+i))
		}
		until(t, "all have changed", func() bool { return a.calls() >= calls+len(conns) })
	}
	uncertain := func(c *wireClient, words string) {
		t.Helper()
		if got := c.read().String(); !strings.HasPrefix(got, "-UNCERTAIN changes up to log offset ") || !strings.Contains(got, words) {
			t.Fatalf("got %s, want UNCERTAIN and %q", got, words)
		}
	}
	awaits(c, d, gone)
	gone.conn.Close()
	a.repl().Doubt(errors.New("c is away"))
	uncertain(c, "c is away")
	uncertain(d, "c is away")
	c.send("GET 10.cntrn") // a reader may be told no more than who changed it
	uncertain(c, "c is away")
	a.repl().Doubt(nil)

	id := d.do("CLIENT ID").Text
	awaits(c, d)
	killer := a.dial()
	killer.want("CLIENT KILL ID "+strings.TrimPrefix(id, ":"), ":1")
	d.ended()
	if err := a.repl().Rest(); err != nil {
		t.Fatal(err)
	}
	uncertain(c, "not the primary any more")
	if got := c.do("INCR 30.cntrn").String(); !strings.HasPrefix(got, "-READONLY ") {
		t.Fatalf("a change without the role: %s", got)
	}
	c.want("GET 30.cntrn", "nil")

	if err := a.repl().LeadAt(2); err != nil {
		t.Fatal(err)
	}
	a.repl().Require([]string{"a"})
	c.want("GET 11.cntrn", `"2"`) // nothing that was uncertain was lost
	a.repl().Require([]string{"a", "c"})
	awaits(c)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := a.srv.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	uncertain(c, "closed")
	if err := a.srv.Store().Close(); err != nil {
		t.Fatal(err)
	}
	a.srv = nil
}

// TestUncertainOnce: a read in several steps sees changes that another node does not have, and the node comes to doubt it.
// The command is answered by one error, though each of its steps waits for the other node.
func TestUncertainOnce(t *testing.T) {
	a, _ := twoMembers(t)
	a.repl().Require([]string{"a", "c"})
	c := a.dial()
	for base := 0; base < 3000; base += 500 {
		args := "MSET"
		for mid := base; mid < base+500; mid++ {
			args += fmt.Sprintf(" %d.cntcm 1", mid)
		}
		a.dial().send(args)
	}
	until(t, "the posts are there", func() bool { return a.srv.commands.Find([]byte("mset")).Calls() == 6 })
	keys := a.srv.commands.Find([]byte("keys"))
	c.sendAll("KEYS *", "PING")
	until(t, "KEYS has run", func() bool { return keys.Calls() > 0 })
	a.repl().Doubt(errors.New("c is away"))
	if got := c.read().String(); !strings.HasPrefix(got, "-UNCERTAIN ") {
		t.Fatalf("KEYS: got %.200s, want UNCERTAIN", got)
	}
	if got := c.read().String(); got != "+PONG" {
		t.Fatalf("PING: got %.200s", got)
	}
}
