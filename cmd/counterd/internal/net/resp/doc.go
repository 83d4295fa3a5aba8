// Package resp reads the commands of the Redis protocol out of whatever pieces
// the network delivers, and writes the replies. It is pure: it does no I/O,
// starts no goroutine and imports only packages of this module that import none, so every limit in it
// can be proved by a test that feeds it bytes.
//
// # A command on the wire
//
//	array    *<count>\r\n  then count times:  $<length>\r\n <length bytes> \r\n
//	inline   word word "quoted word" 'quoted word'\n          (or \r\n)
//
// A client sends nothing else: RESP3 changed replies, not commands. What begins
// with '*' is an array, anything else is an inline line. Empty lines, *0 and
// *-N are commands of no argument and are passed over, as Redis does.
//
// # The buffer
//
// A [Reader] owns one buffer; the connection loop fills it and empties it:
//
//	for {
//		n, err := conn.Read(r.Space(512))
//		r.Filled(n)
//		for {
//			args, err := r.Next()
//			if err == resp.ErrIncomplete { break }  // read more
//			if err != nil { ... }                   // *ProtocolError: reply, close
//			...                                     // args stay valid for the batch
//		}
//		...                                             // execute, reply, write once
//	}
//
//	     0         start          pos         end              len(buf)
//	buf  | consumed | this command | unparsed  | free           | slack |
//	                ^ spans count from here    ^ Space: at most 64 KiB
//
// Consumed bytes are dropped only when Space needs their room, so a batch of
// commands shares one buffer without copying. Both args and the bytes in them
// stay valid until the next call of Space, Shrink or Release, whichever comes
// first, and not longer: Space may move or overwrite the buffer. Next, Filled
// and SetLimits leave them alone, hence all commands that arrived together may
// be collected with Next before any is executed. The arguments may be modified
// in place; appending to one reallocates it and cannot touch its neighbour.
//
// A command that does not fit in a buffer of 256 KiB leaves its arguments there
// and goes on in another one (aside.go), unless its arguments are large.
//
// # Resuming
//
// The state of an unfinished command is a handful of integers (arguments still
// to come, length of the one being read, how far its header line was searched)
// and the spans of the arguments found so far, counted from the first byte of
// the command and therefore untouched by a move of the buffer. Next goes on
// from there. Payload bytes are never looked at, only the CRLF behind them, so
// the cost is linear in the bytes whatever the size of the reads: a command of
// 10,000 arguments costs the same in one read or in reads of one byte, apart
// from a constant per read. There is no recursion, so no stack to overflow.
//
// # Limits
//
// Every length is checked against [Limits] where it is declared, and nothing is
// allocated on the word of a declaration: the buffer doubles when bytes that
// have arrived fill it, the list of spans grows when an argument has arrived.
// The most that one connection can make a Reader hold is
//
//	buffers  4/3 of MaxCommand + 256 KiB and one read of at most 64 KiB
//	spans     8 bytes an argument of the unfinished command
//	args     24 bytes an argument of the batch
//
// so 22 MiB of buffers and less than 4 MiB of lists after AUTH. Before it the
// buffer is 16 KiB and one read, and the lists are dropped when the batch ends:
// lines of one letter would make them twelve times the bytes received.
//
// Lengths are numbers of at most 19 digits parsed into a uint64, in which they
// cannot overflow (10^19-1 < 2^64); positions are sums of numbers below 2^30.
//
// The outcome depends on the bytes alone, never on how they were cut into
// reads. (Redis accepts an inline line above 64 KiB when it arrives in one
// read.) FuzzReader holds the Reader to this.
//
// # Errors
//
// A [ProtocolError] has the text that Redis 7.0 sends; the server puts "-ERR " in
// front, and closes the connection. A Reader that has failed stays failed: after
// a wrong length nobody knows where the next command begins.
//
// Differences from Redis 7.0, all on purpose:
//
//   - a header line and a payload must end in CRLF. Redis skips the two bytes
//     unseen, so that a client which counts characters instead of bytes writes
//     to a truncated key before anyone notices. Reported as an invalid length.
//   - a zero byte in a line is a byte like others. Redis stops searching there
//     and waits for a line end it will never see.
//   - MaxArgs counts for inline lines too.
//   - one command above MaxCommand bytes is an error with a text of its own;
//     Redis closes without a word.
//
// # Replies
//
// The Append functions of reply.go write the types that differ between RESP2 and
// RESP3, in the form Redis 7.0 gives them in either, and numbers as bulk strings
// without an intermediate. Replies that are the same in both (integers, bulk
// strings, arrays, simple strings) are written by redcon's Append functions.
//
// A connection's replies are a [Replies], which calls them: it knows the version
// of the protocol, and has its memory to itself. The event loop's connections
// write in one [Arena], whose regions cannot overlap.
//
// # Files
//
//	reader.go header.go inline.go  commands: the Reader, headers and arguments of arrays, lines of words
//	aside.go                       the part of a large command that is in earlier buffers
//	whole.go                       commands that have arrived whole, and those that begin like the one before
//	limits.go protocol_error.go    bounds on declared lengths; what is no command
//	release.go                     the memory of a Reader, lent and taken back
//	argument.go                    numbers and names in arguments
//	reply.go replies.go digits.go  replies: their forms, those of a connection; numbers in decimal
//	arena.go large.go              memory that connections share, and memory of large replies
//	packed.go                      rows of posts as nodes of a cluster send them
//	size.go                        where a reply ends
package resp
