// Package feed keeps a sink up to date with every change of a counterd: counterctl feed.
//
//	nodes  ──COUNTER.FEED──▶  a reader for each shard  ──▶  internal/feedjoin  ──▶  Sink.Write: durable, with the position  ──▶  the next batch
//
// # Promises
//
//   - The sink gets every change behind its position, in the order of the log, each once as far as the sink can do that (package
//     sinks). Nothing is kept anywhere else, so a kill at any moment needs no repair.
//   - Memory is bounded: two replies of COUNTER.FEED for each shard, of 1 MiB or one change. The next reply is read while the sink takes
//     the last. A slow sink therefore slows down nothing but the feed.
//   - Errors that may pass (a lost connection, a failover, a sink that is away) are waited for. The node may be one of several
//     addresses: another one is tried after each error. The end of the context ends Run behind the batch that is being written.
//
// # Marks
//
// A filter may let nothing pass for long, and the position of the last change would fall out of the log meanwhile. So the sink gets
// a line without parts, a mark, each MarkEvery in which only the position has moved; and one at once if it has no position yet: a
// feed FROM NOW that is killed before the first change goes on from there.
//
// # Files
//
//	run.go     Run: the loop
//	nodes.go   the nodes, and the meaning of their errors
//	reader.go  one node, and its replies
//	cursor.go  the named cursor that follows the sink
//	cursors.go lists and deletes named cursors
//	line.go    a change as a line of JSON
package feed
