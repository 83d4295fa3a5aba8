package sentinel

import (
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// TestSentinelPlanned lets Sentinel hand the role over while the primary lives and clients are at work: nothing that
// was acknowledged is lost.
func TestSentinelPlanned(t *testing.T) {
	if _, ok := harness.Tool(t, "redis-sentinel"); !ok {
		return
	}
	t.Parallel() // it waits most of the time
	g := harness.NewGroup(t, "counterd", harness.CounterdPath, 0, false, *harness.DownAfterFlag)
	harness.Eventually(t, time.Minute, "the group is at rest", func() bool { return g.Settled() == g.Nodes[0] })
	l := g.StartWriters(4)
	harness.Eventually(t, time.Minute, "clients write", func() bool { return l.Size() > 200 })

	// Clients that the new name concerns, and who notice nothing of it: they send nothing, or the node still answers them,
	// by READONLY.
	idle, subscriber := g.Nodes[0].Dial(t), g.Nodes[0].Dial(t)
	subscriber.Do("SUBSCRIBE", "news")

	began := time.Now()
	if got := harness.Ask(g.Sentinels[0], "SENTINEL", "FAILOVER", "mymaster"); got != "+OK\r\n" {
		t.Fatalf("SENTINEL FAILOVER: %q", got)
	}
	harness.Eventually(t, time.Minute, "the primary is a replica", func() bool { return harness.ReplicationField(g.Nodes[0].Server, "role") == "slave" })
	t.Logf("handed over after %v", time.Since(began).Round(time.Millisecond))
	var leader *harness.Member
	harness.Eventually(t, time.Minute, "Sentinel names the new primary", func() bool { leader = g.Named(); return leader != nil && leader != g.Nodes[0] })
	t.Logf("named by Sentinel after %v", time.Since(began).Round(time.Millisecond))
	idle.WantEOF() // to ask Sentinel for the new primary
	subscriber.WantEOF()
	size := l.Size()
	harness.Eventually(t, time.Minute, "the clients go on", func() bool { return l.Size() > size+200 })
	harness.Eventually(t, 2*time.Minute, "the group is at rest", func() bool { return g.Settled() == leader })

	// Nobody wrote into its file that it is a replica: it knows itself whose.
	if text := g.Nodes[0].Settings(); strings.Contains(text, "replicaof") {
		t.Errorf("the old primary's file:\n%s", text)
	}
	g.Nodes[0].Stop()
	g.Nodes[0].Start()
	harness.Eventually(t, time.Minute, "the old primary follows after a restart", func() bool { return g.Nodes[0].Follows(leader) })

	l.Pause.Lock()
	defer l.Pause.Unlock()
	harness.Eventually(t, time.Minute, "it has everything", func() bool {
		return harness.Ask(g.Nodes[0].Direct, "COUNTER.DIGEST") == harness.Ask(leader.Direct, "COUNTER.DIGEST")
	})
	sum := l.Check(t, leader, 1, l.Size())
	t.Logf("increments: %+v", sum)
	if sum.Lost > 0 {
		t.Errorf("%d acknowledged increments are gone", sum.Lost)
	}
	for _, m := range g.Nodes {
		if cuts := harness.ReplicationField(m.Server, "counterd_diverged_cuts"); cuts != "0" {
			t.Errorf("node %d took changes back: %s", m.Number, harness.ReplicationField(m.Server, "counterd_diverged_last"))
		}
	}
}
