package simulation

import (
	"fmt"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/config"
	"github.com/counterd/counterd/counter"
)

// Config is how a run is made up. Draw draws one.
type Config struct {
	Standalone    bool // a primary and replicas without etcd, whose role FAILOVER hands over
	Nodes, Shards int
	MinInSync     int
	Clients       int
	Keys          int
	Think         time.Duration // between two commands of a client, on average
	Patience      time.Duration // of a client, for an answer
	Lasts         time.Duration // of the part with faults
	Every         time.Duration // between two faults, on average
	Sync          string        // appendfsync
	NodeTimeout   time.Duration
	Retain        uint64 // aof-retain
	Compress      bool
	BlockItems    int
	Segment       int64 // size of the log's segments; 0: the default
	Network       Link
	EtcdFaults    bool
	Forward       bool // some clients know of no cluster
	DiskFaults    bool
	Weights       [kinds]int // how often each kind of fault is drawn
}

// Draw draws a configuration.
func Draw(d *Dice) Config {
	c := Config{Nodes: 3, Shards: 1, Clients: 2 + d.N(4), Keys: 1 + d.N(6), Think: d.Between(5*time.Millisecond, 200*time.Millisecond),
		Patience: d.Between(2*time.Second, 12*time.Second), Lasts: d.Between(20*time.Second, 90*time.Second),
		Every: d.Between(500*time.Millisecond, 6*time.Second), Sync: Pick(d, []string{"always", "everysec"}),
		NodeTimeout: Pick(d, []time.Duration{2 * time.Second, 3 * time.Second, 6 * time.Second}),
		Retain:      Pick(d, []uint64{0, 0, 1, 1 << 12, 1 << 20}), Compress: d.Chance(500), BlockItems: Pick(d, []int{16, 64, 1024}), Segment: Pick(d, []int64{0, 512, 1 << 10, 1 << 12, 1 << 14}),
		Network: Link{Delay: d.Between(0, 5*time.Millisecond), Jitter: d.Between(0, 10*time.Millisecond), Loss: Pick(d, []int{0, 0, 5, 50})}, EtcdFaults: d.Chance(300)}
	switch d.N(8) {
	case 0, 1:
		c.Nodes = 5
	case 2, 3:
		c.Nodes, c.Shards = 4, 2
	case 4:
		c.Nodes, c.Shards = 6, 2
	case 5:
		c.Nodes, c.Shards = 9, 3
	}
	if d.Chance(300) {
		c.Standalone, c.Nodes, c.Shards = true, 2+d.N(3), 1
	}
	if c.MinInSync = 2; c.Nodes/c.Shards == 2 && d.Chance(300) {
		c.MinInSync = 1
	}
	if d.Chance(200) {
		c.Keys = 30 + d.N(100)
	}
	c.Forward, c.DiskFaults = d.Chance(400), d.Chance(300)
	for kind := range c.Weights {
		if kind == 0 || d.Chance(700) { // a run without a kind of faults goes further with the others
			c.Weights[kind] = 1 + d.N(4)
		}
	}
	return c
}

func (c *Config) String() string {
	return fmt.Sprintf("standalone %t, %d nodes in %d shards, %d clients on %d keys, appendfsync %s, node timeout %s, aof-retain %d, blocks of %d items, segments of %d, links %+v, etcd faults %t, %s with a fault each %s",
		c.Standalone, c.Nodes, c.Shards, c.Clients, c.Keys, c.Sync, c.NodeTimeout, c.Retain, c.BlockItems, c.Segment, c.Network, c.EtcdFaults, c.Lasts, c.Every)
}

// server is the configuration of a node.
func (c *Config) server(host string) config.Config {
	conf := config.Default()
	conf.Bind, conf.Port, conf.Dir, conf.ProtectedMode = []string{host}, 7000, "data", false
	conf.AppendFsync, conf.AOFRetain, conf.AOFCompress, conf.AOFRewriteMin = c.Sync, c.Retain, c.Compress, 1<<20
	if c.Standalone {
		conf.AnnounceIP = host // by this a node knows that it is meant: the system does not know the address
		return conf
	}
	conf.Cluster.Enabled, conf.Cluster.Name, conf.Cluster.Etcd = true, "simulated", []string{"http://127.0.0.1:1"}
	conf.Cluster.ForwardPort = 7001
	conf.Cluster.NodeTimeout = int(c.NodeTimeout.Milliseconds())
	return conf
}

// store changes the options of a node's store to what no setting reaches.
func (c *Config) store(o *counter.Options) { o.BlockItems, o.SegmentBytes = c.BlockItems, c.Segment }
