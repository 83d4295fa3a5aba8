// Package consumers has programs that follow the feed of changes, for tests that kill them, their sinks, and the nodes that they read:
// counterctl feed to each kind of sink, and a program with Client.Feed of package client. A Writers load increments posts by 1, so that a consumer's changes show by
// themselves whether one was lost, came twice or came too early, and the values in the end are the sums of all additions.
//
//	Writers ──INCR──▶ nodes ──COUNTER.FEED──▶ Consumer ──▶ sink ──Lines──▶ Replay == posts of the nodes
//
// # Files
//
//	consumer.go  Consumer: a program, its sink, and the posts behind the changes
//	set.go       Set: one consumer of each kind, which are killed at random
//	replay.go    Replay: the posts behind lines of JSON
//	file.go      a file
//	stream.go    a stream of Redis
//	web.go       two web services: one compares positions, the other takes everything
//	kafka.go     a topic of Kafka
//	follower.go  the program with Client.Feed
//	writers.go   Writers: plain and numbered increments
package consumers
