package move

import (
	"context"

	"github.com/counterd/counterd/internal/slot"
)

// Remember adds a restored backup's memory of numbered changes in groups that this node's shard owns. It returns when all nodes
// in sync have it: a repeat of such a change is answered from then on, also by the next primary.
func (m *Mover) Remember(ctx context.Context, groups slot.Set, records []byte) error {
	st := m.now.Load()
	epoch := leads(st)
	if epoch == 0 || st.Writes != "" {
		return refused("the node does not lead its shard")
	}
	if others := groups.Minus(st.Shard.Groups); !others.Empty() {
		return refused("shard %d does not own groups %s", st.Shard.ID, others)
	}
	store := m.conf.Host.Store()
	end, err := store.Groups().In(epoch).Remember(groups, records)
	if err != nil {
		return err
	}
	return store.Replication().CommitShard(ctx, epoch, end)
}
