package server

import (
	"fmt"
	"runtime/debug"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/dataset"
	"github.com/counterd/counterd/cmd/counterd/internal/net/front"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/facts"
	"github.com/counterd/counterd/counter"
)

// runInfo: INFO [section ...]. Unknown sections are ignored.
func runInfo(c *call, args [][]byte) {
	wanted := facts.Wanted(args[1:])
	parts := facts.InfoParts(wanted)
	if parts.Has(facts.PartConnections) {
		c.session.Handler().Publish()
	}
	s := c.srv.observe(parts)
	if parts.Has(facts.PartUsage) {
		s.Usage = c.countUsage()
	}
	if parts.Has(facts.PartPosts) {
		c.inspect(func(b *counter.Batch) { s.Posts = b.Items() })
	}
	if s.Process.Mode = c.routing.serverMode(); s.Process.Mode != "cluster" { // clients of the forward port are not told of the cluster
		s.Cluster, s.Agent = nil, nil
	}
	c.items.Out.Text(facts.Info(s, wanted))
}

// inspect calls f with a batch that is open: that of the command, or one of its own. A closed store has none.
func (c *call) inspect(f func(b *counter.Batch)) {
	b := c.items.Batch
	if !b.Opened() {
		b = c.store.NewBatch()
		if b.Begin() != nil {
			return
		}
		defer b.End()
	}
	f(b)
}

// countUsage returns the memory and disk space of each counter's posts, and of its derived columns, now. It looks at each block.
func (c *call) countUsage() (all []counter.Usage) {
	c.inspect(func(b *counter.Batch) {
		r := counter.NewReader(b)
		count := func(i counter.BlockInfo) bool {
			u := &all[len(all)-1]
			u.Overflows += int64(i.Overflows)
			if i.Tier == counter.TierHot {
				u.HotBlocks++
				u.HotItems += int64(i.Items)
				u.HotBytes += int64(i.Bytes)
				return true
			}
			u.ColdBlocks++
			u.ColdItems += int64(i.Items)
			u.ColdBytes += i.FileBytes
			u.IndexBytes += i.Index
			u.OverlayBytes += int64(i.Bytes)
			u.OverlayItems += int64(i.Overlay)
			if i.Overlay > 0 {
				u.OverlayBlocks++
			}
			if i.Lost {
				u.Unusable++
			}
			return true
		}
		for _, def := range b.Schema().Counters() {
			all = append(all, counter.Usage{Counter: def.Name})
			r.BlocksFrom(def, counter.BlockPlace{}, count)
			for i := range def.Derived {
				all = append(all, counter.Usage{Counter: def.Name, Column: def.Derived[i].Name})
				r.BlocksFrom(def.Derived[i].Space, counter.BlockPlace{}, count)
			}
		}
	})
	return all
}

func memoryCommand() *row {
	sub := func(name string, complexity, summary string, run func(*call, [][]byte)) *row {
		return &row{Name: "memory|" + name, Arity: 2, Group: "server", Since: "4.0.0", Complexity: complexity, Summary: summary, Run: onCall(run)}
	}
	return container("memory", "server", "4.0.0", "A container for commands about memory.",
		&row{Name: "memory|usage", Arity: -3, Flags: command.ReadOnly, First: 2, Last: 2, Step: 1, Group: "server", Since: "4.0.0", Complexity: "O(1)",
			Syntax: "key [SAMPLES count]", Summary: "Returns the memory of a post in bytes: its share of its block, at least 1.", Run: func(h front.Handler, args [][]byte) { dataset.MemoryUsage(onDataset(h), args) }},
		sub("stats", "O(N) in the number of blocks", "Returns memory usage by purpose, in bytes.", runMemoryStats),
		sub("doctor", "O(N) in the number of blocks", "Returns a report of memory usage.", runMemoryDoctor),
		sub("purge", "Depends on the size of the Go heap", "Returns free memory of the Go heap to the operating system.", func(c *call, _ [][]byte) {
			debug.FreeOSMemory()
			c.items.Out.Status("OK")
		}),
		sub("malloc-stats", "O(1)", "Returns a text: there is no malloc to report on.", func(c *call, _ [][]byte) {
			c.items.Out.Text("Stats not supported for the current allocator")
		}),
	)
}

// runMemoryStats answers the fields of Redis that mean something here.
func runMemoryStats(c *call, _ [][]byte) {
	m := c.srv.memory()
	n := totals(c.countUsage())
	percent := func(part, whole int64) float64 { return 100 * float64(part) / float64(max(1, whole)) }
	fields := []struct {
		name  string
		value any
	}{
		{"peak.allocated", m.Peak}, {"total.allocated", m.Used}, {"replication.backlog", int64(0)}, {"clients.slaves", int64(0)},
		{"clients.normal", c.srv.front.Held()}, {"aof.buffer", int64(0)}, {"overhead.total", m.Heap}, {"keys.count", n.items},
		{"keys.bytes-per-key", int64(n.perItem() + 0.5)}, {"dataset.bytes", m.Items}, {"dataset.percentage", percent(m.Items, m.Used)},
		{"peak.percentage", percent(m.Used, m.Peak)}, {"fragmentation", float64(m.RSS) / float64(max(1, m.Used))},
		{"fragmentation.bytes", m.RSS - m.Used},
	}
	c.items.Out.Map(len(fields))
	for _, f := range fields {
		c.items.Out.BulkString(f.name)
		switch v := f.value.(type) {
		case int64:
			c.items.Out.Int(v)
		case float64:
			c.items.Out.Double(v)
		}
	}
}

func runMemoryDoctor(c *call, _ [][]byte) {
	m := c.srv.memory()
	n := totals(c.countUsage())
	c.items.Out.Text(fmt.Sprintf("%d items in %d blocks take %s, %.2f bytes an item; %d values are too large for the bits of "+
		"their column. The Go heap takes %s. The system counts %s resident.\n", n.items, n.blocks, facts.Human(n.bytes), n.perItem(), n.overflows, facts.Human(m.Heap), facts.Human(m.RSS)))
}

// blockTotals sums over all blocks.
type blockTotals struct{ items, blocks, overflows, bytes int64 }

func totals(all []counter.Usage) (n blockTotals) {
	for i := range all {
		u := &all[i]
		n.items += u.HotItems + u.ColdItems
		n.blocks += u.HotBlocks + u.ColdBlocks
		n.overflows += u.Overflows
		n.bytes += u.HotBytes + u.OverlayBytes
	}
	return n
}

// perItem is bytes for each item, 0 without items.
func (n *blockTotals) perItem() float64 {
	if n.items == 0 {
		return 0
	}
	return float64(n.bytes) / float64(n.items)
}
