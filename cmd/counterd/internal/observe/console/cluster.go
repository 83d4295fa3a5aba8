package console

import (
	"fmt"

	"github.com/counterd/counterd/cmd/counterd/internal/observe/facts"
)

// cluster: problems of the node's part, and of the whole cluster.
func (j *judge) cluster(v *facts.State, say sayer) {
	c := v.Cluster
	if c == nil {
		return
	}
	if v.Agent != nil && v.Agent.Etcd != "" {
		say(Bad, "etcd", "etcd does not answer", "All nodes keep their roles. Changes continue while all nodes of the in-sync set acknowledge them, but no failover is possible. "+facts.Clip(v.Agent.Etcd))
	}
	switch {
	case c.Shard == 0:
		say(Note, "free", "This node is free: it belongs to no shard yet", "Use counterctl cluster create or counterctl cluster add to give it a shard.")
	case c.Primary && c.Writes != "":
		say(Bad, "writes", "Changes are refused", facts.Clip(c.Writes))
	case c.Reads != "":
		say(Bad, "reads", "Reads are refused", facts.Clip(c.Reads))
	}
	if c.Headless > 0 {
		say(Bad, "headless", plural(c.Headless, "shard has", "shards have")+" no live primary", "Its posts can be neither read nor changed until a node of its in-sync set is back.")
	}
	if c.Unowned > 0 {
		say(Bad, "unowned", fmt.Sprintf("%d hash slots belong to no shard", c.Unowned), "counterctl cluster check lists them.")
	}
	if c.Thin > 0 {
		say(Warn, "thin", plural(c.Thin, "shard has", "shards have")+" nodes that are not in sync", "They join the in-sync set automatically when they have caught up.")
	}
	if c.Away > 0 {
		say(Warn, "away", plural(c.Away, "node is", "nodes are")+" away", "counterctl cluster status lists them; counterctl cluster remove removes one for good.")
	}
	if c.Moves > 0 {
		say(Note, "moves", plural(c.Moves, "move", "moves")+" of hash slots in progress", "")
	}
}
