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
// # Import
//
// Import reads a Source and writes to a Sink, one chunk while the next is read, and keeps a State in a resume file: how
// far it is, and what was read, of the same chunks. Where values are set it is written once a second, and what is read
// again after a crash is set again. Where they are added it is written with each chunk, before its first command is sent:
// the chunk too, which an import that goes on writes first, behind the same number.
//
// Sums of what was read are compared with the target's when all is written, and all values where that proves nothing.
//
//	sink.go    Sink: commands, window, repeats
//	fold.go    the items of a number made one
//	chunk.go   Source, Chunk
//	import.go  Import; state.go: the resume file
//	verify.go  whether all is there; asker.go: questions to the target; sum.go
package transfer
