// Package rdb reads the snapshots of Redis and Valkey (dump.rdb, and the copies they send to replicas) piece by piece, of
// any writer and with any content.
//
//	| "REDIS" version 4 digits, or "VALKEY" 3 digits |
//	| opcode or type, 1 byte | what belongs to it |      many
//	| 255 | CRC-64 of all before it, 8 bytes LE |        from version 5 on; 0: the server was told to make none
//
// Strings, hashes and sorted sets are given to a Handler, which says by the key whether it wants the value. What it does
// not want, lists, sets, streams and values of modules are passed over. A type that is not known cannot be passed over,
// as its length is nowhere: it ends the reading with ErrUnsupported, which names it.
//
// # Hostile input
//
// Lengths in a file are claims. Memory is taken as bytes arrive, and for no string above MaxString; a compressed string
// claims what it would be, which is compared with what its bytes can make before memory is taken. A plain hash is given
// field by field and may be of any size. So a file of n bytes takes O(n) time and some hundred MiB at most.
//
// Nothing that was given counts until Read returned nil: only then is the file whole, as its checksum says. ErrTorn is an
// end before the end, ErrCorrupt what cannot be right.
//
// # Why not a library
//
// Those that are kept read a byte that was changed, and a file that ends in the middle, as a good one; take what a length
// claims at once; hold a hash as a whole; and know 32,768 fields of a hash of 70,000 in a listpack.
//
//	read.go      the file: header, opcodes, keys, values
//	kinds.go     opcodes and types in a file; shape.go: what a type holds
//	pass.go      values that nobody wants
//	input.go     bytes, lengths, strings, the checksum
//	packed.go    listpacks, ziplists, zipmaps: small hashes in one string
//	lzf.go       compressed strings
package rdb
