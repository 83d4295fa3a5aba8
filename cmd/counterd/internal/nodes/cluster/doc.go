// Package cluster is what makes a server one node of a cluster: it keeps the node's place in etcd (package registry),
// takes the role that etcd says, takes over where a primary is gone, and says what clients may be served (Standing). How
// the log travels and whose acknowledgements are awaited is the host's (Host), which package repl and the server are.
//
// # What is promised
//
// A change that was acknowledged is in the log of whoever etcd makes the primary, whatever fails: processes, machines,
// links in both or one direction, etcd, clocks. One process leads an epoch. No rule below rests on time, but how old a
// read may be.
//
// # The rules
//
//  1. A primary acknowledges a change when every node that it requires has it. It requires those that etcd says are in
//     sync, those that it is about to add (Expand: required first, then added), and those that it is about to remove until
//     it has read in etcd that they are (Shrink). So what it requires holds all that etcd may have as in sync.
//  2. Who becomes primary is in sync, and says so itself by a transaction (Promote) with the next epoch. From the moment
//     that it leads it acknowledges nothing to older epochs: those are short of one that they require.
//  3. A process leads an epoch once. One that starts and finds itself primary rests (Live.Rests); others in sync take
//     over, or, if none does, it promotes itself to another epoch. So logs of one epoch have one writer.
//  4. A node whose machine went down under it (fsync not at each change) is behind: it may lack what it acknowledged, until
//     it has caught up with a primary. Meanwhile it becomes primary only if all in sync are behind and can be asked: the
//     one with the most. The same holds for a node whose log was cut for a primary.
//  5. A node does not cut its log below what it knows to be confirmed in its shard, until an epoch begins by FORCE-UNCLEAN,
//     or by rule 4 (Host.Shard). By the rules above this never comes up: a disk that was set back, or a fault of the program, is
//     behind it. A node in sync that finds its primary without what was confirmed takes over, once.
//
// # Failover
//
// A candidate is in sync and finds that the primary's key is gone from etcd (its lease ran out), that the primary's port
// refuses connections (its process is dead: no lease is waited for), that it rests, or that it lacks what was confirmed. It writes into its own key how much
// it has and that it wants the epoch (Live.Wants); who has the most proposes at once, the others later, by their rank. What
// comes second conflicts.
//
// A primary whose disk hangs, for 2 s, rests while another node in sync is there: reads and changes are refused, and that
// one takes over. What it could not write was not acknowledged.
//
// A primary that reaches none of the others, while etcd shows them alive, lets one of them lead before it makes itself
// the only one in sync.
//
// # Etcd is away
//
// Roles stay. A primary with all that it requires goes on acknowledging; one that would have to remove a node answers
// UNCERTAIN to who waits and CLUSTERDOWN to new changes until etcd is back or the node acknowledges. Reads end with the
// lease.
//
// # Files
//
//	agent.go                     the agent: one step, and the order of its parts
//	loop.go                      the state that the parts share, and how a change is proposed
//	register.go                  the node's keys in etcd
//	role.go standing.go          which role the map gives; what clients may be served
//	insync.go                    the primary: who is required, added, removed
//	election.go                  who takes over
//	handover.go                  planned switches, drains, FORCE-UNCLEAN
//	spare.go                     free nodes for shards with too few
//	troubles.go                  what the node reports as wrong with itself
//	starts.go                    whether the node's directory is an older copy
//	home.go                      what the node's directory says of it
//	host.go                      what is asked of the server
//	stats.go                     what is counted
//
// # Locks
//
// One goroutine decides (Agent.run) and calls the host; transactions run beside it, one at a time. membership.mu
// and Directory.mu are leaves.
package cluster
