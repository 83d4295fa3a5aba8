// Package console is the web console: one self-contained HTML document, and the live data that it shows.
//
//	source.go      what it wants to know of a server: console.Source. It knows no server itself
//	history.go     the last hour: a ring of seconds and one of ten seconds
//	verdict.go     what is wrong, in words, and since when
//	cluster.go     a cluster as a node of it knows it
//	blockmap.go    the map of blocks: however many there are, a bounded number of cells
//	times.go       how mids carry time
//	monitor.go     looks at the server each second, and makes what is sent
//	handler.go     answers HTTP
//	document.go    puts the document together; assets/ has its parts
//
// # What it costs
//
// Each second the monitor looks at totals and at what the verdict is about: a few hundred loads and some short locks.
// History and episodes take 32 KB. All else, connections, commands, the slow log, blocks, is looked at only while
// somebody watches: a request in the last watchedFor. Then the answer of a second is made once, as JSON and compressed,
// and given to all who ask in that second: a hundred viewers cost what one does, and the sending.
//
// Blocks are walked by a goroutine of its own, in steps, between which everybody else has his turn, and no oftener than
// every mapEvery and so that the walk takes 1/mapShare of a processor: with 100,000 blocks every few seconds.
//
// # What it shows to whom
//
// All that is shown came from somebody: names of clients, arguments of slow commands, errors of disks and primaries. It
// is data in JSON, put on the page as text and never as markup, and the Content-Security-Policy lets nothing run but the
// one script of the document, by its hash, and nothing be loaded from elsewhere. Access says which parts a viewer may see: without
// Clients, Slowlog and Posts those parts are not in the answer at all. Nothing can be changed by the page.
//
// # Locks
//
// Monitor.mu guards what is sent. It is a leaf: the source is never asked while it is held, so a server whose locks are
// held by a disk that hangs is told of as it was, with the age of that, instead of not at all.
package console
