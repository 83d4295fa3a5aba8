package metrics

// Cluster is a node's part in its cluster, and what it knows of the whole.
type Cluster struct {
	Shard        int64 // its number; 0: a free node
	Primary      bool
	Epoch        uint64 // of its shard
	Slots        int64  // hash slots that it serves
	Members      int64  // nodes of its shard
	InSync       int64  // of them those that etcd has as in sync
	Reads        bool   // they are served
	Writes       bool
	LeaseLeft    float64 // seconds; below 0 when it ran out
	Unconfirmed  uint64  // bytes of log that were written here and that not all have who must
	EtcdUp       bool    // it was heard of, and what it says is new
	MapRevision  uint64
	Shards       int64
	Nodes        int64 // registered
	NodesAway    int64 // of them those without a lease
	NodesFree    int64 // of them those of no shard
	SlotsUnowned int64 // of no shard
	SlotsDown    int64 // of a shard whose primary is away
	Moves        int64 // under way

	Promotions, Switches, Shrinks, Expands, Spares uint64
	Conflicts, Failed, LeasesLost                  uint64
}

// member is a family of nodes of a cluster, with one series.
func member(value func(c *Cluster) float64) func(f *Figures, add add) {
	return func(f *Figures, add add) {
		if f.Cluster != nil {
			add(value(f.Cluster))
		}
	}
}

// members is member with several series.
func members(values func(c *Cluster, add add)) func(f *Figures, add add) {
	return func(f *Figures, add add) {
		if f.Cluster != nil {
			values(f.Cluster, add)
		}
	}
}

// clusterFamilies are of a node of a cluster; another server has none of them.
var clusterFamilies = []family{
	{kind: gauge, name: "cluster_shard", help: "The number of this node's shard, 0 for a free node.", many: member(func(c *Cluster) float64 { return float64(c.Shard) })},
	{kind: gauge, name: "cluster_primary", help: "1 while this node leads its shard.", many: member(func(c *Cluster) float64 { return truth(c.Primary) })},
	{kind: gauge, name: "cluster_epoch", help: "The epoch of its shard: each primary has another.", many: member(func(c *Cluster) float64 { return float64(c.Epoch) })},
	{kind: gauge, name: "cluster_slots", help: "Hash slots that this node serves.", many: member(func(c *Cluster) float64 { return float64(c.Slots) })},
	{kind: gauge, name: "cluster_shard_nodes", help: "Nodes of its shard. state: all, or in_sync, those that have all that was acknowledged.", labels: []string{"state"},
		many: members(func(c *Cluster, add add) {
			add(float64(c.Members), "all")
			add(float64(c.InSync), "in_sync")
		})},
	{kind: gauge, name: "cluster_serving", help: "1 while this node serves what it is there for. kind: reads, writes.", labels: []string{"kind"},
		many: members(func(c *Cluster, add add) {
			add(truth(c.Reads), "reads")
			add(truth(c.Writes), "writes")
		})},
	{kind: gauge, name: "cluster_lease_seconds", help: "Time until this node's lease in etcd runs out; below 0 it did, and reads are refused.", many: member(func(c *Cluster) float64 { return c.LeaseLeft })},
	{kind: gauge, name: "cluster_unconfirmed_bytes", help: "Log that was written here and that not all nodes have which must have it: who made those changes waits.",
		many: member(func(c *Cluster) float64 { return float64(c.Unconfirmed) })},
	{kind: gauge, name: "cluster_etcd_up", help: "1 while this node hears of etcd what is new.", many: member(func(c *Cluster) float64 { return truth(c.EtcdUp) })},
	{kind: gauge, name: "cluster_map_revision", help: "The revision of etcd that this node's map of the cluster is of.", many: member(func(c *Cluster) float64 { return float64(c.MapRevision) })},
	{kind: gauge, name: "cluster_shards", help: "Shards of the cluster.", many: member(func(c *Cluster) float64 { return float64(c.Shards) })},
	{kind: gauge, name: "cluster_nodes", help: "Nodes of the cluster. state: all; away, without a lease; free, of no shard.", labels: []string{"state"},
		many: members(func(c *Cluster, add add) {
			add(float64(c.Nodes), "all")
			add(float64(c.NodesAway), "away")
			add(float64(c.NodesFree), "free")
		})},
	{kind: gauge, name: "cluster_slots_lacking", help: "Hash slots that cannot be served. why: unowned, of no shard; down, of a shard whose primary is away.", labels: []string{"why"},
		many: members(func(c *Cluster, add add) {
			add(float64(c.SlotsUnowned), "unowned")
			add(float64(c.SlotsDown), "down")
		})},
	{kind: gauge, name: "cluster_moves", help: "Moves of groups of hash slots under way, in the whole cluster.", many: member(func(c *Cluster) float64 { return float64(c.Moves) })},
	{kind: counts, name: "cluster_role_changes_total", help: "What this node's agent did. kind: promotion, it took over; switch, it handed over; shrink and expand, of the in-sync set; spare, a free node taken into the shard.",
		labels: []string{"kind"},
		many: members(func(c *Cluster, add add) {
			add(float64(c.Promotions), "promotion")
			add(float64(c.Switches), "switch")
			add(float64(c.Shrinks), "shrink")
			add(float64(c.Expands), "expand")
			add(float64(c.Spares), "spare")
		})},
	{kind: counts, name: "cluster_etcd_failures_total", help: "What did not come about. kind: conflict, another change was first; failed, etcd did not answer or refused; lease_lost.", labels: []string{"kind"},
		many: members(func(c *Cluster, add add) {
			add(float64(c.Conflicts), "conflict")
			add(float64(c.Failed), "failed")
			add(float64(c.LeasesLost), "lease_lost")
		})},
}
