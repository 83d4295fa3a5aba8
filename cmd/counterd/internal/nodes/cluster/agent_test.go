package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterd/counterd/cmd/internal/testkit/registrytest"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/persist/vfs"
)

// scene runs one story with a settled cluster, and ends it.
func scene(t *testing.T, of shape, story func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, of, allRules, false, true)
		defer func() {
			close(w.over)
			for _, m := range w.machines {
				w.kill(m)
			}
			w.flushes.Wait()
			if t.Failed() {
				t.Log("\n" + w.trace.String())
			}
			for _, f := range w.failures {
				t.Error(f)
			}
		}()
		if w.settled(30 * time.Second) {
			story(t, w)
		}
	})
}

// shard is the first one, as etcd has it.
func (w *world) shard(t *testing.T) *topology.Shard {
	m, err := w.etcd.Map()
	if err != nil {
		t.Fatal(err)
	}
	return m.Shards[0]
}

func (w *world) primary(t *testing.T) *machine { return w.machine(w.shard(t).Primary) }

// replica is a replica in sync.
func (w *world) replica(t *testing.T) *machine {
	for _, id := range w.shard(t).InSync {
		if id != w.shard(t).Primary {
			return w.machine(id)
		}
	}
	t.Fatal("no replica is in sync")
	return nil
}

// until waits for a condition that must come.
func until(t *testing.T, within time.Duration, what string, ok func() bool) time.Duration {
	t.Helper()
	begun := time.Now()
	for !ok() {
		if time.Since(begun) > within {
			t.Fatalf("not in %s: %s", within, what)
		}
		time.Sleep(max(time.Millisecond, within/2000))
	}
	return time.Since(begun)
}

// newAttempt is one more attempt at a write.
func (w *world) newAttempt() *attempt {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ops++
	op := &attempt{id: w.ops}
	w.attempts[op.id] = true
	return op
}

// planned has a replica ask its primary to hand over, and returns where the outcome comes.
func planned(to *machine) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := to.proc.agent.Failover(context.Background(), Planned)
		done <- err
	}()
	return done
}

// write raises key 0 once on whichever machine takes it, and returns how long that took.
func (w *world) write(t *testing.T, within time.Duration) time.Duration {
	t.Helper()
	return until(t, within, "an acknowledged write", func() bool {
		for _, m := range w.machines {
			if _, o, _ := w.server(m, w.newAttempt()); o == acknowledged {
				return true
			}
		}
		return false
	})
}

var three = shape{shards: 1, replicas: 2, nodes: 3, least: 2}

// TestFailoverTimes measures with a fake clock: a dead process is replaced without its lease, a stopped one behind it.
func TestFailoverTimes(t *testing.T) {
	t.Run("killed", func(t *testing.T) {
		scene(t, three, func(t *testing.T, w *world) {
			w.kill(w.primary(t))
			d := w.write(t, time.Second)
			t.Logf("the first write %s behind the end of the primary", d)
		})
	})
	t.Run("stopped", func(t *testing.T) {
		scene(t, three, func(t *testing.T, w *world) {
			old := w.primary(t)
			w.freeze(old.proc)
			d := until(t, 5*time.Second, "another primary", func() bool { return w.primary(t) != old })
			t.Logf("another primary %s behind the stop, with a lease of 2 s", d)
			w.thaw(old.proc)
			w.write(t, 3*time.Second)
			if w.primary(t) == old {
				t.Error("the stopped one leads again")
			}
		})
	})
}

// TestSwitch hands over by hand: writes are held for less than half a second, and none of them fails.
func TestSwitch(t *testing.T) {
	scene(t, three, func(t *testing.T, w *world) {
		w.write(t, time.Second)
		old, to := w.primary(t), w.replica(t)
		done := make(chan error, 1)
		go func() {
			r, err := to.proc.agent.Failover(context.Background(), Planned)
			if err == nil && (r.Epoch != 2 || !r.Clean || r.From != old.id) {
				err = errors.New("the report is wrong")
			}
			done <- err
		}()
		longest := time.Duration(0)
		for range 50 {
			longest = max(longest, w.write(t, time.Second))
		}
		if err := <-done; err != nil || w.primary(t) != to {
			t.Fatalf("got %v, and %s leads", err, w.primary(t).id)
		}
		if longest > switchTime {
			t.Errorf("a write was held for %s, want %s at most", longest, switchTime)
		}
		if s := w.shard(t); len(s.InSync) != 3 {
			t.Errorf("in sync: %s, want all", s.InSync)
		}
		if _, err := to.proc.agent.Failover(context.Background(), Planned); !errors.Is(err, ErrIsPrimary) {
			t.Errorf("the primary: got %v, want ErrIsPrimary", err)
		}
	})
}

// TestSwitchWaitsForUnwritten: changes that were made before the writes are held, and are not written yet, go to the next primary too: nobody hands over before. Their
// clients were answered UNCERTAIN. A disk that has failed writes nothing, and is not waited for.
func TestSwitchWaitsForUnwritten(t *testing.T) {
	scene(t, three, func(t *testing.T, w *world) {
		w.write(t, time.Second)
		old, to := w.primary(t), w.replica(t)
		w.mu.Lock()
		old.unwritten = 1
		w.mu.Unlock()
		done := planned(to)
		time.Sleep(200 * time.Millisecond)
		if now := w.primary(t); now != old {
			t.Errorf("%s leads, and %s has not written all changes", now.id, old.id)
		}
		w.mu.Lock()
		old.unwritten = 0
		w.mu.Unlock()
		if err := <-done; err != nil || w.primary(t) != to {
			t.Errorf("got %v, and %s leads", err, w.primary(t).id)
		}
	})
	if end := heldEnd(LogState{Position: 9, Written: 7, Err: errors.New("the disk is full")}); end != 7 {
		t.Errorf("a disk that takes nothing: got %d, want 7", end)
	}
}

// TestSwitchWaitsForAll: a third node in sync does not go on for a moment, and a change waits for it. Nobody hands over before it has the change: its client was answered
// UNCERTAIN, though the next primary had it.
func TestSwitchWaitsForAll(t *testing.T) {
	scene(t, three, func(t *testing.T, w *world) {
		w.write(t, time.Second)
		old, to := w.primary(t), w.replica(t)
		var third *machine
		for _, m := range w.machines {
			if m != old && m != to {
				third = m
			}
		}
		w.freeze(third.proc)
		outcome := make(chan any, 1)
		go func() {
			_, o, _ := w.server(old, w.newAttempt())
			outcome <- o
		}()
		time.Sleep(50 * time.Millisecond) // the change is made
		done := planned(to)
		time.Sleep(200 * time.Millisecond)
		if now := w.primary(t); now != old {
			t.Errorf("%s leads, and %s has not all changes", now.id, third.id)
		}
		w.thaw(third.proc)
		if o := <-outcome; o != acknowledged {
			t.Errorf("the change that waited for the third node: %v", o)
		}
		if err := <-done; err != nil || w.primary(t) != to {
			t.Errorf("got %v, and %s leads", err, w.primary(t).id)
		}
	})
}

// TestFailoverNotTakenUp: the request for a failover ends before the agent takes it up. The node does not take over later.
func TestFailoverNotTakenUp(t *testing.T) {
	for name, kind := range map[string]FailoverKind{"planned": Planned, "forced": Forced} {
		t.Run(name, func(t *testing.T) {
			scene(t, three, func(t *testing.T, w *world) {
				agent, epoch := w.replica(t).proc.agent, w.shard(t).Epoch
				busy, over := make(chan struct{}), make(chan struct{})
				go func() { _ = agent.loop.ask(t.Context(), func() { close(busy); <-over }) }()
				<-busy
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				time.AfterFunc(200*time.Millisecond, func() { close(over) })
				if _, err := agent.Failover(ctx, kind); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
				time.Sleep(5 * time.Second)
				if got := w.shard(t).Epoch; got != epoch {
					t.Errorf("epoch %d became %d", epoch, got)
				}
			})
		})
	}
}

// TestDrain: a primary that is shut down hands over before, a replica leaves: nobody waits for either.
func TestDrain(t *testing.T) {
	scene(t, three, func(t *testing.T, w *world) {
		old := w.primary(t)
		if err := old.proc.agent.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		s := w.shard(t)
		if s.Primary == old.id || s.Has(old.id) || len(s.InSync) != 2 {
			t.Fatalf("got %+v, want another primary, and two in sync without it", s)
		}
		w.kill(old)
		if d := w.write(t, time.Second); d > 100*time.Millisecond {
			t.Errorf("a write took %s behind a drained node's end", d)
		}
	})
}

// TestUnclean makes a primary of the remaining node, and reports the loss.
func TestUnclean(t *testing.T) {
	scene(t, shape{shards: 1, replicas: 1, nodes: 3, least: 1}, func(t *testing.T, w *world) {
		last := w.replica(t)
		w.write(t, time.Second)
		w.kill(last)
		until(t, 20*time.Second, "the replica is out of sync", func() bool { return len(w.shard(t).InSync) == 1 })
		for range 7 {
			w.write(t, 5*time.Second)
		}
		old := w.primary(t)
		w.kill(old)
		w.revive(last)
		until(t, 10*time.Second, "a role", func() bool { return last.proc.agent.Standing().Shard != nil })
		for _, kind := range []FailoverKind{Planned, Forced} {
			if _, err := last.proc.agent.Failover(t.Context(), kind); !errors.Is(err, ErrNotInSync) {
				t.Fatalf("kind %d: got %v, want ErrNotInSync", kind, err)
			}
		}
		w.mu.Lock()
		clear(w.promised) // a person gives it up
		w.mu.Unlock()
		r, err := last.proc.agent.Failover(t.Context(), Unclean)
		if err != nil || r.Clean || r.Has != 1 || r.Epoch != w.shard(t).Epoch || w.shard(t).Unclean != r.Epoch {
			t.Fatalf("got %+v, %v", r, err)
		}
		w.write(t, time.Second)
		w.revive(old)
		until(t, 30*time.Second, "the old primary is in sync", func() bool { return w.shard(t).Has(old.id) })
	})
}

// TestBehindLeadsUnclean: a node that was alone in sync when its machine lost power may lack what it acknowledged. When it
// leads again, the others are not to keep that, so that they can follow.
func TestBehindLeadsUnclean(t *testing.T) {
	scene(t, shape{shards: 1, replicas: 1, nodes: 2, least: 1}, func(t *testing.T, w *world) {
		other := w.replica(t)
		w.kill(other)
		until(t, 20*time.Second, "the replica is out of sync", func() bool { return len(w.shard(t).InSync) == 1 })
		p := w.primary(t)
		epoch := w.shard(t).Epoch
		w.off(p)
		w.revive(p)
		until(t, 20*time.Second, "it leads again", func() bool { return p.proc.agent.Standing().Primary })
		if s := w.shard(t); s.Epoch <= epoch || s.Unclean != s.Epoch {
			t.Errorf("epoch %d, unclean since %d, want both the same and above %d", s.Epoch, s.Unclean, epoch)
		}
		w.revive(other)
		until(t, 20*time.Second, "the replica is in sync", func() bool { return w.shard(t).Has(other.id) })
		w.kill(p)
		until(t, 20*time.Second, "the other one leads", func() bool { return w.shard(t).Primary == other.id })
		if s := w.shard(t); s.Unclean >= s.Epoch {
			t.Errorf("epoch %d began unclean, and its primary had all", s.Epoch)
		}
	})
}

// TestRolledBack: the disk of a primary is set back while nothing runs, and it starts first and leads alone. The others
// keep the acknowledged changes, one of them leads with them, and nothing is lost.
func TestRolledBack(t *testing.T) {
	scene(t, shape{shards: 1, replicas: 2, nodes: 3, least: 1, durable: true}, func(t *testing.T, w *world) {
		for range 5 {
			w.write(t, time.Second)
		}
		time.Sleep(2 * time.Second) // the replicas hear that it is confirmed
		old := w.primary(t)
		for _, m := range w.machines {
			w.kill(m)
		}
		w.mu.Lock()
		old.cut(2)
		old.confirmed = 0
		w.rolledBack = true
		promised := w.promised
		w.promised = map[int64]int{} // the first primary is not asked for it
		w.mu.Unlock()
		time.Sleep(5 * time.Second)
		w.revive(old)
		until(t, 20*time.Second, "it leads alone", func() bool { return old.proc.agent.Standing().Primary })
		for _, m := range w.machines {
			w.revive(m)
		}
		until(t, 20*time.Second, "another one leads", func() bool {
			p := w.primary(t)
			return p != old && p.proc.agent.Standing().Primary
		})
		w.write(t, 10*time.Second)
		until(t, 30*time.Second, "all are in sync", func() bool { return len(w.shard(t).InSync) == 3 })
		w.mu.Lock()
		defer w.mu.Unlock()
		for id := range promised {
			for _, m := range w.machines {
				if !m.has(id) {
					t.Errorf("%s lacks change %d, which was acknowledged", m.id[:4], id)
				}
			}
		}
	})
}

// TestAlone: a primary that reaches nobody lets another lead rather than to be the only one in sync.
func TestAlone(t *testing.T) {
	scene(t, three, func(t *testing.T, w *world) {
		old := w.primary(t)
		for _, m := range w.machines {
			w.cut(old, m, true, true, true)
		}
		op := &attempt{id: 1 << 40} // something waits
		w.attempts[op.id] = true
		go w.server(old, op)
		until(t, 10*time.Second, "another primary", func() bool { return w.primary(t) != old })
		if s := w.shard(t); len(s.InSync) != 2 {
			t.Errorf("in sync: %s, want the two that reach each other", s.InSync)
		}
		time.Sleep(30 * time.Second)
	})
}

// TestStranger: a directory of another cluster does not join this one.
func TestStranger(t *testing.T) {
	scene(t, three, func(t *testing.T, w *world) {
		m := w.replica(t)
		w.kill(m)
		m.cluster = "other"
		w.revive(m)
		until(t, 10*time.Second, "it is refused", func() bool { return m.proc.agent.Standing().Reads == textStranger })
		time.Sleep(5 * time.Second)
		if tm, err := w.etcd.Map(); err != nil || tm.Live[m.id] != nil {
			t.Errorf("it is registered: %v", err)
		}
		w.write(t, 5*time.Second)
	})
}

// TestLostCluster: a directory of a cluster that etcd does not know, as it lost its data, is no free node's.
func TestLostCluster(t *testing.T) {
	for _, of := range []struct {
		mine     string
		stranger bool
	}{{"", false}, {"old", true}} {
		a := &Agent{loop: &loop{conf: Config{Home: &machine{w: &world{}, cluster: of.mine}}, m: new(topology.Map)}}
		if a.stranger() != of.stranger {
			t.Errorf("cluster %q: got %v, want %v", of.mine, a.stranger(), of.stranger)
		}
	}
}

// TestCopy: a directory that was copied is a node once. The copy takes no part, neither beside the other nor in its place.
func TestCopy(t *testing.T) {
	scene(t, three, func(t *testing.T, w *world) {
		m := w.replica(t)
		w.mu.Lock()
		twin := &machine{w: w, id: m.id, zone: m.zone, log: slices.Clone(m.log), at: slices.Clone(m.at), durable: m.durable, terms: slices.Clone(m.terms), cluster: m.cluster, starts: m.starts,
			up: true, changed: make(chan struct{}), copied: true}
		w.machines = append(w.machines, twin)
		w.mu.Unlock()
		at := func() int64 {
			tm, err := w.etcd.Map()
			if err != nil {
				t.Fatal(err)
			}
			return tm.Nodes[m.id].Revision
		}
		before := at()
		w.boot(twin)
		refused := func() bool { return twin.proc.agent.Standing().Reads == textDoubled }
		until(t, 10*time.Second, "the copy is refused", refused)
		time.Sleep(20 * time.Second)
		tm, err := w.etcd.Map()
		if err != nil {
			t.Fatal(err)
		}
		if live := tm.Live[m.id]; live == nil || live.Process != m.proc.name || at() != before || !refused() {
			t.Errorf("the node is %v, its key was written again: %v", live, at() != before)
		}
		w.write(t, 5*time.Second)
		w.kill(m)
		w.write(t, 10*time.Second)
		time.Sleep(20 * time.Second)
		if tm, err := w.etcd.Map(); err != nil || tm.Live[m.id] != nil || !refused() {
			t.Errorf("the copy took the other's place: %v", err)
		}
	})
}

// TestEtcdAway: a complete set goes on acknowledging; a primary that would have to shrink its set refuses, until etcd is
// back.
func TestEtcdAway(t *testing.T) {
	scene(t, three, func(t *testing.T, w *world) {
		old := w.primary(t)
		w.etcd.SetDown(true)
		time.Sleep(20 * time.Second)
		w.write(t, time.Second)
		if s := old.proc.agent.Standing(); s.Readable(time.Now()) != textLease {
			t.Errorf("reads: got %q, want the lease's end", s.Readable(time.Now()))
		}
		traceLock.Lock()
		if !strings.Contains(w.trace.String(), "nothing new is heard of etcd") {
			t.Error("the log does not say that etcd is away")
		}
		traceLock.Unlock()
		w.kill(w.replica(t))
		op := &attempt{id: 1 << 40}
		w.mu.Lock()
		w.attempts[op.id] = true
		w.mu.Unlock()
		if _, o, _ := w.server(old, op); o != uncertain {
			t.Errorf("a change that one in sync does not have: got %d, want uncertain", o)
		}
		if s := old.proc.agent.Standing(); s.Writes != textDoubt {
			t.Errorf("changes: got %q, want %q", s.Writes, textDoubt)
		}
		w.etcd.SetDown(false)
		w.write(t, 10*time.Second)
	})
}

// TestEtcdSlow: all nodes of a cluster lose power, and etcd takes 600 ms for each request then, as on disks that all nodes sync. A node
// registers by two writes and reads the map behind them. It had one second for all three, and gave up what it had each time.
func TestEtcdSlow(t *testing.T) {
	scene(t, shape{shards: 1, replicas: 4, nodes: 5, least: 2, durable: true}, func(t *testing.T, w *world) {
		for _, m := range w.machines {
			w.off(m)
		}
		w.mu.Lock()
		w.etcdFaults.Least = 600 * time.Millisecond
		w.mu.Unlock()
		for _, m := range w.machines {
			w.revive(m)
		}
		began := time.Now()
		if !w.settled(30 * time.Second) {
			t.Fatal("the cluster is not whole again")
		}
		t.Logf("whole again %s behind the power loss", time.Since(began))
		w.write(t, time.Second)
		for _, m := range w.machines {
			m.proc.etcd.SetFaults(registrytest.Faults{})
		}
		time.Sleep(time.Second) // requests that are under way end
	})
}

func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	d, err := OpenDirectory(vfs.OS(), dir)
	if err != nil || d.Node().Check() != nil || d.Cluster() != "" {
		t.Fatalf("a new one: %v, node %q", err, d.Node())
	}
	if err := d.Join("abc"); err != nil {
		t.Fatal(err)
	}
	again, err := OpenDirectory(vfs.OS(), dir)
	if err != nil || again.Node() != d.Node() || again.Cluster() != "abc" {
		t.Fatalf("again: got %v, node %s of %q, want %s of abc", err, again.Node(), again.Cluster(), d.Node())
	}
	list := []topology.Start{{Count: 1, Token: "a"}, {Count: 2, Token: "b"}}
	if err := d.SetStarts(list); err != nil {
		t.Fatal(err)
	}
	if again, err = OpenDirectory(vfs.OS(), dir); err != nil || !slices.Equal(again.Starts(), list) || again.Cluster() != "abc" {
		t.Fatalf("again: got %v, starts %v of %q, want %v of abc", err, again.Starts(), again.Cluster(), list)
	}
	for text, want := range map[string]string{
		"":  "unexpected end",
		"{": "unexpected end",
		`{"format":2,"node":"` + string(d.Node()) + `"}`: "format 2",
		`{"format":1,"node":"x"}`:                        "40 lower-case",
	} {
		for _, name := range []string{HomeName, HomeCopyName} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := OpenDirectory(vfs.OS(), dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// TestHangingDisk: a primary whose disk hangs is replaced within a lease, and follows when the disk is well again. A
// primary without a node to take over goes on serving reads.
func TestHangingDisk(t *testing.T) {
	hang := func(w *world, m *machine, on bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		m.hangs = on
	}
	t.Run("with replicas", func(t *testing.T) {
		scene(t, three, func(t *testing.T, w *world) {
			old := w.primary(t)
			hang(w, old, true)
			d := until(t, 2*time.Second, "another primary", func() bool { return w.primary(t) != old })
			t.Logf("another primary %s after the disk was found to hang, with a lease of 2 s", d)
			w.write(t, time.Second)
			hang(w, old, false)
			until(t, 20*time.Second, "the old one in sync again", func() bool { return w.shard(t).Has(old.id) && w.primary(t) != old })
		})
	})
	t.Run("alone", func(t *testing.T) {
		scene(t, shape{shards: 1, nodes: 1, least: 1}, func(t *testing.T, w *world) {
			hang(w, w.primary(t), true)
			time.Sleep(10 * time.Second)
			w.mu.Lock()
			st := w.primary(t).proc.standing
			w.mu.Unlock()
			if text := st.Readable(time.Now()); text != "" || !st.Primary {
				t.Errorf("reads are refused: %q", text)
			}
		})
	})
}
