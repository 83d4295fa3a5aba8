// Package datadir checks, repairs and restores the data directory of a store. It is for tools: an operator starts them,
// no server does. The engine never calls it.
//
//	Check           reads everything, changes nothing, and reports what is wrong and where
//	Repair          makes a damaged directory one that a server starts from, and deletes nothing on the way
//	Restore         makes a new directory with the state that another one had at a log offset or a time
//	LoseUnreadable  gives up posts that Repair found nowhere, at the operator's word
//
// # Whose directory
//
// Repair takes the directory's lock. Check and Restore only read, also a directory that a server has open: they are
// given a NewView of it then, which shows the log as it was when it was first listed. An archive.Archive, seen through a
// vfs.View, is read as any other directory.
//
// What a crash broke off, a cut of the log or the taking over of a primary's data, is read as the next start will leave
// it, and Repair finishes it.
//
// # What it knows
//
// The formats and names of files are persist's, which writes them: this package walks the log, lists segments, reads
// manifests and makes segments through persist alone. What a payload means is the engine's: a snapshot.ColdCheck,
// counter.ColdVerifier, is asked about cold files, and counter.Salvage writes what can be read of a damaged block.
//
// # Files
//
//	view.go              NewView: a directory that may be in use
//	check.go             Check
//	repair.go            Repair
//	repair_choice.go     the snapshot or log to start from
//	repair_manifests.go  manifests and their images
//	repair_cold.go       cold files
//	repair_lineage.go    HISTORY
//	repair_header.go     headers of log segments
//	diverged.go          what a node held and its primary does not
//	lose.go              LoseUnreadable
//	restore.go           Restore
//	restore_copy.go      copies the files of a manifest
//	restore_log.go       copies the log and writes HISTORY
package datadir
