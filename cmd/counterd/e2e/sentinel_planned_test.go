package e2e

import (
	"strings"
	"testing"
	"time"
)

// TestSentinelPlanned lets Sentinel hand the role over while the primary lives and clients are at work: nothing that
// was acknowledged is lost.
func TestSentinelPlanned(t *testing.T) {
	if _, ok := tool(t, "redis-sentinel"); !ok {
		return
	}
	t.Parallel() // it waits most of the time
	g := newGroup(t, "counterd", counterdPath, 0, false, *downAfterFlag)
	eventually(t, time.Minute, "the group is at rest", func() bool { return g.settled() == g.nodes[0] })
	l := g.startWriters(4)
	eventually(t, time.Minute, "clients write", func() bool { return l.size() > 200 })

	// Clients that the new name concerns, and who notice nothing of it: they send nothing, or the node still answers them,
	// by READONLY.
	idle, subscriber := g.nodes[0].dial(t), g.nodes[0].dial(t)
	subscriber.do("SUBSCRIBE", "news")

	began := time.Now()
	if got := ask(g.sentinels[0], "SENTINEL", "FAILOVER", "mymaster"); got != "+OK\r\n" {
		t.Fatalf("SENTINEL FAILOVER: %q", got)
	}
	eventually(t, time.Minute, "the primary is a replica", func() bool { return replicationField(g.nodes[0].server, "role") == "slave" })
	t.Logf("handed over after %v", time.Since(began).Round(time.Millisecond))
	var leader *member
	eventually(t, time.Minute, "Sentinel names the new primary", func() bool { leader = g.named(); return leader != nil && leader != g.nodes[0] })
	t.Logf("named by Sentinel after %v", time.Since(began).Round(time.Millisecond))
	idle.wantEOF() // to ask Sentinel for the new primary
	subscriber.wantEOF()
	size := l.size()
	eventually(t, time.Minute, "the clients go on", func() bool { return l.size() > size+200 })
	eventually(t, 2*time.Minute, "the group is at rest", func() bool { return g.settled() == leader })

	// Nobody wrote into its file that it is a replica: it knows itself whose.
	if text := g.nodes[0].settings(); strings.Contains(text, "replicaof") {
		t.Errorf("the old primary's file:\n%s", text)
	}
	g.nodes[0].stop()
	g.nodes[0].start()
	eventually(t, time.Minute, "the old primary follows after a restart", func() bool { return g.nodes[0].follows(leader) })

	l.pause.Lock()
	defer l.pause.Unlock()
	eventually(t, time.Minute, "it has everything", func() bool { return ask(g.nodes[0].direct, "COUNTER.DIGEST") == ask(leader.direct, "COUNTER.DIGEST") })
	sum := l.check(t, leader, 1, l.size())
	t.Logf("increments: %+v", sum)
	if sum.lost > 0 {
		t.Errorf("%d acknowledged increments are gone", sum.lost)
	}
	for _, m := range g.nodes {
		if cuts := replicationField(m.server, "counterd_diverged_cuts"); cuts != "0" {
			t.Errorf("node %d took changes back: %s", m.number, replicationField(m.server, "counterd_diverged_last"))
		}
	}
}
