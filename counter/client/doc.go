// Package client counts posts on a counterd, through go-redis, so that each increment counts once.
//
//	rdb := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{"127.0.0.1:6379"}})
//	c, err := client.New(rdb, client.Options{Counter: "weibo"})
//	n, err := c.Incr(ctx, 19089006004, "repost")
//	rows, err := c.Page(ctx, mids) // all columns of the posts of a timeline
//
// Connections are go-redis's: addresses, pools, TLS, passwords, Sentinel, reads from replicas and time limits are the
// settings of the redis.UniversalClient. This package adds what a counter needs: changes that may be repeated, rules
// for when they are, and increments that are summed before they are sent.
//
// # Numbers
//
// A client whose reply was lost cannot know whether its increment counted. So each change says who makes it and which
// of theirs it is (INCRBY key n IDMP producer seq): the server stores both with the change, and answers a repeat what
// it answered first. A producer is 16 random characters that a Client makes up; it has a few (Producers), called lanes.
//
// The server keeps the answers to the 128 highest numbers of a producer, and answers older numbers with IDMPEXPIRED, as it has only
// kept that those changes were made, or not even that. It does not come to that here, as a lane gives no number that is 64 or more above one
// which may still be repeated. Behind a request that is stuck others pass, 63 of them; then the lane is held up and
// requests take other lanes, new ones up to the limit, and then wait.
//
//	lane A   41 42 [43] 44 45 ... 106      43 is stuck: 107 would need its place
//	lane B   7 8 9 10 ...                  takes the requests meanwhile
//
// A server may forget a producer that it did not hear of for a day, when it needs the place, and for 10 minutes with older versions or
// other settings (idmp-min-idle). So nothing is repeated for more than 5 minutes after its first attempt.
//
// # Repeats
//
// What an attempt is answered decides (ClassOf):
//
//	Permanent   refused, and would be again: out of range, no such key, IDMPFENCED, ...
//	Transient   refused before anything was changed: READONLY, LOADING, MISCONF, IDMPFULL, no connection, ...
//	InDoubt     UNCERTAIN, a time limit, a connection that broke: the change may have been made
//
// (Package errclass has all that a server says.)
//
// Transient ones and those in doubt are sent again, with the same number, after a random wait of up to 5 ms, then up to
// 10 ms, ... 320 ms, until the context or RetryFor ends. Each request pays for a tenth of a repeat: when all that was
// saved is spent the error comes at once, so that a server in trouble is not buried under repeats. A request that was
// in doubt once stays so, whatever the last attempt was refused with.
//
// go-redis would repeat by itself, up to MaxRetries times. Under the same number that is harmless, but changes switch
// it off, as a refusal that it got last would hide an attempt in doubt. Reads leave it on: it leaves a replica that
// went down for another one.
//
// # Reads
//
// Pages ask for columns by name, so that a row is never read by the names of a moment ago. The list of columns is the
// server's SCHEMA, read when it is older than SchemaFor, or lacks a name. One server is asked for a page by one
// COUNTER.MGET, in parts where it is long; a cluster client of go-redis sends each post's read to its owner, or to a
// replica, all at the same time. Find, Each, Top, Count, Sum, Min, Max, Update and UpdateRows are COUNTER.FIND and its kin.
// A list of mids that is nil means all posts, and one that is empty means none. A Row has the names of its columns.
//
// # Contexts
//
// Every call returns when its context ends. By default go-redis waits for a reply as long as its ReadTimeout says, whatever
// the context says. So a request whose context can end is sent on a goroutine of its own, and left behind there when the
// context ends: 1 µs a request. With ContextTimeoutEnabled in its options go-redis looks at deadlines itself; requests are
// then sent directly, and a context that is cancelled without a deadline ends between attempts only. A change whose context
// ended while it was on its way is in doubt.
//
// # Feeds
//
// Feed gives every change of a node, or of all shards of a cluster, in order, from a position on. A reading repeats nothing by a number: it goes on behind the
// last position.
//
// # Loads
//
// SetRows gives columns of many posts their values, 1,000 posts a command. It imports counts from elsewhere. For all of a
// service's posts counterctl build is the way, which needs no server.
//
// # Cluster
//
// Through a cluster client of go-redis a change goes to the owner of its post's hash slot, and where that has moved, on to
// the next one under the same number: the memory of a producer's changes moves with their slot. A change is of one slot, so
// a Batch and a tick of an Aggregator become as many commands as they have slots, each with a number, 32 of them at once.
// After an error the client makes go-redis refresh its slot map. go-redis does this on its own only for commands that it
// retries. A transaction through NewHook has no number there, as go-redis makes its EXEC behind the hook.
//
// # Aggregator
//
// An Aggregator sums increments for some milliseconds and sends the sums of many posts as one COUNTER.MINCRBY under one
// number: a viral post costs the server one change a tick. See there.
//
// # Tracing
//
// With Options.TracerProvider, each request is a span of OpenTelemetry with the attributes of its conventions for databases
// (db.system.name is counterd): all attempts are in it, each repeat is an event, and an error is the server's word. A page
// in parts is several. The spans of an Aggregator are roots, as a tick has the increments of many callers.
//
// # go-redis alone, and other libraries
//
// NewHook numbers what a program sends by go-redis's own methods. The folder howto has classes for redis-py, ioredis and
// Jedis.
//
// # Files
//
//	client.go                           who is asked
//	columns.go columncache.go           what the columns are
//	lane.go                             producers and their numbers
//	retry.go budget.go errors.go        what is sent again, how often, and what an error means
//	attend.go                           attempts that end with their context
//	change.go batch.go update.go        changes
//	drain.go setrows.go                 changes of many posts
//	read.go find.go aggregate.go        reads
//	feed.go feedcluster.go              every change of a node, or of all shards of a cluster: COUNTER.FEED, through internal/feedjoin
//	aggregator.go shard.go tick.go      sums: what is added, where, and how it is sent
//	cluster.go                          what is otherwise with the nodes of a cluster
//	trace.go                            spans of OpenTelemetry
//	warm.go hook.go                     connections opened ahead; numbers for go-redis alone
//
// # Locks
//
// A lane's, a shard's and an Aggregator's mutex are leaves: nobody who holds one takes another, or waits.
package client
