package plan

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// Report computes everything and writes it.
func (p *Plan) Report(w io.Writer) error {
	if err := p.Validate(); err != nil {
		return err
	}
	ours, low, high := p.Counterd(), Resources{}, Resources{}
	low, high = p.Redis()
	l := p.newLayout(ours.Machines)
	c, err := p.Control(l)
	if err != nil {
		return err
	}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }

	used := 0
	for _, members := range l.members {
		used += len(members)
	}
	line("%d nodes: %d shards of %d copies, %d free; %s posts (%.0f %% in memory), %s increments/s, %s pages/s", p.Nodes, len(l.members), p.Copies, p.Nodes-used,
		count(p.Posts), 100*p.Hot, count(p.Increments), count(p.Pages))
	line("on %d machines in %d racks: %.1f nodes a machine; a shard has %s posts, %s on disk", l.machines, l.racks, float64(p.Nodes)/float64(l.machines),
		count(p.Posts/float64(p.Shards())), size(p.dataBytes()/float64(p.Shards())))

	line("\nThe map")
	line("  in etcd              %d keys, %s", c.Keys, size(float64(c.EtcdBytes)))
	line("  in each node         %s; CLUSTER SLOTS answers %s", size(float64(c.HeapBytes)), size(float64(c.SlotsReply)))
	line("  at rest              %.1f writes/s (figures, each node's every %v), %.0f keep-alives/s, which are no writes", c.Writes, c.FigureEvery, c.KeepAlives)
	line("  to watchers          %s events/s, %s/s; a Redis Cluster's bus of as many nodes at this timeout: %s/s", count(c.Events), size(c.EventBytes), size(c.RedisBus))

	for _, withLeader := range []bool{false, true} {
		f := p.RackFailure(l, c, 0, withLeader)
		title := "A rack goes dark"
		if withLeader {
			title += ", with etcd's leader"
		}
		line("\n%s: %d nodes, %d primaries, %d replicas", title, f.Nodes, f.Primaries, f.Replicas)
		line("  etcd                 %d transactions until %s, %d in the busiest second, %d came second; %s to watchers", f.Txns, seconds(f.Settled), f.Peak, f.Lost, size(f.EventBytes))
		line("  shards without primary take changes again after %s (%s to %s)", seconds(at(f.Outage, 0.5)), seconds(at(f.Outage, 0)), seconds(at(f.Outage, 1)))
		line("  shards without a replica hold changes for       %s (at most %s)", seconds(at(f.Held, 0.5)), seconds(at(f.Held, 1)))
		line("  when it returns      %d transactions", f.Back)
	}

	line("\nAll copies there again, with %.0f %% of disks and network", 100*p.CopyShare)
	for _, loss := range []struct {
		what string
		lost func(machine int) bool
	}{{"a dead machine", func(m int) bool { return m == 0 }}, {"a dead rack", func(m int) bool { return m%l.racks == 0 }}} {
		r := p.Recover(l, loss.lost)
		line("  %-20s %d copies, %s, from %d machines to %d: %v", loss.what, r.Copies, size(r.Bytes), r.Sources, r.Targets, r.Longest.Round(time.Second))
	}
	group := p.dataBytes() / float64(p.Shards()) / max(1, 256/float64(p.Shards()))
	line("  a group that moves   %s, %v", size(group), time.Duration(group/(p.CopyShare*min(p.DiskRate, p.NetRate))*float64(time.Second)).Round(100*time.Millisecond))

	line("\n%-28s %10s %10s %8s %9s %14s  %s", "", "memory", "disk", "cores", "machines", "USD a month", "decided by")
	for _, side := range []struct {
		name string
		r    Resources
	}{{"counterd", ours}, {fmt.Sprintf("Redis Cluster, %.0f B a post", p.RedisBytesLow), low}, {fmt.Sprintf("Redis Cluster, %.0f B a post", p.RedisBytesHigh), high}} {
		line("%-28s %10s %10s %8.0f %9d %14s  %s", side.name, size(side.r.RAM), size(side.r.Disk), side.r.Cores, side.r.Machines, count(side.r.Month), side.r.Limit)
	}
	line("log a second: counterd %s, Redis %s, a copy", size(p.Increments*p.LogBytes), size(p.Increments*p.RedisLogBytes))
	line("\nAssumed: a machine of %.0f cores, %s, %s of disk at %.2f USD an hour, processors %.0f %% busy, %.0f %% of memory and disk in use; disk %s/s, network %s/s each way;",
		p.Cores, size(p.RAM), size(p.Disk), p.Price, 100*p.Busy, 100*usable, size(p.DiskRate), size(p.NetRate))
	line("node timeout %v, etcd commits in %v and %s/s; a post %.1f B in memory and %.1f B in a file; an increment %.1f us of a processor, 1 deep, %.0f %% more for acknowledgements, %.1f us a replica;",
		p.NodeTimeout, p.EtcdCommit, count(p.EtcdRate), p.HotBytes, p.ColdBytes, 1e6*p.IncrCPU, 100*p.QuorumCPU, 1e6*p.ApplyCPU)
	line("a snapshot of Redis copies %.0f %% of the data. All machines carry all kinds of nodes; half-empty machines left for the loss of a rack are not counted on either side.", 100*p.RedisFork)
	_, err = io.WriteString(w, b.String())
	return err
}

// at is the value below which a part of a rising list lies.
func at(list []time.Duration, part float64) time.Duration {
	if len(list) == 0 {
		return 0
	}
	return list[int(part*float64(len(list)-1))]
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// count is a number with a unit a thousand times the last.
func count(v float64) string { return scaled(v, []string{"", " k", " M", " G", " T"}) }

// size is a number of bytes, in decimal units.
func size(v float64) string { return scaled(v, []string{" B", " kB", " MB", " GB", " TB", " PB"}) }

func scaled(v float64, units []string) string {
	i := 0
	for i < len(units)-1 && math.Abs(v) >= 999.5 {
		v /= 1000
		i++
	}
	digits := 0
	if v < 99.5 && v != math.Trunc(v) {
		digits = 1
	}
	return fmt.Sprintf("%.*f%s", digits, v, units[i])
}
