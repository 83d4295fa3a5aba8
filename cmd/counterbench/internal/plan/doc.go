// Package plan sizes a cluster on paper, before there are machines: what of it etcd holds and writes, what a rack that
// goes dark does to it, how long the data of a dead machine takes to have all its copies again, and what memory, disks,
// machines and money it takes beside Redis Cluster. counterbench cluster prints it.
//
//	plan.go       what is asked, and every figure that is assumed
//	layout.go     machines in racks, nodes on machines, shards on nodes
//	control.go    the map in etcd and in memory, writes of a cluster at rest
//	failure.go    a rack that goes dark, event by event
//	recovery.go   copies that are made again, as flows over disks and networks
//	resources.go  memory, disks, processors, machines, money
//
// # What is exact and what is not
//
// The map is made of the real types (package topology) and encoded as etcd holds it. A rack's failure is simulated from
// a seed: leases end in etcd's own rhythm, candidates compete, replicas are taken out after their two seconds; each
// transaction is counted. Recovery is max-min fair sharing of each machine's disk and network. Costs are products of
// figures measured on one machine (docs/concepts/memory-and-disk.md and docs/internals/performance.md) and of the assumptions in Plan, all of which
// flags can change. So a ratio between the two sides means more than a sum of money.
package plan
