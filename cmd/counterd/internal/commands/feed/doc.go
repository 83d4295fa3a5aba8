// Package feed is the commands COUNTER.FEED, every change of the log behind a position, and COUNTER.CURSOR, named positions that keep
// log. Package feed of counter/internal reads the log and says what a change is; here are the arguments, the replies, and how a client
// waits.
//
//	COUNTER.FEED FROM position|NOW|OLDEST [COUNT n] [BLOCK ms] [SAFE n] [COUNTERS c...] [COLUMNS c...] [MID >= a] [AND] [MID < b] [LATEST] [WITH OLD]
//
//	reply     [position, [change ...]]
//	change    [position, time in ms, [part ...]]     [position, time in ms, [part ...], producer, number]
//	part      [set, counter, mid, column, value, ...]     [del, counter, mid]     [flush]     [schema, text]
//	          [gain, move, groups, shard, offset]     [lose, move, groups]
//	          with OLD: [set, counter, mid, column, value, ..., old]     [del, counter, mid, old]
//	old       null: the log does not tell     []: the post was not there     [column, value before, ...]
//
// The replies are the same arrays in both versions of the protocol. A client goes on from the position of the reply, or from that
// of any change in it. The first is behind changes that were not wanted too.
//
// # Safe changes
//
// A change is shown once no crash takes it back, and in a cluster no failover: Conn.Safe. With appendfsync everysec that is up
// to a second later, but a client that waits with BLOCK on a primary makes the log sync within milliseconds (persist.HurryDurable). With
// SAFE n it is also on n replicas, as WAIT counts them.
//
// # How much is read
//
// A reply has COUNT changes at most, or 1 MiB, or one change that is larger. A call reads 256 MiB of log at most, so that a
// filter under which little passes does not keep a client without an answer: the reply has a new position then, and no
// changes. Reading takes turns with the queries of all connections, 1 MiB of log or 1,024 changes at a time.
//
// Where no change is safe behind the position, nothing is read: a client that polls costs a look at two offsets.
//
// With BLOCK a client that has read everything waits outside of its loop, in a goroutine without a thread, a lock or an open file of
// its own but the log's. It sleeps until the log is durable behind its position, and behind the last change of the schema. Where other nodes
// must have the change, or say that it is safe, it then looks again after 5 ms, and after twice that up to 100 ms. Reading takes turns
// then, too.
//
// # State
//
// A call leaves nothing for the next one, but for the rests that its connection owes: a position says where its frame begins, so a call opens
// the log there. Cursors are the store's: they are in its log.
package feed
