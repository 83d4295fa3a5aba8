// Package move moves groups of hash slots from one shard to another while both serve clients. Package counter copies the
// data (GroupExport, GroupImport), and package topology describes a move in etcd (StartMove and the changes after it). This
// package decides which primary does each step, and when.
//
//	destination's primary                              source's primary
//	Open                                       ->      keeps its log from here on
//	Producers, Rows                            ->      sends the producers' numbers, then all posts
//	Log, repeatedly                            ->      sends the changes of the groups since Open
//	(all nodes in sync have the copy: CommitShard)
//	Hold                                       ->      stops to serve the groups; returns the end of its log and the
//	                                                   revision of the move
//	Log up to that end                         ->
//	(all nodes in sync have the copy: CommitShard)
//	one transaction (CommitMove): the groups are the destination's, and Came is the offset in its log that has all of them
//	accepts and serves the groups                      sees the transaction in its map; drops the groups
//	(all nodes in sync have the record)                (all nodes in sync have the record)
//	reports to etcd                                    reports to etcd
//
// A node reports nothing to etcd that only its own log has: its next primary may lack it. Replication has two commits, named
// by the nodes that must have a change: CommitHere and CommitShard.
//
// Everything that arrives is in the destination's log. So its replicas have it, and a new primary there knows what has
// arrived. It starts the copy again.
//
// # Why a group has one owner, and nothing is lost
//
//   - The transaction compares the move's revision with the revision of the hold, and both shards' keys. A source that did
//     not hold, ended its hold, or leads another epoch cannot lose its groups by it.
//   - A source that held serves the groups again only when the transaction cannot happen any more: the move has another
//     revision, and the groups are still its own. After holdFor the source gives the move another revision itself
//     (CancelHold). While etcd does not say whether it did, nobody serves the groups: they are never served on a guess.
//   - The source's log up to the offset of the hold has everything that was acknowledged for the groups. The destination has
//     all of it on all nodes in sync before it commits. A source that fails over in between has another epoch.
//   - The destination starts a copy again, which drops the groups that arrived, only while no transaction of its own can
//     still happen. After a transaction that etcd did not answer, the destination gives the move another revision, or learns
//     that the transaction happened.
//
// # Failures
//
// A copy fetches from one process in one epoch (source). It ends when the map shows that this process does not lead any
// more, and starts again with the next primary: a connection to a lost machine may stay silent. The producers of the first
// attempt are dropped with its posts, as the next primary may lack their changes.
//
// A primary may find groups in its log that arrive by moves that etcd does not know any more: see reconcile.go.
//
// A destination without memory for the producers tries again until there is some.
// Whatever fails, the destination continues or starts again for as long as the move exists; Progress has the reason why it
// does not continue. A new primary starts from the map: it accepts and drops the groups of a committed move, and drops
// those of an aborted one. Each step may be repeated.
//
// # Locks
//
// Mover.mu is a leaf. Mover.holding is held while the host withholds groups from clients, outside of the store's locks.
package move
