package simulation

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"sync"
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
	Pages         int           // posts that are changed together
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
	DiskHangs     bool
	Tiers         bool       // posts are enough for cold files
	Sentinel      bool       // of a standalone run: it decides about the roles
	MinReplicas   int        // min-replicas-to-write
	Decay         bool       // files of one node of each shard decay
	Weights       [kinds]int // how often each kind of fault is drawn
	Producers     int        // idmp-max-producers, with minIdle; 0: the defaults
	Scene         string     // the kind of scenes; empty: single faults alone
	Drift         int        // millionths by which wall clocks run fast or slow at most
	Flushes       bool       // clients send FLUSHALL
	Strangers     int        // clients that are a new producer at each increment
	MinIdle       time.Duration
	Older         int    // how many versions older nodes are; 0: all have the newest
	Released      bool   // the first primary has the directory of a released version
	Quiet         bool   // a cluster as in production: hours with few faults and few commands
	Feed          bool   // a consumer follows the feed of changes
	Cursor        bool   // a cursor follows the consumer
	Late          bool   // the consumer falls behind, and a cursor keeps the log for it
	Window        string // of column w, which counts the additions to n; empty: there is none
	Top           int    // length of the top lists; 0: there are none
	Aging         bool   // the primary drops posts of counter r by age
	Drains        bool   // a collector drains column d of counter c
	Updates       bool   // an updater changes all posts of counter u at once
	Plain         bool   // nothing follows the columns, and the log has no old values: additions take the short ways
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
	for kind := range clockSet { // more draws the later ones
		if kind == 0 || d.Chance(700) { // a run without a kind of faults goes further with the others
			c.Weights[kind] = 1 + d.N(4)
		}
	}
	if d.Chance(200) {
		c.tiers(d)
	}
	if d.Chance(200) {
		c.decay(d)
	}
	if c.Standalone && d.Chance(300) {
		c.watched(d)
	}
	c.Weights[diskHangs] = 0
	if d.Chance(150) {
		c.hangs(d)
	}
	c.Pages = d.N(4)
	return c
}

// more draws the parts that Draw does not draw, behind it, so that seeds keep their course.
func (c *Config) more(d *Dice) {
	if d.Chance(300) {
		c.clocks(d)
	}
	if c.Flushes = c.Flushes || d.Chance(200); c.Sentinel || c.Aging { // Sentinel may lose one, as any change
		c.Flushes = false
	}
	if d.Chance(100) && !c.Quiet && c.Scene == "" {
		c.evictions(d)
	}
	if d.Chance(150) && c.Scene != "decay" && c.Scene != "both-in-sync" && c.Scene != "aging" { // older nodes give less to a node that heals
		c.age(d)
	}
	c.Feed = c.Feed || d.Chance(500)
	c.Cursor = c.Feed && (d.Chance(500) || c.Cursor)
	c.Window = Pick(d, []string{longWindow, hourWindow, shortWindow, ""})
	c.Top = Pick(d, []int{0, 1, 2, 5, 20})
	c.Aging = (d.Chance(300) || c.Aging) && c.ages()
	c.Drains = d.Chance(400) && c.drains()
	if c.Plain = d.Chance(300); c.Plain {
		c.Window, c.Top = "", 0
	}
	c.Updates = d.Chance(400) && c.updates()
}

// calm makes it the configuration of a production cluster that is hardly used: the defaults of settings, a command each few seconds, and
// minutes between two faults. Timers that single seconds never reach go off: starts are renewed, snapshots age, leases live on.
func (c *Config) calm(d *Dice) {
	c.Quiet, c.Scene, c.Segment, c.Retain, c.BlockItems = true, "", 0, 256<<20, 1024
	c.NodeTimeout, c.Network.Loss, c.EtcdFaults = 6*time.Second, 0, false
	c.Clients, c.Think = 1+d.N(3), d.Between(time.Second, 20*time.Second)
	c.Lasts, c.Every = d.Between(time.Hour, 6*time.Hour), d.Between(2*time.Minute, 20*time.Minute)
	c.Nodes, c.Shards = min(c.Nodes, 3), 1
	c.MinInSync = min(c.MinInSync, c.Nodes)
}

// tiers has many posts, so that there are cold files, and moves them to files and back.
func (c *Config) tiers(d *Dice) {
	c.Tiers, c.Keys, c.BlockItems, c.Think = true, 10+d.N(30), 16, min(c.Think, 50*time.Millisecond)
	c.Weights[tierChanged], c.Weights[snapshotMade] = 10+d.N(20), 3
}

// decay has files decay.
func (c *Config) decay(d *Dice) { c.Decay, c.Weights[decayed] = true, 5+d.N(25) }

// watched has Sentinel decide about the roles, where no node decays: Sentinel cannot name a primary to a node that does not start.
func (c *Config) watched(d *Dice) {
	c.Sentinel, c.Decay, c.Sync, c.MinReplicas = true, false, "always", d.N(2)
	c.Nodes = max(c.Nodes, 3)
	c.NodeTimeout = Pick(d, []time.Duration{2 * time.Second, 3 * time.Second, 5 * time.Second})
}

// hangs has disks hang, where the clock goes on meanwhile.
func (c *Config) hangs(d *Dice) { c.DiskHangs, c.Weights[diskHangs] = true, 3+d.N(10) }

func (c *Config) String() string {
	return fmt.Sprintf("standalone %t, %d nodes in %d shards, %d clients on %d keys and %d pages, appendfsync %s, node timeout %s, aof-retain %d, blocks of %d items, segments of %d, links %+v, etcd faults %t, sentinel %t, decay %t, hangs %t, tiers %t, clocks %d, flushes %t, strangers %d, older %d, released %t, %s with a fault each %s, scenes %q, quiet %t, feed %t, cursor %t, late %t, window %q, top %d, aging %t, drains %t, updates %t, plain %t",
		c.Standalone, c.Nodes, c.Shards, c.Clients, c.Keys, c.Pages, c.Sync, c.NodeTimeout, c.Retain, c.BlockItems, c.Segment, c.Network, c.EtcdFaults, c.Sentinel, c.Decay, c.DiskHangs, c.Tiers, c.Drift, c.Flushes, c.Strangers, c.Older, c.Released, c.Lasts, c.Every, c.Scene, c.Quiet, c.Feed, c.Cursor, c.Late, c.Window, c.Top, c.Aging, c.Drains, c.Updates, c.Plain)
}

// server is the configuration of a node.
func (c *Config) server(host string) config.Config {
	conf := config.Default()
	conf.Bind, conf.Port, conf.Dir, conf.ProtectedMode = []string{host}, 7000, "data", false
	conf.AppendFsync, conf.AOFRetain, conf.AOFCompress, conf.AOFRewriteMin = c.Sync, c.Retain, c.Compress, 1<<20
	if c.Producers > 0 {
		conf.IdmpMaxProducers, conf.IdmpMinIdle = c.Producers, int(cmp.Or(c.MinIdle, minIdle).Seconds())
	}
	if c.Standalone {
		conf.MinReplicas = c.MinReplicas
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

// Dice is a source of random numbers for several goroutines. Each part of a run has dice of its own, which depend on the seed
// and on the part's name alone: what one part draws does not change what another draws.
type Dice struct {
	mu  sync.Mutex
	rng *rand.Rand
}

// NewDice returns the dice of a part of the run of a seed.
func NewDice(seed uint64, part string) *Dice {
	h := uint64(14695981039346656037)
	for i := range len(part) {
		h = (h ^ uint64(part[i])) * 1099511628211
	}
	return &Dice{rng: rand.New(rand.NewPCG(seed, h))}
}

// N returns a number below n, which is positive.
func (d *Dice) N(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.IntN(n)
}

// Bits returns 64 random bits.
func (d *Dice) Bits() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.Uint64()
}

// Chance is true in so many of a thousand cases.
func (d *Dice) Chance(perMille int) bool { return d.N(1000) < perMille }

// Between returns a time from least up to most.
func (d *Dice) Between(least, most time.Duration) time.Duration {
	if most <= least {
		return least
	}
	return least + time.Duration(d.N(int(most-least)))
}

// Pick returns one element.
func Pick[T any](d *Dice, list []T) T { return list[d.N(len(list))] }

// Shuffle returns the numbers below n in random order.
func (d *Dice) Shuffle(n int) []int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.Perm(n)
}
