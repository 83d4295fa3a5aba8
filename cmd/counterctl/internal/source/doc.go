// Package source reads numbers of posts: from a running Redis or Valkey, and from files.
//
// # Redis
//
// Keys come by SCAN, 1000 at a time, and are read without asking for their type, as a rule says what it should be: MGET for
// strings, HMGET where a rule names the fields, HSCAN and ZSCAN where a hash or sorted set has a field for each post. Those
// of one SCAN go with the next SCAN in one round trip. Only what answers nothing is asked for its TYPE. In a cluster every
// master is read, one after the other, with GET in place of MGET, as keys of several slots go into no MGET.
//
// Replies are read value by value out of one buffer, so that memory is bounded whatever the server holds: a batch's keys,
// one value of at most 16 MiB, and a page of a large hash. A batch with a larger value is read again by GETRANGE, of which
// the first 64 KiB are enough to see that it is no number.
//
// A position is the cursor, the keys of the last SCAN that are not read yet, and where in a large hash the reading is, so
// that nothing is read twice after a restart of ours. Cursors mean something to the process that gave them, which its
// run_id names: it is asked for on every new connection, and another one ends the reading with ErrRestarted.
//
// SCAN shows every key that is there all the time at least once. While keys come and go the server's table grows or
// shrinks, and then it may show some twice. To set a value twice is harmless; to add one is not: Mark tells whether the
// server was written to.
//
// # Rows
//
// Package tsv reads them, plain or compressed. A position is the number of rows that were read.
//
// # Snapshots
//
// Package rdb reads dump.rdb. It is read twice: first to its end, to see that it is whole, so that nothing of a file that
// is not goes anywhere. It has no positions, and is begun anew after a restart: values are set, which may be repeated.
//
// # Files
//
//	redis.go     the server: connections, run ids, masters of a cluster
//	scan.go      keys and their values
//	page.go      large hashes and sorted sets, a page at a time
//	explain.go   examples of what maps
//	position.go  where the reading is
//	file.go      files of rows
//	spool.go     what can be read only once, as a temporary file
//	dump.go      snapshots; loader.go what they hold
package source
