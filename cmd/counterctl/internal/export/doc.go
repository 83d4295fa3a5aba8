// Package export writes posts as text that other programs read: tables (TSV, CSV), commands in the Redis protocol, SQL.
//
// An Encoder appends text to a byte slice and knows nothing of files:
//
//	Start                       once a file
//	Table  Row Row Row ... End  for each counter
//	Finish                      once a file
//
// A File takes the bytes: it compresses as its name says, and is there under its name only once all of it is on the
// disk. An export that ends halfway leaves nothing behind.
//
// A Tally counts posts and sums columns as they are written, to be compared with the sums of the source.
package export
