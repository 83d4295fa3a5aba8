// Command suites runs the test suites of other projects against counterd.
//
//	make suite-valkey VALKEY=~/src/valkey
//	go run ./internal/testkit/suites valkey --path ~/src/valkey --only unit/pubsub
//	go run ./internal/testkit/suites keymap --listen 127.0.0.1:7000 --server 127.0.0.1:6379
//
// It fetches nothing: --path names a checkout of the project, with the packages that its tests need. Suites that know their servers by
// fixed ports get them there, among them Sentinel and a cluster with etcd.
//
// # Keys and values
//
// These suites use keys such as "foo" and values such as "bar". keymap is a proxy that gives each key a post of its own ("{7}.n"), in
// the hash slot of the key, gives each value that is no whole number a number, and sends the command on. The server's own
// COMMAND says which arguments are keys. In replies it puts the names and values back. DEL removes the whole post, because the counters of a post
// that exists are numbers and not nil. A command that is not an array of bulk strings passes unchanged, because tests of the protocol
// send such. Replication passes unchanged too.
//
// # Tables
//
// counterd counts posts. It has no lists, no scripts, and keys do not expire, so many tests of a suite for Redis cannot pass. The table
// of a suite, SUITE.tsv, has a row for each test that ran: that it passes, or why it is left out. A run fails if a test fails that the
// table does not leave out, and if one does not run that passes by the table. --renew writes the table of a run, with a question mark
// where a person must find the reason.
//
// # Files
//
//	main.go      the command
//	list.go      the tables, and the comparison with a run
//	reason.go    reasons that follow from the message of a failed test
//	servers.go   the programs that a suite runs against
//	keymap.go    the proxy
//	names.go     names of keys and their posts
//	request.go   the commands on the wire
//	reply.go     the replies on the wire
//	tcl.go       the suites of Redis and Valkey
//	golang.go    the suite of go-redis
//	rueidis.go   the suite of rueidis
//	ioredis.go   the suite of ioredis
//	scripted.go  the suite of redis-py, and resp-compatibility
package main
