package server

import (
	"math"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/observe/metrics"
	"github.com/counterd/counterd/internal/slot"
)

// clusterFigures are those of a node of a cluster; nil: this server is none, or has not begun to be one.
func (s *Server) clusterFigures() *metrics.Cluster {
	j := s.joined
	if j == nil {
		return nil
	}
	st, stats := s.cluster.now.Load(), j.agent.Stats()
	f := &metrics.Cluster{Shard: int64(st.shardID()), Primary: st.Primary, Slots: int64(st.Owned.Len() * slot.PerGroup), Reads: st.Readable(time.Now()) == "",
		Writes: st.Writes == "" && st.Primary, EtcdUp: j.registry.Err() == nil, MapRevision: uint64(max(st.Map.Revision, 0)),
		Shards: int64(len(st.Map.Shards)), Nodes: int64(len(st.Map.Nodes)), Moves: int64(len(st.Map.Moves)),
		Promotions: stats.Promotions, Switches: stats.Switches, Shrinks: stats.Shrinks, Expands: stats.Expands, Spares: stats.Spares,
		Conflicts: stats.Conflicts, Failed: stats.Failed, LeasesLost: stats.LeasesLost}
	if !st.Until.IsZero() {
		f.LeaseLeft = time.Until(st.Until).Seconds()
	}
	if st.Shard != nil {
		f.Epoch, f.InSync, f.Members = st.Shard.Epoch, int64(len(st.Shard.InSync)), int64(len(st.Map.Members(st.Shard.ID)))
	}
	sums := st.Map.Census()
	f.NodesAway, f.NodesFree = int64(sums.Away), int64(sums.Free)
	f.SlotsUnowned, f.SlotsDown = int64(sums.Unowned.Len()*slot.PerGroup), int64(sums.Down.Len()*slot.PerGroup)
	log := s.store().Replication()
	if confirmed := log.Confirmed(); st.Primary && confirmed != math.MaxUint64 {
		f.Unconfirmed = log.Written() - min(log.Written(), confirmed)
	}
	return f
}
