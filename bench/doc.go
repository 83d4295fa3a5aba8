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
// Posts are generated, and look like those of a real network: mids grow by exponential gaps ([GeneratedPosts]),
// counters follow the exact histograms of a million real posts ([Rows]), and those that are read and added to are young
// or popular, as on a real trace ([Picker]). Nothing of that is kept but 2.25 bytes a post: all is drawn from a seed,
// and can be drawn again.
//
// A [Workload] gives each client a [Stream] of operations. That of client c is the same whenever it is drawn. So a run
// is verified without a record of what it sent: the streams are drawn again, as far as the clients came, added up, and
// compared with what the server has. Two rules make the sum independent of the order in which clients ran: what is set
// is set once, by one client, before that client alone adds to it; all else is additions.
//
// # Cheap
//
// The generator often shares a machine with the server, so it must take less than what it measures: 0.2 us an INCR, 1.5
// us a page of 20 posts, no allocation. It has its own reader and writer of the protocol (package wire), draws posts
// from tables, looks at the clock once for each read of a socket, and records equal latencies in one go.
//
// # Latency
//
// Closed clients send, wait, and send again, and so hide what a stall of the server costs others. With a rate,
// operations start on time whatever the server does, and their latency counts from the time they were due
// (client_open.go).
//
// # Locks
//
// There is one kind of lock, a recorder's, that is held while a latency is recorded; nothing is called with it held.
package bench
