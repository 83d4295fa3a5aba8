package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"time"

	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/testkit/programs"
)

// moveFault is a move of some groups from a shard to another, with what is done to either while it runs.
type moveFault struct {
	name     string
	networks bool
	strike   func(c *cluster, m *topology.Map, from, to *topology.Shard) (heal func())
}

var moveFaults = []moveFault{
	{name: "groups move", strike: func(*cluster, *topology.Map, *topology.Shard, *topology.Shard) func() { return func() {} }},
	{name: "groups move, kill -9 of the source's primary", strike: func(c *cluster, m *topology.Map, from, _ *topology.Shard) func() {
		return c.killed(c.primary(m, from))
	}},
	{name: "groups move, kill -9 of the destination's primary", strike: func(c *cluster, m *topology.Map, _, to *topology.Shard) func() {
		return c.killed(c.primary(m, to))
	}},
	{name: "groups move, kill -9 of both primaries", strike: func(c *cluster, m *topology.Map, from, to *topology.Shard) func() {
		return c.killed(c.primary(m, from), c.primary(m, to))
	}},
	{name: "groups move, kill -9 of all of etcd", strike: func(c *cluster, _ *topology.Map, _, _ *topology.Shard) func() {
		return c.killed(c.etcd...)
	}},
	{name: "groups move, SIGSTOP of the source's primary", strike: func(c *cluster, m *topology.Map, from, _ *topology.Shard) func() {
		p := c.primary(m, from)
		p.freeze()
		return p.thaw
	}},
	{name: "groups move, SIGSTOP of the destination's primary", strike: func(c *cluster, m *topology.Map, _, to *topology.Shard) func() {
		p := c.primary(m, to)
		p.freeze()
		return p.thaw
	}},
	{name: "groups move, the primaries are cut from each other", networks: true, strike: func(c *cluster, m *topology.Map, from, to *topology.Shard) func() {
		return c.cut([]*process{c.primary(m, from)}, []*process{c.primary(m, to)}, true, true)
	}},
	{name: "groups move, the source's primary is cut off", networks: true, strike: func(c *cluster, m *topology.Map, from, _ *topology.Shard) func() {
		p := c.primary(m, from)
		return c.cut([]*process{p}, c.others(p), true, true)
	}},
	{name: "groups move, the destination's primary is cut off", networks: true, strike: func(c *cluster, m *topology.Map, _, to *topology.Shard) func() {
		p := c.primary(m, to)
		return c.cut([]*process{p}, c.others(p), true, true)
	}},
}

// fault makes one of the kinds of faults of it, which needs two shards.
func (f moveFault) fault() clusterFault {
	return clusterFault{name: f.name, networks: f.networks, shards: 2, strike: func(c *cluster, rng *rand.Rand, m *topology.Map, shard *topology.Shard) func() {
		from, to := shard, m.Shards[0]
		if to == from {
			to = m.Shards[1]
		}
		if from.Groups.Len() < 40 {
			from, to = to, from
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		done := make(chan error, 1)
		go func() { done <- c.move(ctx, rng.Uint64(), from, to) }()
		time.Sleep(time.Duration(rng.Int64N(int64(700 * time.Millisecond))))
		heal := f.strike(c, m, from, to)
		return func() {
			defer cancel()
			heal()
			if err := <-done; err != nil {
				c.t.Error(err)
			}
		}
	}}
}

// move has counterctl move some of a shard's groups, and waits until that is done.
func (c *cluster) move(ctx context.Context, random uint64, from, to *topology.Shard) error {
	ranges := from.Groups.Ranges()
	r := ranges[random%uint64(len(ranges))]
	last := min(int(r.Last), int(r.First)+15)
	path, err := programs.Path("counterctl")
	if err != nil {
		return err
	}
	args := []string{"cluster", "move", "--etcd", c.endpoints(), "--name", c.name, "--groups", fmt.Sprintf("%d-%d", r.First, last), "--to", strconv.Itoa(int(to.ID)), "--yes", "--wait", "4m"}
	if out, err := exec.CommandContext(ctx, path, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("counterctl %v: %w\n%s", args, err, out)
	}
	return nil
}
