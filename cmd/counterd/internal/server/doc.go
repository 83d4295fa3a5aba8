// Package server is the Redis front end of a counter store: listeners, connections, and the handlers of what needs one.
//
// # Rooms
//
// What can be said without a connection stands in packages of their own, which do not know this one:
//
//	resp             bytes to commands, values to bytes
//	items            commands on items: arguments to operations, and results to replies
//	command          the table of commands, and what COMMAND says of it
//	config           settings
//	repl             how nodes follow each other
//	node             which role this one has, and what it lets pass; commands of replication. This package is its node.Host
//	watch, slowlog   what WATCH watches, what SLOWLOG shows
//	stats            what is counted and measured: totals, rates, memory
//	pubsub           who is subscribed to what, and what it has not read yet
//	glob             patterns
//
// An INCR crosses each border once: read by resp, found in command, planned by items, run by counter.
//
// # The way of a command
//
// Connections are dealt to one event loop a processor (loop_epoll.go). A loop serves rounds: it asks epoll who has sent
// something, and gives each of those connections a turn. The turn reads what has arrived, one buffer at most, into a
// resp.Reader, and hands every complete command to client.command (client.go). Commands on items are not executed one
// by one: each is planned by package items, which sees an items.Call of the connection and not the connection: it adds
// operations to the call's counter.Batch and notes which reply is owed. When no complete command is left, or 256
// operations are waiting, client.flush runs them together: all blocks are found and all cache lines asked for before
// the first is used, a block is locked once for neighbouring operations on it. All other commands (Row.Run) are
// executed at once, after what was planned before them, so replies come in order. Replies of a turn that changed
// nothing, and saw no change that is not in the log yet, are sent at once. When all had their turn, one write of the
// log commits the changes of the round, and then those are acknowledged (client.settle, client.send). The replies of a
// round lie in one resp.Arena.
//
// Between the first planned command and the flush the batch is open: the schema stands still. Nothing blocks in
// between.
//
// # What waits
//
// Nothing in a loop waits, for it would stop all connections of the loop. A connection that cannot go on without leaves
// the loop (errWaits): a goroutine of its own continues with the same code, where all may wait, and brings it back when
// everything it had read is answered. These are:
//
//	a command that is not planned and that Redis does not call fast   EXEC, WAIT, PSYNC, FLUSHALL, INFO, ...
//	a batch on cold files                                             Batch.Cold
//	a commit that needs the disk                                      Ack.Waits: appendfsync always, and a disk that fell behind
//	replies that the connection does not take                         client.send
//	a pause                                                           client.unheld
//
// Who waits in a command (WAIT, a pause) is told when its connection ends: the loop hears of it, and socket.watch says
// so. Then nothing more that it sent is executed, for its client may have tried elsewhere by then.
//
// Subscribers and replicas stay in their loop: what they are sent is written by goroutines of their own (package
// pubsub, repl.Peer). What a loop does wait for: short locks, the store's gate while somebody has it exclusively, and
// write() of the log.
//
// Systems without epoll have a goroutine a connection, which is a client that is always away (loop_portable.go; go test
// -tags noepoll).
//
// # Files
//
//	server.go conn.go janitor.go   listeners, connections, time limits
//	loop_*.go socket_*.go sending.go  whose turn it is; reading and writing without waiting; by epoll, or portable
//	scratch.go                     the memory that connections share
//	client.go                      a connection's protocol state; plan, flush, execute
//	table.go commandcmd.go         the rows of the command table, which is package command's; COMMAND, ACL
//	counterd.go scan.go            the schema, blocks and tiers; SCAN, DBSIZE, FLUSHALL
//	nodeconn.go                    what package node sees of a connection
//	block.go                       how commands block: WAIT, WAITAOF, and what waits for FAILOVER or CLIENT PAUSE
//	loading.go                     the store is being opened
//	digest.go                      COUNTER.DIGEST
//	multi.go                       transactions; package watch knows what is watched
//	pubsubcmd.go                   SUBSCRIBE, PUBLISH
//	clientmemory.go                what all connections hold together, and who is closed for it
//	confined.go                    what a subscriber, a replica or a port for reads may send
//	connection.go                  PING, HELLO, AUTH, ...
//	clientinfo.go clientcmd.go     what others see of a connection; CLIENT
//	configcmd.go                   CONFIG. The configuration is package config's
//	info.go                        INFO. What it counts and measures is package stats's
//	slowlogcmd.go latency.go       SLOWLOG, which package slowlog keeps; LATENCY
//	persistence.go memorycmd.go    SAVE and its kin; MEMORY
//	admin.go                       SHUTDOWN, and what has one possible answer here
//
// # Lock order
//
// Under Server.mu a connection's clientInfo.mu and its socket's are taken, and a socket's under package pubsub's.
// Server.mu otherwise, watches.mu, clientInfo.mu and the locks of slowlog and stats are leaves: no other lock is taken
// while one is held, except that watches.mu is taken with the store's gate held. So are a loop's and a socket's.
// Package node's locks are taken with none of these held.
package server
