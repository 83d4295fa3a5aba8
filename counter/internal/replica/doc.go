// Package replica is a store's side of replication and of moves of hash slots: the role and the lineage of its log, which nodes
// must have a change, the frames of a primary, and groups of hash slots on their way from one store to another. It works on
// core.Data, and pins files and log by package durable.
//
// # Files
//
//	replication.go                  for the other side: offsets, frames, snapshots
//	notes.go                        small files that were damaged are written again
//	role.go boot.go                 primary or replica, and the lineage of the log; the note of the machine's last end
//	quorum.go shardcommit.go        terms that others decide; waits until all nodes have a change that must have it
//	cursors.go                      HISTORY says that the log has cursors
//	replicate.go framecheck.go      a primary's frames: checked, appended and applied
//	groups.go groupstate.go         groups of hash slots: which may be touched, which are on their way
//	groupexport.go groupimport.go   groups given to another store, and taken over
//	takeover.go                     records of another store: logged and applied
//	groupproducers.go               memory of numbered changes, given and taken over alone
//	groupderived.go                 items of derived columns, likewise
package replica
