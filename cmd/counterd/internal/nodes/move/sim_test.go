// Scenario: simulated moves between two shards under random faults.

package move

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
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
	testseed "github.com/counterd/counterd/internal/testkit/seed"
	"github.com/counterd/counterd/persist/vfs"
)

var (
	seed = testseed.Value
	runs = flag.Int("runs", 4, "how many random clusters TestMoves makes")
)

// dice are a source of random numbers for several goroutines. What they do is not the same from run to run.
type dice struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func (d *dice) n(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.IntN(n)
}

// simCluster is two shards of one node each, in one process, on simulated disks, an etcd in memory and a fake clock.
type simCluster struct {
	t      *testing.T
	dice   *dice
	etcd   *registrytest.Server
	nodes  [2]*simNode
	faulty atomic.Bool
}

// simNode is one node: a store, what it serves, and its mover. A crash ends it, and another one begins on its disk.
type simNode struct {
	k    *simCluster
	id   topology.NodeID
	sim  *vfs.Sim
	link *registrytest.Link

	ahead  atomic.Int64 // how far its clock is ahead
	opens  atomic.Int32 // how often it was asked for groups
	onRows func()       // nil, or called when it is asked for posts
	onHold func()       // nil, or called when it holds the groups

	mu    sync.Mutex // guards what a crash replaces, and whom it serves
	store *counter.Store
	reg   registry.Registry
	mover *Mover
	st    *cluster.Standing
	held  slot.Set
	down  bool
	stop  func()
}

const simSchema = "add counter a\nadd column a v hint=3 max=40 suffix=v\nadd column a w hint=8 max=40 default=2 suffix=w"

func newSimCluster(t *testing.T, d *dice) *simCluster {
	k := &simCluster{t: t, dice: d, etcd: registrytest.NewServer()}
	admin := k.etcd.Open(nil)
	defer admin.Close()
	k.change(admin, func(m *topology.Map) (topology.Change, error) {
		return topology.CreateCluster(m, "an id", time.Now(), 0, 1)
	})
	for i := range k.nodes {
		n := &simNode{k: k, id: topology.NodeID(fmt.Sprintf("%040x", i+1)), sim: vfs.NewSim(), link: registrytest.NewLink(uint64(d.n(1 << 30)))}
		k.nodes[i] = n
		k.change(admin, func(m *topology.Map) (topology.Change, error) {
			return topology.RegisterNode(m, topology.Node{ID: n.id, Host: "h", Port: i + 1})
		})
		k.change(admin, func(m *topology.Map) (c topology.Change, err error) {
			c.Set(topology.LiveKey(n.id), 0, topology.Live{Process: "p", Address: fmt.Sprint(i)})
			return c, nil
		})
		var groups slot.Set
		for g := range slot.Groups {
			if g%2 == i {
				groups.Add(uint8(g))
			}
		}
		k.change(admin, func(m *topology.Map) (topology.Change, error) {
			return topology.AddShard(m, []topology.NodeID{n.id}, groups)
		})
	}
	for _, n := range k.nodes {
		n.start()
	}
	return k
}

// change makes a change, however often it takes.
func (k *simCluster) change(r registry.Registry, f func(m *topology.Map) (topology.Change, error)) {
	k.t.Helper()
	m, err := r.Load(k.t.Context())
	if err == nil {
		var c topology.Change
		if c, err = f(m); err == nil {
			err = r.Commit(k.t.Context(), c)
		}
	}
	if err != nil {
		k.t.Fatal(err)
	}
}

// start opens the store and takes the shard's next epoch, as a process does that finds itself alone in sync.
func (n *simNode) start() {
	t := n.k.t
	store, err := counter.Open("data", counter.Options{FS: n.sim, Manual: true, AppendFsync: counter.SyncAlways, BlockItems: 64, HashSeed: 7, SlotGroups: true, RetainBytes: 1 << 30,
		Elected: true, BootID: "1", Now: n.clock})
	if err != nil {
		t.Fatal(err)
	}
	store.Groups().Own([4]uint64{})
	ctx, cancel := context.WithCancel(context.Background())
	reg := n.k.etcd.Open(n.link)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.store, n.reg, n.held, n.st, n.down = store, reg, slot.Set{}, nil, false
	n.mover = New(Config{Registry: reg, Host: n, Log: slog.New(slog.DiscardHandler), Dial: n.dial})
	mover := n.mover
	done := make(chan struct{})
	n.stop = func() {
		cancel()
		<-done
		mover.Close()
		if err := reg.Close(); err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
	go func() {
		defer close(done)
		n.run(ctx, reg, mover, store)
	}()
}

// clock is the node's.
func (n *simNode) clock() time.Time { return time.Now().Add(time.Duration(n.ahead.Load())) }

// run leads by one epoch, and serves what each newer map says.
func (n *simNode) run(ctx context.Context, reg registry.Registry, mover *Mover, store *counter.Store) {
	led := uint64(0)
	for led == 0 && ctx.Err() == nil {
		m, err := reg.Load(ctx)
		if err == nil {
			shard := m.Shard(m.Nodes[n.id].Shard)
			var c topology.Change
			if c, err = topology.Promote(m, shard.ID, n.id); err == nil {
				err = reg.Commit(ctx, c)
			}
			if err == nil { // else it may have been made: an epoch that may be somebody's is not led
				led = shard.Epoch + 1
			}
		}
		sleep.For(ctx, 20*time.Millisecond)
	}
	if led > 0 {
		_, err := store.Replication().LeadAt(led)
		if err == nil {
			store.Replication().Confirm(counter.Everywhere) // alone in sync
			err = store.AlterScript(simSchema)
		}
		if err != nil {
			n.k.t.Error(err)
			return
		}
	}
	for m := range reg.Watch(ctx) {
		shard := m.Shard(m.Nodes[n.id].Shard)
		if shard.Epoch != led {
			continue // older
		}
		st := &cluster.Standing{Map: m, Self: n.id, Shard: shard, Primary: true, Owned: shard.Groups}
		n.mu.Lock()
		n.st = st
		n.serve()
		n.mu.Unlock()
		mover.Look(st)
	}
}

// serve tells the store what clients are served. REQUIRES mu.
func (n *simNode) serve() {
	if n.st != nil {
		n.store.Groups().Own(n.st.Owned.Minus(n.held))
	}
}

func (n *simNode) Refresh()        {}
func (n *simNode) Expect(slot.Set) {}

// Store is the present process's: a call of the other node may come late, at the mover of the one before.
func (n *simNode) Store() *counter.Store {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.store
}

func (n *simNode) Withhold(groups slot.Set) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.held = groups
	n.serve()
}

// end stops all nodes, and waits until they have ended.
func (k *simCluster) end() {
	for _, n := range k.nodes {
		n.mu.Lock()
		n.down = true
		n.mu.Unlock()
		n.stop()
	}
	synctest.Wait()
}

// crash takes the power of a node, which begins anew on what is left on its disk.
func (n *simNode) crash() {
	n.mu.Lock()
	n.down = true
	disk := n.sim.Crash(uint64(n.k.dice.n(1<<30)), n.k.dice.n(101))
	stop := n.stop
	n.mu.Unlock()
	stop()
	n.sim = disk
	n.start()
}

// dial connects to the other node, by a link that fails and delays.
func (n *simNode) dial(_ context.Context, address string) (Remote, error) {
	var i int
	fmt.Sscan(address, &i)
	p := n.k.nodes[i]
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		return nil, errLink
	}
	return &simRemote{k: n.k, of: p, to: p.mover}, nil
}

var errLink = errors.New("link broken")

type simRemote struct {
	k  *simCluster
	of *simNode
	to *Mover
}

// call asks the other node; faulty links lose requests and answers.
func (r *simRemote) call(ctx context.Context, ask func() error) error {
	sleep.For(ctx, time.Duration(r.k.dice.n(int(3*time.Millisecond))))
	if r.k.faulty.Load() && r.k.dice.n(60) == 0 || r.to.ctx.Err() != nil {
		return errLink
	}
	err := ask()
	if r.k.faulty.Load() && r.k.dice.n(60) == 0 {
		sleep.For(ctx, time.Duration(r.k.dice.n(int(time.Second))))
		return errLink
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func (r *simRemote) Open(ctx context.Context, id string, epoch uint64) (from uint64, err error) {
	r.of.opens.Add(1)
	err = r.call(ctx, func() (err error) { from, err = r.to.Open(id, epoch); return })
	return from, err
}

func (r *simRemote) Producers(ctx context.Context, id string, at int) (records []byte, next int, err error) {
	err = r.call(ctx, func() (err error) { records, next, err = r.to.Producers(id, at); return })
	return records, next, err
}

func (r *simRemote) Rows(ctx context.Context, id string, at counter.ExportPlace) (records []byte, next counter.ExportPlace, done bool, err error) {
	if r.of.onRows != nil {
		r.of.onRows()
	}
	err = r.call(ctx, func() (err error) { records, next, done, err = r.to.Rows(id, at); return })
	return records, next, done, err
}

func (r *simRemote) Log(ctx context.Context, id string, from uint64) (records []byte, next, end uint64, err error) {
	err = r.call(ctx, func() (err error) { records, next, end, err = r.to.Log(id, from); return })
	return records, next, end, err
}

func (r *simRemote) Hold(ctx context.Context, id string) (end uint64, revision int64, err error) {
	err = r.call(ctx, func() (err error) { end, revision, err = r.to.Hold(id); return })
	if r.of.onHold != nil {
		r.of.onHold()
	}
	return end, revision, err
}

func (r *simRemote) Close() error { return nil }

// simClient changes posts, wherever they are, and knows what is to be there.
type simClient struct {
	k       *simCluster
	posts   map[uint64]uint64
	seq     uint64
	results map[uint64][2]uint64 // by number: post, and what was answered
	longest time.Duration        // that a change had to wait
	repeats int
}

// change adds to a post, as number seq, or without one if that is 0, at whoever serves it.
func (c *simClient) change(mid, arg, seq uint64) {
	t := c.k.t
	for began := time.Now(); ; {
		owners := 0
		for _, n := range c.k.nodes {
			n.mu.Lock()
			if !n.down && n.st != nil {
				set := n.store.Groups().Owned()
				if set.Has(slot.Group(mid)) {
					owners++
				}
			}
			n.mu.Unlock()
		}
		if owners > 1 {
			t.Fatalf("%d nodes serve group %d", owners, slot.Group(mid))
		}
		for _, n := range c.k.nodes {
			n.mu.Lock()
			served := !n.down && n.st != nil
			store := n.store
			if !served {
				n.mu.Unlock()
				continue
			}
			b := store.NewBatch()
			if err := b.Begin(); err != nil {
				t.Fatal(err)
			}
			b.Add(counter.Op{Kind: counter.OpAdd, Counter: b.Schema().Counter("a"), Mid: mid, Arg: arg})
			var o *counter.Once
			if seq > 0 {
				o, _ = b.Once(0)
				o.Producer, o.Seq, o.Hash = []byte("client"), seq, uint32(mid)
			}
			b.Run()
			b.End()
			err := b.Op(0).Err
			if err == nil {
				err = b.Commit()
			}
			n.mu.Unlock()
			if errors.Is(err, counter.ErrNotOwned) {
				continue
			}
			if err == nil && o != nil {
				err = o.Err
			}
			if err != nil {
				t.Fatalf("post %d, number %d: %v", mid, seq, err)
			}
			c.longest = max(c.longest, time.Since(began))
			if was, again := c.results[seq]; seq > 0 && again {
				if c.repeats++; !o.Repeat || o.Result.N != was[1] {
					t.Fatalf("number %d of post %d: made again: %+v, was %d", seq, mid, o.Result, was[1])
				}
				return
			}
			if c.posts[mid] += arg; b.Op(0).Value != c.posts[mid] || o != nil && o.Repeat {
				t.Fatalf("post %d: got %d, want %d", mid, b.Op(0).Value, c.posts[mid])
			}
			if seq > 0 {
				c.results[seq] = [2]uint64{mid, c.posts[mid]}
			}
			return
		}
		if time.Since(began) > 10*time.Minute {
			m, err := c.k.etcd.Map()
			for _, n := range c.k.nodes {
				n.mu.Lock()
				importing, gone := n.store.Groups().States()
				t.Logf("%s: standing %+v, held %s, importing %v, gone %s, %+v", n.id, n.st, n.held, importing, gone, n.mover.Progress())
				n.mu.Unlock()
			}
			for _, v := range m.Moves {
				t.Logf("%+v", *v)
			}
			t.Fatalf("nobody serves post %d of group %d: %v", mid, slot.Group(mid), err)
		}
		time.Sleep(3 * time.Millisecond)
	}
}

// TestMoves moves groups between two shards that are written to, while links, etcd and nodes fail: nobody but the owner
// serves a post, nothing is lost, and a numbered change that is asked for again is not made again, wherever its post is
// by then.
func TestMoves(t *testing.T) {
	t.Logf("-seed=%d", *seed)
	total := map[string]int{}
	for run := range *runs {
		if testing.Short() && run == 2 { // one without faults, one with them
			break
		}
		synctest.Test(t, func(t *testing.T) {
			d := &dice{rng: rand.New(rand.NewPCG(*seed, uint64(run)))}
			k := newSimCluster(t, d)
			c := &simClient{k: k, posts: map[uint64]uint64{}, results: map[uint64][2]uint64{}}
			for mid := range uint64(300) {
				c.change(mid*977, 1, 0)
			}
			admin := k.etcd.Open(nil)
			k.faulty.Store(run%4 != 0)
			moves := 0
			for i := range 1500 {
				if d.n(2) == 0 {
					c.change(uint64(d.n(400))*977, 1+uint64(d.n(5)), 0)
				} else {
					c.seq++
					c.change(uint64(d.n(400))*977, 1+uint64(d.n(5)), c.seq)
				}
				if c.seq > 0 && d.n(3) == 0 {
					again := c.seq - uint64(d.n(int(min(c.seq, 20))))
					c.change(c.results[again][0], 9, again)
				}
				time.Sleep(time.Duration(d.n(int(4 * time.Millisecond))))
				if m, err := k.etcd.Map(); err == nil && i%10 == 0 && len(m.Moves) < 2 {
					from := topology.ShardID(1 + d.n(2))
					var groups slot.Set
					for g := range slot.Groups {
						if d.n(4) == 0 {
							groups.Add(uint8(g))
						}
					}
					if change, err := topology.StartMove(m, fmt.Sprint("move", moves), groups.Both(m.Shard(from).Groups), from, 3-from, time.Now()); err == nil && admin.Commit(t.Context(), change) == nil {
						moves++
					}
				}
				if !k.faulty.Load() {
					continue
				}
				n := k.nodes[d.n(2)]
				switch d.n(200) {
				case 0:
					n.crash()
					total["crash"]++
				case 1:
					n.link.SetFaults(registrytest.Faults{Delay: 20 * time.Millisecond, RequestLost: 0.1, AnswerLost: 0.2, Late: 0.1, LateBy: time.Second, WatchLost: 0.1})
				case 2:
					n.link.SetFaults(registrytest.Faults{})
				case 3:
					n.link.Cut(d.n(2) == 0, true)
					go func() {
						time.Sleep(time.Duration(d.n(int(3 * time.Second))))
						n.link.Cut(false, false)
					}()
					total["cut"]++
				case 4:
					k.etcd.SetDown(true)
					go func() {
						time.Sleep(time.Duration(d.n(int(2 * time.Second))))
						k.etcd.SetDown(false)
					}()
					total["etcd down"]++
				case 5:
					m, err := k.etcd.Map()
					if err != nil {
						t.Fatal(err)
					}
					for _, v := range m.Moves {
						if change, err := topology.AbortMove(m, v.ID, "as the test likes"); err == nil && admin.Commit(t.Context(), change) == nil {
							total["aborted"]++
						}
					}
				}
			}
			k.faulty.Store(false)
			for _, n := range k.nodes {
				n.link.SetFaults(registrytest.Faults{})
			}
			for began := time.Now(); ; time.Sleep(100 * time.Millisecond) { // each move comes to its end by itself
				m, err := k.etcd.Map()
				if err != nil {
					t.Fatal(err)
				}
				if len(m.Moves) == 0 {
					break
				}
				if time.Since(began) > 10*time.Minute {
					t.Fatalf("moves do not end: %+v, %+v, %+v", *m.Moves[0], k.nodes[0].mover.Progress(), k.nodes[1].mover.Progress())
				}
			}
			for mid := range c.posts {
				c.change(mid, 1, 0)
			}
			total["moves"] += moves
			total["repeats"] += c.repeats
			if run%4 == 0 && c.longest > holdFor {
				t.Errorf("without a fault a change waited for %v", c.longest)
			}
			if err := admin.Close(); err != nil {
				t.Error(err)
			}
			time.Sleep(5 * time.Second) // what mends links later
			k.end()
		})
	}
	t.Log(total)
}
