// Package format is the text of a data directory: what each of its files looks like as bytes, and which names the files have.
// It encodes and decodes byte slices and opens no file. The packages above it (logfile, snapfile, persist, archive, past)
// read and write the files.
//
// # Rules
//
//   - Each format is drawn above its encoder. All integers are little-endian.
//   - A file has a magic, a version and checksums. A version that is not read gives a *VersionError, which matches
//     ErrUnsupportedFormat, and the file is left alone. Only bytes whose checksum is right may claim a version: damage
//     never passes for another version.
//   - Lengths in a file are claims. A decoder compares them with limits before it takes memory.
//   - The bytes that are written today are in testdata. A change of the meaning of any byte needs a new version.
//   - Damage is a *CorruptError, which says where it is, what was expected, what was found and how to repair it. Decoders
//     of parts of the log return a *Fault instead, as only their caller knows whether the place is damaged or the log's
//     torn end.
//
// # Offsets
//
// A log offset counts the bytes of frames since the log began, frame headers included, segment headers and padding not.
// The offset of a frame is the same wherever segments begin and end. The byte at offset x is at 64 + x - start in the file
// of the segment that starts at start.
//
// # Files
//
//	names.go          names of the files and directories
//	errors.go         ErrCorrupt and its kin, CorruptError, VersionError, TornTail
//	record.go         a record: one change
//	old.go            records that also have the values before the change
//	varint.go         numbers as records have them
//	move.go           records that move hash slots from one log to another
//	cursor.go         a record of a named place in the log
//	droprange.go      a record that removes a range of mids
//	tick.go           a record that says what time it is
//	result.go         the result of a change that a producer numbered
//	frame.go          a frame: the records of one group commit
//	segment.go        header of a segment; replication ids
//	packed.go         a packed segment: header, index, footer
//	chunk.go          a chunk of a packed segment: compressed frames
//	lineage.go        HISTORY: the terms of a log
//	lineage_point.go  whether a log holds what another node had
//	term.go           which frames a history admits
//	claim.go          DURABLE: how far the log was durable
//	healing.go        HEALING: damaged files were set aside
//	image.go          header and footer of an image
//	manifest.go       a manifest: what a snapshot is made of, and the rules for it
//	manifest_text.go  a manifest as text
//	lost.go           the name that stands for files that cannot be used
package format
