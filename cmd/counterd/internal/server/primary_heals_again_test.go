// Scenario: a primary that heals from its replicas ends on the way, or its replicas know an older term.

package server

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// TestPrimaryEndsWhileItHeals: the process ended while it made its own frames again, so it has more than the replica that it copied, and
// does not lead yet. It leads after the restart.
func TestPrimaryEndsWhileItHeals(t *testing.T) {
	a, b := newReplNode(t), newReplNode(t)
	a.start("")
	b.start(a.addr())
	a.dial().want("SET 1.cntcm 5", "+OK")
	same(t, a, b)
	b.stop()
	a.dial().want("SET 2.cntcm 6", "+OK")
	past := a.srv.Store().Replication().Lineage()
	a.stop()
	past.Replica = true
	if err := logfile.WriteLineage(vfs.OS(), a.dir, &past); err != nil {
		t.Fatal(err)
	}
	h := format.Healing{Set: 1, First: 1, Since: 1, Host: "127.0.0.1", Port: b.port, Lead: past.Current().ReplID, Reason: "a bad page"}
	if err := os.WriteFile(format.HealingPath(a.dir), h.Text(), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(a.dir, format.DamagedName(format.LogDirName, 1)), 0o750); err != nil {
		t.Fatal(err)
	}
	b.start("")
	a.start("")
	until(t, "it leads", func() bool { return a.info("role") == "master" && a.info("counterd_healing") == "0" })
	a.dial().want("GET 2.cntcm", `"6"`)
	same(t, a, b)
	b.dial().want("GET 2.cntcm", `"6"`)
}

// TestReplicasOfAnOlderTerm: a primary that starts again begins a term that its absent replicas do not know, and REPLICAS says so. Their
// log is no beginning of its log where a power failure has taken its end.
func TestReplicasOfAnOlderTerm(t *testing.T) {
	a, b := newReplNode(t), newReplNode(t)
	a.start("")
	b.start(a.addr())
	a.dial().want("SET 1.cntcm 5", "+OK")
	same(t, a, b)
	noted := func() repl.ReplicasNote { return repl.ReadReplicas(vfs.OS(), a.dir) }
	current := func() format.ReplID {
		past := a.srv.Store().Replication().Lineage()
		return past.Current().ReplID
	}
	until(t, "the replica is noted", func() bool { return len(noted().List) == 1 && noted().History == current() })
	before := noted()
	b.stop()
	a.stop()
	a.start("")
	if now := noted(); now.History != current() || now.History == before.History || len(now.List) != 1 || now.List[0] != before.List[0] {
		t.Errorf("REPLICAS has %+v in term %s, before %+v", now, current(), before)
	}
	a.dial().want("REPLICAOF "+b.addr(), "+OK")
	a.dial().want("REPLICAOF NO ONE", "+OK")
	if now := noted(); now.History != current() || len(now.List) != 1 {
		t.Errorf("after a promotion REPLICAS has %+v in term %s", now, current())
	}
}
