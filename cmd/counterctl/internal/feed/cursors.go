package feed

import (
	"context"
	"fmt"
	"time"

	"github.com/counterd/counterd/internal/wire"
)

// CursorState is a named cursor of a shard.
type CursorState struct {
	Name   string
	Shard  uint64    // 0: the node is of no cluster
	Set    time.Time // when it was set last
	Behind uint64    // bytes of log behind it
	Lag    time.Duration
	Lost   bool // no feed can go on from it
}

// Cursors lists the named cursors of a node, or of all shards of a cluster: those of a shard together, in the order of names. Of the options it
// uses those about nodes. A shard without a primary is an error, as its cursors are not known.
func Cursors(ctx context.Context, o Options) (list []CursorState, err error) {
	n := newNodes(&o)
	ids, err := n.Shards(ctx)
	for _, id := range ids {
		v, failed := n.command(ctx, id, "COUNTER.CURSOR", "LIST")
		if failed != nil {
			return nil, failed
		}
		for _, c := range v.Array {
			got := CursorState{Name: field(c, "name"), Shard: id, Set: time.UnixMilli(value(c, "set").Int), Behind: uint64(value(c, "bytes").Int),
				Lag: time.Duration(value(c, "lag").Int) * time.Millisecond, Lost: value(c, "lost").Int != 0}
			if got.Name == "" {
				return nil, fmt.Errorf("%w: COUNTER.CURSOR LIST answered a cursor without a name", wire.ErrProtocol)
			}
			list = append(list, got)
		}
	}
	return list, err
}

// DeleteCursor deletes a named cursor of a node, or of all shards of a cluster, and returns how many had it. After an error some may have it still.
func DeleteCursor(ctx context.Context, o Options, name string) (deleted int, err error) {
	n := newNodes(&o)
	ids, err := n.Shards(ctx)
	for _, id := range ids {
		v, failed := n.command(ctx, id, "COUNTER.CURSOR", "DEL", name)
		if failed != nil {
			return deleted, failed
		}
		deleted += int(v.Int)
	}
	return deleted, err
}
