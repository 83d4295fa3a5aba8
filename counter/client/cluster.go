package client

import (
	"cmp"
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/counterd/counterd/internal/slot"
)

// Differences with the nodes of a cluster: a change is of one hash slot. MOVED is followed by go-redis, under the same
// number: the memory of a producer's changes moves with their slot.

// processor is a client of go-redis, of many nodes or of one.
type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// owners knows which node serves which key. Without a cluster client it knows of one node, or of none behind an
// AutoPipeliner: then all goes to rdb.
type owners struct {
	rdb     processor
	cluster *redis.ClusterClient // nil: there is none
}

// reload makes go-redis refresh its map of hash slots. go-redis does this on its own only for commands that it repeats. It
// does not wait, and asks five times a second at most.
func (o owners) reload(ctx context.Context) {
	if o.cluster != nil {
		o.cluster.ReloadState(ctx)
	}
}

// everywhere does something at each primary, and gives the first error.
func (o owners) everywhere(ctx context.Context, do func(ctx context.Context, rdb processor) error) error {
	if o.cluster == nil {
		return do(ctx, o.rdb)
	}
	return o.cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return do(ctx, node) })
}

// of is the node of a key.
func (o owners) of(ctx context.Context, key string) processor {
	if o.cluster != nil {
		if node, err := o.cluster.MasterForKey(ctx, key); err == nil {
			return node
		}
	}
	return o.rdb
}

// bySlot cuts what belongs to mids by their hash slots: lists of places, each in order, the slots in the order in which
// they come first.
func bySlot(n int, mid func(i int) uint64) (lists [][]int) {
	places := make(map[uint16]int, n)
	for i := range n {
		of := slot.Of(mid(i))
		at, ok := places[of]
		if !ok {
			at = len(lists)
			places[of], lists = at, append(lists, nil)
		}
		lists[at] = append(lists[at], i)
	}
	return lists
}

// numberedMany makes changes of several slots, each with a number of its own, and gives the reply to each, or why there is
// none. They go out together; each command of it is repeated alone.
func (c *Client) numberedMany(ctx context.Context, all [][]any, done func(i int, reply any, err error)) {
	for at := 0; at < len(all); at += atOnce {
		part := all[at:min(at+atOnce, len(all))]
		l, seq, err := c.lanes.take(ctx, len(part))
		if err == nil && ctx.Err() != nil {
			c.lanes.known(l, seq, len(part))
			err = unsent(ctx)
		}
		if err != nil {
			for i := range part {
				done(at+i, nil, err)
			}
			continue
		}
		ctx, span := c.tracer.begin(ctx, c, len(part), part[0])
		var failed error
		for i := range part {
			part[i] = append(part[i], idmp, l.producer, seq+uint64(i))
			c.budget.request()
		}
		for i, cmd := range c.together(ctx, part) {
			reply, err := cmd.Val(), cmd.Err()
			if err != nil && err != redis.Nil {
				err = c.again(ctx, err, func() (err error) {
					reply, err = c.do(ctx, part[i])
					return err
				}, l.describe(seq+uint64(i), part[i]))
			}
			if err != redis.Nil {
				failed = cmp.Or(failed, err)
			}
			done(at+i, reply, err)
		}
		span.end(failed)
		c.lanes.known(l, seq, len(part))
	}
}

// together sends commands in one pipeline, of which each owner gets its part at the same time. It holds the reply to each.
func (c *Client) together(ctx context.Context, all [][]any) []*redis.Cmd {
	cmds, err := attend(ctx, c, func() ([]*redis.Cmd, error) {
		cmds := make([]*redis.Cmd, len(all))
		pipe := c.rdb.Pipeline()
		for i, args := range all {
			cmds[i] = redis.NewCmd(ctx, args...)
			_ = pipe.Process(ctx, once{cmds[i]})
		}
		_, _ = pipe.Exec(ctx) // each has its own error
		return cmds, nil
	})
	if err != nil {
		cmds = make([]*redis.Cmd, len(all))
		for i, args := range all {
			cmds[i] = redis.NewCmd(ctx, args...)
			cmds[i].SetErr(err)
		}
	}
	return cmds
}

// sortSums brings sums in order of their slots, so that those of one are neighbours.
func sortSums(sums []Sum, pairs []any) (slots []uint16) {
	order := make([]int, len(sums))
	for i := range order {
		order[i] = i
	}
	of := make([]uint16, len(sums))
	for i := range sums {
		of[i] = slot.Of(sums[i].Mid)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(of[a], of[b]) })
	oldSums, oldPairs := slices.Clone(sums), slices.Clone(pairs)
	slots = make([]uint16, len(sums))
	for to, from := range order {
		sums[to], pairs[2*to], pairs[2*to+1], slots[to] = oldSums[from], oldPairs[2*from], oldPairs[2*from+1], of[from]
	}
	return slots
}
