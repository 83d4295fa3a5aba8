// Package feed reads a store's log as changes, for the users of a change feed. It decodes; it never writes.
//
//	log, as it is on disk         this package                          its users
//	frame: set set | set  ──▶  Feed.Next: one Change after the other  ──▶  COUNTER.FEED, the Go client, counterctl
//	frame: whole: set set del                 and a Position behind each
//
// # Promises
//
//   - Every change that is behind the position, in the order of the log, each once. A node that has this log gives the same
//     changes at the same positions, since replicas have the log byte for byte: a primary, a replica, the next primary, a
//     node after a restart or a full copy.
//   - A change is whole. One MULTI/EXEC, MSET, HSET, COUNTER.MSET or UPDATE with a number is one
//     Change with several parts. Only a transaction whose records take more than 4 MiB, and which takes several frames of the
//     log therefore, comes as several changes.
//   - Values are those after the change, as the log has them. Reading a change twice does no harm.
//   - Nothing is given that lies behind the offset that the caller calls safe (Feed.Next). The caller knows that offset:
//     see Store.Feeds of package counter, and repl.Peers.Safe.
//   - A position that cannot be continued gives a typed error: *GoneError if the log no longer reaches back to it,
//     *HistoryError if the log went on differently, ErrMalformed if the text is no position. The first two name the position
//     to go on from.
//   - Memory is bounded: one frame (4 MiB at most), and the parts of one change.
//
// # What the feed shows of each record of the log
//
//	record                      kind of the part
//	set, setitem                set      columns with their values
//	delete                      del
//	flush                       flush    all posts of all counters are gone
//	schema                      schema   the whole schema behind the change, with ids (schema.ParseDurable). A column that is dropped
//	                                     and added again has another id. There is no other change of columns
//	accept                      gain     a cluster: groups of hash slots are this log's from here on. The source's log has nothing of
//	                                     them from a log offset on, which the record names: so a consumer can join two feeds
//	droprange                   drop     all posts of a range of mids of a counter are gone: those of these groups, in a cluster
//	drop                        lose     a cluster: groups are another log's, and their posts are gone here
//	import, rows, and set,      nothing, while a group is on its way here: these changes were made in the log of another
//	setitem, delete of a        shard, whose feed has it. So each change is in one feed of the cluster
//	group on its way here
//	cursor                      nothing: a consumer has moved its named cursor
//	once                        nothing: producer and number of its change
//	define, floor               nothing
//
// A set of a post that was not there makes it, with the defaults of all other columns.
//
// # Numbers
//
// A once record has a producer by its place in the table of producers, whose meaning an older define record tells. A feed knows the
// define records that it has read, and the store those since the snapshot that its start began with (core.Data.ProducerAt). A change from
// before them is Numbered without a Producer.
//
// # Names
//
// The log has ids of counters and columns, and an id is never used again (package schema). Names come from the schema in
// force when the feed is read, so the schema at an old offset need not be known. A column that was dropped since is left out of older
// changes. A set of it alone has no values then: it may have made the post. Changes of a counter that was dropped since are left
// out. As long as a change of the schema is not safe, nothing is given: it might be taken back, and the values with it.
//
// # Positions
//
// A Position names the place behind a change by the frame in which it is, so a feed opens there without reading older
// log; by the term of the log's past that wrote the last byte before it (format.Lineage), so a node can tell whether it has
// that byte; and by the term before that one, so a node that lacks the first can name a common place. While groups of hash slots are on
// their way here, it also has those, as the log does not repeat them. Its text is drawn at its encoder and is a format: old
// texts stay readable.
//
// # Not there yet
//
//   - The values before a change. The log has those behind it only: an old value would add up to 9 bytes to the 10 to 13 of an INCR, on
//     each node. Consumers keep the last values, and subtract.
//   - The log behind a cursor on a node that took a full copy: it begins at the snapshot.
//   - In a cluster whose stores are not made of groups (Options.SlotGroups), a lose comes behind a del of each post.
//
// # Files
//
//	position.go  Position, and its text
//	past.go      positions and the past of a log: which are its own, where others part from it
//	change.go    Change, and its parts
//	feed.go      Feed: opens at a position, and reads changes
//	decode.go    records become parts
//	numbers.go   producer and number of a numbered change
//	filter.go    Filter: some counters, columns and mids
//	latest.go    Latest: only the last values of each post
//	cursor.go    named cursors: which positions they take, and how far they are behind
//	errors.go    typed errors
package feed
