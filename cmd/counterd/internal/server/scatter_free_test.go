// Scenario: nodes of no shard, and replicas that are behind, forward commands.

package server

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/testkit/resptest"
	"github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/schema"
)

// freeServe starts a cluster of two shards with forward ports: the primaries are nodes 0 and 1, 2 is a replica of 1, and 3 is of
// no shard. The last two have no schema yet, as before a copy of the primary's data.
func freeServe(t *testing.T) *testCluster {
	k := serveForward(t, 2, nil)
	other := serveForward(t, 2, nil)
	k.srv = append(k.srv, other.srv...)
	k.nodes = append(k.nodes, other.nodes...)
	k.nodes[2].Shard, k.nodes[3].Shard = k.shards[1].ID, 0
	for i := 2; i < 4; i++ {
		k.nodes[i].ID = testNodeID(i)
		for _, def := range k.srv[i].Store().Schema().Counters() {
			if err := k.srv[i].Store().AlterScript("drop counter " + def.Name); err != nil {
				t.Fatal(err)
			}
		}
	}
	k.schema = topology.Schema{Text: string(k.srv[0].Store().Schema().AppendText(nil)), Revision: 1}
	k.stand()
	return k
}

// TestForwardFree: a node of no shard, and a replica that is behind, forward as primaries do, also what is for all posts, what
// is in a transaction, and what is wrong.
func TestForwardFree(t *testing.T) {
	t.Parallel()
	seed := seed.Of(t)
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	model := wireDial(t, wireServe(t, nil), 3)
	f := freeServe(t)
	for i := 2; i < 4; i++ {
		if n := len(f.srv[i].Store().Schema().Counters()); n != 0 {
			t.Fatalf("node %d has %d counters", i, n)
		}
	}
	clients := []*wireClient{f.forward(2, 3), f.forward(3, 3)}
	for n := range 200 {
		c := clients[r.IntN(2)]
		var sent []string
		for range 1 + r.IntN(20) {
			if r.IntN(10) == 0 {
				sent = append(sent, randomTransaction(r)...)
				continue
			}
			sent = append(sent, randomCommand(r))
		}
		sent = append(sent, "COUNTER.COUNT weibo WHERE repost > 0", "COUNTER.FIND weibo WHERE repost > 1 LIMIT 5")
		if n%50 == 49 {
			sent = append(sent, "FLUSHALL", "DBSIZE")
		}
		var b []byte
		for _, s := range sent {
			b = resptest.Append(b, strings.Fields(s)...)
		}
		for _, to := range []*wireClient{c, model} {
			if _, err := to.conn.Write(b); err != nil {
				t.Fatal(err)
			}
		}
		for i, s := range sent {
			got, want := c.read(), model.read()
			if got.Raw != want.Raw {
				t.Fatalf("%s (%d of %d): got %s, want %s", s, i, len(sent), got, want)
			}
		}
	}

	// On the port of a cluster's clients it is a page that such a node answers for all.
	clients[1].do("INCRBY 5.cntrn 7")
	for i := 2; i < 4; i++ {
		c := f.dial(i, 3)
		c.want("COUNTER.MGET weibo 5 COLUMNS repost", "[[:7]]")
		c.want("COUNTER.SUM weibo repost WHERE repost = 7", ":7")
		if got := c.do("GET {5}.cntrn").String(); !strings.HasPrefix(got, "-MOVED ") {
			t.Errorf("GET on node %d: got %s", i, got)
		}
	}
}

// TestNamesNewest: what a node without data knows of keys changes with the cluster's schema.
func TestNamesNewest(t *testing.T) {
	t.Parallel()
	f := freeServe(t)
	c := f.forward(3, 3)
	if got := c.do("INCR 5.new").String(); !strings.HasPrefix(got, "-ERR no counter for key") {
		t.Fatalf("got %s", got)
	}
	for i := range 2 {
		if err := f.srv[i].Store().AlterScript("add column weibo new hint=8 suffix=new"); err != nil {
			t.Fatal(err)
		}
	}
	text := f.srv[0].Store().Schema().AppendText(nil)
	if _, err := schema.ParseDurable(text); err != nil {
		t.Fatal(err)
	}
	f.schema = topology.Schema{Text: string(text), Revision: 2}
	f.stand()
	for i := range 20 {
		c.want(fmt.Sprintf("INCR %d.new", i), ":1")
	}
}
