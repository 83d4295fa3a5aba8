package cluster

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/cmd/internal/topology"
)

// clusterFault is a way to hurt a shard of a cluster, or etcd.
type clusterFault struct {
	name     string
	networks bool // it drops what passes between namespaces
	disks    bool // it fills a node's disk
	shards   int  // it needs so many
	leads    bool // another node has to lead for changes to be taken again
	// strike does it, and returns what takes it back. Neither ends the test.
	strike func(c *cluster, rng *rand.Rand, m *topology.Map, shard *topology.Shard) (heal func())
}

// clusterFaults are all of them. Clients reach every node all the time, also one that is cut off from all others: as if
// they were on its side.
var clusterFaults = []clusterFault{
	{name: "kill -9 of a primary", leads: true, strike: func(c *cluster, _ *rand.Rand, m *topology.Map, s *topology.Shard) func() {
		return c.killed(c.primary(m, s))
	}},
	{name: "SIGSTOP of a primary", leads: true, strike: func(c *cluster, _ *rand.Rand, m *topology.Map, s *topology.Shard) func() {
		p := c.primary(m, s)
		p.freeze()
		return p.thaw
	}},
	{name: "kill -9 of a replica", strike: func(c *cluster, rng *rand.Rand, m *topology.Map, s *topology.Shard) func() {
		return c.killed(one(rng, c.replicas(m, s)))
	}},
	{name: "primary cut off", networks: true, leads: true, strike: func(c *cluster, _ *rand.Rand, m *topology.Map, s *topology.Shard) func() {
		p := c.primary(m, s)
		return c.cut([]*process{p}, c.others(p), true, true)
	}},
	{name: "SIGSTOP of a replica", strike: func(c *cluster, rng *rand.Rand, m *topology.Map, s *topology.Shard) func() {
		p := one(rng, c.replicas(m, s))
		p.freeze()
		return p.thaw
	}},
	{name: "primary cut from its replicas", networks: true, strike: func(c *cluster, _ *rand.Rand, m *topology.Map, s *topology.Shard) func() {
		return c.cut([]*process{c.primary(m, s)}, c.replicas(m, s), true, true)
	}},
	{name: "primary cut from etcd", networks: true, leads: true, strike: func(c *cluster, _ *rand.Rand, m *topology.Map, s *topology.Shard) func() {
		return c.cut([]*process{c.primary(m, s)}, c.etcd, true, true)
	}},
	{name: "nobody hears the primary", networks: true, leads: true, strike: func(c *cluster, _ *rand.Rand, m *topology.Map, s *topology.Shard) func() {
		p := c.primary(m, s)
		return c.cut([]*process{p}, c.others(p), true, false)
	}},
	{name: "the primary hears nobody", networks: true, leads: true, strike: func(c *cluster, _ *rand.Rand, m *topology.Map, s *topology.Shard) func() {
		p := c.primary(m, s)
		return c.cut([]*process{p}, c.others(p), false, true)
	}},
	{name: "nobody hears a replica", networks: true, strike: func(c *cluster, rng *rand.Rand, m *topology.Map, s *topology.Shard) func() {
		p := one(rng, c.replicas(m, s))
		return c.cut([]*process{p}, c.others(p), true, false)
	}},
	{name: "a replica hears nobody", networks: true, strike: func(c *cluster, rng *rand.Rand, m *topology.Map, s *topology.Shard) func() {
		p := one(rng, c.replicas(m, s))
		return c.cut([]*process{p}, c.others(p), false, true)
	}},
	{name: "replicas do not hear the primary, etcd does", networks: true, strike: func(c *cluster, _ *rand.Rand, m *topology.Map, s *topology.Shard) func() {
		return c.cut([]*process{c.primary(m, s)}, c.replicas(m, s), true, false)
	}},
	{name: "kill -9 of a member of etcd", strike: func(c *cluster, rng *rand.Rand, _ *topology.Map, _ *topology.Shard) func() {
		return c.killed(one(rng, c.etcd))
	}},
	{name: "kill -9 of all of etcd", strike: func(c *cluster, _ *rand.Rand, _ *topology.Map, _ *topology.Shard) func() {
		return c.killed(c.etcd...)
	}},
	{name: "SIGSTOP of all of etcd", strike: func(c *cluster, _ *rand.Rand, _ *topology.Map, _ *topology.Shard) func() {
		for _, m := range c.etcd {
			m.freeze()
		}
		return func() {
			for _, m := range c.etcd {
				m.thaw()
			}
		}
	}},
	{name: "kill -9 of a primary and of all of etcd", strike: func(c *cluster, _ *rand.Rand, m *topology.Map, s *topology.Shard) func() {
		back := c.killed(c.etcd...)
		return after(c.killed(c.primary(m, s)), back)
	}},
	{name: "kill -9 of all nodes of a shard", strike: func(c *cluster, _ *rand.Rand, m *topology.Map, s *topology.Shard) func() {
		return c.killed(append(c.replicas(m, s), c.primary(m, s))...)
	}},
	{name: "SIGSTOP of a primary, kill -9 of the next", strike: func(c *cluster, _ *rand.Rand, m *topology.Map, s *topology.Shard) func() {
		p := c.primary(m, s)
		p.freeze()
		var back func()
		for deadline := time.Now().Add(3*c.timeout + 20*time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			if now, err := c.load(); err == nil && now.Shard(s.ID).Epoch > s.Epoch {
				back = c.killed(c.primary(now, now.Shard(s.ID)))
				break
			}
		}
		return func() {
			p.thaw()
			if back != nil {
				back()
			}
		}
	}},
	{name: "a replica's disk is full", disks: true, strike: func(c *cluster, rng *rand.Rand, m *topology.Map, s *topology.Shard) func() {
		return c.fillDisk(one(rng, c.replicas(m, s)))
	}},
	{name: "a primary's disk is full", disks: true, strike: func(c *cluster, _ *rand.Rand, m *topology.Map, s *topology.Shard) func() {
		return c.fillDisk(c.primary(m, s))
	}},
	{name: "primary cut off and back, again and again", networks: true, strike: func(c *cluster, rng *rand.Rand, m *topology.Map, s *topology.Shard) func() {
		p := c.primary(m, s)
		for deadline := time.Now().Add(4 * c.timeout); time.Now().Before(deadline); {
			heal := c.cut([]*process{p}, c.others(p), true, true)
			time.Sleep(time.Duration(rng.Int64N(int64(2 * c.timeout))))
			heal()
			time.Sleep(time.Duration(rng.Int64N(int64(c.timeout))))
		}
		return func() {}
	}},
	{name: "kill -9 of every primary, one after the other", strike: func(c *cluster, rng *rand.Rand, _ *topology.Map, s *topology.Shard) func() {
		for range 6 {
			if m, err := c.load(); err == nil && m.Shard(s.ID).Primary != "" {
				back := c.killed(c.primary(m, m.Shard(s.ID)))
				time.Sleep(time.Duration(rng.Int64N(int64(500 * time.Millisecond))))
				back()
			}
			time.Sleep(time.Duration(rng.Int64N(int64(500 * time.Millisecond))))
		}
		return func() {}
	}},
	{name: "SIGSTOP of a primary and of a member of etcd", leads: true, strike: func(c *cluster, rng *rand.Rand, m *topology.Map, s *topology.Shard) func() {
		p, e := c.primary(m, s), one(rng, c.etcd)
		e.freeze()
		p.freeze()
		return after(e.thaw, p.thaw)
	}},
	{name: "CLUSTER FAILOVER", strike: func(c *cluster, rng *rand.Rand, m *topology.Map, s *topology.Shard) func() {
		p := one(rng, c.replicas(m, s))
		if reply := harness.Ask(p.Addr, "CLUSTER", "FAILOVER"); reply != "+OK\r\n" {
			c.t.Errorf("CLUSTER FAILOVER of %s answered %q", p.Addr, reply)
		}
		return func() {}
	}},
}

func one[T any](rng *rand.Rand, list []T) T { return list[rng.IntN(len(list))] }

// after is the second behind the first.
func after(second, first func()) func() {
	return func() {
		first()
		second()
	}
}

// others are all processes but one.
func (c *cluster) others(p *process) (list []*process) {
	for _, o := range append(append(list, c.nodes...), c.etcd...) {
		if o != p {
			list = append(list, o)
		}
	}
	return list
}

// killed ends processes, all before the first is waited for, and returns what starts them again.
func (c *cluster) killed(list ...*process) func() {
	for _, p := range list {
		_ = p.Cmd.Process.Kill()
	}
	for _, p := range list {
		p.Kill()
		p.CheckLog()
	}
	return func() {
		for _, p := range list {
			if err := p.start(); err != nil {
				c.t.Error(err)
			}
		}
	}
}

// cut drops what passes from the ones to the others, or back, or both.
func (c *cluster) cut(ones, others []*process, there, back bool) func() {
	each := func(do func(from, to *place)) {
		for _, p := range ones {
			for _, q := range others {
				if there {
					do(&p.place, &q.place)
				}
				if back {
					do(&q.place, &p.place)
				}
			}
		}
	}
	each(func(from, to *place) { from.drop(to) })
	return func() { each(func(from, to *place) { from.pass(to) }) }
}

// fillDisk takes all room on a node's small disk.
func (c *cluster) fillDisk(p *process) func() {
	path := filepath.Join(p.dir, "ballast")
	f, err := os.Create(path)
	if err != nil {
		c.t.Error(err)
		return func() {}
	}
	defer f.Close()
	piece := make([]byte, 64<<10)
	for len(piece) > 0 {
		if _, err := f.Write(piece); err != nil {
			piece = piece[:len(piece)/2]
		}
	}
	return func() { _ = os.Remove(path) }
}

// probe increments new posts of a shard until one is acknowledged, and returns how long that took since a moment before
// its call; false when stop is closed before. It asks one node of the shard after the other, as quickly as they
// answer, so that it measures servers and not a client's patience.
func (c *cluster) probe(m *topology.Map, shard *topology.Shard, next func() uint64, began time.Time, stop <-chan struct{}) (took time.Duration, ok bool) {
	found := make(chan time.Duration, 16)
	ended := make(chan struct{})
	defer close(ended)
	for _, n := range m.Members(shard.ID) {
		p := c.node(m, n.ID)
		go func() {
			conns := clusterConn{seeds: []string{p.Addr}, timeout: 500 * time.Millisecond, rng: rand.New(rand.NewPCG(1, 1))}
			defer conns.hangUp()
			for {
				mid := next()
				v, o := conns.once(p.Addr, "INCR", nKey(mid))
				if o == outMade && strings.HasPrefix(v.Raw, ":") {
					select {
					case found <- time.Since(began):
					default:
					}
					return
				}
				select {
				case <-ended:
					return
				case <-stop:
					return
				case <-time.After(5 * time.Millisecond):
				}
			}
		}()
	}
	select {
	case took = <-found:
		return took, true
	case <-stop:
		return 0, false
	}
}
