// Package feedjoin reads the feed of changes of one log, or those of all shards of a cluster joined into one. It goes on behind the last
// change when a connection breaks or another node takes over. client.Feed and counterctl feed are its users: each gives it a Source, which
// knows how nodes are reached and how a change is kept.
//
//	shard 1   Source.Reader ──▶ goroutine: one Reply ──┐
//	shard 2   Source.Reader ──▶ goroutine: one Reply ──┼──▶ Feed.Next: a Batch of one shard, and the Position of all
//	shard 3   Source.Reader ──▶ goroutine: one Reply ──┘
//
// # Order
//
// A post is in one shard at a time. So the changes of a post come in order if those of its next shard, behind a gain, wait until the
// feed of its shard before has come to the place that the gain names. The wait ends: the gain was logged after all that it waits for.
//
// # Positions
//
// Position has the format: the position of the log, or one of each shard. A feed gives nothing before it knows a position of each
// shard, so a position never has a word (NOW, OLDEST) in it, which would mean another place later.
//
// The number of a shard is known only while the shard has a primary. A feed that begins at a word or at a cursor waits until the numbers of all
// shards are known: it would take an unknown shard for a new shard later, and read it from the beginning of its log.
//
// # Memory
//
// Each shard has one reply that was read, and one whose changes the user has: the goroutine reads the next reply while the user stores
// the last. The memory of a Batch may be used again when Next has returned the next but one Batch of that shard.
//
// # Files
//
//	feed.go      Feed: gives changes
//	shard.go     one shard, and the goroutine that reads it
//	position.go  Position: a text for the places of all shards
//	cursor.go    named cursors, which each shard has its own of
//	errors.go    errors that end a feed
package feedjoin
