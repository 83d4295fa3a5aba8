// Package page is the codec of a cold file's page: rows, sorted by mid, in as few bytes as they take, and readable one row, one
// column at a time where they lie. It knows no file and no cache.
//
// page.go draws a page. A View reads one row in place. A Dir is what a cached page has beside it to do that faster. A Cursor
// walks all rows, and the decoders of a View take whole columns. An Encoder plans a page, chooses the smallest encoding of
// each part, and appends it.
//
// Any bytes are safe to decode: parsers compare the extent of every field with the page before they read it, and name the
// part that is damaged.
//
// # Files
//
//	page.go            a page: its directory, planning, encoding, reading a row, walking
//	mids.go            the mids of a page
//	eliasfano.go       Elias-Fano
//	bitset.go          a set of rows
//	ladder.go          the values of a column
//	tally.go           which values a column has, and how often
//	sparse.go          which rows differ from the common one
//	decode.go          whole columns at a time
//	range.go           conditions on a column
//	dir.go             what a cached page has beside it
//	bits.go            fields of bits
//	prefetch.go        asks the processor for memory early
//	prefetch_asm.go    the same: assembly
//	prefetch_other.go  the same: nothing
package page
