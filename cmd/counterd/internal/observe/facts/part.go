package facts

// Part is a set of parts of a State. A part that nothing asks for is not filled: some walk over all connections or all
// blocks.
type Part uint32

// Parts of a State.
const (
	PartClients     Part = 1 << iota // Clients, Traffic, Denied, Slow
	PartConnections                  // Connections: looks at each connection
	PartMemory                       // Memory
	PartCPU                          // CPU
	PartCommands                     // Commands, Errors: looks at each command
	PartPubsub                       // Pubsub, Tracking
	PartTiers                        // Tiers, Memory of the store
	PartPosts                        // Posts, Counters, Columns
	PartUsage                        // Usage: reads each block, or reuses the result of a moment ago
	PartDisk                         // Disk, Log, Snapshots
	PartNodes                        // Link, Replicas, Replication
	PartCluster                      // Cluster, Agent
	PartDiverged                     // Replication.Diverged: reads the data directory
	PartProducers                    // Producers
	PartCursors                      // Cursors
	PartAging                        // Aging
	PartHot                          // Hot: sorts the sampled posts

	// PartProcess is always filled: Process, Loading, Role.
	PartProcess Part = 0
	// AllParts is all of them.
	AllParts = PartHot<<1 - 1
)

// Has tells whether all of other is in p.
func (p Part) Has(other Part) bool { return p&other == other }

// InfoParts are the parts that some sections of INFO read, by their lower-case names.
func InfoParts(wanted func(section string) bool) (p Part) {
	for i := range table {
		if table[i].Section != "" && wanted(table[i].Section) {
			p |= table[i].part
		}
	}
	return p
}

// MetricParts are the parts that metrics read, and JSONParts those of the console.
var MetricParts, JSONParts = func() (metrics, json Part) {
	for i := range table {
		if table[i].Metric != "" {
			metrics |= table[i].part
		}
		if table[i].JSON != "" {
			json |= table[i].part
		}
	}
	return metrics, json
}()
