package server

import (
	"cmp"
	"slices"
	"time"

	"github.com/counterd/counterd/cmd/counterd/internal/observe/console"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/slot"
)

// The whole cluster on the console, as any node knows it by its map.

// vitalsOfCluster tells of the node's part; nil: it is in no cluster.
func (s *status) vitalsOfCluster() *console.Cluster {
	if !s.cluster.Joined() {
		return nil
	}
	st := s.cluster.Now()
	c := &console.Cluster{Shard: int(st.ShardID()), Primary: st.Primary, Reads: clip(st.Readable(time.Now())), Writes: clip(st.Writes),
		Shards: len(st.Map.Shards), Nodes: len(st.Map.Nodes), Moves: len(st.Map.Moves)}
	for _, t := range s.cluster.Troubles() {
		level := console.Warn
		if t.Severity == topology.SevereError {
			level = console.Bad
		}
		c.Troubles = append(c.Troubles, console.Trouble{ID: t.ID, Level: level, Text: clip(t.Text)})
	}
	if err := s.cluster.RegistryError(); err != nil {
		c.Etcd = clip(err.Error())
	}
	if !st.Until.IsZero() {
		c.Lease = time.Until(st.Until)
	}
	if st.Shard != nil {
		c.Epoch = st.Shard.Epoch
	}
	sums := st.Map.Census()
	c.Away, c.Free, c.Headless, c.Thin = sums.Away, sums.Free, sums.Headless, sums.Thin
	if st.Map.Created() {
		c.Unowned = sums.Unowned.Len() * slot.PerGroup
	}
	return c
}

// clusterShards lists the cluster's shards, those with a fault first, and behind them the free nodes.
func (s *status) clusterShards(limit int) []console.Shard {
	if !s.cluster.Joined() {
		return nil
	}
	st := s.cluster.Now()
	m := st.Map
	nodes := make(map[topology.ShardID][]*topology.Node)
	for _, n := range m.Nodes {
		nodes[n.Shard] = append(nodes[n.Shard], n)
	}
	var list []console.Shard
	faults := make(map[int]int)
	for _, shard := range m.Shards {
		row := console.Shard{ID: int(shard.ID), Epoch: shard.Epoch, Slots: shard.Groups.Len() * slot.PerGroup}
		if live := m.Live[shard.Primary]; live != nil {
			row.Posts, row.Bytes, row.Ops = live.Posts, live.Bytes, live.Ops
		}
		for _, n := range nodes[shard.ID] {
			state := "behind"
			switch {
			case m.Live[n.ID] == nil:
				state = "away"
			case n.ID == shard.Primary:
				state = "primary"
			case slices.Contains(shard.InSync, n.ID):
				state = "in sync"
			}
			if state == "behind" || state == "away" {
				faults[row.ID]++
			}
			row.Nodes = append(row.Nodes, nodeRow(n, state, st.Self))
		}
		for _, move := range m.Moves {
			if move.From == shard.ID || move.To == shard.ID {
				one := console.ShardMoves{Groups: move.Groups.Len(), Other: int(move.From), State: string(move.State)}
				if move.From == shard.ID {
					one.Other, one.Out = int(move.To), true
				}
				row.Moves = append(row.Moves, one)
			}
		}
		sortNodes(row.Nodes)
		list = append(list, row)
	}
	slices.SortStableFunc(list, func(a, b console.Shard) int { return cmp.Compare(faults[b.ID], faults[a.ID]) })
	list = list[:min(len(list), limit)]
	if free := nodes[0]; len(free) > 0 {
		row := console.Shard{}
		for _, n := range free {
			state := "free"
			if m.Live[n.ID] == nil {
				state = "away"
			}
			row.Nodes = append(row.Nodes, nodeRow(n, state, st.Self))
		}
		sortNodes(row.Nodes)
		row.Nodes = row.Nodes[:min(len(row.Nodes), limit)]
		list = append(list, row)
	}
	return list
}

func nodeRow(n *topology.Node, state string, self topology.NodeID) console.ShardNode {
	return console.ShardNode{Addr: n.Addr(false), Page: n.HTTP, Zone: n.Zone, State: state, Self: n.ID == self, Version: n.Version}
}

// sortNodes puts the primary first, and else goes by address.
func sortNodes(nodes []console.ShardNode) {
	first := func(n console.ShardNode) int {
		if n.State == "primary" {
			return 0
		}
		return 1
	}
	slices.SortFunc(nodes, func(a, b console.ShardNode) int {
		return cmp.Or(cmp.Compare(first(a), first(b)), cmp.Compare(a.Addr, b.Addr))
	})
}
