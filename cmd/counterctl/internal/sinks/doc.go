// Package sinks is the places that counterctl feed writes changes to: files, standard output, streams of Redis, topics of Kafka, web services.
//
//	Parse        the text behind --to becomes a Place
//	Place.Open   a Sink, which tells the position of the last change that it has
//	Sink.Write   a batch of changes, each with its position
//
// # Once
//
// A sink keeps the position together with the changes, so that both are there or neither is. Its position is therefore right
// whatever was killed, and the feed goes on behind it: each change comes once.
//
//	place           where the position is                                a repeat
//	FILE.jsonl      in each line; a torn line at the end is cut           cannot be: another process is locked out
//	FILE.jsonl.zst  behind each frame; a torn frame at the end is cut     cannot be
//	redis://        in each entry of the stream, and in the entry's id    is refused by Redis, as ids only grow
//	kafka://        in a header of each record                            is never committed: a batch is a transaction
//	http://         in a file of this machine, behind the reply           is possible: the request names the position in front of it
//	-               nowhere: the reader of standard output has it         is the reader's
//
// A sink that fails is closed and opened again, and the feed goes on behind the position that it tells then. A sink that lost
// changes at its end (a Redis that was restarted, say) gets them again in this way. A stream whose last entry was removed by somebody is an
// error: its id stays, and Redis would refuse changes up to it.
//
// # Files
//
//	sinks.go       Sink, Batch, Place, errors
//	parse.go       the text behind --to
//	file.go        files: locked, cut, synced
//	lines.go       the format of a plain file
//	frames.go      the format of a compressed file
//	stdout.go      standard output
//	stream.go      a stream of Redis
//	topic.go       a partition of a topic of Kafka
//	web.go         a web service
//	statefile.go   the position of a sink that cannot keep it
package sinks
