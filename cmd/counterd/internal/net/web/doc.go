// Package web is the HTTP server of --metrics-addr: metrics for Prometheus, the console for people, a word for load
// balancers. It knows none of them: the server registers handlers.
//
// # Who may see what
//
// There are three kinds of paths:
//
//	HandleAnyone   one word                                 /healthz: open to everybody
//	Handle         metrics of the whole server, no posts    /metrics: protected mode only, as for an exporter
//	HandleUsers    connections and their commands           HTTP Basic, if the default user has a password
//
// Protected mode is that of the other ports: without a password, only connections from this machine are served, and all
// others get an error that says why. The Guard decides which requests need a login and which rights a user has; this
// package compares no passwords. If nobody must log in, a request for HandleUsers must name this machine by number or as
// localhost. Otherwise a document of another site, whose name resolves to 127.0.0.1, could read the console through a
// browser.
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
