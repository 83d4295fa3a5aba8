// Scenario: nodes report trouble in their records in etcd.

package cluster

import (
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
)

// TestClusterTroubles: troubles that nodes report are errors or warnings of cluster check, though the map looks well.
// Text of a node cannot steer a terminal.
func TestClusterTroubles(t *testing.T) {
	f := newFakes(t, 3)
	f.ctl(0, nil, "create", "--yes", "--shards", "1", "--replicas", "1", f.words[0], f.words[1])
	say := func(i int, list ...topology.Trouble) {
		t.Helper()
		if err := f.leases[id(i)].Update(f.ctx, topology.Live{Process: "p", Address: f.words[i], Epoch: 1, Troubles: list}); err != nil {
			t.Fatal(err)
		}
	}
	f.ctl(0, nil, "check")
	say(1, topology.Trouble{ID: "old-copy", Severity: topology.SevereError, Text: "its directory\x1b[2J is old"},
		topology.Trouble{ID: "b", Severity: topology.SevereWarning, Text: "b is slow"}, topology.Trouble{ID: "c", Severity: "catastrophe", Text: "c is new"})
	f.ctl(1, []string{"ERROR    shard 1: " + f.words[1] + " reports: its directory [2J is old", "WARNING  shard 1: " + f.words[1] + " reports: b is slow",
		"ERROR    shard 1: " + f.words[1] + " reports: c is new"}, "check")
	say(1)
	f.ctl(0, nil, "check")
	say(2, topology.Trouble{ID: "disk", Severity: topology.SevereWarning, Text: "the disk is slow"})
	f.ctl(1, []string{"WARNING  free node " + f.words[2] + " reports: the disk is slow"}, "check")
}

// TestClusterNoSpace: etcd's alarm NOSPACE is an error though every node is well, and --until-well waits for its end.
func TestClusterNoSpace(t *testing.T) {
	f := newFakes(t, 2)
	f.ctl(0, nil, "create", "--yes", "--shards", "1", "--replicas", "1", f.words[0], f.words[1])
	f.etcd.SetFull(true)
	f.ctl(1, []string{"ERROR", "etcd has the alarm NOSPACE", "etcdctl alarm disarm"}, "check")
	done := make(chan struct{})
	go func() {
		defer close(done)
		time.Sleep(300 * time.Millisecond)
		f.etcd.SetFull(false)
	}()
	f.ctl(0, nil, "check", "--until-well")
	<-done
	f.ctl(0, nil, "check")
}

// TestClusterOutdated: an older copy is shown as one, leads by no planned or forced failover, and by an unclean one also
// where it is the primary.
func TestClusterOutdated(t *testing.T) {
	f := newFakes(t, 2)
	f.ctl(0, nil, "create", "--yes", "--shards", "1", "--replicas", "1", f.words[0], f.words[1])
	primary := 0
	if f.status().Shards[0].Primary != id(0) {
		primary = 1
	}
	say := func(i int, live topology.Live) {
		t.Helper()
		live.Process, live.Address, live.Epoch = "p", f.words[i], 1
		if err := f.leases[id(i)].Update(f.ctx, live); err != nil {
			t.Fatal(err)
		}
	}
	say(1-primary, topology.Live{Outdated: true})
	f.ctl(1, []string{"no other node of shard 1 runs and is in sync"}, "failover", "1", "--yes")
	f.still.Store(true)
	f.stop(1 - primary)
	say(primary, topology.Live{Outdated: true, Rests: true})
	f.ctl(1, []string{"its primary " + f.words[primary] + " does not lead"}, "check")
	f.ctl(0, []string{"older copy"}, "status")
	f.ctl(0, []string{"its directory is an older copy", f.words[primary] + " leads epoch 2"}, "failover", "1", "--unclean", "--yes")
}
