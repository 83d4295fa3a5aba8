// Package move brings groups of hash slots from one shard to another while both serve clients. What that means for the
// data is package counter's (GroupExport, GroupImport); what etcd says of it is package topology's (StartMove and what is
// behind it). Here is who does what, and when.
//
//	destination's primary                              source's primary
//	Open                                       ->      keeps its log from here on
//	Producers, Rows                            ->      what was done for producers, then all posts
//	Log, again and again                       ->      what its log says of the groups since Open
//	(what came is on all nodes in sync: CommitShard)
//	Hold                                       ->      serves the groups to nobody any more; says where its log ends, and
//	                                                   which revision the move has
//	Log up to there                            ->
//	(what came is on all nodes in sync: CommitShard)
//	one transaction (CommitMove): the groups are the destination's, and Came is where its log has all of them
//	accepts them, serves them                          sees it in its map; drops them
//	(the record is on all nodes in sync)               (the record is on all nodes in sync)
//	etcd is told                                       etcd is told
//
// Nothing is told to etcd on the strength of one node's log: its next primary may lack it. Replication has two commits, which
// say whose they are: CommitHere and CommitShard.
//
// Everything that comes is in the destination's log. So its replicas have it, and who takes over there knows what is here
// (and begins the copy anew).
//
// # Why there is one owner, and nothing is lost
//
//   - The transaction compares the move's revision with that of the hold, and both shards' keys. Who was not held, or has
//     taken the hold back, or leads another epoch, cannot lose its groups by it.
//   - A source that held serves the groups again only when it knows that the transaction cannot happen: the move has
//     another revision, and the groups are still its own. After holdFor it gives the move another revision itself
//     (CancelHold). While etcd does not say whether it did, nobody serves them: they are never served on a guess.
//   - What the source's log has up to the hold's offset is all that was ever told of the groups, and the destination has it
//     on all nodes in sync before it commits. A source that fails over in between has another epoch.
//   - The destination begins a copy anew, which drops what it has, only while it knows that no transaction of its own can
//     still happen: after one that etcd did not answer it gives the move another revision, or learns that it did happen.
//
// # Failures
//
// A copy fetches from one process in one epoch (source). It ends when the map shows that this one leads no more, and begins
// anew with the next primary: a connection to a machine that is lost does not say so. What the first attempt brought of
// producers is dropped with its posts, as the next primary may lack the changes.
//
// A primary may find groups in its log on their way by moves that etcd does not know any more: see reconcile.go.
//
// Whatever fails, the destination goes on from where it is, or begins anew, for as long as the move is there; Progress says
// why it does not go on. Who leads begins with the map: a committed move is accepted and dropped, an aborted one dropped,
// by whoever is primary then. Each step may be made twice.
//
// # Locks
//
// Mover.mu is a leaf. Mover.holding is held while clients are told what they are not served, outside of the store's locks.
package move
