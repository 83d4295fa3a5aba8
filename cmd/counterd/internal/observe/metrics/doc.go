// Package metrics serves the facts of a server to Prometheus. The table of package facts has all metrics, their names and
// their meaning; this package turns its rows into series, and makes pages of them.
//
// # Labels
//
// Their values come from the schema, the command table and the table of errors, never from what a client sends, except
// for the names that replicas give themselves:
//
//	command   of the command table, once it was called: 140 at most, with 30 series each
//	counter   256 at most, with 13 series each
//	error     the first words of package errclass, and "other"
//	replica   address:port of connected replicas, 64 at most; others are counted, but have no series
//
// That is 8,000 series at most, and about 600 for a server with one counter and a dozen commands in use.
//
// # Files
//
//	collector.go              rows of the table and a State to series
//	handler.go renderer.go    /metrics: what it answers, and how often a page is made
//	grafana.json alerts.yml   a dashboard, and rules for alerts
package metrics
