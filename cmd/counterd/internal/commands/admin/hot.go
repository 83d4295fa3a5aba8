package admin

import (
	"errors"
	"math"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/commands/command"
	"github.com/counterd/counterd/cmd/counterd/internal/commands/items"
	"github.com/counterd/counterd/cmd/counterd/internal/net/resp"
	"github.com/counterd/counterd/cmd/counterd/internal/observe/popular"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/schema"
)

// runHot: COUNTER.HOT counter [BY WRITES | READS] [COUNT count], the posts that connections to this node write or read
// most, each with its key, how many reads and writes a second there are of it, and bounds of both. They are sampled: see package popular.
func runHot(c Conn, args [][]byte) {
	byWrites, count := true, int64(10)
	for i := 2; i < len(args); i += 2 {
		if i+1 == len(args) {
			c.Call().Out.Error(items.ErrSyntax)
			return
		}
		ok := true
		switch a, b := args[i], args[i+1]; {
		case resp.EqualFold(a, "BY") && resp.EqualFold(b, "WRITES"):
			byWrites = true
		case resp.EqualFold(a, "BY") && resp.EqualFold(b, "READS"):
			byWrites = false
		case resp.EqualFold(a, "COUNT"):
			if count, ok = resp.Number(b); !ok || count < 1 || count > 1024 {
				c.Call().Out.Error("ERR COUNT: want 1 to 1024")
				return
			}
		default:
			c.Call().Out.Error(items.ErrSyntax)
			return
		}
	}
	var list []popular.Rate
	var keys []string
	now := time.Now()
	err := c.WithStore(false, func(b *counter.Batch) error {
		def := b.Schema().Counter(string(args[1]))
		if def == nil {
			return counter.ErrNoKey
		}
		list = c.Server().Popular.Top(now, def.ID, int(count), byWrites)
		for _, r := range list {
			keys = append(keys, string(b.Schema().AppendKey(nil, def, schema.WholeItem, r.Mid)))
		}
		return nil
	})
	switch {
	case errors.Is(err, counter.ErrNoKey):
		c.Call().Out.Error(items.ErrNoCounter(args[1]))
		return
	case err != nil:
		c.Call().StoreError(err)
		return
	}
	window := c.Server().Popular.Window(now)
	out := &c.Call().Out
	out.Array(len(list))
	for i, r := range list {
		out.Map(8)
		out.BulkString("key")
		out.BulkString(keys[i])
		for _, f := range []struct {
			name  string
			value float64
		}{
			{"reads_per_sec", r.Reads}, {"writes_per_sec", r.Writes},
			{"reads_at_least", r.ReadBounds.Least}, {"reads_at_most", r.ReadBounds.Most},
			{"writes_at_least", r.WriteBounds.Least}, {"writes_at_most", r.WriteBounds.Most},
			{"window_sec", window},
		} {
			out.BulkString(f.name)
			out.Double(math.Round(f.value*10) / 10)
		}
	}
}

func hotRow[C any](on func(C) Conn) *command.Row[C] {
	return &command.Row[C]{Name: "counter.hot", Arity: -2, Flags: command.ReadOnly, Group: "counterd", Since: "0.1.0", Complexity: "O(1)",
		Summary: "Returns the posts of a counter that clients of this node write or read most, with estimated reads and writes per second, and bounds of these.",
		Syntax:  "counter [BY <WRITES | READS>] [COUNT count]", Run: handler(on, runHot), Asks: command.AskCounter(1, command.NeedRead)}
}
