package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/redcon"

	"github.com/counterd/counterd/cmd/internal/cli"
	"github.com/counterd/counterd/cmd/internal/registry"
	"github.com/counterd/counterd/cmd/internal/testkit/registrytest"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/internal/testkit/seed"
)

// ctl runs a command of the cluster.
func ctl(t testing.TB, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	var out, err bytes.Buffer
	tool := cli.Tool{Name: "counterctl", Commands: Commands}
	status = tool.Run(t.Context(), args, &out, &err)
	return out.String(), err.String(), status
}

// fakes are nodes that do in etcd what nodes of a cluster do, and hold nothing: the first node in sync leads, replicas are
// in sync at once, moves are made.
type fakes struct {
	t      *testing.T
	etcd   *registrytest.Server
	ctx    context.Context
	words  []string // HOST:PORT
	leases map[topology.NodeID]registry.Lease
	moves  atomic.Int64 // begun
	refuse atomic.Int64 // moves that are given up first
	still  atomic.Bool  // nodes change nothing by themselves
	stuck  atomic.Bool  // moves do not get on
}

func id(i int) topology.NodeID { return topology.NodeID(fmt.Sprintf("%040x", 0xabcd0000+i)) }

func newFakes(t *testing.T, n int) *fakes {
	f := &fakes{t: t, etcd: registrytest.NewServer(), leases: map[topology.NodeID]registry.Lease{}}
	ctx, cancel := context.WithCancel(t.Context())
	f.ctx = ctx
	r := f.etcd.Open(nil)
	old := openRegistry
	openRegistry = func(conf registry.EtcdConfig, name string) (registry.Registry, error) {
		if name != "t" || len(conf.Endpoints) != 1 {
			return nil, fmt.Errorf("got %v and %s", conf, name)
		}
		return f.etcd.Open(nil), nil
	}
	for i := range n {
		f.start(r, i)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for m := range r.Watch(ctx) {
			for f.act(r, m) {
				var err error
				if m, err = r.Load(ctx); err != nil {
					break
				}
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		r.Close()
		openRegistry = old
	})
	return f
}

// start registers a node, which answers CLUSTER FAILOVER by leading.
func (f *fakes) start(r registry.Registry, i int) {
	f.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.t.Fatal(err)
	}
	srv := redcon.NewServerNetwork("tcp", ln.Addr().String(), func(conn redcon.Conn, cmd redcon.Command) {
		words := make([]string, len(cmd.Args))
		for i, a := range cmd.Args {
			words[i] = string(a)
		}
		switch line := strings.Join(words, " "); {
		case strings.HasPrefix(line, "CLUSTER FAILOVER"):
			if err := f.lead(r, id(i), strings.HasSuffix(line, "FORCE-UNCLEAN")); err != nil {
				conn.WriteError("ERR " + err.Error())
				return
			}
			conn.WriteString("OK")
		default:
			conn.WriteError("ERR unknown command")
		}
	}, nil, nil)
	go func() { _ = srv.Serve(ln) }()
	f.t.Cleanup(func() { srv.Close() })
	port := ln.Addr().(*net.TCPAddr).Port
	word := fmt.Sprintf("127.0.0.1:%d", port)
	f.words = append(f.words, word)
	f.commit(r, func(m *topology.Map) (topology.Change, error) {
		return topology.RegisterNode(m, topology.Node{ID: id(i), Host: "127.0.0.1", Port: port, Version: "1"})
	})
	l, err := r.Register(f.ctx, id(i), time.Minute, topology.Live{Process: "p", Address: word, Epoch: 1000, Written: uint64(i), Bytes: 2 << 30})
	if err != nil {
		f.t.Fatal(err)
	}
	f.leases[id(i)] = l
}

func (f *fakes) stop(i int) {
	f.t.Helper()
	if err := f.leases[id(i)].Close(f.ctx); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fakes) lead(r registry.Registry, by topology.NodeID, unclean bool) error {
	for {
		m, err := r.Load(f.ctx)
		if err != nil {
			return err
		}
		var c topology.Change
		if n := m.Nodes[by]; unclean {
			c, err = topology.ForceUnclean(m, n.Shard, by, 0)
		} else {
			c, err = topology.PlannedSwitch(m, n.Shard, by)
		}
		if err == nil {
			err = r.Commit(f.ctx, c)
		}
		if !errors.Is(err, registry.ErrConflict) {
			return err
		}
	}
}

func (f *fakes) commit(r registry.Registry, make func(m *topology.Map) (topology.Change, error)) {
	f.t.Helper()
	m, err := r.Load(f.ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	c, err := make(m)
	if err == nil {
		err = r.Commit(f.ctx, c)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// act makes one change that a node would make; false: there is none.
func (f *fakes) act(r registry.Registry, m *topology.Map) bool {
	try := func(c topology.Change, err error) bool {
		if err != nil {
			f.t.Errorf("a node: %v", err)
			return false
		}
		err = r.Commit(f.ctx, c)
		return err == nil || errors.Is(err, registry.ErrConflict)
	}
	for _, s := range m.Shards {
		if s.Primary == "" && !f.still.Load() {
			return try(topology.Promote(m, s.ID, s.InSync[0]))
		}
		for _, n := range m.Members(s.ID) {
			if s.Primary != "" && !s.Has(n.ID) && m.Live[n.ID] != nil && !f.still.Load() {
				return try(topology.Expand(m, s.ID, s.Epoch, []topology.NodeID{n.ID}))
			}
		}
	}
	for _, v := range m.Moves {
		switch {
		case f.stuck.Load():
		case v.State == topology.MoveAborted:
			return try(topology.EndAborted(m, v.ID))
		case v.State == topology.MoveCopying && f.refuse.Add(-1) >= 0:
			return try(topology.AbortMove(m, v.ID, "the other is busy"))
		case v.State == topology.MoveCopying:
			f.moves.Add(1)
			return try(topology.CommitMove(m, v.ID, v.Revision, m.Shard(v.From).Epoch, 0, topology.LogPoint{Epoch: m.Shard(v.To).Epoch}))
		case !v.Dropped:
			return try(topology.MoveDropped(m, v.ID))
		default:
			return try(topology.MoveAccepted(m, v.ID))
		}
	}
	return false
}

// ctl runs a command of the cluster and wants its status and words in its output.
func (f *fakes) ctl(status int, words []string, args ...string) string {
	f.t.Helper()
	args = append([]string{"cluster", args[0], "--etcd", "http://etcd:2379", "--name", "t", "--wait", "30s"}, args[1:]...)
	out, text, got := ctl(f.t, args...)
	if got != status {
		f.t.Errorf("%q: status %d, want %d\n%s%s", args, got, status, out, text)
	}
	for _, w := range words {
		if !strings.Contains(out+text, w) {
			f.t.Errorf("%q: no %q in\n%s%s", args, w, out, text)
		}
	}
	return out
}

func (f *fakes) status() (c clusterStatus) {
	f.t.Helper()
	if err := json.Unmarshal([]byte(f.ctl(0, nil, "status", "--json")), &c); err != nil {
		f.t.Fatal(err)
	}
	return c
}

// TestCluster goes through a cluster's life: made, enlarged, balanced, nodes and shards taken out, failovers.
func TestCluster(t *testing.T) {
	f := newFakes(t, 9)
	f.ctl(1, []string{"etcd has no cluster t, but 9 nodes"}, "status")
	f.ctl(2, []string{"want --yes"}, "create", "--shards", "2", "--replicas", "1", f.words[0], f.words[1], f.words[2], f.words[3])
	f.ctl(2, []string{"got 3 nodes, want 4"}, "create", "--yes", "--shards", "2", "--replicas", "1", f.words[0], f.words[1], f.words[2])
	f.ctl(2, []string{"are the same node"}, "create", "--yes", "--replicas", "1", f.words[0], string(id(0)))
	f.ctl(0, []string{"the cluster t serves"}, "create", "--yes", "--shards", "2", "--replicas", "1", f.words[0], f.words[1], f.words[2], f.words[3])
	f.ctl(1, []string{"there is a cluster of this name already"}, "create", "--yes", "--shards", "2", "--replicas", "1", f.words[0], f.words[1], f.words[2], f.words[3])
	f.ctl(0, []string{"NOTE", "all nodes are on one host"}, "check")

	f.ctl(2, []string{"want 2 for each new shard"}, "add", "--yes", f.words[4])
	f.ctl(1, []string{"is of shard 1 already"}, "add", "--yes", f.words[0], f.words[4])
	f.ctl(0, []string{"shard 3 serves"}, "add", "--yes", f.words[4], f.words[5])
	f.ctl(0, []string{"in sync"}, "add", "--yes", "--to", "3", f.words[6])
	f.ctl(1, []string{"there is no shard 9, but 1, 2, 3"}, "add", "--yes", "--to", "9", f.words[7])

	// All shards weigh the same, so a third goes to the new one; a move that is given up is begun again.
	f.refuse.Store(2)
	f.ctl(0, []string{"groups moved in"}, "rebalance", "--yes", "--tolerance", "0", "--groups-at-once", "5")
	for _, s := range f.status().Shards {
		if n := s.Groups.Len(); n != 85 && n != 86 {
			t.Errorf("shard %d has %d groups, want a third", s.ID, n)
		}
	}
	var plan planned
	if err := json.Unmarshal([]byte(f.ctl(0, nil, "rebalance", "--plan", "--json", "--by", "load")), &plan); err != nil || len(plan.Moves) != 0 {
		t.Errorf("got the plan %v, %v, want none", plan, err)
	}
	f.ctl(0, []string{"nothing is to be moved"}, "rebalance")
	f.ctl(2, []string{"want whole groups of 64: 64-127"}, "move", "--slots", "64-100", "--to", "1")
	f.ctl(0, []string{"groups moved"}, "move", "--slots", "0-127,16256-16383", "--to", "3", "--yes")
	f.ctl(0, []string{"nothing is to be moved"}, "move", "--groups", "0-1,254-255", "--to", "3", "--yes")
	if got := f.status().Shards[2].Groups; !got.Has(0) || !got.Has(1) || !got.Has(255) {
		t.Errorf("shard 3 has %s", got)
	}
	// A step that never succeeds ends.
	f.refuse.Store(1000)
	f.ctl(1, []string{"given up 5 times"}, "move", "--groups", "0", "--to", "1", "--yes")
	f.refuse.Store(0)

	// Failovers: by hand to the replica with most, to a named replica, to a node that is none.
	f.ctl(0, []string{"leads epoch 2"}, "failover", "1", "--yes")
	f.ctl(1, []string{"leads shard 1 already"}, "failover", "1", "--yes", "--to", string(f.status().Shards[0].Primary))
	f.ctl(1, []string{"is not of shard 1"}, "failover", "1", "--yes", "--to", f.words[5])
	f.ctl(1, []string{"no node 127.0.0.1:1 is registered"}, "failover", "1", "--yes", "--to", "127.0.0.1:1")

	// A primary hands over before it goes, a lost node is forgotten, and not below what changes need.
	primary := f.status().Shards[2].Primary
	f.ctl(0, []string{"have another lead, then retire it", "leads epoch", "is retired"}, "remove", "--yes", string(primary))
	for i := range 9 {
		if id(i) == primary {
			f.stop(i)
		}
	}
	f.ctl(0, []string{"is forgotten"}, "remove", "--yes", string(primary))
	f.ctl(1, []string{"no node"}, "remove", "--yes", string(primary))
	f.ctl(0, []string{"in sync at least 2 (now 1)"}, "set", "--min-insync", "2", "--yes")
	replica := f.status().Shards[0].Nodes[1].ID
	f.ctl(1, []string{"1 of shard 1 would stay in sync, want 2"}, "remove", "--yes", string(replica))
	f.ctl(0, []string{"is retired"}, "remove", "--yes", "--force", string(replica))
	f.ctl(1, []string{"ERROR", "1 in sync", "want 2: changes are refused"}, "check")

	f.ctl(0, []string{"shard 3 is gone"}, "remove", "--shard", "3", "--yes")
	f.ctl(0, []string{"is retired"}, "remove", "--yes", f.words[7])
	c := f.status()
	if len(c.Shards) != 2 || c.Shards[0].Groups.Len()+c.Shards[1].Groups.Len() != 256 || len(c.Moves) != 0 {
		t.Errorf("got %+v", c)
	}
	if m, err := f.etcd.Map(); err != nil || len(m.Faults()) > 0 {
		t.Errorf("got %v, %v", m.Faults(), err)
	}
	if !regexp.MustCompile(`(?m)^2 +127.0.0.1:\d+ +primary +in sync `).MatchString(f.ctl(0, nil, "status")) {
		t.Error(f.ctl(0, nil, "status"))
	}
}

// TestClusterUnclean makes a replica lead that is not in sync, after a message about the loss.
func TestClusterUnclean(t *testing.T) {
	f := newFakes(t, 3)
	f.ctl(0, nil, "create", "--yes", "--replicas", "2", f.words[0], f.words[1], f.words[2])
	f.still.Store(true)
	r := f.etcd.Open(nil)
	defer r.Close()
	f.commit(r, func(m *topology.Map) (topology.Change, error) {
		return topology.Shrink(m, 1, 1, []topology.NodeID{id(1), id(2)})
	})
	f.ctl(1, []string{"no other node of shard 1 runs and is in sync"}, "failover", "1", "--yes")
	f.ctl(1, []string{"is not in sync"}, "failover", "1", "--yes", "--to", f.words[2])
	f.stop(0)
	f.ctl(1, []string{"its primary " + f.words[0] + " is gone", "1 in sync"}, "check")
	answered := stdin
	defer func() { stdin = answered }()
	stdin = func() io.Reader { return strings.NewReader("no\n") }
	f.ctl(1, []string{"all that was acknowledged behind that offset is lost", "nothing was changed"}, "failover", "1", "--unclean")
	stdin = func() io.Reader { return strings.NewReader("yes\n") }
	f.ctl(0, []string{"its log ends at offset 2", f.words[2] + " leads epoch 2"}, "failover", "1", "--unclean")
}

// TestClusterResume interrupts a create, which goes on then; another one is refused.
func TestClusterResume(t *testing.T) {
	f := newFakes(t, 4)
	r := f.etcd.Open(nil)
	defer r.Close()
	f.commit(r, func(m *topology.Map) (topology.Change, error) {
		return topology.CreateCluster(m, "an id", time.Now(), 1, 1)
	})
	m, err := r.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := topology.Place([]*topology.Node{m.Nodes[id(0)], m.Nodes[id(1)], m.Nodes[id(2)], m.Nodes[id(3)]}, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	f.commit(r, func(m *topology.Map) (topology.Change, error) {
		return topology.AddShard(m, nodes[0], topology.Deal(2)[0])
	})
	f.ctl(1, []string{"nobody owns the hash slots 8192-16383"}, "check")
	f.ctl(1, []string{"there is a cluster of this name already"}, append([]string{"create", "--yes", "--shards", "4", "--replicas", "0"}, f.words...)...)
	f.ctl(0, []string{"1 of 2 shards are there", "serves"}, append([]string{"create", "--yes", "--shards", "2", "--replicas", "1"}, f.words...)...)
	f.ctl(0, nil, "check")
}

func TestClusterMisuse(t *testing.T) {
	for _, args := range [][]string{{"cluster"}, {"cluster", "nothing"}, {"cluster", "status"}, {"cluster", "status", "--etcd", "h:1", "--name", "t"},
		{"cluster", "status", "--etcd", "http://h:1", "--name", "a/b"}, {"cluster", "create", "--etcd", "http://h:1", "--name", "t"}} {
		if _, text, status := ctl(t, args...); status != 2 {
			t.Errorf("%q: status %d, want 2: %s", args, status, text)
		}
	}
}

// TestParseSlots compares with each slot by itself.
func TestParseSlots(t *testing.T) {
	seed := seed.Of(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		var want slot.Set
		var parts []string
		for range 1 + rng.IntN(4) {
			a := rng.IntN(256)
			b := a + rng.IntN(256-a)
			for g := a; g <= b; g++ {
				want.Add(uint8(g))
			}
			parts = append(parts, strconv.Itoa(a*64)+"-"+strconv.Itoa(b*64+63))
		}
		if got, err := parseSlots(strings.Join(parts, ",")); err != nil || got != want {
			t.Fatalf("seed %d: %v: got %s, %v, want %s", seed, parts, got, err, want)
		}
	}
	for _, bad := range []string{"", "0", "0-62", "1-63", "0-16384", "63-0", "x", "0-63,"} {
		if got, err := parseSlots(bad); err == nil {
			t.Errorf("%q: got %s", bad, got)
		}
	}
}

// TestMovesTimeOut: a move that does not get on is told of while it lasts, and ends the command with an error at its time. It goes on by itself.
func TestMovesTimeOut(t *testing.T) {
	f := newFakes(t, 2)
	f.ctl(0, nil, "create", "--yes", "--shards", "2", "--replicas", "0", f.words[0], f.words[1])
	f.stuck.Store(true)
	old := tellEvery
	tellEvery = 10 * time.Millisecond
	defer func() { tellEvery = old }()
	f.stop(1)
	f.ctl(1, []string{"0 of 2 groups are moved, waiting for the move of groups 0-1 from shard 1 to 2, attempt 1, and a primary of shard 2\n",
		"0 of 2 groups are moved within 3s, waiting for the move of groups 0-1 from shard 1 to 2", "--abort ends one"}, "move", "--groups", "0-1", "--to", "2", "--yes", "--timeout", "3s")
	if n := len(f.status().Moves); n != 1 {
		t.Errorf("%d moves, want the one that was begun", n)
	}
	f.ctl(2, []string{"a timeout of -1s"}, "move", "--groups", "0-1", "--to", "2", "--yes", "--timeout", "-1s")
}

// TestMovesGivenUp: a move that never succeeds ends with the reason that was seen, if any.
func TestMovesGivenUp(t *testing.T) {
	var groups slot.Set
	groups.Add(7)
	for _, seen := range []bool{true, false} {
		w := newMoving([]topology.Transfer{{Groups: groups, From: 1, To: 2}}, 1)
		m := &topology.Map{Shards: []*topology.Shard{{ID: 1, Groups: groups}, {ID: 2}}}
		want := "groups 7 from shard 1 to 2: given up 5 times"
		for n := 0; len(w.wait) > 0; n++ {
			p := w.next(m)
			if p == nil || n == maxTries {
				t.Fatalf("try %d of %v", n+1, p)
			}
			p.tries++
			w.begun["m"] = p
			if seen {
				aborted := *m
				aborted.Moves = []*topology.Move{{ID: "m", Groups: groups, From: 1, To: 2, State: topology.MoveAborted, Error: "the other is busy"}}
				w.look(&aborted)
			}
			w.look(m)
		}
		if seen {
			want += ", last as the other is busy"
		}
		if len(w.failed) != 1 || w.failed[0].Error() != want {
			t.Errorf("got %v, want %s", w.failed, want)
		}
	}
}
