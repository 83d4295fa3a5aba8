// Command counterbench shows and measures counter servers. It speaks the Redis protocol, and drives counterd as
// well as Redis and its relatives, each with the data model that suits it.
//
//	counterbench demo     start a server, play real posts through it, show what comes out
//	counterbench demo-cluster  start a cluster of six nodes, break it under load, show what clients saw
//	counterbench run      measure a server, alone or against another
//	counterbench build    make a data directory of generated posts, however many
//	counterbench idle     what open connections cost a server
//	counterbench feed     the cost of the feed of changes, and its lag
//	counterbench adds     the cost of windows and numbers for an INCR
//	counterbench compare  two measurements side by side
//	counterbench markdown measurements as Markdown tables
//	counterbench page     measurements of several runs as one HTML page
//	counterbench record   add a measurement to a file, for page and markdown
//
// The workloads and the load generator are in package bench. Exit status: 0 for success, 1 for a failure, 2 for a
// command line that is not understood.
//
// # Files
//
//	main.go targets.go                                         commands; kinds of servers
//	run.go apart.go child.go child_linux.go child_other.go     run; the load that is a process of its own; servers that are started
//	process.go progress.go                                     programs that are started and ended; how far work is
//	idle.go feed.go adds.go build.go post_file.go              idle; feed; adds; build; files of posts
//	compare.go markdown.go page.go                             measurements side by side, as Markdown, as a page
//	demo.go demo_pages.go demo_result.go                       demo
//	cluster_demo.go cluster_events.go cluster_load.go          demo-cluster: what is done to it; what clients saw
package main
