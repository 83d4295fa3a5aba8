// Package wire is the client side of the Redis protocol, as the programs of this module speak it: the load generator, a
// node that asks or follows another, and counterctl. It is made for the first, which is measured: commands are appended
// to a byte slice that the caller owns, replies are read out of one preallocated buffer, and nothing is allocated in
// the steady state. A general client spends more than a microsecond and several allocations on a command; here it is
// well under a tenth of that, so that on one machine with the server under test the generator does not limit the
// result.
//
//	buf = wire.AppendArray(buf[:0], 2)     *2
//	buf = wire.AppendArg(buf, "INCR")      $4 INCR
//	buf = wire.AppendKey(buf, mid, "cntrn")
//
// Three kinds of errors come back, and they mean different things:
//
//   - *ServerError: an error reply. The stream is in step; the connection can go on.
//   - ErrProtocol: bytes that are no reply, or not the kind of reply asked for. The stream is out of step; close it.
//   - anything else, from the network. Close it.
//
// What a server may send is bounded before memory is taken for it, and a reply is read without recursion. How long it
// may take is the caller's: by the context of Dial, whose end closes the connection, and by deadlines.
//
// RESP2 is what is spoken; RESP3's null is understood where a value may be absent.
//
// # Files
//
//	conn.go auth.go ping.go      a connection: made, authenticated, asked whether the server serves
//	dead_linux.go dead_other.go  connections to machines that are silent
//	append.go raw.go             commands
//	reader.go value.go           replies
package wire
