package move

import (
	"context"
	"errors"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/slot"
)

// Remember adds a restored backup's memory of numbered changes in groups that this node's shard owns. It returns when all nodes
// in sync have it: a repeat of such a change is answered from then on, also by the next primary.
func (m *Mover) Remember(ctx context.Context, groups slot.Set, records []byte) error {
	return m.restore(ctx, groups, func(in counter.Groups) (end uint64, err error) { return in.Remember(groups, records) })
}

// SetDerived sets a restored backup's items of a derived column in groups that this node's shard owns, and tells how many: see counter.Groups.SetDerived.
// It returns when all nodes in sync have them.
func (m *Mover) SetDerived(ctx context.Context, groups slot.Set, p *counter.DerivedPiece) (taken int, err error) {
	err = m.restore(ctx, groups, func(in counter.Groups) (end uint64, err error) {
		taken, end, err = in.SetDerived(groups, p)
		return end, err
	})
	return taken, err
}

// restore makes a change of groups that this node's shard owns, and returns when all nodes in sync have it.
func (m *Mover) restore(ctx context.Context, groups slot.Set, change func(in counter.Groups) (end uint64, err error)) error {
	st := m.now.Load()
	epoch := leads(st)
	if epoch == 0 || st.Writes != "" {
		return refused("the node does not lead its shard")
	}
	if others := groups.Minus(st.Shard.Groups); !others.Empty() {
		return refused("shard %d does not own groups %s", st.Shard.ID, others)
	}
	store := m.conf.Host.Store()
	end, err := change(store.Groups().In(epoch))
	if passes(err) {
		return refused("%v", err)
	}
	if err != nil {
		return err
	}
	return store.Replication().CommitShard(ctx, epoch, end)
}

// passes tells whether the store refuses a change for now: the groups are held, on their way or gone, which the map does not tell yet, the role
// changes, or the schema is on its way here.
func passes(err error) bool {
	return errors.Is(err, counter.ErrNotHere) || errors.Is(err, counter.ErrDeposed) || errors.Is(err, counter.ErrBehind)
}
