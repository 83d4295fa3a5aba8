// Package console is the web console: one self-contained HTML document, and the live data that it shows.
//
// # What it costs
//
// Each second the monitor reads the facts that the verdict and the history need: a few hundred loads and some short locks.
// History and episodes take 32 KB. Everything else (connections, commands, the slow log, blocks) is read only while
// somebody watches: after a request in the last watchedFor. Then the answer of a second is made once, as JSON and
// compressed, and sent to all viewers: a hundred viewers cost as much as one, and the sending.
//
// A goroutine of its own walks over the blocks, in steps between which all others have their turn, at most once in mapEvery,
// and so that the walk takes 1/mapShare of a processor: with 100,000 blocks, every few seconds.
//
// # Who sees what
//
// Names of clients, arguments of slow commands and errors come from others. They are data in JSON, shown as text and never
// as markup. The Content-Security-Policy allows only the one script of the document, by its hash, and loads nothing from
// elsewhere. Access says which parts a viewer may see: without Clients, Slowlog and Posts, the answer does not contain
// those parts at all. The console cannot change anything.
//
// # Locks
//
// Monitor.mu guards the answers. It is a leaf: the source is never called while it is held. If a disk that hangs blocks the
// server, viewers therefore get the last answer with its age, instead of none.
//
// # Files
//
//	source.go                  Source: what the console wants to know of a server, beside its facts
//	store.go settings.go       restore points and blocks of a store; settings
//	shards.go                  the shards of a cluster
//	history.go                 the last hour: a ring of seconds and one of ten seconds
//	verdict.go cluster.go      what is wrong, in words, and since when
//	text.go                    how sizes, times and commands are written
//	blockmap.go                the map of blocks: a bounded number of cells
//	times.go                   how mids contain time
//	monitor.go                 looks at the server each second, and makes what is sent
//	handler.go                 answers HTTP
//	document.go                the document, from the parts in assets/
package console
