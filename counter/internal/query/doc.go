// Package query finds the posts of a counter that meet conditions: one after the other, those with the largest values, or
// their sum. It reads blocks (package block) through a View, and cannot reach the log, the tiers or the store.
//
// A Search goes on in steps of about 0.3 ms. Between two steps anything may happen to the store, so a step finds its block
// again by the mid to go on at. Within a block it copies the items that meet the query, under the block's lock for 3 us at a
// time. A search passes over data that cannot meet the conditions: cold files and pages by the bounds of their values, hot
// blocks where no value of the overflow table meets them.
//
// # Files
//
//	query.go view.go        what a query asks and gives; what it sees of a store
//	search.go selection.go  the search that goes on at a mid; what it passes over
//	rowsort.go heaps.go wordsort.go rows and items sorted by mid
//	wordsort_amd64.go wordsort_other.go loops of it by vector instructions
//	hotblock.go coldblock.go merge.go its steps in hot blocks, in cold blocks, and over the groups of hash slots in one order
//	hotitems.go             items of hot blocks, as they are packed there
//	newest.go               the newest few rows of all groups of hash slots, by lists
//	find.go top.go          the rows themselves; those with the largest values
//	aggregate.go            their number, sum, least and largest value
//	derived.go derivedtop.go queries that use derived columns; the posts with the largest values of one
package query
