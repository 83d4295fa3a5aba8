// Package tier moves blocks between memory and cold files, and chooses their layout anew, beside their readers and writers. It
// works on core.Data.
//
// Tiers keeps memory within its limit. A block on its way to other tables, or to a file, is copied under its lock, made again
// without it, and exchanged under it.
//
// # Files
//
//	tiers.go       which blocks become cold, or hot again
//	rewrite.go     a block on its way to a file, and back
//	otherposts.go  the posts of another node in the place of a damaged file
//	beside.go      a block that is made again beside its readers and writers
//	repack.go      columns that came or went, better widths, blocks that are sealed ahead
//	stats.go usage.go  totals of tiers; memory and files of each counter
package tier
