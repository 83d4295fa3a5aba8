// Package web is the HTTP server of --metrics-addr: figures for Prometheus, the page for people, a word for load
// balancers. It knows none of them: who has something to show hands it a handler.
//
// # Who may see what
//
// There are three kinds of paths, by what they tell:
//
//	HandleAnyone   a word, no figures                       /healthz: no question asked
//	Handle         figures of the whole server, no posts    /metrics: protected mode alone, as an exporter's
//	HandleUsers    who is connected, which commands they sent   HTTP Basic, once the default user has a password
//
// Protected mode is that of the other ports: without a password only connections from this machine are answered, all
// others are told why not. Who is asked and what a user may do is the Guard's to say; this package compares no
// passwords. Where nobody is asked, a request for HandleUsers must name this machine by number or as localhost: or
// else a page of another site, whose name is made to lead to 127.0.0.1, could read it through a browser.
//
// # What a client can hold
//
//	connections   64 (maxConns), each of 16 KiB of header at most. One more takes the place of the one that has been
//	              without a complete request for longest: so connections that say nothing, or one byte a second, keep
//	              nobody out. If all are being answered it takes the place of the one that has not taken what is
//	              written to it for longest, and where handlers are still at work for all it is closed.
//	              A request that waits for its turn, below, has no complete request in this sense.
//	rate          500 requests a second (requestEvery) after a burst of 100; more wait for their turn. Requests for a
//	              word have a line of their own
//	passwords     what the Guard lets an address try
//	time          5 s for a header, 10 s for a request, 30 s for its reply, 60 s between two
//	methods       GET and HEAD; bodies are not read. HTTP/1 only, with TLS too
//	panics        stay in their request: it is answered 500, logged, and counted by the one who is told
//
// The server starts before data is loaded and ends when connections of clients have ended, so that both can be watched.
package web
