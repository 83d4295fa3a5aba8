// Package facts is the one table of facts that a server reports about itself. INFO, /metrics, the JSON of the console and
// the page docs/reference/metrics.md are generated from it.
//
// A row of the table is a Fact: its name in INFO, its metric, its field in the JSON, what it means, and the function
// that reads it from a State. The server fills a State once for each INFO, scrape or look of the console: only the Parts
// that the rows concerned read. The table knows no server, and nothing is counted here, so commands do not pass through
// this package.
//
// # Names
//
// A field of INFO has the name that Redis gives it, where Redis has the field. A metric is counterd_, then what it is,
// then its unit: seconds and bytes, never others; counters end in _total. A name means one thing, and labels part it into
// what can be added up: the posts of all counters and tiers are all posts.
//
// # Unknown values
//
// A fact that is not known, or that does not apply, is left out in all three places. It is never shown as 0 or -1, unless
// Redis shows it so. While data is being loaded, rows of the store are left out of metrics and of the JSON: 0 posts would
// be wrong. INFO shows them, as clients expect its sections to be complete.
//
// # Files
//
//	fact.go            Fact and Value: a row, and what it reads
//	part.go            Part: which rows read which part of a State
//	state.go           State: what the server fills
//	state_cluster.go   its parts for replication and clusters
//	table.go           the table: its order is that of INFO
//	rows_process.go    rows: the process, clients, traffic, memory
//	rows_commands.go   rows: commands, errors, latencies
//	rows_store.go      rows: persistence
//	rows_posts.go      rows: posts, tiers and producers
//	rows_aging.go      rows: posts that are dropped by age
//	rows_derived.go    rows: derived columns, and the time of the log
//	rows_hot.go        rows: the busiest posts
//	rows_feed.go       rows: named cursors of the feed of changes
//	rows_nodes.go      rows: replication
//	rows_cluster.go    rows: a node of a cluster
//	list.go            facts that a server has several of: by command, by replica, by counter
//	info.go json.go    the text of INFO, and the JSON of the console
//	text.go            texts: how sizes are shown, and how long texts are cut
//	usage.go           what the posts of each counter take, counted now and then
//	reference.go       the reference page
package facts
