package server

import (
	"fmt"
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/items"
	"github.com/counterd/counterd/cmd/counterd/internal/resp"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// counterd's own commands that are not planned: the schema, blocks and tiers.

// runAlter: ADD COUNTER, ADD COLUMN, DROP COUNTER, DROP COLUMN.
func runAlter(c *call, args [][]byte) {
	st, err := schema.ParseStatement(args)
	if err == nil {
		err = c.withStore(true, func(b *counter.Batch) error {
			before := b.Schema()
			err := b.Alter(st)
			if b.Schema() != before {
				c.srv.watches.TouchAll()
				c.srv.log.Info("schema changed", "statement", st.String(), "client", c.session.ID())
			}
			return err
		})
	}
	if err != nil {
		c.StoreError(err)
		return
	}
	c.Out.Status("OK")
}

// runSchema: SCHEMA prints the script that would make the schema again, one bulk string a line.
func runSchema(c *call, _ [][]byte) {
	var text string
	if err := c.withStore(false, func(b *counter.Batch) error { text = b.Schema().String(); return nil }); err != nil {
		c.StoreError(err)
		return
	}
	if text == "" {
		c.Out.Array(0)
		return
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	c.Out.BulkStrings(lines)
}

// runBlocks: COUNTER.BLOCKS [counter], one line a block.
func runBlocks(c *call, args [][]byte) {
	var lines []string
	err := c.withStore(false, func(b *counter.Batch) error {
		var only *schema.Counter
		if len(args) > 1 {
			if only = b.Schema().CounterNamed(args[1]); only == nil {
				return fmt.Errorf("no counter '%s' (see SCHEMA)", resp.Printable(args[1], 128))
			}
		}
		b.Blocks(func(i counter.BlockInfo) bool {
			if only == nil || i.Counter == only {
				lines = append(lines, blockLine(i))
			}
			return true
		})
		return nil
	})
	if err != nil {
		c.StoreError(err)
		return
	}
	c.Out.BulkStrings(lines)
}

// blockLine describes a block for people, and for scripts as key=value.
func blockLine(i counter.BlockInfo) string {
	kind := "sealed"
	if i.Open {
		kind = "open"
	}
	layout := strings.ReplaceAll(i.Layout.String(), " ", ",")
	if !i.Current {
		layout += "(old)"
	}
	head := fmt.Sprintf("counter=%s tier=%s kind=%s lo=%d hi=%d items=%d", i.Counter.Name, i.Tier, kind, i.Lo, i.Hi, i.Items)
	if i.Tier == counter.TierCold {
		return fmt.Sprintf("%s overlay=%d overlay_bytes=%d file=%s file_bytes=%d bytes_per_item=%.2f", head, i.Overlay, i.Bytes, i.File, i.FileBytes,
			float64(i.FileBytes)/float64(max(1, i.Items)))
	}
	return fmt.Sprintf("%s load=%.3f overflows=%d bytes=%d bytes_per_item=%.2f layout=%s", head, float64(i.Items)/float64(i.Slots), i.Overflows, i.Bytes,
		float64(i.Bytes)/float64(max(1, i.Items)), layout)
}

// runDemote and runPromote: COUNTER.DEMOTE and COUNTER.PROMOTE counter mid change the tier of the block that holds a
// mid, by hand. Where items are kept is each node's own: replicas do it too.
func runDemote(c *call, args [][]byte)  { c.changeTier(args, c.srv.store().Demote) }
func runPromote(c *call, args [][]byte) { c.changeTier(args, c.srv.store().Promote) }

func (c *call) changeTier(args [][]byte, change func(counterName string, mid uint64) error) {
	mid, ok := schema.ParseMid(args[2])
	if !ok {
		c.Out.Error(items.ErrNoMid(args[2]))
		return
	}
	if err := change(string(args[1]), mid); err != nil {
		c.StoreError(err)
		return
	}
	c.Out.Status("OK")
}

// runMemoryUsage: MEMORY USAGE key [SAMPLES n] answers the item's share of its block, in bytes, at least 1; null where
// absent.
func runMemoryUsage(c *call, args [][]byte) {
	var bytes int64
	err := c.withStore(false, func(b *counter.Batch) error {
		def, mid, ok := b.Schema().ParseItem(args[2])
		if !ok {
			k, isKey := b.Schema().ParseKey(args[2])
			if !isKey {
				return nil
			}
			def, mid = k.Counter, k.Mid
		}
		if info, found := b.BlockOf(def, mid); found {
			bytes = int64(max(1, (info.Bytes+info.Items/2)/info.Items))
		}
		return nil
	})
	switch {
	case err != nil:
		c.StoreError(err)
	case bytes == 0:
		c.Out.Null()
	default:
		c.Out.Int(bytes)
	}
}
