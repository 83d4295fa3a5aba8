package cluster

import (
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/slot"
)

// TestSpareNode: a node that is gone for long is replaced by a free one, which may have lost power, and is free when it comes back.
func TestSpareNode(t *testing.T) {
	scene(t, shape{shards: 1, replicas: 1, nodes: 4, least: 2}, func(t *testing.T, w *world) {
		gone := w.replica(t)
		w.mu.Lock()
		for _, m := range w.machines { // a free node that lost power may lack changes of an earlier part: it copies all the same
			m.behind = m.behind || m.proc.kind == resting
		}
		w.mu.Unlock()
		w.kill(gone)
		until(t, 60*time.Second, "another is in sync", func() bool { s := w.shard(t); return len(s.InSync) == 2 && !s.Has(gone.id) })
		if in := w.replica(t); in.zone == w.primary(t).zone {
			t.Errorf("the spare is in zone %s, as the primary", in.zone)
		}
		until(t, 30*time.Second, "the node is of no shard", func() bool {
			m, err := w.etcd.Map()
			return err == nil && m.Nodes[gone.id].Shard == 0
		})
		w.revive(gone)
		until(t, 10*time.Second, "it is free", func() bool {
			s := gone.proc.agent.Standing()
			return s.Map != nil && s.Shard == nil && s.Writes == textFree
		})
		w.write(t, time.Second)
	})
}

// TestFirstOfShardHealing: a free node that heals is the first node of a new shard. There is nobody whose data it could copy, so it leads
// without data, at once. It took epoch after epoch. A replica in sync that finds damage while it runs takes none.
func TestFirstOfShardHealing(t *testing.T) {
	scene(t, shape{shards: 1, replicas: 1, nodes: 3, least: 1}, func(t *testing.T, w *world) {
		tm, err := w.etcd.Map()
		if err != nil {
			t.Fatal(err)
		}
		free := w.machine(tm.Members(0)[0].ID)
		w.mu.Lock()
		free.healing, free.behind = true, true
		w.mu.Unlock()
		w.commit(t, func(m *topology.Map) (topology.Change, error) {
			return topology.AddShard(m, []topology.NodeID{free.id}, slot.Set{})
		})
		until(t, 5*time.Second, "it leads", func() bool {
			s := free.proc.agent.Standing()
			return s.Shard != nil && s.Primary && s.Writes == ""
		})
		if tm, err = w.etcd.Map(); err != nil || tm.Shards[1].Epoch != 1 {
			t.Errorf("got epoch %d, want 1 (%v)", tm.Shards[1].Epoch, err)
		}

		before, replica := w.shard(t).Epoch, w.replica(t)
		w.mu.Lock()
		replica.healing = true
		w.mu.Unlock()
		w.kill(w.primary(t))
		time.Sleep(10 * time.Second)
		if s := w.shard(t); s.Epoch != before {
			t.Errorf("a replica that heals took %d epochs", s.Epoch-before)
		}
		w.mu.Lock()
		replica.healing = false
		w.mu.Unlock()
		w.write(t, 10*time.Second)
	})
}
