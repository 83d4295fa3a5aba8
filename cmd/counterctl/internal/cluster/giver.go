package cluster

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/counterd/counterd/cmd/counterctl/internal/patience"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/slot"
)

// rememberBytes is about how much of the memory of numbered changes is sent at a time.
const rememberBytes = 256 << 10

// giver gives the parts of an archive that are not values of posts: its methods may be repeated.
type giver struct{ r *restoring }

// errMoved: groups of hash slots went to another shard while a part of an archive was on its way to them.
var errMoved = errors.New("groups of hash slots move to another shard")

// remember gives the memory of numbered changes of one archive to the primaries that own its groups now. The posts of the
// archive are in the cluster already: a repeat that is answered from memory never stands for a change that is not there.
func (g giver) remember(ctx context.Context, store *counter.Store, from *backupShard) error {
	return g.each(ctx, from.Groups, func(to topology.ShardID, groups slot.Set) error {
		for _, piece := range store.Groups().Producers(groups, rememberBytes) {
			if _, err := g.give(ctx, to, groups, "REMEMBER", groups.String(), string(piece)); err != nil {
				return fmt.Errorf("shard %d takes no memory of numbered changes: %w", to, err)
			}
		}
		return nil
	})
}

// derive gives the counts of derived columns of one archive to the primaries that own its groups now. A restore sets values, which these columns do
// not count. The posts of the archive are in the cluster already.
func (g giver) derive(ctx context.Context, store *counter.Store, from *backupShard) error {
	n := 0
	for _, c := range store.Schema().Counters() {
		for i := range c.Derived {
			t := &g.r.derived[n]
			n++
			err := g.each(ctx, from.Groups, func(to topology.ShardID, groups slot.Set) error {
				posts, counts := 0, 0
				err := store.Groups().Derived(groups, c, &c.Derived[i], func(p *counter.DerivedPiece) error {
					reply, err := g.give(ctx, to, groups, "DERIVED", groups.String(), p.Counter, p.Column, strconv.FormatInt(p.Time, 10), string(p.Rows))
					posts += p.Posts
					counts += int(reply)
					return err
				})
				if err != nil {
					return fmt.Errorf("shard %d takes no counts of %s: %w", to, t.name, err)
				}
				t.posts += posts
				t.counts += counts
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// each calls give for each shard with those of groups that it owns. Where they move meanwhile, it calls give again for the shards that own them then.
func (g giver) each(ctx context.Context, groups slot.Set, give func(to topology.ShardID, groups slot.Set) error) error {
	passes := func(err error) bool { return errors.Is(err, errMoved) } // give has waited for others
	policy := patience.Policy{First: 20 * time.Millisecond, Longest: time.Second, Limit: batchPatience, Passes: passes}
	return policy.Do(ctx, func() (progress bool, err error) {
		m, err := g.r.load(ctx)
		if err != nil {
			return false, err
		}
		for _, to := range m.Shards {
			own := groups.Both(to.Groups)
			if own == (slot.Set{}) {
				continue
			}
			if err = give(to.ID, own); err == nil {
				groups, progress = groups.Minus(own), true
			} else if !errors.Is(err, errMoved) {
				return false, err
			}
		}
		if groups != (slot.Set{}) {
			return progress, errMoved
		}
		return true, nil
	})
}

// give sends a part of an archive about groups to the primary of a shard by COUNTER.MOVE, until it has it: to send it again changes nothing. It returns
// the number of the reply; 0: it is none. The error is errMoved if the shard does not own all of the groups any more.
func (g giver) give(ctx context.Context, to topology.ShardID, groups slot.Set, args ...string) (reply uint64, err error) {
	passes := func(err error) bool { return !errors.Is(err, errMoved) && patience.Passes(err) }
	policy := patience.Policy{First: 20 * time.Millisecond, Longest: time.Second, Limit: batchPatience, Passes: passes}
	err = policy.Do(ctx, func() (bool, error) {
		reply, err = g.giveOnce(ctx, to, groups, args)
		return false, err
	})
	return reply, err
}

// giveOnce is give to the present primary.
func (g giver) giveOnce(ctx context.Context, to topology.ShardID, groups slot.Set, args []string) (uint64, error) {
	m, err := g.r.load(ctx)
	if err != nil {
		return 0, err
	}
	shard := m.Shard(to)
	if shard == nil || groups.Minus(shard.Groups) != (slot.Set{}) {
		return 0, errMoved
	}
	if m.Nodes[shard.Primary] == nil {
		return 0, errNoPrimary
	}
	lines, err := g.r.ask(ctx, m.Nodes[shard.Primary], append([]string{"COUNTER.MOVE"}, args...)...)
	if err != nil || len(lines) != 1 {
		return 0, err
	}
	n, _ := strconv.ParseUint(lines[0], 10, 64)
	return n, nil
}
