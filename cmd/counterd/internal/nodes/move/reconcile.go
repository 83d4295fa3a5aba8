package move

import (
	"context"
	"fmt"

	"github.com/counterd/counterd/cmd/counterd/internal/nodes/cluster"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/internal/sleep"
	"github.com/counterd/counterd/internal/slot"
)

// What a primary does about groups that etcd gives its shard, and its log says are not here. etcd's map says who owns what;
// the log says what is here. Where a primary died between the two, its successor has to bring them together:
//
//	the log says              the map says                            the primary
//	importing by a move       committed, not accepted                 accepts
//	importing by no move      the shard owns the group                accepts
//	importing by no move      another shard owns the group            drops
//	anything                  committed, and the log lacks Came       serves the groups to nobody: posts are lost
//	gone, or by no move and   the shard owns the group                serves the group to nobody: posts are lost
//	the log lacks Came
//
// topology.Shard.Came is what tells a copy that is whole from a part of one: a log that holds it has all that moves brought
// to the shard. Without that, a primary that lacks posts would answer that they were never there.

// LostError says that a primary lacks posts of groups that etcd gives its shard. They are served to nobody.
type LostError struct {
	Groups slot.Set
	Want   topology.LogPoint // that the log does not hold; zero: it is not known what it should hold
}

func (e *LostError) Error() string {
	if e.Want == (topology.LogPoint{}) {
		return fmt.Sprintf("the posts of groups %s are not here, and etcd does not say where this shard's log should have all of them", e.Groups)
	}
	return fmt.Sprintf("the posts of groups %s are lost: this node's log does not hold offset %d of epoch %d, where the shard had all of them", e.Groups, e.Want.Offset, e.Want.Epoch)
}

// holds tells whether a shard's primary has all that moves brought.
func holds(shard *topology.Shard, log *counter.Replication) bool {
	return shard.Came == (topology.LogPoint{}) || log.Holds(shard.Came.Epoch, shard.Came.Offset)
}

// Lacking are the groups that a map gives the shard that a node leads, but that it must serve to nobody, as their posts are
// not here and no move brings them.
func Lacking(st *cluster.Standing, store *counter.Store) slot.Set {
	if leads(st) == 0 {
		return slot.Set{}
	}
	var pending slot.Set
	for _, v := range st.Map.Moves {
		if v.To == st.Shard.ID && v.State == topology.MoveCommitted && !v.Accepted {
			pending = pending.Union(v.Groups)
		}
	}
	hidden := store.Groups().Hidden().Both(st.Shard.Groups)
	pending = pending.Both(st.Shard.Groups)
	if !holds(st.Shard, store.Replication()) {
		return hidden.Union(pending)
	}
	return hidden.Minus(pending)
}

// came refuses to accept groups of a move that somebody committed while the log lacks posts of them. The newest map has the
// Came of that commit, or of a later one.
func (m *Mover) came(v *topology.Move) error {
	shard := m.now.Load().Map.Shard(v.To)
	if shard != nil && !holds(shard, m.conf.Host.Store().Replication()) {
		return m.lose(v.Groups, shard.Came)
	}
	return nil
}

// led is the shard that this node leads by a map that was read just now.
func (m *Mover) led(now *topology.Map, epoch uint64) (*topology.Shard, error) {
	self := m.now.Load().Self
	for _, shard := range now.Shards {
		if shard.Primary == self && shard.Epoch == epoch {
			return shard, nil
		}
	}
	return nil, fmt.Errorf("epoch %d has ended", epoch)
}

// lose reports that posts are lost, once for each group.
func (m *Mover) lose(groups slot.Set, want topology.LogPoint) error {
	err := &LostError{groups, want}
	m.mu.Lock()
	news := groups.Minus(m.lost)
	m.lost = m.lost.Union(groups)
	m.mu.Unlock()
	if !news.Empty() {
		m.conf.Log.Error("posts that this shard owns are missing on this node; they are not served", "groups", groups.String(), "error", err)
	}
	return err
}

// orphans are the groups that the log says are on their way here by moves of which a map knows nothing. It reports those that
// have gone and are the shard's: nothing can be done about them.
func (m *Mover) orphans(st *cluster.Standing) map[string]slot.Set {
	store := m.conf.Host.Store()
	importing, gone := store.Groups().States()
	for id := range importing {
		if st.Map.Move(id) != nil {
			delete(importing, id)
		}
	}
	if lacking := Lacking(st, store).Both(gone); !lacking.Empty() {
		_ = m.lose(lacking, st.Shard.Came)
	}
	return importing
}

// adopt ends a move that the log knows and etcd does not, any more: the map says whose the groups are by now.
func (m *Mover) adopt(ctx context.Context, v *topology.Move, epoch uint64) error {
	store := m.conf.Host.Store()
	importing, _ := store.Groups().States()
	set := importing[v.ID] // before the map is read: a move that has begun since is not taken for one that is over
	now, err := m.conf.Registry.Load(ctx)
	if err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	shard, err := m.led(now, epoch)
	if err != nil || set.Empty() {
		return err
	}
	if now.Move(v.ID) != nil {
		sleep.For(ctx, firstPause) // this node's map is older
		return nil
	}
	groups, end := store.Groups().In(epoch), uint64(0)
	others, mine := set.Minus(shard.Groups), set.Both(shard.Groups)
	if !others.Empty() {
		m.conf.Log.Warn("dropping partly copied groups that another shard owns: their move has ended", "move", v.ID, "groups", others.String())
		if end, err = groups.Drop(v.ID, others); err != nil {
			return err
		}
	}
	if !mine.Empty() && shard.Came != (topology.LogPoint{}) && holds(shard, store.Replication()) {
		m.conf.Log.Warn("accepting copied groups: their move has ended, and the log had no record of it", "move", v.ID, "groups", mine.String())
		if end, err = groups.Accept(v.ID, mine); err != nil {
			return err
		}
		mine = slot.Set{}
	}
	m.conf.Host.Refresh()
	if end > 0 {
		if err := store.Replication().CommitShard(ctx, epoch, end); err != nil {
			return err
		}
	}
	if !mine.Empty() {
		return m.lose(mine, shard.Came)
	}
	return nil
}
