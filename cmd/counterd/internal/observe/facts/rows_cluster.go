package facts

// member is a row of a node of a cluster.
func member(f Fact, of func(c *Cluster) Value) Fact {
	f.read = func(s *State) Value {
		if s.Cluster == nil {
			return Unknown
		}
		return of(s.Cluster)
	}
	return f
}

// inShard is a row of a node that has a shard.
func inShard(f Fact, of func(c *Cluster) Value) Fact {
	return member(f, func(c *Cluster) Value {
		if c.Shard == 0 {
			return Unknown
		}
		return of(c)
	})
}

// agent is a row about a node's work in etcd.
func agent(metric, label, name, help string, of func(a *Agent) uint64) Fact {
	return Fact{Metric: metric, Type: Counter, Labels: []string{label}, Label: name, Help: help, read: func(s *State) Value {
		if s.Agent == nil {
			return Unknown
		}
		return Uint(of(s.Agent))
	}}
}

// labelled is a row that shares its metric with others.
func labelled(metric, label, value, json, help string, of func(c *Cluster) Value) Fact {
	return member(Fact{Metric: metric, Type: Gauge, Labels: []string{label}, Label: value, JSON: json, Help: help}, of)
}

// served says why something is refused.
func served(refusal string) Value {
	if refusal == "" {
		return Text("served")
	}
	return Text(refusal)
}

// refusal is served where a missing value says that nothing is refused.
func refusal(text string) Value { return known(text != "", Text(Clip(text))) }

// clusterRows are about a node of a cluster. Other servers have none of them but the first.
var clusterRows = join(
	in("Cluster", PartCluster,
		Fact{Info: "cluster_enabled", Help: "1 for a node of a cluster.", read: func(s *State) Value { return Bool(s.Cluster != nil) }},
		member(Fact{Info: "cluster_name", Help: "Name of the cluster."}, func(c *Cluster) Value { return Text(c.Name) }),
		member(Fact{Info: "cluster_node_id", Help: "Id of this node."}, func(c *Cluster) Value { return Text(c.NodeID) }),
		member(Fact{Info: "cluster_map_revision", Metric: "cluster_map_revision", Type: Gauge, Help: "Revision in etcd of the cluster map that this node has."}, func(c *Cluster) Value { return Int(max(c.Revision, 0)) }),
		member(Fact{Info: "cluster_role", Help: "primary, replica, or free for a node without a shard."}, func(c *Cluster) Value {
			switch {
			case c.Primary:
				return Text("primary")
			case c.Shard != 0:
				return Text("replica")
			}
			return Text("free")
		}),
		member(Fact{Metric: "cluster_primary", Type: Gauge, JSON: "cluster.primary", Help: "1 while this node is the primary of its shard."}, func(c *Cluster) Value { return Bool(c.Primary) }),
		member(Fact{Info: "cluster_shard", Metric: "cluster_shard", Type: Gauge, JSON: "cluster.shard", Help: "Number of this node's shard; 0 for a free node."}, func(c *Cluster) Value { return Int(c.Shard) }),
		inShard(Fact{Info: "cluster_shard_epoch", Metric: "cluster_epoch", Type: Gauge, JSON: "cluster.epoch", Help: "Epoch of this node's shard: it increases with each new primary."}, func(c *Cluster) Value { return Uint(c.Epoch) }),
		labelled("cluster_shard_nodes", "state", "all", "", "Nodes of this node's shard.", func(c *Cluster) Value { return Int(c.Members) }),
		inShard(Fact{Info: "cluster_shard_in_sync", Metric: "cluster_shard_nodes", Type: Gauge, Labels: []string{"state"}, Label: "in_sync",
			Help: "Nodes in the in-sync set of this node's shard: they have all acknowledged changes."}, func(c *Cluster) Value { return Int(c.InSync) }),
		member(Fact{Info: "cluster_slots_served", Metric: "cluster_slots", Type: Gauge, Help: "Hash slots that this node serves."}, func(c *Cluster) Value { return Int(c.Slots) }),
		member(Fact{Info: "cluster_reads", Help: "served, or why reads are refused."}, func(c *Cluster) Value { return served(c.Reads) }),
		labelled("cluster_serving", "kind", "reads", "", "1 while this node serves reads.", func(c *Cluster) Value { return Bool(c.Reads == "") }),
		member(Fact{JSON: "cluster.reads", Help: "Why reads are refused; absent while they are served."}, func(c *Cluster) Value { return refusal(c.Reads) }),
		member(Fact{Info: "cluster_writes", Help: "served, or why changes are refused."}, func(c *Cluster) Value { return served(c.Writes) }),
		labelled("cluster_serving", "kind", "writes", "", "1 while this node serves changes.", func(c *Cluster) Value { return Bool(c.Writes == "" && c.Primary) }),
		member(Fact{JSON: "cluster.writes", Help: "Why changes are refused; absent while they are served."}, func(c *Cluster) Value { return refusal(c.Writes) }),
		member(Fact{Info: "cluster_schema_revision", Help: "Revision of the cluster's schema."}, func(c *Cluster) Value { return Int(c.Schema) }),
		Fact{Info: "cluster_trouble_*", Help: "One line for each fault that this node reports about itself: its severity and a text.", read: func(*State) Value { return Unknown },
			lines: func(s *State, line func(name, value string)) {
				if s.Agent != nil && s.Cluster != nil {
					for _, t := range s.Agent.Troubles {
						line("cluster_trouble_"+t.ID, t.Severity+": "+t.Text)
					}
				}
			}},
		member(Fact{Metric: "cluster_lease_seconds", Type: Gauge, JSON: "cluster.lease", Help: "Time until this node's lease in etcd expires; below 0 it has expired, and reads are refused."}, func(c *Cluster) Value { return Span(c.Lease) }),
		member(Fact{Metric: "cluster_unconfirmed_bytes", Type: Gauge, Help: "Length of the log that not all nodes of the in-sync set have yet: clients wait for these changes."}, func(c *Cluster) Value { return Uint(c.Unconfirmed) }),
		Fact{Metric: "cluster_etcd_up", Type: Gauge, Help: "1 while this node receives updates from etcd.", read: func(s *State) Value {
			return known(s.Agent != nil, Bool(s.Agent != nil && s.Agent.Etcd == ""))
		}},
		Fact{JSON: "cluster.etcd", Help: "Why etcd does not answer; absent while it does.", read: func(s *State) Value {
			if s.Agent == nil {
				return Unknown
			}
			return refusal(s.Agent.Etcd)
		}},
		member(Fact{Metric: "cluster_shards", Type: Gauge, JSON: "cluster.shards", Help: "Shards of the cluster."}, func(c *Cluster) Value { return Int(c.Shards) }),
		labelled("cluster_nodes", "state", "all", "cluster.nodes", "Nodes of the cluster.", func(c *Cluster) Value { return Int(c.Nodes) }),
		labelled("cluster_nodes", "state", "away", "cluster.away", "Nodes of the cluster whose lease has expired.", func(c *Cluster) Value { return Int(c.Away) }),
		labelled("cluster_nodes", "state", "free", "cluster.free", "Nodes of the cluster without a shard.", func(c *Cluster) Value { return Int(c.Free) }),
		labelled("cluster_slots_lacking", "why", "unowned", "cluster.unowned", "Hash slots that no shard owns.", func(c *Cluster) Value { return Int(c.Unowned) }),
		labelled("cluster_slots_lacking", "why", "down", "", "Hash slots of shards whose primary is away.", func(c *Cluster) Value { return Int(c.Down) }),
		member(Fact{JSON: "cluster.headless", Help: "Shards without a live primary."}, func(c *Cluster) Value { return Int(c.Headless) }),
		member(Fact{JSON: "cluster.thin", Help: "Shards with nodes that are not in sync."}, func(c *Cluster) Value { return Int(c.Thin) }),
		member(Fact{Metric: "cluster_moves", Type: Gauge, JSON: "cluster.moves", Help: "Moves of hash slots in progress, in the whole cluster."}, func(c *Cluster) Value { return Int(c.Moves) }),
		agent("cluster_role_changes_total", "kind", "promotion", "Times that this node took over a shard.", func(a *Agent) uint64 { return a.Promotions }),
		agent("cluster_role_changes_total", "kind", "switch", "Times that this node handed its shard over.", func(a *Agent) uint64 { return a.Switches }),
		agent("cluster_role_changes_total", "kind", "shrink", "Nodes that this node removed from the in-sync set.", func(a *Agent) uint64 { return a.Shrinks }),
		agent("cluster_role_changes_total", "kind", "expand", "Nodes that this node added to the in-sync set.", func(a *Agent) uint64 { return a.Expands }),
		agent("cluster_role_changes_total", "kind", "spare", "Free nodes that this node took into its shard.", func(a *Agent) uint64 { return a.Spares }),
		agent("cluster_etcd_failures_total", "kind", "conflict", "Transactions that lost against another one.", func(a *Agent) uint64 { return a.Conflicts }),
		agent("cluster_etcd_failures_total", "kind", "failed", "Transactions that etcd refused or did not answer.", func(a *Agent) uint64 { return a.Failed }),
		agent("cluster_etcd_failures_total", "kind", "lease_lost", "Leases that expired.", func(a *Agent) uint64 { return a.LeasesLost })),
)
