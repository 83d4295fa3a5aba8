// Scenario: a primary that becomes the only node in sync loses power. Its disk has all changes that were confirmed before.

package cluster

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/internal/testkit/registrytest"
	"github.com/counterd/counterd/cmd/internal/topology"
)

var two = shape{shards: 1, replicas: 1, nodes: 2, least: 1}

// pair runs a story with a primary and a replica in sync, which sync their logs only when they are asked to. A power loss takes all changes that are not durable.
func pair(t *testing.T, story func(t *testing.T, w *world, p, replica *machine)) {
	scene(t, two, func(t *testing.T, w *world) {
		w.careless()
		story(t, w, w.primary(t), w.replica(t))
	})
}

// careless has the machines sync their logs only when they are asked to, and lose all changes that are not durable with their power.
func (w *world) careless() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.strict = true
	for _, m := range w.machines {
		m.lazy = true
	}
}

// alone tells whether etcd has a machine alone in sync.
func (w *world) alone(t *testing.T, m *machine) bool {
	s := w.shard(t)
	return len(s.InSync) == 1 && s.Has(m.id)
}

// closely waits for a condition that must come, and that until may see too late.
func closely(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for begun := time.Now(); !ok(); time.Sleep(100 * time.Microsecond) {
		if time.Since(begun) > 20*time.Second {
			t.Errorf("not in 20 s: %s", what)
			return
		}
	}
}

// kept writes, has etcd read at each moment while something ends the other machine, and takes the power from p as soon as that is alone in sync. The world
// says if a change is lost then.
func (w *world) kept(t *testing.T, p *machine, end func()) {
	t.Helper()
	for range 5 {
		w.write(t, time.Second)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		end()
	}()
	closely(t, "the primary is alone in sync", func() bool { return w.alone(t, p) })
	w.off(p)
	<-ended
	w.revive(p)
	w.write(t, 20*time.Second)
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.attempts {
		if w.copies[id] != nil && !p.has(id) {
			t.Errorf("change %d is lost", id)
		}
	}
}

// TestAloneKeepsConfirmed: the only replica in sync is stopped as planned, or dies. The primary then has on its disk all changes that both had.
func TestAloneKeepsConfirmed(t *testing.T) {
	t.Run("planned", func(t *testing.T) {
		pair(t, func(t *testing.T, w *world, p, replica *machine) {
			w.kept(t, p, func() {
				if err := replica.proc.agent.Drain(t.Context()); err != nil {
					t.Error(err)
				}
				w.kill(replica)
			})
		})
	})
	t.Run("dead", func(t *testing.T) {
		pair(t, func(t *testing.T, w *world, p, replica *machine) { w.kept(t, p, func() { w.kill(replica) }) })
	})
	t.Run("under load", func(t *testing.T) {
		pair(t, func(t *testing.T, w *world, p, replica *machine) {
			w.load(p, func() {
				w.kept(t, p, func() {
					if err := replica.proc.agent.Drain(t.Context()); err != nil {
						t.Error(err)
					}
				})
			})
		})
	})
}

// load has clients write to a machine during a story. Etcd is slow, so that changes are confirmed while a request to it is on its way.
func (w *world) load(to *machine, story func()) {
	for _, m := range w.machines {
		m.proc.etcd.SetFaults(registrytest.Faults{Least: 100 * time.Millisecond})
	}
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
					w.mu.Lock()
					w.ops++
					op := &attempt{id: w.ops}
					w.attempts[op.id] = true
					w.mu.Unlock()
					w.server(to, op)
				}
			}
		})
	}
	story()
	close(stop)
	writers.Wait()
	for _, m := range w.machines {
		m.proc.etcd.SetFaults(registrytest.Faults{})
	}
	time.Sleep(time.Second) // requests to etcd that are under way end
}

// TestAloneBehindNewLink: the replica leaves, and its link begins anew while the primary syncs its log. Until the replica acknowledges on this link, nothing
// counts as confirmed. All that was confirmed on the old link is on the primary's disk before that is alone in sync.
func TestAloneBehindNewLink(t *testing.T) {
	pair(t, func(t *testing.T, w *world, p, replica *machine) {
		w.write(t, time.Second)
		w.mu.Lock()
		p.unsynced = true
		w.mu.Unlock()
		drained := make(chan error, 1)
		go func() { drained <- replica.proc.agent.Drain(t.Context()) }()
		closely(t, "the primary is about to be alone", func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return p.proc.hurried
		})
		w.mu.Lock()
		first, link := len(p.log), p.proc.acks[replica.id].c
		w.mu.Unlock()
		for range 5 {
			w.write(t, time.Second)
		}
		w.mu.Lock()
		confirmed := len(p.log)
		link.broken = true
		replica.grown()
		w.mu.Unlock()
		closely(t, "the replica has another link", func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			a := p.proc.acks[replica.id]
			if a.c == link || a.has > 0 {
				return false
			}
			w.cuts[[2]*machine{replica, p}] = true // its acknowledgements do not come
			p.proc.synced(first)                   // the sync that began first has ended
			return true
		})
		for begun := time.Now(); time.Since(begun) < time.Second; time.Sleep(time.Millisecond) {
			if w.alone(t, p) {
				t.Fatalf("the primary is alone in sync, with %d of %d confirmed changes on its disk", first, confirmed)
			}
		}
		w.mu.Lock()
		p.unsynced = false
		w.mu.Unlock()
		until(t, time.Second, "the primary is alone in sync", func() bool { return w.alone(t, p) })
		if err := <-drained; err != nil {
			t.Error(err)
		}
	})
}

// TestAloneSlowDisk: the replica is stopped as planned, and the primary's disk is slow. Changes wait for one sync, also where the replica does not wait until
// it is out of sync.
func TestAloneSlowDisk(t *testing.T) {
	for _, sync := range []time.Duration{800 * time.Millisecond, 1500 * time.Millisecond} {
		t.Run(sync.String(), func(t *testing.T) {
			pair(t, func(t *testing.T, w *world, p, replica *machine) {
				w.mu.Lock()
				p.syncs = sync
				w.mu.Unlock()
				w.write(t, time.Second)
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // as when a server ends
					defer cancel()
					_ = replica.proc.agent.Drain(ctx)
					_ = replica.proc.agent.Close(t.Context())
					w.kill(replica)
				}()
				longest := time.Duration(0)
				for begun := time.Now(); !w.alone(t, p) && time.Since(begun) < 20*time.Second; {
					longest = max(longest, w.write(t, 10*time.Second))
				}
				<-ended
				if limit := sync + 100*time.Millisecond; longest > limit {
					t.Errorf("a change waited for %s, want %s at most", longest, limit)
				}
			})
		})
	}
}

// TestAloneSlowDiskBehindDeath: the only replica in sync dies, and the primary's disk is slow. Its log is synced before the replica counts as slow, so changes that come meanwhile
// are acknowledged, and none is refused. A disk that is too slow for that is named.
func TestAloneSlowDiskBehindDeath(t *testing.T) {
	t.Run("slow", func(t *testing.T) {
		pair(t, func(t *testing.T, w *world, p, replica *machine) {
			w.write(t, time.Second)
			w.mu.Lock()
			p.syncs = 800 * time.Millisecond
			w.mu.Unlock()
			w.kill(replica)
			var all sync.WaitGroup
			for i := range 30 {
				op := &attempt{id: 1<<40 + int64(i)}
				w.mu.Lock()
				w.attempts[op.id] = true
				w.mu.Unlock()
				all.Go(func() {
					if _, o, _ := w.server(p, op); o != acknowledged {
						t.Errorf("change %d, %d ms behind the death: got outcome %v, want %v", i, 100*i, o, acknowledged)
					}
				})
				time.Sleep(100 * time.Millisecond)
			}
			all.Wait()
		})
	})
	t.Run("too slow", func(t *testing.T) {
		pair(t, func(t *testing.T, w *world, p, replica *machine) {
			w.write(t, time.Second)
			w.mu.Lock()
			p.syncs = 2500 * time.Millisecond
			w.mu.Unlock()
			p.proc.etcd.SetFaults(registrytest.Faults{Least: 300 * time.Millisecond})
			w.kill(replica)
			op := &attempt{id: 1 << 40}
			w.mu.Lock()
			w.attempts[op.id] = true
			w.mu.Unlock()
			if _, o, _ := w.server(p, op); o != uncertain {
				t.Errorf("got outcome %v, want %v", o, uncertain)
			}
			writes := func() string { return p.proc.agent.Standing().Writes }
			until(t, 100*time.Millisecond, "changes are refused", func() bool { return writes() != "" }) // clients that wait are answered before
			for text := writes(); text != ""; text = writes() {
				if text != textDisk {
					t.Fatalf("got %q, want %q", text, textDisk)
				}
				time.Sleep(time.Millisecond)
			}
			w.write(t, time.Second) // the primary goes on alone
			p.proc.etcd.SetFaults(registrytest.Faults{})
			time.Sleep(time.Second) // requests to etcd that are under way end
		})
	})
}

// TestTakeoverKeepsConfirmed: the primary of two nodes in sync dies, and the other one is alone in sync as soon as it has taken over.
func TestTakeoverKeepsConfirmed(t *testing.T) {
	pair(t, func(t *testing.T, w *world, p, replica *machine) { w.kept(t, replica, func() { w.kill(p) }) })
}

// TestForcedKeepsConfirmed: the other node takes over from a primary that still feeds it.
func TestForcedKeepsConfirmed(t *testing.T) {
	pair(t, func(t *testing.T, w *world, p, replica *machine) {
		w.load(p, func() {
			w.kept(t, replica, func() {
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				_, _ = replica.proc.agent.Failover(ctx, Forced) // it loses its power within
			})
		})
	})
}

// TestForcedWaits: a node that is to take over by force does not hear of etcd's answers. Its primary goes on, and its changes wait for the disk of that node.
func TestForcedWaits(t *testing.T) {
	pair(t, func(t *testing.T, w *world, _, replica *machine) {
		w.write(t, time.Second)
		replica.proc.etcd.SetFaults(registrytest.Faults{RequestLost: 1})
		ended := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond) // shorter than the lease
			defer cancel()
			_, err := replica.proc.agent.Failover(ctx, Forced)
			ended <- err
		}()
		longest := time.Duration(0)
		for wait := true; wait; time.Sleep(time.Millisecond) {
			select {
			case err := <-ended:
				wait = false
				if err == nil {
					t.Error("the node has taken over without etcd")
				}
			default:
				longest = max(longest, w.write(t, 10*time.Second))
			}
		}
		if limit := 100 * time.Millisecond; longest > limit {
			t.Errorf("a change waited for %s, want %s at most", longest, limit)
		}
		replica.proc.etcd.SetFaults(registrytest.Faults{})
	})
}

// TestAloneAlthoughSyncsHang: the replica is gone, and the primary's disk takes changes and syncs none, which nobody judges with appendfsync no. The primary
// serves changes again when it has waited for the disk for long enough.
func TestAloneAlthoughSyncsHang(t *testing.T) {
	pair(t, func(t *testing.T, w *world, p, replica *machine) {
		w.write(t, time.Second)
		w.mu.Lock()
		p.unsynced = true
		w.mu.Unlock()
		w.kill(replica)
		began := time.Now()
		until(t, syncTime+slowAfter+2*time.Second, "the primary is alone in sync", func() bool { return w.alone(t, p) })
		if d := time.Since(began); d < syncTime {
			t.Errorf("the primary waited %s for its disk, want %s", d, syncTime)
		}
		w.write(t, time.Second)
		w.mu.Lock()
		durable := p.durable
		p.unsynced = false
		w.mu.Unlock()
		if durable > 0 {
			t.Errorf("%d changes are durable", durable)
		}
		w.revive(replica)
		until(t, 20*time.Second, "the replica is in sync again", func() bool { return len(w.shard(t).InSync) == 2 })
		w.write(t, time.Second)
	})
}

// failDisk has the disk of a machine take nothing, which is known, or work again.
func (w *world) failDisk(m *machine, failed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m.failed = failed
}

// TestNotAloneWithFailedDisk: the replica dies, and the primary's disk fails, which is known. The primary does not become the only node in sync, however long that
// lasts: it would take no changes, and its power failure would lose changes that both had. The replica comes back and leads with all changes.
func TestNotAloneWithFailedDisk(t *testing.T) {
	pair(t, func(t *testing.T, w *world, p, replica *machine) {
		w.write(t, time.Second)
		w.failDisk(p, true)
		w.kill(replica)
		for begun := time.Now(); time.Since(begun) < syncTime+slowAfter+10*time.Second; time.Sleep(100 * time.Millisecond) {
			if w.alone(t, p) {
				t.Fatal("the primary is alone in sync, without the last changes on its disk")
			}
		}
		w.off(p)
		w.revive(replica)
		until(t, 20*time.Second, "the replica leads", func() bool { return w.shard(t).Primary == replica.id })
		w.failDisk(p, false)
		w.revive(p)
		w.write(t, 20*time.Second)
	})
}

// TestAloneBehindFailure: the disk fails while the replica is gone, and works again for shorter than it is waited for. The primary is alone in sync when the disk has all changes.
func TestAloneBehindFailure(t *testing.T) {
	pair(t, func(t *testing.T, w *world, p, replica *machine) {
		w.write(t, time.Second)
		w.mu.Lock()
		p.syncs = 800 * time.Millisecond
		w.mu.Unlock()
		w.failDisk(p, true)
		w.kept(t, p, func() {
			w.kill(replica)
			time.Sleep(syncTime + slowAfter + time.Second)
			w.failDisk(p, false)
		})
	})
}

// TestNotAloneAfterAll: the replica comes back while the primary waits for its disk, or while etcd has not answered. Both stay in sync, and changes are confirmed
// without the primary's disk again.
func TestNotAloneAfterAll(t *testing.T) {
	for _, name := range []string{"the disk is waited for", "etcd does not answer"} {
		t.Run(name, func(t *testing.T) {
			pair(t, func(t *testing.T, w *world, p, replica *machine) {
				w.write(t, time.Second)
				w.mu.Lock()
				p.unsynced = name == "the disk is waited for"
				w.mu.Unlock()
				w.cut(p, replica, true, true, true)
				op := &attempt{id: 1 << 40}
				w.mu.Lock()
				w.attempts[op.id] = true
				w.mu.Unlock()
				go w.server(p, op) // something waits for the replica
				closely(t, "the primary is about to be alone", func() bool {
					w.mu.Lock()
					defer w.mu.Unlock()
					return p.proc.hurried
				})
				if !p.unsynced {
					p.proc.etcd.SetFaults(registrytest.Faults{RequestLost: 1})
				}
				w.cut(p, replica, true, true, false)
				time.Sleep(1100 * time.Millisecond) // longer than a request may take, and shorter than the lease
				p.proc.etcd.SetFaults(registrytest.Faults{})
				until(t, 10*time.Second, "both are in sync, and the disk is not waited for", func() bool {
					w.mu.Lock()
					alone, both := p.proc.alone, p.proc.both
					w.mu.Unlock()
					return len(w.shard(t).InSync) == 2 && !alone && !both
				})
				w.mu.Lock()
				p.unsynced = true
				w.mu.Unlock()
				w.write(t, time.Second)
				if !slices.Contains(w.shard(t).InSync, replica.id) {
					t.Error("the replica is out of sync")
				}
			})
		})
	}
}

// TestAloneLate: etcd is slow with the request that has the primary alone in sync, and the replica comes back meanwhile. The primary's disk has all confirmed
// changes until the request cannot happen any more.
func TestAloneLate(t *testing.T) {
	pair(t, func(t *testing.T, w *world, p, replica *machine) {
		w.write(t, time.Second)
		w.cut(p, replica, true, true, true)
		op := &attempt{id: 1 << 40}
		w.mu.Lock()
		w.attempts[op.id] = true
		w.mu.Unlock()
		go w.server(p, op)
		closely(t, "the primary is about to be alone", func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return p.proc.hurried
		})
		p.proc.etcd.SetFaults(registrytest.Faults{Late: 1, LateBy: 3 * time.Second})
		w.cut(p, replica, true, true, false)
		time.Sleep(20 * time.Millisecond)
		p.proc.etcd.SetFaults(registrytest.Faults{})
		for begun := time.Now(); time.Since(begun) < 5*time.Second && !w.alone(t, p); time.Sleep(time.Millisecond) {
			w.write(t, time.Second)
		}
		if w.alone(t, p) {
			w.off(p)
			w.revive(p)
			w.write(t, 20*time.Second)
		}
	})
}

// TestAloneByOperator: the last other node is taken out by hand. The primary syncs its log as soon as it learns of it.
func TestAloneByOperator(t *testing.T) {
	pair(t, func(t *testing.T, w *world, p, replica *machine) {
		w.write(t, time.Second)
		admin := w.etcd.Open(nil)
		defer func() { _ = admin.Close() }()
		m, err := admin.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c, err := topology.RetireNode(m, replica.id, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := admin.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		until(t, 2*time.Second, "the log is durable", func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return p.durable == len(p.log)
		})
	})
}

// hang has the disk of a machine sync nothing, or sync again.
func (w *world) hang(m *machine, hangs bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m.unsynced = hangs
}

// suspend stops a machine's process for longer than a disk is waited for, as soon as it has asked for a sync. Its disk syncs soon behind that.
func (w *world) suspend(t *testing.T, m *machine) {
	closely(t, "a sync is asked for", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return m.proc.hurried
	})
	w.freeze(m.proc)
	time.Sleep(syncTime + time.Second)
	w.thaw(m.proc)
	time.Sleep(300 * time.Millisecond)
	w.hang(m, false)
}

// TestAloneBehindSuspension: a process is stopped while it waits for its disk, for longer than it would wait. When it goes on, it waits as long as before.
func TestAloneBehindSuspension(t *testing.T) {
	t.Run("primary", func(t *testing.T) {
		pair(t, func(t *testing.T, w *world, p, replica *machine) {
			w.hang(p, true)
			w.kept(t, p, func() {
				w.kill(replica)
				w.suspend(t, p)
			})
		})
	})
	t.Run("candidate", func(t *testing.T) {
		scene(t, shape{shards: 1, replicas: 1, nodes: 2, least: 1, lease: time.Minute}, func(t *testing.T, w *world) {
			w.careless()
			p, replica := w.primary(t), w.replica(t)
			w.hang(replica, true)
			w.kept(t, replica, func() {
				w.kill(p)
				w.suspend(t, replica)
			})
		})
	})
}

// TestAloneWaitsAnew: one replica is slow while the other one leaves, so the primary is about to be alone. It has one of them again for a while, in which etcd does
// not answer. When the second one leaves too, the primary waits for its disk anew.
func TestAloneWaitsAnew(t *testing.T) {
	scene(t, shape{shards: 1, replicas: 2, nodes: 3, least: 1, lease: time.Minute}, func(t *testing.T, w *world) {
		w.careless()
		p, first := w.primary(t), w.replica(t)
		second := w.machines[slices.IndexFunc(w.machines, func(m *machine) bool { return m != p && m != first })]
		p.proc.etcd.SetFaults(registrytest.Faults{RequestLost: 1})
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		drain := func(m *machine) { _ = m.proc.agent.Drain(ctx) }
		go drain(first)
		w.write(t, time.Second)
		w.mu.Lock()
		p.syncs = 300 * time.Millisecond
		w.mu.Unlock()
		w.cut(p, second, true, true, true)
		owe := func(id int64) { // something waits for the second replica
			op := &attempt{id: id}
			w.mu.Lock()
			w.attempts[op.id] = true
			w.mu.Unlock()
			go w.server(p, op)
		}
		told := func(what *bool) func() bool {
			return func() bool {
				w.mu.Lock()
				defer w.mu.Unlock()
				return *what
			}
		}
		owe(1 << 40)
		closely(t, "the primary is about to be alone", told(&p.proc.hurried))
		owe(1<<40 + 1) // the first sync does not have it
		both := told(&p.proc.both)
		closely(t, "changes wait for the primary's disk too", both)
		w.hang(p, true)
		w.cut(p, second, true, true, false)
		until(t, time.Second, "changes do not wait for the primary's disk", func() bool { return !both() })
		w.hang(p, false)
		time.Sleep(syncTime + time.Second)
		w.hang(p, true)
		w.kept(t, p, func() {
			go drain(second)
			time.Sleep(2 * commitTime) // the request that is under way ends, and the primary waits for its disk
			p.proc.etcd.SetFaults(registrytest.Faults{})
			time.Sleep(time.Second)
			w.hang(p, false)
		})
	})
}
