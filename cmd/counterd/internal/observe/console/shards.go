package console

import (
	"cmp"
	"slices"

	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/slot"
)

// Shard is one of the cluster, and a row of the page.
type Shard struct {
	ID    int          `json:"id"` // 0: the free nodes
	Epoch uint64       `json:"epoch"`
	Slots int          `json:"slots"`
	Posts uint64       `json:"posts"` // of its primary, as it last said, as the next two
	Bytes uint64       `json:"bytes"`
	Ops   uint64       `json:"ops"`
	Nodes []ShardNode  `json:"nodes"` // the primary first
	Moves []ShardMoves `json:"moves,omitempty"`
}

// ShardNode is a node of a shard.
type ShardNode struct {
	Addr string `json:"addr"`
	Page string `json:"page,omitempty"` // host:port of its own page; empty: it has none
	Zone string `json:"zone,omitempty"`
	// State is primary, in sync, behind (it follows and is not in sync), away, or free.
	State   string `json:"state"`
	Self    bool   `json:"self,omitempty"`
	Version string `json:"version"`
}

// ShardMoves are groups on their way from or to a shard.
type ShardMoves struct {
	Groups int    `json:"groups"`
	Other  int    `json:"other"` // the other shard
	Out    bool   `json:"out"`   // from this one
	State  string `json:"state"`
}

// Shards lists the shards of a cluster as a node knows them, those with a fault first, and behind them the free nodes.
func Shards(m *topology.Map, self topology.NodeID, limit int) []Shard {
	nodes := make(map[topology.ShardID][]*topology.Node)
	for _, n := range m.Nodes {
		nodes[n.Shard] = append(nodes[n.Shard], n)
	}
	var list []Shard
	faults := make(map[int]int)
	for _, shard := range m.Shards {
		row := Shard{ID: int(shard.ID), Epoch: shard.Epoch, Slots: shard.Groups.Len() * slot.PerGroup}
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
			row.Nodes = append(row.Nodes, nodeRow(n, state, self))
		}
		for _, move := range m.Moves {
			if move.From == shard.ID || move.To == shard.ID {
				one := ShardMoves{Groups: move.Groups.Len(), Other: int(move.From), State: string(move.State)}
				if move.From == shard.ID {
					one.Other, one.Out = int(move.To), true
				}
				row.Moves = append(row.Moves, one)
			}
		}
		sortNodes(row.Nodes)
		list = append(list, row)
	}
	slices.SortStableFunc(list, func(a, b Shard) int { return cmp.Compare(faults[b.ID], faults[a.ID]) })
	list = list[:min(len(list), limit)]
	if free := nodes[0]; len(free) > 0 {
		row := Shard{}
		for _, n := range free {
			state := "free"
			if m.Live[n.ID] == nil {
				state = "away"
			}
			row.Nodes = append(row.Nodes, nodeRow(n, state, self))
		}
		sortNodes(row.Nodes)
		row.Nodes = row.Nodes[:min(len(row.Nodes), limit)]
		list = append(list, row)
	}
	return list
}

func nodeRow(n *topology.Node, state string, self topology.NodeID) ShardNode {
	return ShardNode{Addr: n.Addr(false), Page: n.HTTP, Zone: n.Zone, State: state, Self: n.ID == self, Version: n.Version}
}

// sortNodes puts the primary first, and else goes by address.
func sortNodes(nodes []ShardNode) {
	first := func(n ShardNode) int {
		if n.State == "primary" {
			return 0
		}
		return 1
	}
	slices.SortFunc(nodes, func(a, b ShardNode) int {
		return cmp.Or(cmp.Compare(first(a), first(b)), cmp.Compare(a.Addr, b.Addr))
	})
}
