// Package persist keeps what the store acknowledged: the log, the images of blocks and the manifest that makes them a
// snapshot. It takes and gives bytes; what a payload means is the engine's. Tools that check, repair and restore a directory
// stand above it, in package datadir, and have no way to its files but what is exported here.
//
// # Words
//
//   - log: one endless sequence of frames, in the order of the effects of its records
//   - frame: what one group commit wrote; length, checksum, place, time and records (frame.go)
//   - record: one change, as the values after it, so that applying it twice does no harm (record.go)
//   - segment: a file with a stretch of the log behind a header (segment.go)
//   - position, written, durable: offsets up to which the log is appended to memory, given to write(), and safe from a
//     power failure; durable <= written <= position
//   - claim: an offset up to which the log was durable, as a frame or a header says
//   - image: a file with one block as it was at one offset (image.go)
//   - manifest: a file that lists the block files of a snapshot and the offset to replay from (manifest.go)
//   - archive: one file with all of a snapshot and the log behind it, to be carried elsewhere (archive.go)
//
// # Files
//
//	dir/LOCK                            held while the directory is open (dir.go)
//	dir/MANIFEST-<n>                    text; the two newest generations are kept (manifest_text.go)
//	dir/HISTORY                         whose log this is, and since when (lineage.go)
//	dir/diverged-<epoch>-<offset>.aof   what was cut from the log as a primary had other bytes (cut.go); -<n> is added to the n-th at one offset
//	dir/diverged-<n>.archive            all that was here before the data of a primary without a common past (diverged.go)
//	dir/log/<20-digit start offset>.aof segments
//	dir/rdb/<block>-<offset>.hot        images of hot blocks and of overlays
//	dir/cold/<block>-<offset>.cold      cold files; written by package coldstore, named by manifests
//	dir/{rdb,cold}/copy-<link>-<n>.*    the same, copied from a primary; link is a random number of that connection
//	*.new                               a file of an installation (install.go): named or removed at start
//	*.tmp                               a file that never got its name: removed at start
//	*.broken-<n>                        what a repair set aside
//
// Every file says magic, version and checksums. A version that is not known gives ErrNewerFormat and the file is left
// alone. Files of each version are in testdata for ever.
//
// # The offset rule
//
// An offset counts the bytes of frames since the log began, frame headers included, segment headers and padding not. It
// is never reset and never given out twice within one history (ReplID). So a frame has the same offset wherever segments
// are cut, and the log of a replica is the same bytes at the same offsets. The byte at offset x is at 64 + x - start in
// the segment that starts at start. Offsets inside a frame are used too: an image stands behind one record.
//
// # Order rules
//
//  1. Ready before the change: it is refused while nothing has happened yet.
//  2. Append under the block's lock: the log's order is the order of effects.
//  3. write() before the reply, in every policy (Commit): a kill -9 loses nothing acknowledged. Under SyncAlways also
//     the sync. The same before others are told of the change (Show), and before replicas get it (NewFollower).
//  4. Segments become durable in log order, so durable bytes are a prefix; a frame tells how long the prefix was.
//  5. The log is synced past an image before a manifest names it (Sync, then WriteManifest); files and their directory
//     are synced before the manifest is; an old manifest goes before the files that only it names.
//  6. What is not durable stays in memory until it is (tail.go). After a failed write or sync no descriptor is used
//     again: the bytes go to a new segment (heal.go).
//  7. Oldest segments are dropped first, each durably before the next. A dropped segment is needed by no kept manifest:
//     the caller asks Dir.ReplayFrom.
//
// # Recovery
//
//  1. OpenDir takes LOCK and reads the manifests, newest first. One that is damaged is reported and passed over; if its
//     images are, the engine takes the next of Manifests. A newer format, or damage without a good one left: refuse.
//  2. The engine reads the images, in parallel, each straight into its memory (Image.ReadInto).
//  3. OpenLog walks the log from the segment that holds the manifest's Replay offset and hands out every record that ends
//     behind it. The engine applies a record to a block if it ends behind the offset the block stands at.
//  4. A segment ends where the next one starts. Its header's chain is the checksum of the frame before.
//  5. The first place X without a valid frame is a torn tail if nothing says that bytes behind X were durable: no valid
//     frame and no header behind X with a higher claim, no image that stands behind X. Frames in a replica's segments
//     carry the primary's claims and are not asked. Zeros up to the end of the last segment are no damage at all.
//  6. Everything else is a *CorruptError: refuse, change nothing, print the repair command. So is a missing segment, a
//     broken chain, a last segment shorter than it was made, a log that ends before an image.
//  7. The bytes from the highest claim to X are copied into a new segment, synced, and only then is there a log to append
//     to: the process before may have met a failed sync, after which the kernel shows bytes that the disk does not
//     have. The torn tail is thereby cut, and no file of an earlier process is ever appended to. Where the disk takes no
//     writes the log opens in trouble, as after a failed write in service, and heals later (LogOptions.Unwritable).
//  8. RemoveOrphans removes block files that no manifest names.
//
// # Locks
//
// Block lock of the engine, then Log.mu; Log.dropMu, then Log.mu. Dir.mu alone. No file is touched under Log.mu: the
// roles of writer and syncer are taken under it and worked without it (log.go).
//
// # Reading order
//
// record.go, frame.go, segment.go (formats); tail.go, log.go, commit.go, ready.go, heal.go, doubt.go, background.go (writing);
// segments.go, scan.go, walk.go, open.go, reader.go, walklog.go, logcopy.go (reading and copying); image.go, checkblock.go, coldfault.go, manifest.go,
// dir.go (snapshots); held.go (whose directory it is); archive.go, archive_reader.go (copies in one file); lineage.go, cut.go, install.go,
// diverged.go (replication); aside.go (what tools took out).
package persist
