// Scenario: moves of hash slots beside failures of links, nodes and etcd: what each step loses.

package move

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/nodes/cluster"
	"github.com/counterd/counterd/cmd/internal/registry"
	"github.com/counterd/counterd/cmd/internal/testkit/registrytest"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/sleep"
	"github.com/counterd/counterd/internal/slot"
	"github.com/counterd/counterd/persist/vfs"
)

// lossCluster is two shards, each of a primary and a replica that lags, on simulated disks and a fake clock. At one step of
// a move a primary's machine is lost for good, and the replica leads with what it has.
type lossCluster struct {
	t      *testing.T
	etcd   *registrytest.Server
	admin  registry.Registry
	shards [2]*lossShard

	mu   sync.Mutex
	step int
	at   int        // the step of the loss
	lose *lossShard // whose primary is lost; nil: none
	said time.Time  // when it was lost
}

// lossShard is a shard. What is guarded changes when the primary is lost.
type lossShard struct {
	k   *lossCluster
	id  topology.ShardID
	lag time.Duration // of the replica

	mu   sync.Mutex
	node *lossNode // the primary
	next *counter.Store
}

// lossNode is a primary: of its shard's first epoch, or the replica that took its place.
type lossNode struct {
	s     *lossShard
	id    topology.NodeID
	epoch uint64
	store *counter.Store
	mover *Mover
	reg   registry.Registry
	link  *registrytest.Link
	ctx   context.Context
	stop  context.CancelFunc
	wait  sync.WaitGroup

	mu   sync.Mutex
	st   *cluster.Standing
	held slot.Set
}

func openLoss(t *testing.T, sim *vfs.Sim) *counter.Store {
	store, err := counter.Open("data", counter.Options{FS: sim, Manual: true, AppendFsync: counter.SyncAlways, BlockItems: 64, HashSeed: 7, SlotGroups: true,
		RetainBytes: 1 << 30, Elected: true, BootID: "1"})
	if err != nil {
		t.Fatal(err)
	}
	store.Groups().Own(slot.Set{})
	return store
}

func newLossCluster(t *testing.T, lags [2]time.Duration) *lossCluster {
	k := &lossCluster{t: t, etcd: registrytest.NewServer(), at: -1}
	k.admin = k.etcd.Open(nil)
	k.change(func(m *topology.Map) (topology.Change, error) {
		return topology.CreateCluster(m, "an id", time.Now(), 1, 1)
	})
	for i := range k.shards {
		s := &lossShard{k: k, id: topology.ShardID(i + 1), lag: lags[i]}
		k.shards[i] = s
		var ids []topology.NodeID
		for j := range 2 {
			id := topology.NodeID(fmt.Sprintf("%040x", 16*i+j))
			ids = append(ids, id)
			k.change(func(m *topology.Map) (topology.Change, error) {
				return topology.RegisterNode(m, topology.Node{ID: id, Host: "h", Port: 1 + 16*i + j})
			})
		}
		var groups slot.Set
		for g := range slot.Groups {
			if g%2 == i {
				groups.Add(uint8(g))
			}
		}
		k.change(func(m *topology.Map) (topology.Change, error) { return topology.AddShard(m, ids, groups) })
		sim := vfs.NewSim()
		store := openLoss(t, sim)
		n := s.lead(ids[0], store)
		store.Replication().Confirm(counter.Everywhere)
		if err := store.AlterScript(simSchema); err != nil {
			t.Fatal(err)
		}
		s.next = openLoss(t, sim.Kill())
		store.Replication().Confirm(store.Replication().Position())
		k.change(func(m *topology.Map) (topology.Change, error) {
			return topology.Expand(m, s.id, n.epoch, ids[1:])
		})
		n.wait.Go(n.feed)
	}
	k.etcd.Observe(k.told)
	return k
}

// told is called with each change that etcd takes: what it says of a move must be in the log of the shard's replica.
func (k *lossCluster) told(_ int64, kvs []topology.KV) {
	for _, kv := range kvs {
		var v topology.Move
		if !strings.HasPrefix(kv.Key, "move/") || kv.Value == nil {
			continue
		}
		if err := json.Unmarshal(kv.Value, &v); err != nil {
			k.t.Error(err)
		}
		source, destination := k.shards[v.From-1].next, k.shards[v.To-1].next
		_, gone := source.Groups().States()
		importing, _ := destination.Groups().States()
		made := !v.Began.IsZero() // else a test has put it there
		if made && v.State == topology.MoveCommitted && !v.Accepted && !v.Dropped && importing[v.ID].Both(v.Groups) != v.Groups {
			k.t.Errorf("step %d: etcd says that %s are the destination's, and its replica knows of %v", k.at, v.Groups, importing)
		}
		if v.Dropped && gone.Both(v.Groups) != v.Groups {
			k.t.Errorf("step %d: etcd says that %s are dropped, and the source's replica has dropped %s", k.at, v.Groups, gone)
		}
		if v.Accepted && len(importing) > 0 {
			k.t.Errorf("step %d: etcd says that %s are accepted, and the destination's replica is waiting for %v", k.at, v.Groups, importing)
		}
	}
}

func (k *lossCluster) change(f func(m *topology.Map) (topology.Change, error)) {
	k.t.Helper()
	m, err := k.admin.Load(k.t.Context())
	if err == nil {
		var c topology.Change
		if c, err = f(m); err == nil {
			err = k.admin.Commit(k.t.Context(), c)
		}
	}
	if err != nil {
		k.t.Fatal(err)
	}
}

// lead makes a node the primary of the shard's next epoch.
func (s *lossShard) lead(id topology.NodeID, store *counter.Store) *lossNode {
	k := s.k
	n := &lossNode{s: s, id: id, store: store, link: registrytest.NewLink(1)}
	n.ctx, n.stop = context.WithCancel(context.Background())
	k.change(func(m *topology.Map) (topology.Change, error) {
		n.epoch = m.Shard(s.id).Epoch + 1
		return topology.Promote(m, s.id, id)
	})
	if _, err := store.Replication().LeadAt(n.epoch); err != nil {
		k.t.Fatal(err)
	}
	k.change(func(m *topology.Map) (c topology.Change, err error) {
		c.Set(topology.LiveKey(id), 0, topology.Live{Process: string(id), Address: string(id)})
		return c, nil
	})
	n.reg = k.etcd.Open(n.link)
	n.mover = New(Config{Registry: lossRegistry{n.reg, k}, Host: n, Log: slog.New(slog.DiscardHandler), Dial: k.dial})
	s.mu.Lock()
	s.node = n
	s.mu.Unlock()
	n.wait.Go(func() {
		for m := range n.reg.Watch(n.ctx) {
			shard := m.Shard(s.id)
			if shard.Epoch != n.epoch {
				continue
			}
			st := &cluster.Standing{Map: m, Self: id, Shard: shard, Primary: true, Owned: shard.Groups}
			n.mu.Lock()
			n.st = st
			n.serve()
			n.mu.Unlock()
			n.mover.Look(st)
		}
	})
	return n
}

// feed gives the replica the log, and takes its word that it has it.
func (n *lossNode) feed() {
	s, log := n.s, n.store.Replication()
	reader, err := log.NewFollower(s.next.Replication().Position())
	if err != nil {
		s.k.t.Error(err)
		return
	}
	defer reader.Close()
	for sleep.For(n.ctx, s.lag); n.ctx.Err() == nil; sleep.For(n.ctx, s.lag) {
		for end := log.Visible(); reader.Pos() < end; {
			f, err := reader.TryNext()
			if err == nil {
				_, err = s.next.Replication().Replicate(f.Raw)
			}
			if err != nil {
				s.k.t.Error(err)
				return
			}
		}
		end := s.next.Replication().Position()
		if err := s.next.Replication().CommitHere(end); err != nil {
			s.k.t.Error(err)
		}
		log.Confirm(end)
	}
}

// serve tells the store what clients are served. REQUIRES mu.
func (n *lossNode) serve() {
	if n.st != nil {
		n.store.Groups().Own(n.st.Owned.Minus(n.held).Minus(Lacking(n.st, n.store)))
	}
}

func (n *lossNode) Store() *counter.Store { return n.store }
func (n *lossNode) Expect(slot.Set)       { n.s.k.pass() }

func (n *lossNode) Refresh() {
	n.mu.Lock()
	n.serve()
	n.mu.Unlock()
	n.s.k.pass()
}

func (n *lossNode) Withhold(groups slot.Set) {
	n.mu.Lock()
	n.held = groups
	n.serve()
	n.mu.Unlock()
	n.s.k.pass()
}

// leader is the shard's primary.
func (s *lossShard) leader() *lossNode {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.node
}

// since is how long ago a machine was lost; 0: none was.
func (k *lossCluster) since() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.said.IsZero() {
		return 0
	}
	return time.Since(k.said)
}

// pass is a step of the move: the machine may be lost at it.
func (k *lossCluster) pass() {
	k.mu.Lock()
	lose := k.lose
	if k.step != k.at {
		lose = nil
	}
	k.step++
	k.mu.Unlock()
	if lose != nil {
		lose.lost()
	}
}

// lost takes the primary's machine away: nothing of it is heard any more, and what it is asked is never answered. The
// replica leads three seconds later, with what it has.
func (s *lossShard) lost() {
	n := s.leader()
	s.k.mu.Lock()
	s.k.said = time.Now()
	s.k.mu.Unlock()
	n.link.Cut(true, true)
	n.stop()
	n.mover.stop()
	go func() {
		n.mover.Close()
		n.wait.Wait()
		if err := n.store.Close(); err != nil {
			s.k.t.Error(err)
		}
		time.Sleep(3 * time.Second)
		s.k.change(func(m *topology.Map) (c topology.Change, err error) {
			c.Remove(topology.LiveKey(n.id), m.Live[n.id].Revision)
			return c, nil
		})
		id := n.id[:len(n.id)-1] + "1"
		s.lead(id, s.next).store.Replication().Confirm(counter.Everywhere) // alone in sync
	}()
}

// lossRegistry is etcd as movers see it: before and behind each change is a step.
type lossRegistry struct {
	registry.Registry
	k *lossCluster
}

func (r lossRegistry) Commit(ctx context.Context, c topology.Change) error {
	r.k.pass()
	err := r.Registry.Commit(ctx, c)
	r.k.pass()
	return err
}

func (k *lossCluster) dial(_ context.Context, address string) (Remote, error) {
	for _, s := range k.shards {
		n := s.leader()
		if string(n.id) == address {
			return &lossRemote{n}, nil
		}
	}
	return nil, errLink
}

// lossRemote asks a primary. One whose machine is lost never answers.
type lossRemote struct{ n *lossNode }

func (r *lossRemote) call(ctx context.Context, ask func() error) error {
	r.n.s.k.pass()
	sleep.For(ctx, 2*time.Millisecond)
	var err error
	if r.n.ctx.Err() == nil {
		err = ask()
		r.n.s.k.pass()
	}
	if r.n.ctx.Err() != nil {
		select {
		case <-ctx.Done():
		case <-time.After(answerWithin):
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func (r *lossRemote) Open(ctx context.Context, id string, epoch uint64) (from uint64, err error) {
	err = r.call(ctx, func() (err error) { from, err = r.n.mover.Open(id, epoch); return })
	return from, err
}

func (r *lossRemote) Producers(ctx context.Context, id string, at int) (records []byte, next int, err error) {
	err = r.call(ctx, func() (err error) { records, next, err = r.n.mover.Producers(id, at); return })
	return records, next, err
}

func (r *lossRemote) Rows(ctx context.Context, id string, at counter.ExportPlace) (records []byte, next counter.ExportPlace, done bool, err error) {
	err = r.call(ctx, func() (err error) { records, next, done, err = r.n.mover.Rows(id, at); return })
	return records, next, done, err
}

func (r *lossRemote) Log(ctx context.Context, id string, from uint64) (records []byte, next, end uint64, err error) {
	err = r.call(ctx, func() (err error) { records, next, end, err = r.n.mover.Log(id, from); return })
	return records, next, end, err
}

func (r *lossRemote) Hold(ctx context.Context, id string) (end uint64, revision int64, err error) {
	err = r.call(ctx, func() (err error) { end, revision, err = r.n.mover.Hold(id); return })
	return end, revision, err
}

func (r *lossRemote) Close() error { return nil }

// add makes change number seq of a post at whoever serves it, again until it is answered, and returns the value. mid is
// changed by nobody else.
func (k *lossCluster) add(ctx context.Context, mid, seq uint64) uint64 {
	for began := time.Now(); ctx.Err() == nil; time.Sleep(3 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			k.t.Errorf("nobody serves post %d of group %d", mid, slot.Group(mid))
			return 0
		}
		for _, s := range k.shards {
			n := s.leader()
			b := n.store.NewBatch()
			if b.Begin() != nil {
				continue
			}
			b.Add(counter.Op{Kind: counter.OpAdd, Counter: b.Schema().Counter("a"), Mid: mid, Arg: 1})
			o, _ := b.Once(0)
			o.Producer, o.Seq, o.Hash = []byte("client"), seq, uint32(mid)
			b.Run()
			b.End()
			err := errors.Join(b.Op(0).Err, b.Commit(), o.Err)
			if err == nil && n.ctx.Err() == nil {
				return o.Result.N
			}
		}
	}
	return 0
}

// TestHoldIsShort: a copy waits for the destination's replicas before the source holds the groups, not while it does.
func TestHoldIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newLossCluster(t, [2]time.Duration{time.Millisecond, 2 * holdFor})
		for mid := range uint64(200) {
			if slot.Group(mid)%2 == 0 {
				k.add(t.Context(), mid, mid+1)
			}
		}
		holds := 0
		k.change(func(m *topology.Map) (topology.Change, error) {
			return topology.StartMove(m, "a move", m.Shard(1).Groups, 1, 2, time.Now())
		})
		for {
			for _, p := range k.shards[1].leader().mover.Progress() {
				holds = max(holds, p.Holds)
			}
			if m, err := k.etcd.Map(); err != nil || len(m.Moves) == 0 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if holds != 1 {
			t.Errorf("the groups were held %d times, want once", holds)
		}
		k.close()
	})
}

// TestMoveOfNothing moves groups that have neither posts nor numbers: they are not committed before the destination's replicas know that they are on
// their way. A replica that leads without that takes the posts for lost, and serves the groups to nobody.
func TestMoveOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newLossCluster(t, [2]time.Duration{time.Millisecond, 30 * time.Millisecond})
		k.change(func(m *topology.Map) (topology.Change, error) {
			return topology.StartMove(m, "a move", m.Shard(1).Groups, 1, 2, time.Now())
		})
		for range 1000 {
			m, err := k.etcd.Map()
			if err != nil {
				t.Fatal(err)
			}
			if len(m.Moves) == 0 {
				k.close()
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("the move does not end: %+v", k.shards[1].leader().mover.Progress())
		k.close()
	})
}

// run moves group 4 from the first shard to the second while posts of it are changed, and loses a primary at a step. It
// returns whether the move went past that step.
func (k *lossCluster) run(at int, lose *lossShard) (reached bool) {
	ctx, cancel := context.WithCancel(k.t.Context())
	defer cancel()
	var mids []uint64
	for mid := uint64(0); len(mids) < 6; mid++ {
		if slot.Group(mid) == 4 || len(mids) == 5 {
			mids = append(mids, mid)
		}
	}
	seq, want := uint64(0), map[uint64]uint64{}
	one := func(mid uint64) {
		seq++
		want[mid]++
		if got := k.add(ctx, mid, seq); got != want[mid] && ctx.Err() == nil {
			k.t.Errorf("step %d: post %d: number %d is answered %d, want %d", at, mid, seq, got, want[mid])
			cancel()
		}
	}
	for range 3 {
		for _, mid := range mids {
			one(mid)
		}
	}
	k.mu.Lock()
	k.step, k.at, k.lose = 0, at, lose
	k.mu.Unlock()
	k.change(func(m *topology.Map) (topology.Change, error) {
		return topology.StartMove(m, "a move", slot.Set{1 << 4}, 1, 2, time.Now())
	})
	for i, began := 0, time.Now(); ctx.Err() == nil; i++ {
		one(mids[i%len(mids)])
		if m, err := k.etcd.Map(); err != nil {
			k.t.Error(err)
		} else if len(m.Moves) == 0 && i > 40 {
			break
		}
		if time.Since(began) > time.Minute || k.since() > 15*time.Second {
			k.t.Errorf("step %d: the move does not end: %+v", at, k.shards[1].leader().mover.Progress())
			return true
		}
	}
	time.Sleep(5 * time.Second) // a loss at the last steps
	for _, mid := range mids {
		one(mid)
	}
	for _, s := range k.shards {
		n := s.leader()
		if importing, _ := n.store.Groups().States(); len(importing) > 0 {
			k.t.Errorf("step %d: shard %d: still on their way: %v", at, s.id, importing)
		}
		n.mu.Lock()
		lacking := Lacking(n.st, n.store)
		n.mu.Unlock()
		if !lacking.Empty() {
			k.t.Errorf("step %d: shard %d lacks %s", at, s.id, lacking)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.step > at
}

func (k *lossCluster) close() {
	for _, s := range k.shards {
		n := s.leader()
		n.stop()
		n.mover.Close()
		n.wait.Wait()
		for _, store := range []*counter.Store{n.store, s.next} {
			if err := store.Close(); err != nil && !errors.Is(err, counter.ErrClosed) {
				k.t.Error(err)
			}
		}
		if err := n.reg.Close(); err != nil {
			k.t.Error(err)
		}
	}
	if err := k.admin.Close(); err != nil {
		k.t.Error(err)
	}
	time.Sleep(time.Minute) // links and holds of those who are lost
}

// TestLosses loses the machine of the destination's primary, and then that of the source's, at each step of a move, while
// replicas lag: each change that was answered stays, each number counts once, the new primary goes on by itself, and the
// move ends.
func TestLosses(t *testing.T) {
	for which, name := range []string{"source", "destination"} {
		t.Run(name, func(t *testing.T) {
			steps, stride := 0, 1
			if testing.Short() { // under the race detector: a fifth of the steps, others each time
				steps, stride = int(*seed%5), 5
			}
			for reached := true; reached && !t.Failed(); steps += stride {
				synctest.Test(t, func(t *testing.T) {
					lags := [2]time.Duration{5 * time.Millisecond, 5 * time.Millisecond}
					lags[which] = 30 * time.Millisecond
					k := newLossCluster(t, lags)
					reached = k.run(steps, k.shards[which])
					k.close()
				})
			}
			if steps < 20 {
				t.Errorf("a move of %d steps, want 20 at least", steps)
			}
			t.Logf("%d steps", steps)
		})
	}
}
