// Package server is a counter store that speaks the Redis protocol: it executes the commands of connections.
//
// # Rooms
//
// What can be said without a connection stands in packages of their own, which do not know this one:
//
//	front            listeners, loops, sockets, sessions: bytes and turns
//	resp             bytes to commands, values to bytes
//	query, find      commands by condition: their words; what they do, in steps
//	feed             COUNTER.FEED and COUNTER.CURSOR: the changes of the log
//	items            commands on items: arguments to operations, and results to replies
//	dataset          commands on all data: the schema, SCAN, FLUSHALL, blocks and tiers, digests
//	command          the table of commands, and what COMMAND says of it
//	config           settings
//	acl              users: what they may do, and what a command asks of them
//	admin            commands about the server as a whole: CONFIG, SAVE, SLOWLOG, ...
//	heap             the memory of the Go runtime
//	repl             how nodes follow each other
//	role             which role this one has, and what it lets pass; commands of replication. It sees a role.Host here
//	cluster          which role a node of a cluster takes, by what etcd has
//	route            what clients of a cluster are told
//	move             how groups of hash slots move between shards
//	gather           links to the other shards of a cluster
//	serving          this node's part in a cluster: what it serves, and what takes part for it
//	scatter          commands of a connection that several shards have a part in
//	watch, slowlog   what WATCH watches, what SLOWLOG shows
//	tracking         what clients hold in caches of their own, and what they are to be told: CLIENT TRACKING
//	popular          which posts are read and written most
//	stats            what is counted and measured: totals, rates, memory
//	pubsub           who is subscribed to what, and what it has not read yet
//	glob             patterns
//	web, metrics     the HTTP server of --metrics-addr, and what it shows Prometheus
//
// An INCR crosses each border once: read by front and resp, found in command, planned by items, run by counter.
//
// # The way of a command
//
// A client is the handler of a front.Session. The session gives it turns: it hands every complete command that has
// arrived to client.Command. Commands on items are not executed one by one: each is planned by package
// items, which sees an items.Call of the connection and not the connection: it adds operations to the call's
// counter.Batch and notes which reply is owed. When no complete command is left, or 256 operations are waiting,
// call.flush runs them together: all blocks are found and all cache lines asked for before the first is used, a block
// is locked once for neighbouring operations on it. All other commands (Row.Run) are executed at once, after what was
// planned before them, so replies come in order. Replies of a turn that changed nothing, and saw no change that is not
// in the log yet, are sent at once. When all sessions of a loop had their turn, one write of the log commits the
// changes of the round (call.commit), and then those are acknowledged.
//
// A handler sees as little of a connection as it can do with: an items.Call (Row.Plan), a call, which can open a batch
// for it (withStore), package role's or dataset's Conn, and only those about the connection itself the client.
//
// Between the first planned command and the flush the batch is open: the schema stands still. Nothing blocks in
// between.
//
// # What waits
//
// In its loop a session must not wait. These make it leave (front.Session.Postpone and LeaveLoop), and it goes on elsewhere:
//
//	a command that is not planned and that Redis does not call fast   EXEC, WAIT, PSYNC, FLUSHALL, INFO, ...
//	a command of more than 512 arguments                              longArgs
//	a batch on cold files                                             Batch.Cold
//	a commit that needs the disk                                      Ack.Waits: appendfsync always, a disk that lags
//	replies that the connection does not take                         Session.Send
//	a pause                                                           client.awaitPauses
//
// Subscribers and replicas stay in their loop: what they are sent is written by goroutines of their own (package
// pubsub, repl.Peer). Who works for long elsewhere lets others have their turn (front.Front.GiveWay): one processor may be
// all there is. What a loop does wait for: short locks, the store's gate while somebody has it exclusively (and for 10 ms
// while somebody waits for it: counter/internal/gate/gate.go), and write() of the log.
//
// # Files
//
// From the top down. A file uses those below it.
//
//	server.go                      the server: its start and end, settings in force, certificates and keys; the store is being opened
//	web.go console.go              HTTP: who may see what, /healthz, /readyz; what the console shows beside facts
//	state.go                       what INFO, /metrics and the console tell of the server: the rows are package facts's
//	table.go                       the rows of the command table, which is package command's
//	info.go                        INFO and MEMORY
//	clientcmd.go trackingcmd.go    CLIENT; CLIENT TRACKING
//	pubsubcmd.go                   SUBSCRIBE, PUBLISH, the same of shard channels, and MONITOR
//	connection.go users.go         PING, HELLO, AUTH, ...; ACL, and what becomes of connections when users change
//	numbered.go                    commands about producers of numbered commands
//	multi.go                       the execution of a transaction by EXEC
//	conns.go findconn.go           a new connection; what packages dataset, role, scatter, serving, admin, feed and find see of a connection
//	client.go                      a connection: what package front asks of it; how a command is executed
//	decide.go                      whether a command is planned, executed, queued, postponed or refused
//	call.go longread.go            a connection's way to the store: what is planned, run and committed; reads of very many posts
//	account.go                     what batches cost: statistics, SLOWLOG, hot posts, and who is told of changes
//	clientinfo.go                  what others see of a connection
//	transaction.go                 MULTI, EXEC, WATCH and the queue of commands (package argqueue); package watch has the keys that are watched
//	subscriber.go monitors.go      a connection as it is told of messages and of commands; all that monitor
//	tracker.go                     a connection as package tracking knows it, and what the connection does with what it reads
//	routing.go                     whether a node of a cluster takes a command now
//	login.go                       who a connection is
//	blocking.go                    how commands block
//	shared.go                      what all connections share
//
// # Lock order
//
// Under package front's lock clientInfo.mu is taken, and a socket's under package pubsub's. watches.mu, clientInfo.mu
// and the locks of acl, slowlog and stats are leaves: no other lock is taken while one is held, except that watches.mu is
// taken with the store's gate held. Package node's locks are taken with none of these held.
package server
