package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/counterctl/internal/human"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/slot"
)

var createCommand = command{
	Name:    "cluster create",
	Args:    "NODE...",
	Summary: "create a cluster from running nodes",
	Details: `Makes shards from running nodes. The nodes must run with --cluster-enabled yes, the same etcd and the same cluster name.
The command waits until each shard has its primary and its replicas. The nodes of a shard are placed in different zones
(--cluster-zone) and on different hosts as far as possible. Nodes beyond those stay free and replace a node that is lost.

A change is acknowledged when every in-sync node has it. A node that does not answer leaves the in-sync set. --min-insync is the
number of nodes, with the primary, that must stay in the set: with 2 of 3, one node may fail while changes continue, and every
acknowledged change is on two nodes. The default is 2, or 1 with fewer than two replicas.

If the command is interrupted, run it again with the same arguments: it continues.
` + commonHelp,
	Setup: func(flags *pflag.FlagSet) action {
		f := addFlags(flags, true)
		shards := flags.Int("shards", 1, "number of shards, at most 256")
		replicas := flags.Int("replicas", 2, "replicas of each shard")
		least := flags.Int("min-insync", 0, "nodes of a shard that must be in sync for changes to be accepted")
		return withCluster(f, func(ctx context.Context, s *session, args []string) error {
			if len(args) == 0 {
				return misuse("got no nodes, want their HOST:PORT")
			}
			if *least == 0 {
				*least = min(2, max(1, *replicas))
			}
			return s.create(ctx, args, *shards, *replicas, *least)
		})
	},
}

func (s *session) create(ctx context.Context, words []string, shards, replicas, least int) error {
	nodes, m, err := s.registered(ctx, words)
	if err != nil {
		return err
	}
	plan, err := topology.Place(nodes, shards, replicas)
	if err != nil {
		return misuse("%v", err)
	}
	deal := topology.Deal(shards)
	if m.Created() {
		if err := resumes(m, plan, deal, replicas); err != nil {
			return err
		}
		s.say("the cluster was begun: %d of %d shards are there", len(m.Shards), shards)
	}
	s.printPlan(m, plan, deal, least)
	if left := len(nodes) - shards*(1+replicas); left > 0 {
		fmt.Fprintf(s.out.Stdout, "free nodes: %d\n", left)
	}
	if err := s.confirm(); err != nil {
		return err
	}
	if !m.Created() {
		m, err = s.change(ctx, func(m *topology.Map) (topology.Change, error) {
			return topology.CreateCluster(m, randomID(), time.Now(), replicas, least)
		})
		if err != nil {
			return err
		}
	}
	for i := len(m.Shards); i < shards; i++ {
		if _, err := s.change(ctx, func(m *topology.Map) (topology.Change, error) {
			return topology.AddShard(m, plan[i], deal[i])
		}); err != nil {
			return err
		}
	}
	if _, err := s.until(ctx, "the cluster is made, but not whole", func(m *topology.Map) string { return unfinished(m, 0) }); err != nil {
		return err
	}
	fmt.Fprintf(s.out.Stdout, "the cluster %s serves\n", s.flags.name)
	return nil
}

// registered waits until all nodes that are meant have registered themselves and their directories, and run.
func (s *session) registered(ctx context.Context, words []string) (nodes []*topology.Node, m *topology.Map, err error) {
	var wrong error
	m, err = s.until(ctx, "the nodes are not there", func(m *topology.Map) string {
		nodes, wrong = nil, nil
		var missing []string
		seen := map[topology.NodeID]string{}
		for _, word := range words {
			n, err := find(m, word)
			var unknown *unknownNode
			switch {
			case errors.As(err, &unknown) || err == nil && (m.Live[n.ID] == nil || m.Live[n.ID].Outdated): // it ends with the node's next start
				missing = append(missing, word)
				continue
			case err == nil && seen[n.ID] != "":
				err = misuse("%s and %s are the same node", seen[n.ID], word)
			}
			if err != nil {
				wrong = err
				return ""
			}
			seen[n.ID] = word
			nodes = append(nodes, n)
		}
		if len(missing) > 0 {
			return fmt.Sprintf("waiting for %d of %d nodes to register themselves in etcd: %s", len(missing), len(words), strings.Join(missing, ", "))
		}
		return ""
	})
	return nodes, m, errors.Join(err, wrong)
}

// resumes returns the reason why the present map is not the beginning of the plan.
func resumes(m *topology.Map, plan [][]topology.NodeID, deal []slot.Set, replicas int) error {
	other := fmt.Errorf("there is a cluster of this name already, made %s with %s (counterctl cluster add makes it larger)",
		m.Cluster.Created.Local().Format(time.DateTime), human.Count(len(m.Shards), "shard"))
	if unowned := m.Unowned(); unowned.Empty() || len(m.Shards) >= len(plan) || m.Cluster.Replicas != replicas {
		return other
	}
	for i, s := range m.Shards {
		if s.Groups != deal[i] || len(m.Members(s.ID)) != len(plan[i]) || m.Nodes[plan[i][0]].Shard != s.ID {
			return other
		}
	}
	return nil
}

func (s *session) printPlan(m *topology.Map, plan [][]topology.NodeID, deal []slot.Set, least int) {
	table := tabwriter.NewWriter(s.out.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "SHARD\tSLOTS\tPRIMARY\tREPLICAS\t")
	for i, ids := range plan {
		var nodes []*topology.Node
		for _, id := range ids {
			nodes = append(nodes, m.Nodes[id])
		}
		note := ""
		switch topology.Apart(nodes) {
		case 0:
			note = "two on one host: a machine that is lost takes both"
		case 1:
			if nodes[0].Zone != "" {
				note = "two in one zone"
			}
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\n", i+1, slotText(deal[i]), label(m, ids[0]), labels(m, ids[1:]), note)
	}
	table.Flush()
	fmt.Fprintf(s.out.Stdout, "a change is acknowledged when all nodes in sync have it, and refused while fewer than %d of a shard's %d are\n", least, len(plan[0]))
}

// slotText is a set of groups as ranges of hash slots.
func slotText(g slot.Set) string {
	var list []string
	for _, r := range g.Ranges() {
		list = append(list, fmt.Sprintf("%d-%d", int(r.First)*64, int(r.Last)*64+63))
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ",")
}

// unfinished says what shards lack yet, or the one if it is not 0: a primary that runs, replicas that are in sync.
func unfinished(m *topology.Map, only topology.ShardID) string {
	leaders, lagging, all := 0, 0, 0
	for _, s := range m.Shards {
		if only != 0 && s.ID != only {
			continue
		}
		all++
		if s.Primary == "" || m.Live[s.Primary] == nil || m.Live[s.Primary].Epoch < s.Epoch {
			leaders++
		}
		if len(s.InSync) < min(1+m.Cluster.Replicas, len(m.Members(s.ID))) {
			lagging++
		}
	}
	switch {
	case leaders > 0:
		return fmt.Sprintf("waiting for the primaries of %d of %d shards", leaders, all)
	case lagging > 0:
		return fmt.Sprintf("waiting for the replicas of %d of %d shards (if this does not end, their logs say why)", lagging, all)
	}
	return ""
}
