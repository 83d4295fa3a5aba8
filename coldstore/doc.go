// Package coldstore keeps blocks of rows in immutable files: sorted by mid, compressed to about two bytes a post, and
// readable one row, one column at a time where they lie.
//
// A Writer takes the rows of one block in order of mid and makes a file; Open maps one; File answers point reads
// (Get; Locate, Prefetch, Touch and GetAt for a batch), scans (Iterate; PageScan with conditions) and checks (Verify). Cache holds
// pages for all files. The package knows nothing of overlays, logs or manifests: the caller names the files, makes them
// visible and removes them.
//
// # The file
//
// Header, pages, page index, bounds of each page's values (bounds.go), footer; format.go draws it. A page is as many
// rows as fit 4096 bytes (64 KiB at most, for rows so wide that 4096 bytes hold under 128), and lies in one aligned
// block of the disk. So a point read is one search in the index in memory, one 4 KiB read at most, and one search in
// the page. page/page.go draws the page:
//
//	ids        Elias-Fano; or a constant stride; or bit-packed gaps        page/mids.go, page/eliasfano.go
//	           of one group of hash slots: of their numbers in it
//	presence   the set of rows that differ from the page's common row       page/bitset.go
//	columns    one ladder each: a value stops on the first level with room  page/ladder.go
//
// All of them are searched and read in place, by counting bits; nothing is unpacked for a point read. The writer
// takes the smallest encoding for each part of each page and has the page say which it is.
//
// # What decided
//
// Bits a row for the three columns of real posts (Chang'e-3, in order of mid; the dense stream: the same rows drawn
// at random), and of the Reddit posts (few zeros), pages of 1900 rows, with the tables that each encoding needs:
//
//	                        Chang'e-3   dense   Reddit
//	ladder, with presence     2.30       2.50    20.9
//	ladder alone              2.51       2.75    19.9
//	FSE of the bytes          2.53       2.81    22.1
//	huff0 of the bytes        4.26       4.41    20.9
//	zstd, best level          3.40       4.15    21.4
//
// (FSE, huff0 and zstd over one byte a value, larger values aside; where a coder gave up on a page, nothing is
// counted.) The ladder wins although it alone gives random access: Huffman codes cannot go under a bit a value, and
// tables for 4 KiB cost what FSE gains. A joint code of the columns would gain less than the presence set, which
// needs no table. So there is one encoding for columns, of which constant, bit-packed, bit-packed with exceptions
// and list of the unusual are special cases.
//
// Ids: 13.94 bits as Elias-Fano on the dense stream (the entropy is 13.4), 14.7 as bit-packed gaps. Bits a row by
// rows a page, ids and columns: 17.7 with 256, 17.1 with 512, 16.7 with 1024, 16.4 with 1900. Hence the page that
// fills a 4 KiB block: the most rows that still cost one disk read.
//
// Whole files, header, index and padding included, in bytes a row:
//
//	                          this     zstd -19   xz -9    (of the sorted rows as 8+4+4+4 bytes)
//	dense stream, 1 M         2.089      2.98      2.86
//	dense stream, 64 Ki       2.092
//	Chang'e-3, 171 k          3.79       5.02      4.23    ids 27.5 bits: their low 18 bits are random
//	Reddit, 2.3 M             3.68       5.67
//	uniform 63-bit mids       6.37                         ids 47.6 bits
//
// The index takes 0.006 bytes of memory a row on the dense stream (12 a page, a third of them the entry of its cached
// copy), 0.1 at most for rows that fit 64 KiB 128 times.
//
// Iterate takes 31 ns a row, writing 60 ns (page/sparse.go). PageScan, which takes the rows that meet a condition, needs 1.7 ns a row
// of the file where few do, 6.3 where 12 % do and all columns are wanted, 7.6 for all rows; a loop over arrays of 8
// bytes a value needs 1.0, 1.9 and 2.1 (BenchmarkPageScan, one core, the file in the kernel's cache).
//
// A point read of three columns, beside one from memory, in nanoseconds of
// processor time, in batches of 20 (the engine's part included; 2 M posts at random, medians of slices of hot and cold
// reads in turns; counter's BenchmarkTier):
//
//	                                 hot   cold
//	page in the Cache                101    180    1.8 times
//	the same, of 8 M posts           135    250    1.9 times
//	page in the kernel's cache       110    760    6.9 times: 0.5 us to copy it out and verify its checksum
//
// What makes the first: a File knows the entries of its cached pages, beside which their directory lies, in huge pages
// (page/dir.go, entries.go); and a batch goes over its lookups in rounds, so that their cache misses overlap (place.go).
// With the pages parsed as they lie it was 2.9 times. So the Cache keeps old posts in memory for many reads, at 2.5 bytes a
// post where a hot block takes 5.4.
//
// Disk: with nothing in memory one row takes 70 us, 20 rows of 20 files 330 us, 4.8 times as long (BenchmarkDisk, on a
// virtual machine). 20 reads in parallel past the kernel's cache take 770 us there by threads, 470 by one asynchronous
// call; 20 madvise calls alone, which is how Prefetch asks, take 160 and have 20 requests in the disk's queue.
//
// # Reading safely
//
// mapping.go is the only place that touches a mapping: it copies a page out, under debug.SetPanicOnFault, so that a
// truncated file or a failing disk is an UnreadableError of that page's keys, and never SIGBUS. The copy's checksum
// is verified before it is used; a mismatch is a CorruptError of that page's keys. Copies that held go to the
// Cache, so each time bytes come from the file they are verified, and a hit needs no check. Copying and checking 4
// KiB takes 0.5 us; a read call would take 1.1 us, which is why files are mapped. Scans use read calls: they read
// ahead, and their pages do not count as memory of this process.
//
// A process may have few descriptors and 65,530 mappings, and 10^10 posts are up to 150,000 files. So an open File holds
// no descriptor, is mapped by its first read, and unmapped again where too many are (mapping.go). Mapping one takes 10 us.
//
// Any bytes are safe to decode: parsers check the extent of every field against the page before it is read, and
// counts against what the file's size vouches for before memory is taken.
//
// A page that is not in memory stops a thread for a disk read. A batch therefore asks for all its pages first; see
// residency.go.
//
// Pages that are read where they are mapped count as memory of the process, up to a limit (mapped.go).
//
// # Locks
//
// mapping.mu (shared by readers, exclusive to map and unmap), then the lock of the pool of mappings; and the locks of the
// cache's shards. Neither is taken while the other is held, and a disk is never waited for under the latter. Close waits
// for reads of the mapping that go on.
//
// # Files
//
//	file.go             File: opens a file, reads one row
//	format.go           header, index and footer
//	meta.go             what a file says of its block
//	bounds.go           the least and the largest value of each column of a page
//	writer.go           Writer: makes a file
//	place.go            lookups of a batch, in rounds
//	scan.go             Iterate, Verify
//	pagescan.go         PageScan: rows that meet conditions
//	rows.go             a page of rows outside of a file
//	cache.go            Cache: pages in memory, for all files
//	entries.go          the cache's memory
//	chunk_unix.go       its chunks, from the kernel
//	chunk_other.go      its chunks, elsewhere
//	mapping.go          maps files, and copies pages out of mappings
//	mapped.go           a limit for pages that are read where they are mapped
//	residency.go        asks the disk for the pages of a batch early
//	residency_linux.go  the same: madvise
//	residency_other.go  the same: nothing
//	errors.go           CorruptError, UnreadableError
package coldstore
