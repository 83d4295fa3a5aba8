// Package topology is the map of a cluster: its nodes, its shards, which groups of hash slots each of them owns, and which
// are being moved. It is pure: keys read from etcd become a Map, and decisions become Changes, which package registry
// commits. Servers and tools share it.
//
// # Words
//
//	node      one server process with its directory; its id is in that directory for ever
//	shard     the nodes that hold the same log: a primary and its replicas
//	epoch     counts a shard's primaries. It only rises; each names one primary
//	in-sync   of a shard's nodes, those that have all that was acknowledged: only one of them may become primary
//	group     64 neighbouring hash slots (package slot), which one shard owns
//	move      some groups on their way from a shard to another
//
// # Invariants
//
//	a shard's epoch only rises, and a new primary has a new one
//	a primary is in its in-sync set; a node is of one shard at most
//	a group is owned by one shard at most; a move is of groups that its source owns
//
// Faults lists what contradicts them. A shard is made with epoch 0 and one node in sync, which promotes itself to epoch 1
// as after any failover.
//
// Every change is a transaction that compares the revisions of the keys that it was made from, so two that contradict each other
// cannot both be made.
//
// # Files
//
//	map.go values.go       a Map, and how its parts are written in etcd
//	change.go              a Change: what it writes, and which revisions it compares
//	member.go place.go     nodes join, leave and get a shard; where a new replica should be
//	role.go                a shard's primary, epoch and in-sync set
//	move.go rebalance.go   moves of groups; which moves make shards equal
//	start.go trouble.go    the starts of a node's directory; what a node reports as wrong
//	faults.go census.go    what contradicts the invariants; counts of nodes and groups
package topology
