// Package sample holds a set of real posts for the demo: 280,000 Reddit posts with three counters each, from a source
// dedicated to the public domain (README.md names it and describes the columns). It is embedded, so that the demo
// needs nothing but its binary.
package sample

import _ "embed"

// Name is the file's name, as errors and messages show it.
const Name = "reddit.tsv.gz"

// Reddit is the gzipped file: tab-separated lines of id, ups, downs and comments under a header line that names them.
// It must not be changed.
//
//go:embed reddit.tsv.gz
var Reddit []byte

// Script is the schema the demo gives the posts. 10 bits hold 94 % of the up-votes, 8 bits 95 % of the down-votes and
// 97 % of the comments; the rest goes to the overflow, as on any real data. Top posts need more of it than the posts of
// a whole network.
const Script = `add column reddit id hint=64 max=64 primarykey
add counter reddit
add column reddit ups hint=10 max=32 suffix=ups
add column reddit downs hint=8 max=32 suffix=downs
add column reddit comments hint=8 max=32 suffix=comments
`
