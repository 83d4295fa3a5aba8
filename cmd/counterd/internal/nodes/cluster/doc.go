// Package cluster makes a server one node of a cluster. It keeps the node's keys in etcd (package registry), takes the role
// that etcd gives the node, replaces a primary that is gone, and decides which commands the node may serve (Standing). The
// host (Host) ships the log and waits for acknowledgements: package repl and the server.
//
// # Promises
//
// A change that was acknowledged is in the log of every node that etcd makes the primary, whatever fails: processes,
// machines, links in one or both directions, etcd, clocks. One process leads an epoch. Time decides nothing in the rules
// below, except how old a read may be.
//
// # The rules
//
//  1. A primary acknowledges a change when every required node has it. Required are the nodes in the in-sync set, the nodes
//     that are about to be added (Expand: required first, then added), and the nodes that are about to be removed, until the
//     primary has read the removal in etcd (Shrink). So the required nodes include every node that etcd may have in sync.
//  2. Only a node in sync becomes the primary. It proposes itself by a transaction (Promote) with the next epoch. From the
//     moment that it leads, it acknowledges nothing to primaries of older epochs. They miss a required acknowledgement.
//  3. A process leads an epoch once. A process that starts and finds itself the primary rests (Live.Rests). Another node in
//     sync takes over. If none does, the process promotes itself to another epoch. So the log of an epoch has one writer.
//  4. A node whose machine lost power (unless each change is synced) is behind: its log may lack changes that it
//     acknowledged, until it has caught up with a primary. Meanwhile it becomes the primary only if all nodes in sync are
//     behind and answer. Then the node with the longest log leads. The same holds for a node that cut its log for a primary, unless
//     the log ends then where that primary's epoch begins.
//  5. A node that is about to be alone in sync, as its primary or as a candidate, first has on its disk all changes that were confirmed while others were in sync. So no power
//     failure of one node takes them back. It does not wait longer than syncTime for a disk that is not known to have failed.
//  6. A node does not cut its log below the offset that it knows to be confirmed in its shard. An epoch that begins by
//     FORCE-UNCLEAN, or by rule 4, is the exception (Host.Shard). The rules above never require such a cut: only a disk that
//     was rolled back, or a fault of the program, does. A node in sync whose primary lacks confirmed changes takes over, once.
//
// # Failover
//
// A node in sync becomes a candidate in four cases: the primary's key is gone from etcd (its lease ran out); the primary's
// port refuses connections (its process is dead, so nobody waits for the lease); the primary rests; or the primary lacks
// confirmed changes. The candidate writes the length of its log and the epoch that it wants into its own key (Live.Wants).
// The candidate with the longest log proposes itself at once, the others later, by their rank. The second proposal conflicts.
//
// A primary whose disk hangs for 2 s rests while another node in sync is there. It refuses reads and changes, and the other
// node takes over. Changes that the primary could not write were not acknowledged.
//
// A primary that reaches no other node, while etcd shows that they are alive, lets one of them lead before it makes itself
// the only node in sync.
//
// # Etcd is away
//
// Roles stay. A primary that reaches all required nodes continues to acknowledge. A primary that would have to remove a node
// answers UNCERTAIN to waiting clients and CLUSTERDOWN to new changes, until etcd is back or the node acknowledges. Reads
// end with the lease.
//
// # Files
//
//	agent.go                     the agent: one step, and the order of its parts
//	loop.go                      the state that the parts share, and how a change is proposed
//	register.go                  the node's keys in etcd
//	wanted.go standing.go        the role that the map gives; the commands that the node may serve
//	insync.go                    the primary: required nodes, and changes of the in-sync set
//	parting.go                   the primary: preparations for a set of itself alone
//	election.go                  when and how a node takes over
//	handover.go                  planned switches, drains, FORCE-UNCLEAN
//	spare.go                     free nodes for shards with too few
//	troubles.go                  troubles that the node reports of itself
//	starts.go                    whether the node's directory is an older copy
//	home.go                      the file node.json of the node's directory
//	host.go                      the interface to the server
//	stats.go                     counts of elections, switches and conflicts
//
// # Locks
//
// One goroutine decides (Agent.run) and calls the host; transactions run beside it, one at a time. membership.mu
// and Directory.mu are leaves.
package cluster
