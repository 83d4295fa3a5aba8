// Scenario: a replica cannot open its data, and its primary lacks something that the log of the replica has, or is away.

package server

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/internal/nodes/repl"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/past"
	"github.com/counterd/counterd/persist/vfs"
)

// TestReplicaWithTheEndCannotOpen: a primary lost power, and with it the end of its log. The replica that has the end cannot open its data, as its images
// are damaged. It sets nothing aside, and gives the end to its primary, which waits for it. Then it copies the data of the primary. The same holds for two such
// replicas, of which the second one has more, and for one whose log is damaged in front of the end, too.
func TestReplicaWithTheEndCannotOpen(t *testing.T) {
	for name, c := range map[string]struct {
		replicas int
		log      bool // the log of the replica is damaged, too
	}{"one replica": {replicas: 1}, "two replicas": {replicas: 2}, "manifests and log": {replicas: 1, log: true}} {
		t.Run(name, func(t *testing.T) {
			a := newReplNode(t)
			a.start("")
			a.dial().want("SET 1.cntcm 4", "+OK")
			var replicas []*replNode
			for range c.replicas {
				b := newReplNode(t)
				b.start(a.addr())
				same(t, a, b)
				b.dial().save()
				replicas = append(replicas, b)
			}
			until(t, "all are noted", func() bool { return len(repl.ReadReplicas(vfs.OS(), a.dir).List) == c.replicas })
			ends := []uint64{a.srv.Store().Replication().Written()}
			for part := range 2 {
				for i := range 20 {
					a.dial().want(fmt.Sprintf("SET %d.cntcm 5", 20*part+i), "+OK")
				}
				same(t, append([]*replNode{a}, replicas...)...)
				ends = append(ends, a.srv.Store().Replication().Written())
			}
			for i, b := range replicas {
				if i+1 < len(replicas) {
					b.stop()
					a.dial().want("SET 40.cntcm 5", "+OK")
					same(t, append([]*replNode{a}, replicas[i+1:]...)...)
				}
			}
			a.stop()
			alterLog(t, a.dir, func(b []byte, s *logfile.Segment) { clear(b[s.Offset(ends[1]):]) })
			if err := os.Remove(filepath.Join(a.dir, "DURABLE")); err != nil {
				t.Fatal(err)
			}
			for _, b := range replicas {
				b.stop()
				if c.log {
					alterLog(t, b.dir, func(b []byte, s *logfile.Segment) { b[s.Offset((ends[0]+ends[1])/2)] ^= 1 })
				}
				damageSnapshots(t, b.dir)
			}
			var starts sync.WaitGroup
			a.listening = func() {
				for _, b := range replicas {
					starts.Go(func() { b.start("") })
				}
			}
			a.start("")
			starts.Wait()
			for i := range 39 + c.replicas {
				a.dial().want(fmt.Sprintf("GET %d.cntcm", i), `"5"`)
			}
			a.dial().want("SET 41.cntcm 6", "+OK")
			for _, b := range replicas {
				until(t, "the replica is whole", func() bool { return b.info("counterd_healed") == "1" })
			}
			same(t, append([]*replNode{a}, replicas...)...)
			if found := setAside(t, a.dir); len(found) > 0 || a.info("role") != "master" || a.info("counterd_refilled_log_segments") != "1" {
				t.Errorf("the primary has set %q aside; it is a %s, and %s segments were mended", found, a.info("role"), a.info("counterd_refilled_log_segments"))
			}
			for _, b := range replicas {
				if b.info("counterd_diverged_files") != "0" {
					t.Errorf("node %d has cut %s times", b.port, b.info("counterd_diverged_files"))
				}
			}
		})
	}
}

// TestBothCannotOpen: the log of a primary is damaged, and its only replica cannot open its data, as its manifests are damaged. The log of the replica is whole:
// the primary gets the damaged frames from it, and leads, and the replica copies the data of the primary.
func TestBothCannotOpen(t *testing.T) {
	a, b := newReplNode(t), newReplNode(t)
	a.start("")
	b.start(a.addr())
	a.dial().want("SET 1.cntcm 4", "+OK")
	same(t, a, b)
	a.noted()
	b.dial().save()
	from := a.srv.Store().Replication().Written()
	for i := range 20 {
		a.dial().want(fmt.Sprintf("SET %d.cntcm 5", i), "+OK")
	}
	same(t, a, b)
	end := a.srv.Store().Replication().Written()
	a.stop()
	b.stop()
	alterLog(t, a.dir, func(b []byte, s *logfile.Segment) { b[s.Offset((from+end)/2)] ^= 1 })
	damageSnapshots(t, b.dir)
	var starts sync.WaitGroup
	a.listening = func() { starts.Go(func() { b.start("") }) }
	a.start("")
	starts.Wait()
	for i := range 20 {
		a.dial().want(fmt.Sprintf("GET %d.cntcm", i), `"5"`)
	}
	until(t, "the replica is whole", func() bool { return b.info("counterd_healed") == "1" })
	a.dial().want("SET 21.cntcm 6", "+OK")
	same(t, a, b)
	if found := setAside(t, a.dir); len(found) > 0 || a.info("role") != "master" {
		t.Errorf("the primary has set %q aside, and is a %s", found, a.info("role"))
	}
}

// TestDamagedReplicaWaits: a replica cannot open its data, and its primary does not answer. It sets nothing aside, does not lead, and tells where its log ends.
// REPLICAOF names another node, which it copies.
func TestDamagedReplicaWaits(t *testing.T) {
	a, b, c := newReplNode(t), newReplNode(t), newReplNode(t)
	a.start("")
	b.start(a.addr())
	c.start(a.addr())
	a.dial().want("SET 1.cntcm 4", "+OK")
	same(t, a, b, c)
	b.dial().save()
	term, end := a.info("master_replid"), a.srv.Store().Replication().Written()
	b.stop()
	a.stop()
	damageSnapshots(t, b.dir)
	c.dial().want("REPLICAOF NO ONE", "+OK")
	said := make(chan string, 1)
	b.listening = func() {
		go func() {
			until(t, "the node tells where its log ends", func() bool { return b.info("counterd_healing_history") == term })
			if at := b.info("counterd_healing_offset"); at != fmt.Sprint(end) {
				t.Errorf("its log ends at %s, want %d", at, end)
			}
			if role, priority := b.info("role"), b.info("slave_priority"); role != "slave" || priority != "0" {
				t.Errorf("it is a %s of priority %q: Sentinel takes it for one that it can promote", role, priority)
			}
			if found := setAside(t, b.dir); len(found) > 0 || b.info("counterd_healing_waits") != "1" {
				t.Errorf("set aside: %q, waits: %s", found, b.info("counterd_healing_waits"))
			}
			w := b.dial()
			said <- w.do("REPLICAOF NO ONE").Text + w.do("REPLICAOF "+c.addr()).Text
		}()
	}
	b.start("")
	if got := <-said; got != "LOADING counterd is loading the dataset in memoryOK" {
		t.Errorf("it said %q", got)
	}
	until(t, "it is whole", func() bool { return b.info("counterd_healed") == "1" })
	c.dial().want("SET 2.cntcm 5", "+OK")
	same(t, c, b)
}

// TestReplicaIsDamagedWhileItIsCopied: a primary could not open its data, and copies its replica. Before it has the data, both end, and the log of the replica is
// damaged. The log that the primary has set aside has the frames: the replica is whole by them, and the primary leads again.
func TestReplicaIsDamagedWhileItIsCopied(t *testing.T) {
	a, b := newReplNode(t), newReplNode(t)
	a.start("")
	b.start(a.addr())
	a.dial().want("SET 1.cntcm 4", "+OK")
	same(t, a, b)
	a.noted()
	from := a.srv.Store().Replication().Written()
	for i := range 20 {
		a.dial().want(fmt.Sprintf("SET %d.cntcm 5", i), "+OK")
	}
	same(t, a, b)
	lineage, end := a.srv.Store().Replication().Lineage(), a.srv.Store().Replication().Written()
	a.stop()
	b.stop()
	err := past.GiveUp(vfs.OS(), a.dir, format.Healing{Reason: "a bad page", Host: "127.0.0.1", Port: b.port, Lead: lineage.Current().ReplID})
	if err != nil {
		t.Fatal(err)
	}
	alterLog(t, b.dir, func(b []byte, s *logfile.Segment) { b[s.Offset((from+end)/2)] ^= 1 })
	a.start("")
	var watch sync.WaitGroup
	b.listening = func() {
		watch.Go(func() {
			until(t, "the replica opens its data, or waits", func() bool { return b.info("counterd_healing_waits") == "1" || !b.opens.Opening() })
			if b.opens.Opening() {
				t.Error("the replica waits for the primary, which waits for it")
				b.opens.EndOpening()
			}
		})
	}
	b.start("")
	watch.Wait()
	until(t, "the primary is whole", func() bool { return a.info("counterd_healing") == "0" && a.info("role") == "master" })
	for i := range 20 {
		a.dial().want(fmt.Sprintf("GET %d.cntcm", i), `"5"`)
	}
	a.dial().want("SET 21.cntcm 6", "+OK")
	same(t, a, b)
	if found := setAside(t, b.dir); len(found) > 0 || b.info("counterd_refilled_log_segments") != "1" {
		t.Errorf("the replica has set %q aside, and %s segments were mended", found, b.info("counterd_refilled_log_segments"))
	}
}

// damageSnapshots damages all manifests of a directory whose HISTORY says that its log needs a snapshot, so that it cannot be opened. The log is whole.
func damageSnapshots(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "MANIFEST-*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	for _, path := range files {
		damageFile(t, path, damages[1].make)
	}
	past, err := logfile.ReadLineage(vfs.OS(), dir)
	if err != nil || len(past.Terms) == 0 {
		t.Fatalf("%+v, %v", past, err)
	}
	past.NeedsSnapshot = true
	if err := logfile.WriteLineage(vfs.OS(), dir, &past); err != nil {
		t.Fatal(err)
	}
}

// TestEndOfANodeThatCannotOpen: a primary lost power, and with it the end of its log, and its manifests are damaged, too. One replica has the end, and cannot open its
// data; the other one is open, and has less. The primary gets the end from the first one, and the data from the second one.
func TestEndOfANodeThatCannotOpen(t *testing.T) {
	a, b, c := newReplNode(t), newReplNode(t), newReplNode(t)
	a.start("")
	b.start(a.addr())
	c.start(a.addr())
	a.dial().want("SET 1.cntcm 4", "+OK")
	same(t, a, b, c)
	until(t, "both are noted", func() bool { return len(repl.ReadReplicas(vfs.OS(), a.dir).List) == 2 })
	a.dial().save()
	b.dial().save()
	from := a.srv.Store().Replication().Written()
	c.stop()
	for i := range 20 {
		a.dial().want(fmt.Sprintf("SET %d.cntcm 5", i), "+OK")
	}
	same(t, a, b)
	a.stop()
	b.stop()
	alterLog(t, a.dir, func(b []byte, s *logfile.Segment) { clear(b[s.Offset(from):]) })
	if err := os.Remove(filepath.Join(a.dir, "DURABLE")); err != nil {
		t.Fatal(err)
	}
	damageSnapshots(t, a.dir)
	damageSnapshots(t, b.dir)
	c.start("")
	var starts sync.WaitGroup
	a.listening = func() { starts.Go(func() { b.start("") }) }
	a.start("")
	starts.Wait()
	until(t, "the primary is whole", func() bool { return a.info("counterd_healed") == "1" && a.info("role") == "master" })
	for i := range 20 {
		a.dial().want(fmt.Sprintf("GET %d.cntcm", i), `"5"`)
	}
	until(t, "the replica is whole", func() bool { return b.info("counterd_healed") == "1" })
	same(t, a, b, c)
}
