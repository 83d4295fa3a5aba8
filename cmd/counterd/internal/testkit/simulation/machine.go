package simulation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/nodes/role"
	"github.com/counterd/counterd/cmd/counterd/internal/server"
	"github.com/counterd/counterd/cmd/internal/registry"
	"github.com/counterd/counterd/cmd/internal/testkit/registrytest"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/testkit/setclock"
	"github.com/counterd/counterd/persist/vfs"
)

// Machine is a host with a disk, on which one server process runs at a time. The process is a whole server: nothing of it is a
// replacement but what it reaches by role.Machine, and etcd.
//
// A killed process goes on to run as a ghost until its goroutines end: its network is gone, its disk refuses all calls, and what
// it says to etcd is lost. The next process works on a fork of the disk.
type Machine struct {
	run  *Run
	host string
	name string

	mu      sync.Mutex
	clock   *clock
	version atomic.Int32 // of its program: upgrade.go
	disk    *vfs.Sim
	faulty  *vfs.Faulty
	boots   int
	proc    *process        // nil: none runs
	id      topology.NodeID // of the node in the cluster, as far as it has run
	refused error           // why the last start failed; nil: it did not
}

// process is one life of a server.
type process struct {
	m      *Machine
	stack  *Stack
	disk   *vfs.Sim
	faulty *vfs.Faulty
	etcd   *registrytest.Link
	boot   string
	log    *slog.Logger
	begun  chan struct{} // closed when start has returned

	mu    sync.Mutex
	srv   *server.Server // nil: not made yet
	ready bool
}

// newMachine is switched off, with an empty disk.
func newMachine(r *Run, i int) *Machine {
	return &Machine{run: r, host: fmt.Sprintf("10.0.0.%d", i+1), name: fmt.Sprintf("n%d", i+1), disk: vfs.NewSim(),
		clock: newClock(NewDice(r.Seed, fmt.Sprint("clock ", i)).N(2*r.Config.Drift+1) - r.Config.Drift)}
}

// On starts a process, unless one runs.
func (m *Machine) On() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.proc != nil {
		return
	}
	m.faulty = vfs.NewFaulty(m.disk)
	p := &process{m: m, stack: m.run.Net.Boot(m.host, int(m.version.Load())), disk: m.disk, faulty: m.faulty, etcd: registrytest.NewLink(m.run.dice.Bits()),
		boot: fmt.Sprint(m.boots), log: slog.New(&storyHandler{story: m.run.Story, who: m.name}), begun: make(chan struct{})}
	p.etcd.SetFaults(m.run.etcdFaults)
	m.proc = p
	m.run.Story.Say(m.name, "starts")
	m.run.lives.Add(1)
	go p.live()
}

// live starts the server. If it does not start, another one is tried, as a service manager does.
func (p *process) live() {
	err := p.start()
	close(p.begun)
	if err == nil {
		return
	}
	p.m.mu.Lock()
	ours := p.m.proc == p
	if ours {
		p.m.refused = err
	}
	p.m.mu.Unlock()
	if !ours {
		return // it was killed meanwhile
	}
	p.m.run.Story.Say(p.m.name, "does not start: %v", err)
	p.m.restart(p, time.Second)
}

// restart ends a process by its own will, and starts another one.
func (m *Machine) restart(p *process, after time.Duration) {
	if !m.end(p, func(old *vfs.Sim) *vfs.Sim { return old.Kill() }, (*Stack).Kill) {
		return
	}
	time.AfterFunc(after, func() {
		if !m.run.ended() {
			m.On()
		}
	})
}

func (p *process) start() error {
	c := p.m.run.Config
	conf := c.server(p.m.host)
	srv, err := server.NewOn(role.Machine{Listen: p.stack.Listen, Connect: p.stack.Connect, FS: p.faulty, BootID: p.boot, Crowded: true}, conf, p.log, new(slog.LevelVar))
	if err != nil {
		return err
	}
	srv.Open = func() (*counter.Store, error) { return p.open() }
	srv.Terminate = func() {
		p.m.run.Story.Say(p.m.name, "ends by itself")
		p.m.restart(p, time.Second)
	}
	p.mu.Lock()
	p.srv = srv
	p.mu.Unlock()
	if err := srv.Listen(); err != nil {
		return err
	}
	var reg registry.Registry
	closeAll := func(err error) error { return err }
	if conf.Cluster.Enabled {
		reg = p.m.run.Etcd.Open(p.etcd)
		closeAll = func(err error) error { return errors.Join(err, reg.Close()) }
		srv.Cluster().UseRegistry(reg)
	}
	store, err := srv.OpenStore()
	if err != nil {
		return closeAll(err)
	}
	if conf.Cluster.Enabled {
		if err := srv.Cluster().Join(store); err != nil {
			return errors.Join(closeAll(err), store.Close())
		}
	}
	srv.Serve(store)
	p.mu.Lock()
	p.ready = true
	p.mu.Unlock()
	p.m.mu.Lock()
	if conf.Cluster.Enabled {
		p.m.id = srv.Cluster().Now().Self
	}
	p.m.refused = nil
	p.m.mu.Unlock()
	return nil
}

func (p *process) open() (*counter.Store, error) {
	conf := p.m.run.Config.server(p.m.host)
	o, err := conf.StoreOptions()
	if err != nil {
		return nil, err
	}
	p.m.run.Config.store(&o)
	o.Now = p.m.clock.Now
	o.Listing = listing(p.m)
	o.FS, o.BootID, o.Logger, o.HashSeed = p.faulty, p.boot, p.log, 7
	return counter.Open(conf.Dir, o)
}

// Kill ends the process as kill -9 does. Another one is started later by On.
func (m *Machine) Kill() {
	m.end(nil, func(old *vfs.Sim) *vfs.Sim { return old.Kill() }, (*Stack).Kill)
}

// PowerOff takes the machine's power. Of what was not synced, each part survives with a chance of keep percent.
func (m *Machine) PowerOff(seed uint64, keep int) {
	m.end(nil, func(old *vfs.Sim) *vfs.Sim { return old.Crash(seed, keep) }, (*Stack).PowerOff)
	m.mu.Lock()
	m.boots++
	m.mu.Unlock()
}

// Image is a copy of the disk of now, as a snapshot of the machine's volume is.
func (m *Machine) Image() *vfs.Sim {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.disk.Kill()
}

// SwapDisk ends the process and gives the machine another disk.
func (m *Machine) SwapDisk(disk *vfs.Sim) {
	m.Kill()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.proc == nil {
		m.disk = disk
	}
}

// end ends the process that runs, if it is p or p is nil: its disk stops, and a fork of it is left for the next one.
func (m *Machine) end(p *process, fork func(old *vfs.Sim) *vfs.Sim, network func(*Stack)) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.proc == nil || p != nil && m.proc != p {
		return false
	}
	p = m.proc
	m.proc = nil
	for n := p.disk.Ops(); ; n = p.disk.Ops() {
		if p.disk.CrashAt(n); p.disk.Ops() == n || p.disk.Crashed() {
			break
		}
	}
	m.disk = fork(p.disk)
	p.faulty.Clear()
	p.etcd.Cut(true, true)
	network(p.stack)
	go p.bury()
	return true
}

// bury waits until the goroutines of a killed process have ended.
func (p *process) bury() {
	defer p.m.run.lives.Done()
	for begun := false; !begun; {
		if srv := p.server(); srv != nil {
			srv.EndOpening() // it may wait for etcd, which it will not hear of again
		}
		select {
		case <-p.begun:
			begun = true
		case <-time.After(10 * time.Millisecond):
		}
	}
	srv := p.server()
	if srv == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_ = srv.Shutdown(ctx)
	_ = srv.Store().Close()
	p.descriptors()
}

// Stop ends the process as SIGTERM does, and waits for it.
func (m *Machine) Stop() {
	m.mu.Lock()
	p := m.proc
	m.mu.Unlock()
	if p == nil || !p.running() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := p.srv.Shutdown(ctx)
	err = errors.Join(err, p.srv.Store().Close())
	m.run.Story.Say(m.name, "has ended: %v", err)
	m.end(p, func(old *vfs.Sim) *vfs.Sim { return old.Kill() }, (*Stack).Kill)
	if m.run.healing.Load() {
		m.On()
	}
}

func (p *process) server() *server.Server {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.srv
}

func (p *process) running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready
}

// server is the one that runs and serves; nil: none does.
func (m *Machine) server() *server.Server {
	m.mu.Lock()
	p := m.proc
	m.mu.Unlock()
	if p == nil || !p.running() {
		return nil
	}
	return p.srv
}

// etcdLink is the link to etcd of the process that runs; nil: none does.
func (m *Machine) etcdLink() *registrytest.Link {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.proc == nil {
		return nil
	}
	return m.proc.etcd
}

// Disk is the file system that the process of now works on, as its faults are injected; nil: none runs.
func (m *Machine) Disk() *vfs.Faulty {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.proc == nil {
		return nil
	}
	return m.faulty
}

// clock is the wall clock of a machine. It runs fast or slow and is set, ahead and back; its monotonic reading goes on as the
// simulated time does, and begins anew at no boot. Servers use it for times of the log and of snapshots, and for how
// long producers are idle.
type clock struct {
	began time.Time
	fast  int64        // millionths by which it runs fast
	ahead atomic.Int64 // nanoseconds by which it was set
}

func newClock(fast int) *clock { return &clock{began: time.Now(), fast: int64(fast)} }

// Now is time.Now of the machine.
func (c *clock) Now() time.Time {
	since := time.Since(c.began)
	wall := c.began.Add(since + since/1_000_000*time.Duration(c.fast) + time.Duration(c.ahead.Load()))
	return setclock.Reading(wall, time.Second+since)
}

// set sets the clock by some time.
func (c *clock) set(by time.Duration) { c.ahead.Add(int64(by)) }

// clocks gives the machines clocks that drift and are set.
func (c *Config) clocks(d *Dice) {
	c.Drift = Pick(d, []int{0, 100, 20_000})
	c.Weights[clockSet] = 1 + d.N(6)
}

// farAhead is how far a clock is ahead at most: less than longWindow, which all additions would leave otherwise.
const farAhead = 310 * 24 * time.Hour

// setClock sets a machine's clock ahead or back: by a correction, by a time zone, or by an empty battery.
func (n *nemesis) setClock(d *Dice, m *Machine) {
	by := Pick(d, []time.Duration{time.Second, 70 * time.Second, time.Hour, 25 * time.Hour, 300 * 24 * time.Hour})
	if d.Chance(500) || time.Duration(m.clock.ahead.Load())+by > farAhead {
		by = -by
	}
	n.say("the clock of %s is set by %s", m.name, by)
	n.run.Story.meet("simulation: a clock was set")
	m.clock.set(by)
}

// shardOf is the shard that a node is of now. ok is false if it is of none.
func shardOf(r *Run, srv *server.Server) (id topology.ShardID, ok bool) {
	if r.Config.Standalone {
		return 1, true
	}
	st := srv.Cluster().Now()
	if st.Shard == nil {
		return 0, false
	}
	return st.Shard.ID, true
}

// same tells which nodes of a shard hold different posts.
func (r *Run) same() string {
	names := []string{"c", "p"}
	if r.Config.Released {
		names = append(names, releasedCounter)
	}
	if r.Config.Aging {
		names = append(names, "r")
	}
	for _, name := range names {
		if text := r.sameOf(name); text != "" {
			return text
		}
	}
	return ""
}

func (r *Run) sameOf(name string) string {
	return sameInShards(r, func(srv *server.Server) (d counter.Digest, wrong string) {
		digests, err := srv.Store().Admin().Digests(name, 0, 1<<40, 1)
		if err != nil {
			return d, err.Error()
		}
		if d = digests[0]; name == releasedCounter && !r.Config.Flushes && d != r.inheritance {
			wrong = fmt.Sprintf("%s of the posts of the release, want %s", d, r.inheritance)
		}
		return d, wrong
	})
}

// sameInShards asks all nodes that have a shard, and tells which of them does not run, has something wrong, or has something else than another
// node of its shard.
func sameInShards[T any](r *Run, ask func(srv *server.Server) (has T, wrong string)) string {
	first := make(map[topology.ShardID]T)
	for _, m := range r.Machines {
		srv := m.server()
		if srv == nil {
			return m.name + " does not run"
		}
		shard, ok := shardOf(r, srv)
		if !ok {
			continue
		}
		has, wrong := ask(srv)
		if wrong != "" {
			return m.name + ": " + wrong
		}
		if other, ok := first[shard]; ok && !reflect.DeepEqual(other, has) {
			return fmt.Sprintf("%s has %v, another node of its shard %v", m.name, has, other)
		}
		first[shard] = has
	}
	return ""
}
