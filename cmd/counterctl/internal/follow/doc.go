// Package follow keeps a counterd up with a Redis or Valkey that is still written to, until its users are moved: it is a
// replica of the source that holds nothing but a position.
//
//	source ──PSYNC──> link ──snapshot──> dump.rdb ──> transfer.Sink ───────────────> target
//	                    └───commands──> spool ──> parser ──> window ──MULTI..EXEC──> target
//
// # The copy
//
// The snapshot is taken to a file first, as fast as the source sends it, and the commands behind it are spooled to another
// while it is loaded: a source gives up replicas that are slower than its buffers. As in a Redis replica, the copy replaces
// the present data: the mapped columns are emptied first. So posts that the source no longer has read as their columns'
// defaults afterwards; the posts themselves stay. A target that is started again meanwhile may have lost some of it: then
// all is copied again.
//
// # The stream
//
// Commands are folded into windows: the effect of some milliseconds, or of some thousand numbers, on each number. A window
// is one transaction of the target, so the target is at every moment what the source was at one offset, and a transaction of
// the source is never seen by half.
//
// # Exactly once
//
// A window carries the number (IDMP) of the offset that it ends at, and so does the copy before the first. The target keeps
// that number with the change, so it alone says where to go on: IDMP LAST, whatever crashed. A window that is sent again
// counts once; a target that does not know of the copy, as it is another one, is given a copy; a target that lost its last
// second is found out by its number and given that second again, if the source still has it, or a new copy. The
// journal notes what the number cannot: which producer's numbers, which history of the source, which database was selected
// at an offset, and which keys are stale. What it notes is on the disk before the window that needs it is sent.
//
// # Stale keys
//
// A key is stale when the target does not hold its number: as a command was not understood, as its value was no number that
// the column can hold, or as an addition would have left the column's range. Commands on it are passed over. It is read
// from the source together with the source's offset, in one transaction, and what was read goes into the window in which the
// stream comes to that offset; from then on commands count again. A value that still does not fit stays stale until it
// is written to again.
//
// # Files
//
//	run.go        the loop
//	commit.go     a window is committed, and noted in the journal
//	full_copy.go  a snapshot replaces everything
//	link.go       the connection to the source
//	links.go      the link runs: snapshots to a file, commands to the spool
//	reader.go     keys that are read from the source
//	spool.go      commands that came and were not yet applied, on disk
//	parser.go     bytes to commands
//	interpret.go  commands to changes of numbers
//	stale.go      keys that are to be read from the source
//	window.go     changes folded
//	target.go     windows to the target
//	journal.go    what must survive
//	copy.go       the keys of a snapshot
package follow
