// Package idmp reads numbered commands and keeps their replies: the arguments behind IDMP, a hash of all others, and
// replies in a form that outlives connections. It is pure; counter.Once makes a change once.
//
// # The arguments
//
// They come last: ... IDMP producer seq [EPOCH epoch]. producer is 1 to 32 bytes, seq 0..2^64-1, epoch 0..2^63-1 and 0
// without EPOCH. The word IDMP stands where the commands that take it have a number, a name of an option or a key, and
// is none of these, or behind their last argument, so nothing else can be meant. (HSET with a column called IDMP has an
// even number of arguments, name included, and an odd one with these behind. HDEL takes a column called IDMP for one unless
// two other fields follow it as the last ones: then it is refused, as the last one is no sequence number. Name it last.)
//
// # The hash
//
// The same seq with other arguments is refused. The request is kept as a hash of 21 bits, in the log and in snapshots, so
// the hash is part of their format and must not change. It is CRC32C (Castagnoli), as a state that is continued over the
// pieces, the length of each xored into it before:
//
//	h = crc32c(0, name in lower case, with "|" between container and subcommand)
//	h = crc32c(h ^ length, argument)                     for each, but for IDMP and what follows it
//	hash = (h * 0x9E3779B97F4A7C15 mod 2^64) >> 43
//
// where crc32c(state, bytes) begins with the complement of state and returns the complement, as in zlib's crc32(). The
// multiplication mixes the bits, as the low 21 of a CRC alone would be equal for one in 2^21 pairs of differences,
// whatever they differ in. A transaction is hashed as EXEC with all arguments of all its commands, names among them,
// again in lower case.
//
//	incr 1.cntcm                        671883
//	incrby 19089006004.cntcm 1          1877437
//	hset 7 comment 3 repost 4           1673504
//	exec, of incr 1.a and set 2.b 5      104966
//
// # Replies
//
// A counter.Result keeps a reply in few bytes and says nothing of a protocol. What is no single number is a blob:
//
//	blob     reply
//	reply    tag 1 byte | what the tag says
//
//	 1  integer       zigzag varint
//	 2  OK
//	 3  bulk string   the digits of a varint
//	 4  null          where a string could be
//	 5  null          where an array could be
//	 6  bulk string   length v | bytes
//	 7  status        length v | bytes
//	 8  error         length v | bytes
//	 9  array         n v | n replies
//	10  map           n v | 2n replies
//	11  set           n v | n replies
//	12  error         "increment or decrement would overflow", which is what additions of a batch answer
package idmp
