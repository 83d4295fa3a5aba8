// Package block holds the posts of one counter in blocks. An INCR changes memory here. It knows no log, no locks beyond
// those of a block, and no background work; package counter drives it.
//
// A Keyspace is the items of one counter, all of them or those of one group of hash slots. Its directory divides the mids into
// ranges, and a Block holds the items of one range. A block is hot (all items are in its table, see package hot) or cold (the
// items are in a file of package coldstore, and the table is the overlay that holds later changes). Rows whose page of a cold
// file cannot be read are kept as partial rows.
//
// A block is found without a lock, and locked before anything of it is read. The range, the layout and the place of the
// buckets of a hot block never change. A block that has to grow is replaced by one block or by several, under its lock; the
// old block is dead then, and a caller that still refers to it looks in the directory again.
//
// # Files
//
//	block.go directory.go keyspace.go     a block and its lock; the list of blocks by range; all blocks of a counter
//	columns.go item.go                    the columns of a block's table; one item, whatever the tier of its block
//	cold.go coldfiles.go overlay.go       a cold block: its file; the files in use, and memory of partial rows; overlays made and grown
//	partial.go                            rows of which only some columns are known
//	rows.go                               all rows of a block, of file, overlay and partial rows together
//	builder.go widths.go                  new blocks, and the widths of their columns
//	newest.go                             the newest mids of a group of hash slots
//	reshape.go                            blocks that take another's place: growing, sealing, splitting, re-packing
//	drop.go                               all posts of a range of mids are removed at once
//	ownership.go                          which groups of hash slots clients may touch
//	backoff.go                            how long a block is left alone after a failure
//
// # Lock order
//
// Block.Mu, then the mutex of the directory, then the arena's.
package block
