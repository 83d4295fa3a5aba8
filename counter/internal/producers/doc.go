// Package producers remembers which requests of which client were executed, so that a repeated request is answered and not
// executed again.
//
// A producer is a client that numbers its changes: by an id of 1 to 32 bytes and a sequence number, seq, that rises. For
// each of the highest 128 seqs of a producer the table keeps a hash of the request, and the result. A seq that is there is a
// repeat; one that is not and is above all that fell out of this window is new; all others have expired.
//
//	          from                               highest
//	            v                                   v
//	... expired | 17  .  19  20  .  .  23  ...     144 | new
//	              (at most 128; gaps are new too, while nothing above them fell out)
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
// Replay and replicas call Define and Apply as the log has them, and never Begin. All that is decided by the clock or
// by limits is decided in Begin, so tables that get the same records are equal, but for times of last use: a repeat
// is a use, and is not logged.
//
// A producer has a number, its place in the table, by which the log names it, and a base, which seqs in the log are
// relative to: both take 2 bytes at most. A define record gives them, before the first entry and when the base moves.
//
// # Limits
//
// Producers and bytes are limited. A new producer takes the place of the one that is idle for longest, if that was not
// used for Limits.MinIdle seconds: until then its window is kept. Time without a server does not count, see Resume. Else
// the request is refused before it has changed anything. Producers stand in a list by last use, so the longest idle one
// is found at once; the list is touched once a second a producer.
//
// # Memory
//
// An entry takes 24 bytes without a pointer, a full window 3 KiB: 10,000 producers take 31 MiB. Results that are no
// single number are bytes (a blob) in one buffer a producer, which is packed when it is full. Limits.Bytes counts the
// capacity of rings and buffers and a fixed cost a producer, and the tests compare that with what is really taken.
//
// Begin looks in a map by id, or not even that where Request.Hint is right, and makes one comparison: a new seq is
// above the highest. It allocates nothing, nor does Insert once a ring has its size: 40 ns both.
//
// # Files
//
//	table.go     the producers by number, id and last use; what the log says of them
//	try.go       requests: Begin, Insert, and fences
//	producer.go  one producer: its window and blobs
//	ring.go      the window
//	image.go     a table as bytes
//	merge.go     what another table remembers of groups of hash slots that come from it
//	stats.go     what people want to know
package producers
