// Package transfer moves numbers of posts into a running counterd.
//
// A Sink writes them, a chunk at a time. The items of a chunk are folded to one for each number and sorted, as neighbours
// share blocks, and go in commands of 512 numbers, 16 of them under way: MSET to set, COUNTER.MINCRBY to add, HDEL to
// delete. A chunk is written when all of it is acknowledged.
//
// What may pass (a lost connection, a server that loads, is full, or is no primary now) is waited for, and what was not
// acknowledged is sent again. That a set is made twice changes nothing. Additions bear numbers of a producer (IDMP), and a
// repeat with the same number is answered and not made: so a chunk of additions has no more commands than a server
// remembers numbers, and one that is written again, after a crash, must be the same chunk behind the same number.
//
// # Clusters
//
// A node of a cluster takes a change of one hash slot, so a command has the numbers of one slot, 3 in a full chunk, and
// goes to the primary that CLUSTER SLOTS names; all primaries are written to at once. After an error the slots are asked
// for again. Additions of each group of 64 slots have a producer of their own, as a group's numbers move with it: so the
// numbers of a chunk, 64 a group, are among those that its shard remembers, and a repeat finds them wherever the group is.
// The resume file has the last number of each group. Behind a forward port all is the same, on one connection.
//
// # Import
//
// Import reads a Source and writes to a Sink, one chunk while the next is read, and keeps a State in a resume file: how
// far it is, and what was read, of the same chunks. Where values are set it is written once a second, and what is read
// again after a crash is set again. Where they are added it is written with each chunk, before its first command is sent:
// the chunk too, which an import that goes on writes first, behind the same number.
//
// # A target that loses something
//
// A server may take acknowledged changes back: a replica that lagged is promoted, a disk loses the end of the log with the
// power, a directory is replaced by an older copy. Behind each chunk the Sink asks for the place of the target's log, its
// history and offset. Where the history has changed meanwhile, the chunk is written again, which counts once. Where it ended
// before an earlier chunk, values that are set are read and set again from the start, and an import that adds ends: numbers
// of earlier chunks are forgotten by then. A FLUSHALL does not count as a loss. The comparison at the end shows the values that it deleted.
//
// Sums of what was read are compared with the target's when all is written, and all values where that proves nothing.
//
// # Files
//
//	sink.go    Sink: commands, repeats; lane.go: a connection with a window
//	shards.go  the nodes of a cluster; slots.go: the answer to CLUSTER SLOTS
//	position.go  acknowledged changes that the target has lost
//	fold.go    the items of a number made one
//	chunk.go   Source, Chunk
//	import.go  Import; state.go: the resume file
//	verify.go  whether all is there; asker.go: questions to the target; sum.go
package transfer
