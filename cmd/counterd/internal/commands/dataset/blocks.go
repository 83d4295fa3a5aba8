package dataset

import (
	"fmt"
	"strings"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// blocks: COUNTER.BLOCKS [counter], one line a block.
func blocks(c Conn, args [][]byte) {
	call := c.Call()
	var lines []string
	err := c.WithStore(false, func(b *counter.Batch) error {
		var only *schema.Counter
		if len(args) > 1 {
			if only = b.Schema().CounterNamed(args[1]); only == nil {
				return fmt.Errorf("no counter '%s' (see SCHEMA)", resp.Printable(args[1], 128))
			}
		}
		counter.NewReader(b).Blocks(func(i counter.BlockInfo) bool {
			if only == nil || i.Counter == only {
				lines = append(lines, blockLine(i))
			}
			return true
		})
		return nil
	})
	if err != nil {
		call.StoreError(err)
		return
	}
	call.Out.BulkStrings(lines)
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
	if i.Group >= 0 {
		head = fmt.Sprintf("counter=%s group=%d tier=%s kind=%s lo=%d hi=%d items=%d", i.Counter.Name, i.Group, i.Tier, kind, i.Lo, i.Hi, i.Items)
	}
	if i.Tier == counter.TierCold {
		return fmt.Sprintf("%s overlay=%d overlay_bytes=%d file=%s file_bytes=%d bytes_per_item=%.2f", head, i.Overlay, i.Bytes, i.File, i.FileBytes,
			float64(i.FileBytes)/float64(max(1, i.Items)))
	}
	return fmt.Sprintf("%s load=%.3f overflows=%d bytes=%d bytes_per_item=%.2f layout=%s", head, float64(i.Items)/float64(i.Slots), i.Overflows, i.Bytes,
		float64(i.Bytes)/float64(max(1, i.Items)), layout)
}

// demote and promote: COUNTER.DEMOTE and COUNTER.PROMOTE counter mid change the tier of the block that holds a
// mid, by hand. Where items are kept is each node's own: replicas do it too.
func demote(c Conn, args [][]byte)  { changeTier(c, args, c.Store().Admin().Demote) }
func promote(c Conn, args [][]byte) { changeTier(c, args, c.Store().Admin().Promote) }

func changeTier(c Conn, args [][]byte, change func(counterName string, mid uint64) error) {
	call := c.Call()
	mid, ok := schema.ParseMid(args[2])
	if !ok {
		call.Out.Error(items.ErrNoMid(args[2]))
		return
	}
	if err := change(string(args[1]), mid); err != nil {
		call.StoreError(err)
		return
	}
	call.Out.Status("OK")
}

// scrub: COUNTER.SCRUB has the node's files verified now. How it goes is told by INFO tiers.
func scrub(c Conn, _ [][]byte) {
	call := c.Call()
	if err := c.Store().Admin().Scrub(); err != nil {
		call.StoreError(err)
		return
	}
	call.Out.Status("Background verification of files started")
}

// MemoryUsage: MEMORY USAGE key [SAMPLES n] answers the item's share of its block, in bytes, at least 1; null where
// absent.
func MemoryUsage(c Conn, args [][]byte) {
	call := c.Call()
	var bytes int64
	err := c.WithStore(false, func(b *counter.Batch) error {
		def, mid, ok := b.Schema().ParseItem(args[2])
		if !ok {
			k, isKey := b.Schema().ParseKey(args[2])
			if !isKey {
				return nil
			}
			def, mid = k.Counter, k.Mid
		}
		if info, found := counter.NewReader(b).BlockOf(def, mid); found {
			bytes = int64(max(1, (info.Bytes+info.Items/2)/info.Items))
		}
		return nil
	})
	switch {
	case err != nil:
		call.StoreError(err)
	case bytes == 0:
		call.Out.Null()
	default:
		call.Out.Int(bytes)
	}
}
