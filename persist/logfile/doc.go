// Package logfile reads and makes the files of a log: its segments, as they are written and packed, HISTORY and DURABLE. It
// knows no open log: package persist appends to segments that a Maker made, and tools use this package on a directory that
// nobody has open.
//
// # Reading
//
// OpenSegmentFile shows a packed segment as the segment that it was, so that readers need not know. Scanner reads the
// frames of one segment and verifies each. Walker reads segments in order and judges the first place without a frame: it
// is the log's torn end, which a power failure may leave, or damage of bytes that were durable. Every opening, check, dump
// and repair of a log decides by Walker alone. Walk is Walker for tools.
//
// # Making
//
// Maker makes the segment files of a log, prepared ones and durable ones with frames. A file gets its name only when it is
// whole and durable. Copy writes frames that are read elsewhere to segments of a new directory. PackSegment compresses a
// segment.
//
// # Files
//
//	segment.go      a segment file: its place, its header, opening it
//	list.go         the segments of a directory; ending one, making one, frames behind damage
//	scanner.go      the frames of a segment file
//	walker.go       the log from a segment on, and how it ends
//	walk.go         the same for tools
//	torn.go         keeps a torn tail that is cut
//	packed.go       a packed segment as the file that it was
//	packed_open.go  opens a packed segment, finds its chunks
//	pack.go         packs a segment, unpacks one
//	maker.go        makes segment files
//	copy.go         copies frames to new segments
//	named.go        whether a name still leads to the file that is open
//	history.go      HISTORY
//	claim.go        DURABLE
package logfile
