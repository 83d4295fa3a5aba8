// Package bench measures counter servers: it holds the workloads, the data models and the load generator of
// counterbench.
//
// # What is measured
//
// A server that keeps a few counters for each of many posts, driven as the sites that have such posts drive it. Any
// server that speaks the Redis protocol can be one; a [Model] says in which keys and commands it keeps the posts, so
// that each is driven with the layout that suits it. One run measures one server, or two in turns:
//
//	Run ── side A ── clients ── Conn ══ server A      phase: load, incr, get, timeline, ...
//	    └─ side B ── clients ── Conn ══ server B        slice: A │ B │ B │ A │ A │ B ...
//
// The sides take turns slice by slice, so that whatever else the machine does hits both alike; a ratio is taken slice
// by slice. Connections are made, and the server is warm, before anything is counted.
//
// # Posts, rows, operations
//
// Posts are generated, and look like those of a real network. Their mids grow by exponential gaps
// ([postgen.GeneratedPosts]). Their counters follow the exact histograms of a million real posts ([postgen.Rows]). Posts
// that are young or popular are read and incremented more often, as on a real trace ([postgen.Picker]). The generator
// keeps 2.25 bytes a post: everything else is drawn from a seed, and can be drawn again.
//
// A [Workload] gives each client a [Stream] of operations. That of client c is the same whenever it is drawn. So a run
// is verified without a record of what it sent: the streams are drawn again, as far as the clients came, added up, and
// compared with the server's values. Two rules make the sum independent of the order in which clients ran: a column is
// set once, by one client, before that client alone adds to it; all else is additions.
//
// # Cheap
//
// The generator often shares a machine with the server, so it must take less time than the server: 0.2 us an INCR, 1.5
// us a page of 20 posts, no allocation. It has its own reader and writer of the protocol (package wire), draws posts
// from tables, looks at the clock once for each read of a socket, and records equal latencies in one go.
//
// # Latency
//
// Closed clients send, wait, and send again, and so hide what a stall of the server costs others. With a rate,
// operations start on time whatever the server does, and their latency counts from the time they were due
// (client_open.go).
//
// # With and without
//
// A snapshot, a full copy or a flood is measured in windows that take turns, quiet and busy (while.go). Each operation
// is kept with the time it was due, as only afterwards is known from when to when something happened: those due then are
// compared with those of the quiet windows (samples.go). A task that the server is given is work (work.go, and a file
// each for what is more than a command). A watcher asks for INFO all the time, in both kinds of windows; it tells when
// work is over, and how much memory it took (watcher.go). The load beside the measured clients is a process of its own
// ([Load]).
//
// # Locks
//
// A recorder's is held while a latency is recorded, a watcher's while its samples are recorded or read; nothing is
// called with either held, and no two are held at once.
//
// # Files
//
//	run.go side.go target.go                               a run: its turns; one server of it; where the server is
//	client.go client_open.go loader.go op.go               clients: closed, open, loading; what they send
//	schema.go model.go model_counterd.go model_strings.go  the columns, and how servers keep them: counterd,
//	model_hash.go model_bucket.go model_packed.go          strings, a hash a post, hashes of many, packed
//	workloads.go workload_site.go workload_firehose.go     what clients do with posts
//	recorder.go samples.go verify.go                       latencies; those of windows; whether all was counted
//	while.go watcher.go load_beside.go                     with and without something else; what INFO says meanwhile
//	work.go work_blocks.go work_check.go work_copy.go      what a server is made to do
//	work_seal.go                                           the same: blocks sealed on disk
//	idle.go                                                open connections
//
// Package postgen generates the posts. Package procstat measures the process of a server and pins it to processors.
package bench
