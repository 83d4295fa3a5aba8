// Package past changes what a data directory says of its past, while nobody has the directory open: it cuts the end of a log
// that a primary has otherwise (Cut), puts a primary's data in the place of a directory's own (Install), and keeps what is
// taken out. It empties a damaged directory, to be filled with the data of another node (GiveUp).
//
// # Crash rules
//
//   - What is cut or replaced is saved first, durably: frames as diverged-<epoch>-<offset>.aof, a whole data set as
//     diverged-<n>.archive.
//   - HISTORY says durably what was begun before the first file goes, and that it has ended after the last one did.
//     FinishBegun, which every start calls, finishes it after a crash. Each step may be done again.
//   - DURABLE goes durably before the log's new end counts: its claim is for the bytes that are cut.
//
// # Files
//
//	cut.go       cuts the end of a log
//	install.go   takes over a primary's snapshot and log
//	diverged.go  files that keep what was cut or replaced
//	healing.go   sets the files of a damaged directory aside, until another node's data is there
//	coldaside.go finds cold files that were set aside
//	room.go      removes parts of such files where the disk has no room for a copy beside them
//	restored.go  puts the data of a backup in the place of a damaged directory's
//	damagedlog.go reads the log of such files
//	mendlog.go   puts frames of another node in the place of damaged ones
//	logend.go    reads where a log ends
//	longer.go    notes that a replica has more of the log
//	nothing.go   tells that a damaged directory holds nothing, and makes it a new one
//	aside.go     files that tools take out of a directory
package past
