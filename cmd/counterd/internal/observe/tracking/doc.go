// Package tracking knows which keys clients hold in caches of their own, and tells them when one changes: CLIENT TRACKING.
// It knows clients and their messages, and no connection.
//
//	Table       which client may hold what, and what clients are to be told of a change
//	Client      one connection: its mode, what it may hold, and its inbox
//	inbox       what it was not told yet
//	prefixes    clients that are told of all keys with a prefix, whether they read them or not: BCAST
//
// # Names
//
// An item has many keys: 123.cntrn, weibo:{123}.cntrn, the hash weibo:123. What a client may hold is kept by item and
// columns, together with the key in the very bytes it was read by, and that key is what the client is told. So a change
// by one name reaches caches under every name that was used.
//
//	shard ─▶ item ─▶ [client, key, columns] ...          Client.held: the same by key
//
// A change of a column is told to who read that column, or the whole item. One that makes or removes an item is told to
// all who read anything of it, for a missing item reads as nil. What gives other keys a meaning (the schema), or is of
// everything (FLUSHALL, other data), is told as null: all keys.
//
// A client in BCAST mode is told names it may use, as nobody knows which it does: see names.
//
// # Nothing is missed
//
// A client is in the table before it reads, and a writer looks into the table after its change can be seen. So either
// the read sees the change, or the writer sees the client. A client's inbox is emptied by its own connection alone, behind
// all replies: what it is told of a change stands behind the reply with the value before it, and never before or within.
// Where a reply with the value after the change comes first, the client drops that for nothing, which is allowed.
//
// A key leaves the table when it was told, and is in it again with the next read.
//
// # Limits
//
// The table holds a number of keys at most (SetLimit), of all clients together: above it, items by chance are told as if
// they had changed. A key takes some 200 bytes. An inbox of more than maxInbox becomes one null, all keys: who reads slowly
// has an empty cache in the end, and is not closed for it.
//
// # Cost
//
// While nobody tracks, a batch of changes costs one atomic load. Clients share shards by item, and a key that is read again
// is found under the client's own lock. A change takes prefixes.mu while a client is in BCAST mode; to add or to remove a
// prefix holds it for 10 µs at most at a time.
//
// Lock order: Table.mu, then shard.mu or prefixes.mu, then Client.mu. prefixes.ending is a leaf. Client.wake is called with no
// lock held.
package tracking
