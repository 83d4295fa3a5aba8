// Package producers remembers which requests of which client were executed, so that a repeated request is answered and not
// executed again.
//
// A producer is a client that numbers its changes: by an id of 1 to 32 bytes and a sequence number, seq, that rises. For
// each of the 128 highest seqs of a producer the table keeps a hash of the request, and the result. Of older seqs, at least 10,000 in all
// if they are runs, it keeps that they were made. So it knows of each seq from a floor on whether it was made:
//
//	          from                     lowest of the ring            highest
//	            v                                v                      v
//	... expired | 17 18 19  .  21 ... 10,000 ... | 10,040  . 10,042 ... 10,170 | new
//	              made, without results            with results
//
// A seq with a result is a repeat. A seq without a result is a repeat whose result is ResultGone: the client is told that the change was
// made. A gap is new, however late it comes. A seq below the floor has expired: nobody knows whether it was made. So no seq counts twice,
// as long as its producer is remembered.
//
// A producer has an epoch, which only rises: a request of a lower one is of an older incarnation of the producer, and
// is refused. Seqs go on over epochs: the new incarnation may repeat what the old one was not told.
//
// # Use
//
// A Table is pure: no clock, no lock, no log. A change calls Begin first. After the change is made and logged, it calls
// Insert. The table must be the same in between:
//
//	t.Begin(&request, &try)       // Repeat: try.Result is the answer; Fresh: go on
//	(the change, and its records)
//	t.Insert(&request, &try, result, ...)
//
// Replay and replicas call Define, Apply and Floor as the log has them, and never Begin. All that is decided by the clock or
// by limits is decided in Begin, so tables that get the same records are equal, but for times of last use: a repeat
// is a use, and is not logged. How many seqs are kept without results depends on the seqs alone.
//
// A producer has a number, its place in the table, by which the log names it, and a base, which seqs in the log are
// relative to: both take 2 bytes, and the number of more than 16,384 producers 3. A define record gives them, before the first entry and
// when the base moves.
//
// # Limits
//
// Producers and bytes are limited. When there is no memory, the producer that is idle for longest, and for ResultsFor at least, loses its
// seqs but the highest, by a floor record: repeats of them have expired. When there is no place, or no such producer, the longest idle
// producer is forgotten, if it was not used for Limits.MinIdle seconds. Until then a repeat never counts twice. Time without a server
// does not count, see Resume. Else the request is refused before it has changed anything. Producers stand in a list by last use, so the
// longest idle one is found at once; the list is touched once a second a producer.
//
// A client that makes up a producer for each of its requests leaves 350 bytes each time: 256 MiB hold 800,000 of them, nine new ones a
// second for a day.
//
// # Memory
//
// An entry takes 12 bytes without a pointer, 24 if its seq is far from the others, its value above 32 bits or its result a blob. A full
// ring takes 1.5 KiB. Seqs without results are spans of blocks of 64: 16 bytes a run, at most 8 KiB a producer. So 10,000 seqs in a row
// take 0.19 bytes each, and 100,000 such producers 182 MiB. Results that are no single number are bytes (a blob) in one buffer a producer,
// which is packed when it is full. Limits.Bytes counts the capacity of rings, spans and buffers and a fixed cost a producer, and the tests
// compare that with what is really taken.
//
// Begin looks in a map by id, or not even that where Request.Hint is right, and makes one comparison: a new seq is
// above the highest. It allocates nothing, nor does Insert once a ring has its size.
//
// # Moves
//
// Groups of hash slots move with the results of their changes, and with the numbers of updates, see update.go. Spans do not say of which groups their seqs are. So a move takes a floor
// along instead: behind it, repeats of seqs without results have expired.
//
// # Files
//
//	table.go     the producers by number, id and last use; what the log says of them
//	try.go       requests: Begin, Insert, and fences
//	room.go      producers that lose results, or are forgotten
//	shortage.go  the share of links between nodes
//	producer.go  one producer: its seqs and blobs
//	ring.go      seqs with results
//	made.go      seqs without
//	image.go     a table as bytes
//	merge.go     what another table remembers of groups of hash slots that come from it
//	update.go    numbers of updates, which go along with every group
//	stats.go     what people want to know
package producers
