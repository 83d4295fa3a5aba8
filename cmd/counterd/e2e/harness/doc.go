// Package harness is what the end-to-end tests share: it starts programs and talks to them. Main builds counterd once; Start runs it
// and stops it when the test ends.
//
// # Files
//
//	main.go            the binary under test, tools that may be missing, sizes, the random generator
//	process.go run.go openfiles.go lowport.go  a server process: start, log, resident memory, stop, ports, files
//	wire.go pty.go     a bare connection: requests in, exact reply bytes out; a terminal for interactive programs
//	schema.go items.go scribble.go hint.go tls.go  schemas, posts, damage, settings
//	clock.go              the clock of one process
//	bulk.go coldposts.go  load and check of very many posts, in memory and in files
//	exactwriter.go repeatwriter.go  loads that know what each post must hold, over restarts; with numbers
//	durable_helper.go durable_writers.go  counterctl on directories; loads over kills
//	history.go         a model of one counter, for histories of concurrent clients
//	goredis.go rediscli.go  go-redis and redis-cli
//	sentinels.go group.go groupclients.go groupnumber.go halted.go  Sentinels; three nodes and their clients, in namespaces
package harness
