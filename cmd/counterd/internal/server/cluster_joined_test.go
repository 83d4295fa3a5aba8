// Scenario: nodes join a cluster, lose their primary, and return.

package server

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/cmd/counterd/internal/nodes/role"
	"github.com/counterd/counterd/cmd/internal/testkit/registrytest"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/testkit/freeport"
)

// joinedCluster is whole nodes of a cluster in this process, agents and all, on an etcd in memory.
type joinedCluster struct {
	t     testing.TB
	etcd  *registrytest.Server
	nodes []*Server
	dirs  []string
}

// joinNodes starts n free nodes.
func joinNodes(t testing.TB, n int) *joinedCluster {
	t.Helper()
	k := &joinedCluster{t: t, etcd: registrytest.NewServer(), nodes: make([]*Server, n)}
	for i := range n {
		k.dirs = append(k.dirs, t.TempDir())
		k.start(i, freeport.Take(t))
	}
	k.await("all nodes are registered", func() bool { return len(k.view().Live) == n })
	return k
}

// joinTwoShards starts a cluster of two nodes, each a shard. The first one has all groups.
func joinTwoShards(t testing.TB) *joinedCluster {
	t.Helper()
	k := joinNodes(t, 2)
	k.create(0)
	k.do(func(m *topology.Map) (topology.Change, error) {
		return topology.AddShard(m, []topology.NodeID{k.id(1)}, slot.Set{})
	})
	k.await("both shards have primaries", func() bool {
		m := k.view()
		return len(m.Shards) == 2 && m.Shards[0].Primary != "" && m.Shards[1].Primary != "" && k.nodes[1].cluster.Now().Writes == ""
	})
	k.alter(wireSchema)
	return k
}

// start starts a node in its directory.
func (k *joinedCluster) start(i, port int) {
	k.t.Helper()
	srv := startServer(k.t, serverStart{
		change: func(c *config.Config) {
			c.Port, c.Bind, c.Dir = port, []string{"127.0.0.1"}, k.dirs[i]
			c.Cluster.Enabled, c.Cluster.Name, c.Cluster.Etcd, c.Cluster.NodeTimeout = true, "test", []string{"http://127.0.0.1:1"}, 2000
		},
		made: func(s *Server) {
			s.Cluster().UseRegistry(k.etcd.Open(nil))
			s.Open = func() (*counter.Store, error) {
				conf := s.config.Get()
				options, err := conf.StoreOptions()
				if err != nil {
					return nil, err
				}
				return counter.Open(conf.Dir, options)
			}
		},
		open:  (*Server).OpenStore,
		serve: func(s *Server, store *counter.Store) error { return s.Cluster().Join(store) },
	})
	k.nodes[i] = srv
	k.t.Cleanup(func() { k.stop(i) })
}

// stop ends a node, if it runs.
func (k *joinedCluster) stop(i int) {
	k.t.Helper()
	srv := k.nodes[i]
	if srv == nil {
		return
	}
	k.nodes[i] = nil
	stopServer(k.t, srv)
}

func (k *joinedCluster) view() *topology.Map {
	k.t.Helper()
	m, err := k.etcd.Map()
	if err != nil {
		k.t.Fatal(err)
	}
	return m
}

// do commits a change that is made of the map as it is, again if a node changed the map in between: nodes renew their keys all the time. On
// a busy machine the key of a node runs out for a moment, and then the change is refused: do waits until the node is registered again.
func (k *joinedCluster) do(make func(m *topology.Map) (topology.Change, error)) {
	k.t.Helper()
	reg := k.etcd.Open(nil)
	defer reg.Close()
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		c, err := make(k.view())
		if err == nil {
			err = reg.Commit(context.Background(), c)
		}
		var refused *topology.RefusedError
		switch {
		case err == nil:
			return
		case errors.Is(err, topology.ErrConflict):
		case !errors.As(err, &refused) || time.Now().After(deadline):
			k.t.Fatal(err)
		}
	}
}

func (k *joinedCluster) await(what string, is func() bool) {
	k.t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			k.t.Fatalf("not within a minute: %s; the map: %+v", what, k.view().Shards)
		}
	}
}

// create makes a cluster of one shard of the nodes, and waits until changes are taken.
func (k *joinedCluster) create(nodes ...int) {
	k.t.Helper()
	k.do(func(m *topology.Map) (topology.Change, error) {
		return topology.CreateCluster(m, strings.Repeat("ab", 20), time.Now(), len(nodes)-1, len(nodes)/2+1)
	})
	k.do(func(m *topology.Map) (topology.Change, error) {
		var ids []topology.NodeID
		for _, i := range nodes {
			ids = append(ids, k.id(i))
		}
		return topology.AddShard(m, ids, slot.AllGroups())
	})
	k.await("all are in sync", func() bool {
		shards := k.view().Shards
		return len(shards) == 1 && len(shards[0].InSync) == len(nodes) && k.primary() >= 0
	})
}

func (k *joinedCluster) id(i int) topology.NodeID { return k.nodes[i].cluster.Now().Self }

// primary is the node that takes changes; -1: none does.
func (k *joinedCluster) primary() int {
	for i, srv := range k.nodes {
		if srv != nil {
			if st := srv.cluster.Now(); st.Primary && st.Writes == "" {
				return i
			}
		}
	}
	return -1
}

// alter runs statements on the cluster's schema.
func (k *joinedCluster) alter(script string) {
	k.t.Helper()
	for line := range strings.Lines(script) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if err := k.nodes[k.primary()].cluster.Hooks().Alter(context.Background(), line); err != nil {
			k.t.Fatal(err)
		}
	}
}

// TestJoined runs a shard of three nodes through the end of its primary, twice, and the return of both: nothing that was
// acknowledged is lost, and all hold the same in the end.
func TestJoined(t *testing.T) {
	t.Parallel()
	k := joinNodes(t, 3)
	k.create(0, 1, 2)
	k.alter(wireSchema)
	want := 0
	incr := func(n int) {
		for range n {
			p := k.primary()
			w := wireDial(t, k.nodes[p], 2)
			want++
			w.want("INCR {42}.cntcm", ":"+strconv.Itoa(want))
			w.conn.Close()
		}
	}
	incr(10)
	for range 2 {
		p := k.primary()
		port := k.nodes[p].config.Get().Port
		k.stop(p)
		k.await("another leads", func() bool { return k.primary() >= 0 })
		incr(10)
		k.start(p, port)
		k.await("it is in sync again", func() bool { return len(k.view().Shards[0].InSync) == 3 })
		incr(10)
	}
	k.await("all have all", func() bool {
		for _, srv := range k.nodes {
			if n, _, err := srv.Store().Get("42.cntcm"); err != nil || n != uint64(want) {
				return false
			}
		}
		return true
	})
	if epoch := k.view().Shards[0].Epoch; epoch != 3 {
		t.Errorf("epoch %d after two changes of the primary, want 3", epoch)
	}
}

// TestJoinWithData has the directory of a server of its own become a shard: its schema is the cluster's from then on, and
// its posts are there, for a replica too.
func TestJoinWithData(t *testing.T) {
	t.Parallel()
	k := joinNodes(t, 2)
	port := k.nodes[0].config.Get().Port
	k.stop(0)
	k.dirs[0] = t.TempDir()
	alone, err := counter.Open(k.dirs[0], counter.Options{})
	if err == nil {
		err = alone.AlterScript(wireSchema)
	}
	if err == nil {
		_, err = alone.Incr("42.cntcm", 7)
	}
	if err = errors.Join(err, alone.Close()); err != nil {
		t.Fatal(err)
	}
	k.start(0, port)
	k.await("it is registered", func() bool { return k.view().Live[k.id(0)] != nil })
	k.create(0, 1)
	k.await("the cluster has its schema", func() bool {
		m := k.view()
		return m.Schema.Text != "" && m.Live[k.id(0)] != nil && m.Live[k.id(0)].Schema == m.Schema.Revision
	})
	w := wireDial(t, k.nodes[k.primary()], 2)
	w.want("GET {42}.cntcm", `"7"`)
	k.alter("add counter more\nadd column more n hint=8 max=32 suffix=more")
	w.want("INCR {42}.more", ":1")
	w.want("INCR {42}.cntcm", ":8")
	k.await("the replica has it", func() bool {
		n, _, err := k.nodes[1].Store().Get("42.cntcm")
		return err == nil && n == 8
	})
}

// TestAlter has nodes change the schema of the cluster, side by side: all statements are in it, and each shard has it.
func TestAlter(t *testing.T) {
	t.Parallel()
	k := joinNodes(t, 2)
	k.create(0, 1)
	alter := k.nodes[0].cluster.Hooks().Alter
	ctx := context.Background()
	if err := alter(ctx, "add counter c"); err != nil {
		t.Fatal(err)
	}
	errs := make(chan error)
	for i := range 8 {
		go func() {
			errs <- k.nodes[i%2].cluster.Hooks().Alter(ctx, fmt.Sprintf("add column c n%d hint=8 max=32", i))
		}()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if err := alter(ctx, "add column c n1 hint=9 max=32"); err == nil {
		t.Error("a column is made another one")
	}
	if err := alter(ctx, "add column c n1 hint=8 max=32"); err != nil {
		t.Errorf("what is there already: %v", err)
	}
	m := k.view()
	for i, srv := range k.nodes {
		k.await("the schema is there", func() bool { return string(srv.Store().Schema().AppendText(nil)) == m.Schema.Text })
		if def := srv.Store().Schema().Counter("c"); def == nil || len(def.Columns) != 8 {
			t.Errorf("node %d: got %v", i, def)
		}
	}
}

// provokeJoined: what is refused as a cluster decides, and what comes while changes are held.
func provokeJoined(p provoker) {
	k := joinNodes(p.T, 1)
	k.create(0)
	k.alter(wireSchema)
	s := k.nodes[0]
	w := wireDial(p, s, 2)
	w.want("SET {42}.cntcm 5", "+OK")
	p.refused(s, w, "COUNTER.MOVE OPEN m 1", "TRYAGAIN move: the node's map has no move \"m\"")
	p.refused(s, w, "COUNTER.MOVE REMEMBER 0-x r", "ERR got groups \"0-x\", want ranges like 0-84,200 of groups from 0 to 255")
	p.refused(s, w, "COUNTER.MOVE DERIVED 0-x c v 1 r", "ERR got groups \"0-x\", want ranges like 0-84,200 of groups from 0 to 255")
	p.refused(s, w, "COUNTER.MOVE DERIVED 0-255 c v 1 r", "ERR record kind(114): unknown kind")
	p.refused(s, w, "COUNTER.MOVE LOG m -1", "ERR a place or an offset of a move is a number that is not negative")
	p.refused(s, w, "REPLICAOF NO ONE", "ERR REPLICAOF not allowed in cluster mode.")
	p.refused(s, w, "FAILOVER", "ERR FAILOVER not allowed in cluster mode")
	w.want("REPLCONF version counterd", "+OK")
	if got := w.do("REPLCONF node-id me epoch 7 to nobody").String(); !strings.HasPrefix(got, "+RESTS") {
		p.Errorf("a link to another node is answered %s", got)
	}
	p.refused(s, w, "PSYNC ? -1", "ERR this node does not lead in the epoch of this link")
	w = wireDial(p, s, 2)
	release := s.role.HoldWrites(time.Nanosecond)
	defer release()
	p.refused(s, w, "INCR {42}.cntcm", string(role.ErrHeld))
}
