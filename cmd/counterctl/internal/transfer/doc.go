// Package transfer moves numbers of posts into a running counterd.
//
// A Sink writes them, a chunk at a time. The items of a chunk are folded to one for each number and sorted, as
// neighbours share blocks, and go in commands of 512 numbers, 16 of them under way: MSET for what is set,
// COUNTER.MINCRBY for what is added, HDEL for what is taken away. A chunk is written when all of it is acknowledged.
//
// What may pass (a lost connection, a server that loads, is full, or is no primary now) is waited for, and what was not
// acknowledged is sent again. That a set is made twice changes nothing. Additions bear numbers of a producer (IDMP), and a
// repeat with the same number is answered and not made: so a chunk of additions has no more commands than a server
// remembers numbers, and one that is written again, after a crash, must be the same chunk behind the same number.
//
//	sink.go  Sink: commands, window, repeats
//	fold.go  the items of a number made one
package transfer
