package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/counterd/counterd/cmd/counterctl/internal/human"
	"github.com/counterd/counterd/cmd/internal/connect"
	"github.com/counterd/counterd/cmd/internal/topology"
	"github.com/counterd/counterd/internal/slot"
)

var addCommand = command{
	Name:    "cluster add",
	Args:    "NODE...",
	Summary: "turn free nodes into new shards, or into replicas of a shard",
	Details: `Turns free, running nodes into new shards, each with as many nodes as the cluster is set to. With --to, the nodes become replicas
of an existing shard. A new shard owns no hash slots until counterctl cluster rebalance or move gives it some.

A lost node is replaced by a free one automatically. If no node is free, start one, add it with --to, and then remove the lost
node with counterctl cluster remove.
` + commonHelp,
	Setup: func(flags *pflag.FlagSet) action {
		f := addFlags(flags, true)
		to := flags.Int("to", 0, "`shard` that gets the nodes as replicas")
		return withCluster(f, func(ctx context.Context, s *session, args []string) error {
			if len(args) == 0 {
				return misuse("got no nodes, want their HOST:PORT")
			}
			if *to != 0 {
				return s.addReplicas(ctx, args, topology.ShardID(*to))
			}
			return s.addShards(ctx, args)
		})
	},
}

var removeCommand = command{
	Name:    "cluster remove",
	Args:    "NODE...",
	Summary: "remove nodes, or a whole shard, from a cluster",
	Details: `Removes nodes from their shards. A primary hands over to another node first. A running node is retired, so that no shard takes it
again, and can then be stopped; a lost node is deleted from etcd. With --shard, a whole shard is removed: its hash slots move
to the other shards first, and its nodes become free.

The command refuses to leave a shard with fewer in-sync nodes than changes need. --force overrides this, for nodes that are lost
for good.
` + commonHelp,
	Setup: func(flags *pflag.FlagSet) action {
		f := addFlags(flags, true)
		f.node = connect.AddFlags(flags)
		shard := flags.String("shard", "", "`shard` to remove")
		force := flags.Bool("force", false, "remove nodes even if fewer stay in sync than changes need; one always stays")
		return withCluster(f, func(ctx context.Context, s *session, args []string) error {
			switch {
			case (*shard == "") == (len(args) == 0):
				return misuse("want nodes, or --shard")
			case *shard != "":
				return s.removeShard(ctx, *shard)
			}
			return s.removeNodes(ctx, args, *force)
		})
	},
}

var failoverCommand = command{
	Name:    "cluster failover",
	Args:    "SHARD",
	Summary: "make another node of a shard the primary",
	Details: `Makes another node of the shard its primary. The old primary delays changes for at most half a second, until the new one has
all of them. No request fails.

--force does not wait for the old primary. No acknowledged change is lost, because the new primary is in sync. --unclean accepts a
node that is not in sync, for when no other is left: acknowledged changes that it lacks are lost for good. The command prints
what is known about them and asks for confirmation.
` + commonHelp,
	Setup: func(flags *pflag.FlagSet) action {
		f := addFlags(flags, true)
		f.node = connect.AddFlags(flags)
		to := flags.String("to", "", "`node` to make the primary (default: the in-sync node with the most log)")
		force := flags.Bool("force", false, "do not wait for the old primary, which is lost or hangs")
		unclean := flags.Bool("unclean", false, "accept a node that may lack acknowledged changes, which are then lost")
		return withCluster(f, func(ctx context.Context, s *session, args []string) error {
			if len(args) != 1 || *force && *unclean {
				return misuse("want one shard, and --force or --unclean or none of them")
			}
			how := ""
			if *force {
				how = "FORCE"
			} else if *unclean {
				how = "FORCE-UNCLEAN"
			}
			m, err := s.load(ctx)
			if err != nil {
				return err
			}
			shard, err := shardArg(m, args[0])
			if err != nil {
				return err
			}
			return s.failover(ctx, m, shard, *to, how)
		})
	},
}

var setCommand = command{
	Name:    "cluster set",
	Summary: "change how many replicas and how many in-sync nodes a shard needs",
	Details: `Changes the values that counterctl cluster create was given. Shards that need more replicas take free nodes automatically. Shards
that have too many keep them until counterctl cluster remove takes them out. --min-insync takes effect at once.
` + commonHelp,
	Setup: func(flags *pflag.FlagSet) action {
		f := addFlags(flags, true)
		replicas := flags.Int("replicas", 0, "replicas of each shard")
		least := flags.Int("min-insync", 0, "nodes of a shard that must be in sync for changes to be accepted")
		return withCluster(f, func(ctx context.Context, s *session, args []string) error {
			if len(args) != 0 || !flags.Changed("replicas") && !flags.Changed("min-insync") {
				return misuse("want --replicas or --min-insync, and no arguments")
			}
			m, err := s.load(ctx)
			if err != nil {
				return err
			}
			set := func(m *topology.Map) (int, int) {
				r, l := m.Cluster.Replicas, m.Cluster.MinInSync
				if flags.Changed("replicas") {
					r = *replicas
				}
				if flags.Changed("min-insync") {
					l = *least
				}
				return r, l
			}
			r, l := set(m)
			fmt.Fprintf(s.out.Stdout, "replicas %d (now %d), in sync at least %d (now %d)\n", r, m.Cluster.Replicas, l, m.Cluster.MinInSync)
			if err := s.confirm(); err != nil {
				return err
			}
			_, err = s.change(ctx, func(m *topology.Map) (topology.Change, error) {
				r, l := set(m)
				return topology.SetPolicy(m, r, l)
			})
			return err
		})
	},
}

func (s *session) addShards(ctx context.Context, words []string) error {
	if _, err := s.load(ctx); err != nil {
		return err
	}
	nodes, m, err := s.registered(ctx, words)
	if err != nil {
		return err
	}
	each := 1 + m.Cluster.Replicas
	if len(nodes)%each != 0 {
		return misuse("got %d nodes, want %d for each new shard: a primary and %d replicas (--to adds replicas to a shard)", len(nodes), each, m.Cluster.Replicas)
	}
	if err := areFree(m, nodes); err != nil {
		return err
	}
	plan, err := topology.Place(nodes, len(nodes)/each, m.Cluster.Replicas)
	if err != nil {
		return err
	}
	for i, ids := range plan {
		fmt.Fprintf(s.out.Stdout, "new shard %d: %s leads, replicas %s\n", int(m.Cluster.LastShard)+1+i, label(m, ids[0]), labels(m, ids[1:]))
	}
	if err := s.confirm(); err != nil {
		return err
	}
	for _, ids := range plan {
		m, err := s.change(ctx, func(m *topology.Map) (topology.Change, error) { return topology.AddShard(m, ids, slot.Set{}) })
		if err != nil {
			return err
		}
		shard := m.Nodes[ids[0]].Shard
		if _, err := s.until(ctx, fmt.Sprintf("shard %d is made, but not whole", shard), func(m *topology.Map) string { return unfinished(m, shard) }); err != nil {
			return err
		}
		fmt.Fprintf(s.out.Stdout, "shard %d serves, and owns nothing yet: counterctl cluster rebalance gives it its part\n", shard)
	}
	return nil
}

func areFree(m *topology.Map, nodes []*topology.Node) error {
	for _, n := range nodes {
		if n.Shard != 0 {
			return fmt.Errorf("node %s is of shard %d already", label(m, n.ID), n.Shard)
		}
	}
	return nil
}

func (s *session) addReplicas(ctx context.Context, words []string, to topology.ShardID) error {
	m, err := s.load(ctx)
	if err != nil {
		return err
	}
	if m.Shard(to) == nil {
		_, err := shardArg(m, fmt.Sprint(int(to)))
		return err
	}
	nodes, m, err := s.registered(ctx, words)
	if err == nil {
		err = areFree(m, nodes)
	}
	if err != nil {
		return err
	}
	var ids []topology.NodeID
	for _, n := range nodes {
		ids = append(ids, n.ID)
	}
	fmt.Fprintf(s.out.Stdout, "new replicas of shard %d: %s\n", to, labels(m, ids))
	if err := s.confirm(); err != nil {
		return err
	}
	for _, id := range ids {
		if _, err := s.change(ctx, func(m *topology.Map) (topology.Change, error) { return topology.AssignNode(m, id, to) }); err != nil {
			return err
		}
	}
	_, err = s.until(ctx, "the replicas are added, but not in sync", func(m *topology.Map) string {
		var out []topology.NodeID
		for _, id := range ids {
			if shard := m.Shard(to); shard != nil && !shard.Has(id) {
				out = append(out, id)
			}
		}
		if len(out) > 0 {
			return "waiting until they are in sync: " + labels(m, out)
		}
		return ""
	})
	if err == nil {
		fmt.Fprintf(s.out.Stdout, "%s in sync\n", labels(m, ids))
	}
	return err
}

func (s *session) removeNodes(ctx context.Context, words []string, force bool) error {
	m, err := s.load(ctx)
	if err != nil {
		return err
	}
	var nodes []*topology.Node
	for _, word := range words {
		n, err := find(m, word)
		if err != nil {
			return err
		}
		nodes = append(nodes, n)
		what := "retire it"
		if m.Live[n.ID] == nil {
			what = "forget it: it is gone"
		}
		if shard := m.Shard(n.Shard); shard != nil && shard.Primary == n.ID {
			what = "have another lead, then " + what
		}
		if n.Shard != 0 {
			what = fmt.Sprintf("of shard %d, which has %d nodes: %s", n.Shard, len(m.Members(n.Shard)), what)
		}
		fmt.Fprintf(s.out.Stdout, "%s %.8s: %s\n", label(m, n.ID), string(n.ID), what)
	}
	if err := s.confirm(); err != nil {
		return err
	}
	for _, n := range nodes {
		if err := s.removeNode(ctx, n.ID, force); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) removeNode(ctx context.Context, id topology.NodeID, force bool) error {
	m, err := s.load(ctx)
	if err != nil {
		return err
	}
	n := m.Nodes[id]
	if n == nil {
		return nil
	}
	if shard := m.Shard(n.Shard); shard != nil && shard.Primary == id {
		how := ""
		if m.Live[id] == nil {
			how = "FORCE"
		}
		if err := s.failoverTo(ctx, m, shard, "", how, id); err != nil {
			return err
		}
		if err := s.replaced(ctx, id, force); err != nil {
			return err
		}
	}
	forget := m.Live[id] == nil
	_, err = s.change(ctx, func(m *topology.Map) (topology.Change, error) {
		least := m.Cluster.MinInSync
		if force {
			least = 1
		}
		if forget {
			return topology.ForgetNode(m, id, least)
		}
		return topology.RetireNode(m, id, least)
	})
	switch {
	case err != nil:
		return err
	case forget:
		fmt.Fprintf(s.out.Stdout, "%s is forgotten\n", label(m, id))
	default:
		fmt.Fprintf(s.out.Stdout, "%s is retired: stop it, and give the command again to have it forgotten\n", label(m, id))
	}
	return nil
}

// replaced waits until a shard has enough in sync without the node that led it.
func (s *session) replaced(ctx context.Context, id topology.NodeID, force bool) error {
	_, err := s.until(ctx, "the shard needs the node", func(m *topology.Map) string {
		n := m.Nodes[id]
		if n == nil || m.Shard(n.Shard) == nil {
			return ""
		}
		in, least := len(m.Shard(n.Shard).InSync), m.Cluster.MinInSync
		if m.Shard(n.Shard).Has(id) {
			in--
		}
		if force {
			least = 1
		}
		if in < least {
			return fmt.Sprintf("waiting until %d of shard %d are in sync without it: %d are", least, n.Shard, in)
		}
		return ""
	})
	return err
}

func (s *session) failover(ctx context.Context, m *topology.Map, shard *topology.Shard, to, how string) error {
	return s.failoverTo(ctx, m, shard, to, how, "")
}

// failoverTo has the node that a word means lead a shard, or the one in sync that has most but not the one given. It asks
// unless that is given.
func (s *session) failoverTo(ctx context.Context, m *topology.Map, shard *topology.Shard, to, how string, not topology.NodeID) error {
	var n *topology.Node
	var err error
	if to != "" {
		if n, err = find(m, to); err != nil {
			return err
		}
	} else if n, err = candidate(m, shard, how == "FORCE-UNCLEAN"); err != nil {
		return err
	}
	live := m.Live[n.ID]
	switch {
	case n.Shard != shard.ID:
		return fmt.Errorf("node %s is not of shard %d", label(m, n.ID), shard.ID)
	case shard.Primary == n.ID && how != "FORCE-UNCLEAN":
		return fmt.Errorf("node %s leads shard %d already", label(m, n.ID), shard.ID)
	case live == nil:
		return fmt.Errorf("node %s is gone", label(m, n.ID))
	case !shard.Has(n.ID) && how != "FORCE-UNCLEAN":
		return fmt.Errorf("node %s is not in sync, those are %s; --unclean takes it, and loses what it lacks", label(m, n.ID), labels(m, shard.InSync))
	}
	if not == "" {
		fmt.Fprintf(s.out.Stdout, "shard %d: %s leads epoch %d; then %s\n", shard.ID, label(m, shard.Primary), shard.Epoch, label(m, n.ID))
		if how == "FORCE-UNCLEAN" {
			s.printLoss(m, shard, n, live)
		}
		if err := s.confirm(); err != nil {
			return err
		}
	}
	began := time.Now()
	if _, err := s.ask(ctx, n, strings.Fields("CLUSTER FAILOVER "+how)...); err != nil {
		return err
	}
	m, err = s.until(ctx, "the failover", func(m *topology.Map) string {
		if now := m.Shard(shard.ID); now != nil && now.Primary == n.ID && now.Epoch > shard.Epoch {
			return ""
		}
		return "waiting for " + label(m, n.ID)
	})
	if err == nil {
		fmt.Fprintf(s.out.Stdout, "shard %d: %s leads epoch %d, after %s\n", shard.ID, label(m, n.ID), m.Shard(shard.ID).Epoch, time.Since(began).Round(time.Millisecond))
	}
	return err
}

// candidate is the node of a shard that has most of its log.
func candidate(m *topology.Map, shard *topology.Shard, unclean bool) (best *topology.Node, err error) {
	for _, n := range m.Members(shard.ID) {
		live := m.Live[n.ID]
		primary := n.ID == shard.Primary && !(unclean && live != nil && live.Outdated) // which does not lead
		if primary || live == nil || live.Leaves || !unclean && (live.Behind || live.Outdated || !shard.Has(n.ID)) {
			continue
		}
		if best == nil || live.Written > m.Live[best.ID].Written {
			best = n
		}
	}
	if best == nil {
		if unclean {
			return nil, fmt.Errorf("no other node of shard %d runs", shard.ID)
		}
		return nil, fmt.Errorf("no other node of shard %d runs and is in sync (--unclean takes one that is not, and loses what it lacks)", shard.ID)
	}
	return best, nil
}

// printLoss says what an unclean failover loses, as far as etcd has heard.
func (s *session) printLoss(m *topology.Map, shard *topology.Shard, n *topology.Node, live *topology.Live) {
	out := s.out.Stdout
	if shard.Has(n.ID) && !live.Behind && !live.Outdated {
		fmt.Fprintln(out, "it is in sync: nothing that was acknowledged is lost, and --force does the same")
		return
	}
	why := "it is not in sync"
	if live.Outdated {
		why = "its directory is an older copy"
	}
	fmt.Fprintf(out, "its log ends at offset %d, as of some seconds ago, and %s.\n", live.Written, why)
	known := false
	for _, id := range shard.InSync {
		if other := m.Live[id]; other != nil && other.Written > live.Written {
			known = true
			fmt.Fprintf(out, "%s has log up to offset %d: %s of changes are lost.\n", label(m, id), other.Written, human.Size(other.Written-live.Written))
		}
	}
	if !known {
		fmt.Fprintln(out, "Those in sync are gone: all that was acknowledged behind that offset is lost, and nobody can say how much.")
	}
	fmt.Fprintln(out, "Nodes that had more cut it off when they come back, and keep it in a file beside their log.")
}
