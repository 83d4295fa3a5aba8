package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/counterd/counterd/cmd/counterctl/internal/patience"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/counter"
)

// rememberBytes is about how much of the memory of numbered changes is sent at a time.
const rememberBytes = 256 << 10

// remember gives the memory of numbered changes of one archive to the primaries that own its groups now. The posts of the
// archive are in the cluster already: a repeat that is answered from memory never stands for a change that is not there.
func (r *restoring) remember(ctx context.Context, store *counter.Store, from *backupShard) error {
	m, err := r.load(ctx)
	if err != nil {
		return err
	}
	for _, to := range m.Shards {
		groups := from.Groups.Both(to.Groups)
		for _, piece := range store.Groups().Producers(groups, rememberBytes) {
			policy := patience.Policy{First: 20 * time.Millisecond, Longest: time.Second, Limit: batchPatience}
			err := policy.Do(ctx, func() (bool, error) { return false, r.rememberPiece(ctx, to.ID, groups.String(), piece) })
			if err != nil {
				return fmt.Errorf("shard %d takes no memory of numbered changes: %w", to.ID, err)
			}
		}
	}
	return nil
}

// rememberPiece sends a piece to the present primary of a shard. It may be sent again.
func (r *restoring) rememberPiece(ctx context.Context, to topology.ShardID, groups string, piece []byte) error {
	m, err := r.load(ctx)
	if err != nil {
		return err
	}
	shard := m.Shard(to)
	if shard == nil || m.Nodes[shard.Primary] == nil {
		return errNoPrimary
	}
	_, err = r.ask(ctx, m.Nodes[shard.Primary], "COUNTER.MOVE", "REMEMBER", groups, string(piece))
	return err
}
