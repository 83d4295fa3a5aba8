package plan

import (
	"errors"
	"fmt"
	"time"

	"github.com/counterd/counterd/internal/slot"
)

// Plan is what is asked and what is assumed. Default has a value for each; rates are a second, sizes bytes.
type Plan struct {
	Nodes  int // processes, each with one copy of one shard, or free
	Copies int // of each shard, the primary's counted
	Racks  int
	Seed   uint64

	Posts      float64
	Hot        float64 // part of the posts that is in memory: 3e8 new ones a day, 93 % of increments within a week, so 33 days
	Increments float64
	Pages      float64 // reads of 20 posts

	// What counterd takes: docs/internals/performance.md and docs/concepts/memory-and-disk.md.
	HotBytes    float64 // a post in memory
	ColdBytes   float64 // a post in a cold file
	LogBytes    float64 // of log an increment, one client's commands one by one and others between
	IncrCPU     float64 // seconds of a processor: INCR, 50 connections 1 deep
	PageCPU     float64 // 20 posts, 1 deep
	ApplyCPU    float64 // a replica's for one increment
	QuorumCPU   float64 // part that acknowledgements of the in-sync set add to IncrCPU
	Overlays    float64 // overlays, cached pages and buffers as a part of what hot posts take
	ProcessRAM  float64 // of a node without posts, 10,000 connections included
	RetainBytes float64 // of log each node keeps beside what its snapshots need

	// What Redis takes: docs/concepts/memory-and-disk.md; its range is that of its data models.
	RedisBytesLow, RedisBytesHigh float64 // a post in memory: packed string, three strings
	RedisDiskLow, RedisDiskHigh   float64 // a post in an RDB: bucket trick or packed, strings
	RedisIncrCPU                  float64
	RedisFork                     float64 // what a snapshot under load copies, as a part of the data: 1.07 of 1.62 GB
	RedisLogBytes                 float64 // of AOF an increment

	// A machine.
	Cores, RAM, Disk float64 // RAM and disk that may be used are 0.8 of it
	DiskRate         float64 // sequential, of reads and of writes
	NetRate          float64 // each way
	CopyShare        float64 // of disk and network that copies may take
	Busy             float64 // how busy processors may be
	Price            float64 // USD an hour

	// The control plane.
	NodeTimeout  time.Duration // lease: kept alive each third of it
	SlowLimit    time.Duration // after which a member that does not acknowledge is taken out of the in-sync set
	RankDelay    time.Duration // by which a second candidate waits for the first
	FigureEvery  time.Duration // how often Live is written for its figures at least, and with FigureNode x nodes at most
	FigureNode   time.Duration
	EtcdCommit   time.Duration // of a transaction, two disks and a network away
	EtcdRate     float64       // transactions that it takes
	EtcdElection time.Duration
	EtcdRevoke   time.Duration // how often etcd looks for leases that have ended
}

// Default is a cluster for a region of a social network.
func Default() Plan {
	return Plan{
		Nodes: 1000, Copies: 3, Racks: 20, Seed: 1,
		Posts: 1e11, Hot: 0.1, Increments: 1e7, Pages: 1e6,
		HotBytes: 5.5, ColdBytes: 2.1, LogBytes: 30, IncrCPU: 5e-6, PageCPU: 12e-6, ApplyCPU: 0.5e-6, QuorumCPU: 0.25, Overlays: 0.1,
		ProcessRAM: 40 << 20, RetainBytes: 256 << 20,
		RedisBytesLow: 80, RedisBytesHigh: 240, RedisDiskLow: 17, RedisDiskHigh: 64, RedisIncrCPU: 4.6e-6, RedisFork: 0.66, RedisLogBytes: 39,
		Cores: 16, RAM: 128 << 30, Disk: 950e9, DiskRate: 1e9, NetRate: 10e9 / 8, CopyShare: 0.5, Busy: 0.4, Price: 1.21,
		NodeTimeout: 6 * time.Second, SlowLimit: 2 * time.Second, RankDelay: 500 * time.Millisecond,
		FigureEvery: 5 * time.Second, FigureNode: 100 * time.Millisecond,
		EtcdCommit: 5 * time.Millisecond, EtcdRate: 10_000, EtcdElection: time.Second, EtcdRevoke: 500 * time.Millisecond,
	}
}

// usable is the part of a machine's memory and disk that is planned with.
const usable = 0.8

// Shards is how many there are: as many as nodes allow, and groups.
func (p *Plan) Shards() int { return min(p.Nodes/p.Copies, slot.Groups) }

// Validate names everything that is wrong.
func (p *Plan) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(p.Copies >= 1 && p.Copies <= 10, "got %d copies, want 1 to 10", p.Copies)
	check(p.Nodes >= p.Copies && p.Nodes <= 100_000, "got %d nodes, want as many as copies at least, and 100,000 at most", p.Nodes)
	check(p.Racks >= p.Copies && p.Racks <= 10_000, "got %d racks, want as many as copies at least, so that a rack holds one of a shard, and 10,000 at most", p.Racks)
	check(p.Hot >= 0 && p.Hot <= 1, "got %g of the posts in memory, want 0 to 1", p.Hot)
	for _, v := range []struct {
		name  string
		value float64
	}{{"posts", p.Posts}, {"increments", p.Increments}, {"cores", p.Cores}, {"memory", p.RAM}, {"disk", p.Disk}, {"disk's rate", p.DiskRate},
		{"network's rate", p.NetRate}, {"part for copies", p.CopyShare}, {"part of processors", p.Busy}, {"price", p.Price}, {"etcd's rate", p.EtcdRate}} {
		check(v.value > 0 && v.value < 1e18, "%s: got %g, want more than 0", v.name, v.value)
	}
	check(p.Pages >= 0 && p.Pages < 1e18, "pages: got %g, want 0 or more", p.Pages)
	check(p.NodeTimeout >= 2*time.Second, "got a node timeout of %v, want 2s at least", p.NodeTimeout)
	return errors.Join(errs...)
}
