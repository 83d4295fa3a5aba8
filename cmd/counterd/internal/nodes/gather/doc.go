// Package gather asks the other shards of a cluster: it has the links to their primaries, and knows which shard owns
// what. What is to be asked, and what becomes of the answers, is package scatter's.
//
// # Links
//
// A node has a few connections to the primary of each shard that it was ever asked about, shared by all its clients: a
// session puts what it asks in one turn into an Ask a shard, and the asks of all sessions go over the link in order, many
// in one write, and are answered in order. A session sticks to one link a shard, so a shard executes what a client sent
// in its order.
//
//	session ─ Round ─ Ask ┐                   ┌ queue ─ flying ┐
//	session ─ Round ─ Ask ┼─ enqueue ─▶ link ─┤                ├─▶ conn ─▶ primary of the shard
//	session ─ Round ─ Ask ┘                   └ waits for room ┘
//
// Each link is read by an event loop of the server (Settings.Watch): replies need no goroutine of their own, and a session of that loop
// goes on at once. A session asks by the link of its loop, and all sessions that had their turn in a round of the loop share one
// write. Links with TLS, and those for queries, are read by a goroutine each.
//
// The other side is told by COUNTER.LINK that it talks to a node: it answers by itself alone, for its own posts, or
// refuses (MOVED), in the neutral version of the protocol (resp.Neutral), which becomes the client's. Pages travel packed: ids and rows that
// nobody has to look at on the way (package resp). A node of an older version, or with limited rights of links, refuses that format, and gets
// the same pages as text, also those that were asked for before the connection was made.
//
// # Changes are made once
//
// A link numbers its changes, as a producer of its own: see the link type. So a change that was sent and not answered is
// sent again when there is a connection again, to the next primary after a failover too, and made once. At most 128 of a
// link's numbers are without an answer, as no more are remembered. A change that was sent and is refused then by where it
// was sent again (its posts were moved) keeps its number, which moves with the posts. Other changes of the link have numbers of another producer meanwhile, where it needs more than those 128.
//
// What has a number of its client's is sent again with that. What has none and cannot have one is not sent again, and
// answered as in doubt.
//
// What may take long (queries) has two links of its own, so that nothing waits behind it.
//
// # Limits
//
// Each ask has a deadline, and what waits for a link has at most 8 MiB. A shard whose links have not worked for as long
// as a read may wait is not asked any more: who asks is told so at once, and has a link try to connect again. So one shard that is dead holds up those alone
// who ask for its posts, and them for a time that is known.
//
// # Files
//
//	shards.go link.go conn.go   which shard owns what; a link; its connections
//	lane.go                     a producer of a link
//	round.go ask.go page.go     what a session asks
//	reply.go                    where a reply ends, and what it is to a client
//
// # Locks
//
// Shards.mu before a link's; the latter are leaves.
package gather
