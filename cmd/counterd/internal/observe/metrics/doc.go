// Package metrics shows the figures of a server to Prometheus.
//
// Nothing is counted here. The server counts as it goes, for INFO: package stats, the rows of the command table, the
// store. At a scrape a Source copies what stands there into Figures, and rows of a table (families) say how a figure is
// called, what it means, and of which kind it is. So the way of a command knows nothing of this package.
//
// # Names
//
// counterd_, then what it is, then its unit: seconds and bytes, never others; counters end in _total. A name means one
// thing, and labels part it into what can be added up: the posts of all counters and tiers are all posts. README.md
// beside this file is made from the table.
//
// # Labels
//
// Their values come from the schema, the command table and the table of errors, never from what a client sends, but for
// the names that replicas give themselves:
//
//	command   of the table, once it was called: 140 at most, of 30 series each
//	counter   256 at most, of 13 series each
//	error     the first words of package errclass, and other
//	replica   address:port of connected ones, 64 at most; others are counted, not named
//
// That is 8,000 series at the very most, and some 600 for a server with one counter and a dozen commands in use.
//
// # When what is not there
//
// While data is loaded there is counterd_loading and nothing that is the store's: 0 posts would be a lie, and an alarm.
// A server without a log has no series of it, a primary none of a link. Counters begin anew with the process, and with
// CONFIG RESETSTAT those that INFO shows; rate() knows.
//
// # Files
//
//	families.go              the table: what commands, connections and the process do
//	families_store.go        its rest: posts, memory, tiers, the log, snapshots, replication
//	families_cluster.go      those of a node of a cluster, and their figures
//	figures.go               Figures, what a Source fills
//	collector.go             rows and figures to series
//	handler.go renderer.go   /metrics: what it answers, and how often a page is made
//	grafana.json, alerts.yml a dashboard and rules for alerts; README.md says how to use them
package metrics
