package cluster

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/counterd/counterd/cmd/counterctl/internal/patience"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/counter"
)

// rememberBytes is about how much of the memory of numbered changes is sent at a time.
const rememberBytes = 256 << 10

// giver gives the parts of an archive that are not values of posts: its methods may be repeated.
type giver struct{ r *restoring }

// remember gives the memory of numbered changes of one archive to the primaries that own its groups now. The posts of the
// archive are in the cluster already: a repeat that is answered from memory never stands for a change that is not there.
func (g giver) remember(ctx context.Context, store *counter.Store, from *backupShard) error {
	m, err := g.r.load(ctx)
	if err != nil {
		return err
	}
	for _, to := range m.Shards {
		groups := from.Groups.Both(to.Groups)
		for _, piece := range store.Groups().Producers(groups, rememberBytes) {
			if _, err := g.give(ctx, to.ID, "REMEMBER", groups.String(), string(piece)); err != nil {
				return fmt.Errorf("shard %d takes no memory of numbered changes: %w", to.ID, err)
			}
		}
	}
	return nil
}

// derive gives the counts of derived columns of one archive to the primaries that own its groups now. A restore sets values, which these columns do
// not count. The posts of the archive are in the cluster already.
func (g giver) derive(ctx context.Context, store *counter.Store, from *backupShard) error {
	m, err := g.r.load(ctx)
	if err != nil {
		return err
	}
	n := 0
	for _, c := range store.Schema().Counters() {
		for i := range c.Derived {
			t := &g.r.derived[n]
			n++
			for _, to := range m.Shards {
				groups := from.Groups.Both(to.Groups)
				err := store.Groups().Derived(groups, c, &c.Derived[i], func(p *counter.DerivedPiece) error {
					reply, err := g.give(ctx, to.ID, "DERIVED", groups.String(), p.Counter, p.Column, strconv.FormatInt(p.Time, 10), string(p.Rows))
					if err != nil {
						return err
					}
					t.posts += p.Posts
					t.counts += int(reply)
					return nil
				})
				if err != nil {
					return fmt.Errorf("shard %d takes no counts of %s: %w", to.ID, t.name, err)
				}
			}
		}
	}
	return nil
}

// give sends a part of an archive to the primary of a shard by COUNTER.MOVE, until it has it: to send it again changes nothing. It returns the number of
// the reply; 0: it is none.
func (g giver) give(ctx context.Context, to topology.ShardID, args ...string) (reply uint64, err error) {
	policy := patience.Policy{First: 20 * time.Millisecond, Longest: time.Second, Limit: batchPatience}
	err = policy.Do(ctx, func() (bool, error) {
		reply, err = g.giveOnce(ctx, to, args)
		return false, err
	})
	return reply, err
}

// giveOnce is give to the present primary.
func (g giver) giveOnce(ctx context.Context, to topology.ShardID, args []string) (uint64, error) {
	m, err := g.r.load(ctx)
	if err != nil {
		return 0, err
	}
	shard := m.Shard(to)
	if shard == nil || m.Nodes[shard.Primary] == nil {
		return 0, errNoPrimary
	}
	lines, err := g.r.ask(ctx, m.Nodes[shard.Primary], append([]string{"COUNTER.MOVE"}, args...)...)
	if err != nil || len(lines) != 1 {
		return 0, err
	}
	n, _ := strconv.ParseUint(lines[0], 10, 64)
	return n, nil
}
