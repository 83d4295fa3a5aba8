// Package postgen generates posts that look like those of a real network: their mids, their counters, and the choice of
// the posts that users read.
//
// Every number is drawn from a seed. The same seed gives the same posts and the same counters, so a benchmark can draw
// them again and does not store them.
package postgen
