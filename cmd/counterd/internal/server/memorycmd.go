package server

import (
	"fmt"
	"runtime/debug"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/dataset"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/facts"
	"github.com/counterd/counterd/counter"
)

func memoryCommand() *row {
	sub := func(name string, complexity, summary string, run func(*call, [][]byte)) *row {
		return &row{Name: "memory|" + name, Arity: 2, Group: "server", Since: "4.0.0", Complexity: complexity, Summary: summary, Run: on(run)}
	}
	return container("memory", "server", "4.0.0", "A container for commands about memory.",
		&row{Name: "memory|usage", Arity: -3, Flags: command.ReadOnly, First: 2, Last: 2, Step: 1, Group: "server", Since: "4.0.0", Complexity: "O(1)",
			Syntax: "key [SAMPLES count]", Summary: "Returns the memory of a post in bytes: its share of its block, at least 1.", Run: func(c *client, args [][]byte) { dataset.MemoryUsage(onDataset(c), args) }},
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
	n := totals(c.usage())
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
	n := totals(c.usage())
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
