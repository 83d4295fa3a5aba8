// Package persist keeps acknowledged changes on disk: it has the open log (Log) and the open data directory (Dir). It takes
// and gives bytes; what a payload means is the engine's business. Tools that check, repair and restore a directory stand
// above it, in package datadir.
//
// # Rooms
//
//	past      takes back, replaces and keeps parts of a log's past
//	archive   a data directory in one file
//	persist   the open log, the open directory and its lock
//	logfile   files of a log: segments, HISTORY, DURABLE        snapfile   files of a snapshot: manifests, images
//	format    what all files look like, as bytes
//	vfs       the file system, a simulated one and a failing one
//
// # Words
//
//   - log: one endless sequence of frames, in the order of the effects of its records
//   - frame: what one group commit wrote; length, checksum, place, time and records (format/frame.go)
//   - record: one change, as the values after it, so that applying it twice does no harm (format/record.go)
//   - segment: a file with a stretch of the log behind a header (format/segment.go)
//   - packed: of a segment, compressed (format/packed.go)
//   - position, written, durable: offsets up to which the log is appended to memory, given to write(), and safe from a
//     power failure; durable <= written <= position
//   - confirmed: offset up to which other nodes have the log that must have it before a change is acknowledged
//   - claim: an offset up to which the log was durable, as a frame, a header or the file DURABLE says
//   - image: a file with one block, or the table of producers, as it was at one offset (format/image.go)
//   - producer: a client that numbers its writes, each of which is to be made once (Record)
//   - manifest: a file that lists the block files of a snapshot and the offset to replay from (format/manifest.go)
//   - archive: one file with all of a snapshot and the log behind it, to be carried elsewhere (archive/writer.go)
//
// # The data directory
//
// Each file of a data directory has one file of the code that names it, writes it and reads it:
//
//	file of the directory                         what it is                                    owner
//	LOCK                                          held while the directory is open              dirlock.go
//	MANIFEST-<n>                                  text; the two newest generations are kept     format/manifest_text.go
//	HISTORY, HISTORY.copy                         whose log this is, and since when             format/lineage.go
//	DURABLE                                       how far the log was durable here              format/claim.go
//	log/<20-digit start offset>.aof               a segment: its bytes                          format/segment.go
//	                                              one that is packed                            format/packed.go
//	                                              segments: listed, ended, dropped              logfile/list.go
//	log/segment-<n>.tmp                           the next segment, before it has its name      logfile/maker.go
//	                                              one that is being packed                      logfile/pack.go
//	rdb/<block>-<offset>.hot                      image of a hot block, of an overlay, or of    format/image.go
//	                                              the table of producers
//	cold/<block>-<offset>.cold                    cold file                                     package coldstore
//	cold/lost+<files>.cold                        never there: in a manifest it stands for a    format/lost.go
//	                                              range whose image cannot be used
//	{rdb,cold}/copy-<link>-<n>.*                  the same, copied from a primary by package    format/names.go
//	                                              repl; link is a random number of a connection
//	diverged-<epoch>-<offset>[-<n>].aof           what was cut from the log as a primary had    past/diverged.go
//	                                              other bytes; the n-th at one offset
//	diverged-<n>.archive                          all that was here before the data of a        past/diverged.go
//	                                              primary without a common past
//	torn-<offset>[-<n>].aof                       a torn tail that a start cut from the log     logfile/torn.go
//	MANIFEST-<n>.new, log/<start offset>.aof.new  a file of an installation: gets its name,     past/install.go
//	                                              or is removed, at start
//	PRIMARY, HANDOVER, and .copy of each          notes of a replica: whom it follows, to whom  package repl
//	                                              it was handing its role over. No tool and no
//	                                              copy takes them along
//	REPLICAS, REPLICAS.copy                       note of a primary: its last replicas. No       package repl
//	                                              tool and no copy takes it along
//	LONGER, LONGER.copy                           note of a primary: a replica has more of the  past/longer.go
//	                                              log
//	CONFIRMED                                     note of a node of a cluster: how far its     package repl
//	                                              log was confirmed. No tool and no copy takes
//	                                              it along
//	MONITORED                                     note that Sentinel watches the node           counter/internal/replica/role.go
//	BOOT                                          note of the last end, of a node of a cluster  counter/internal/replica/boot.go
//	*.tmp                                         a file that never got its name: removed       vfs/atomic.go
//	                                              at start
//	*.broken-<n>                                  what a tool took out                          past/aside.go
//	HEALING                                       note that damaged files are set aside, and    format/healing.go
//	                                              another node's data is awaited
//	*.damaged-<n>                                 the n-th set of such files and folders        past/healing.go
//
// An archive (archive/writer.go) is a file outside of the directory. The names themselves stand in format/names.go: they are part
// of the format.
//
// Every file but the notes says magic, version and checksums. A version that is not read gives ErrUnsupportedFormat and the
// file is left alone. Files of each version that is read are in testdata.
//
// # The offset rule
//
// An offset counts the bytes of frames since the log began, frame headers included, segment headers and padding not. It
// is never reset and never given out twice within one history (ReplID). So a frame has the same offset wherever
// segments are cut, and the log of a replica is the same bytes at the same offsets. The byte at offset x is at 64 + x -
// start in the segment that starts at start. Offsets inside a frame are used too: an image stands behind one record.
// Packed, a segment shows itself to all that read the log as it was (PackedFile); what it takes on disk only retention
// asks.
//
// # Order rules
//
//  1. Ready before the change: it is refused while nothing has happened yet.
//  2. Append under the block's lock: the log's order is the order of effects.
//  3. write() before the reply, in every policy (Commit): a kill -9 loses nothing acknowledged. Under SyncAlways also
//     the sync. The same before others are told of the change (CommitRead), and before replicas get it (NewFollower).
//     Where other nodes must have it first (Confirm), the reply and CommitRead wait for them too, and replicas do not.
//  4. Segments become durable in log order, so durable bytes are a prefix; a frame tells how long the prefix was.
//  5. The log is synced past an image before a manifest names it (Sync, then WriteManifest); files and their directory
//     are synced before the manifest is; an old manifest goes before the files that only it names.
//  6. What is not durable stays in memory until it is (tail.go). After a failed write or sync no descriptor is used
//     again: the bytes go to a new segment (heal.go).
//  7. Oldest segments are dropped first, each durably before the next. A dropped segment is needed by no kept manifest:
//     the caller asks Dir.ReplayFrom.
//  8. A segment that is packed takes the place of what it was only when it is durable, and was durable itself: by then
//     each of its blocks has been unpacked again and compared.
//
// # Recovery
//
//  1. OpenDir takes LOCK and reads the manifests, newest first. One that is damaged is reported and passed over; if its
//     images are, the engine takes the next of Manifests. A newer format, or damage without a good one left: refuse;
//     but what the engine can do without, it may.
//  2. The engine reads the images, in parallel, each straight into its memory (Image.ReadInto).
//  3. OpenLog walks the log from the segment that holds the manifest's Replay offset and hands out every record that
//     ends behind it. The engine applies a record to a block if it ends behind the offset the block stands at.
//  4. A segment ends where the next one starts. Its header's chain is the checksum of the frame before.
//  5. The first place X without a valid frame is a torn tail if nothing says that bytes behind X were durable: no valid
//     frame and no header behind X with a higher claim, no image that stands behind X, and not DURABLE. Frames in a
//     replica's segments carry the primary's claims and are not asked. Zeros up to the end of the last segment are no
//     damage at all.
//  6. Everything else is a *CorruptError: refuse, change nothing, print the repair command. So is a missing segment, a
//     broken chain, a last segment shorter than it was made, a log that ends before an image.
//  7. The bytes from the highest claim to X are copied into a new segment, synced, and only then is there a log to
//     append to: the process before may have met a failed sync, after which the kernel shows bytes that the disk does
//     not have. The torn tail is kept (logfile/torn.go) and thereby cut, and no file of an earlier process is ever appended to. Where the disk
//     takes no writes the log opens in trouble, as after a failed write in service, and heals later
//     (LogOptions.Unwritable).
//  8. The engine removes block files that no manifest names (Dir.Orphans).
//
// # Locks
//
// A goroutine takes locks in this order only:
//
//	a block's lock of the engine, then Log.mu, then claims.mu
//	Packer.mu, then SegmentList.drop, then Log.mu, then claims.mu
//	Quorum.mu, then what Waiter.Resume takes
//	Dir.mu or dirLock.mu, and none besides
//
// Log.mu is the mu of appender. It guards the tail, the segment files, admission, judge, committer, healer, diskCalls and
// doubts. No file is touched under it: the roles of writer, syncer and healer are taken under it and worked without it
// (committer.go).
//
// # Files
//
//	log.go           Log, and how its parts are connected
//	open.go          opens a log: replays it and takes it over
//	options.go       options of a log
//	tail.go          the end of the log in memory
//	appender.go      appends records
//	progress.go      how far the log is written and durable; read without a lock
//	admission.go     whether changes are taken
//	judge.go         judges age, size and space of what is not durable
//	commit.go        waits until changes may be acknowledged or shown, and syncs ahead of time for feeds
//	committer.go     does writes and syncs, and waits for them
//	quorum.go        waits for other nodes
//	stall.go         roles, and calls of the disk that do not end
//	doubt.go         items whose last change is not safe
//	heal.go          writes unsynced bytes again after a disk error
//	healer.go        the trouble of the disk, and when it is tried again
//	segmentfiles.go  the segments that are written
//	segments.go      SegmentList: lists and drops segments
//	prepare.go       prepares the next segment
//	pack.go          Packer: packs segments in the background
//	claim.go         claims how far the log is durable
//	background.go    the loop of syncs; Close
//	names.go         whether the files still have their names
//	reader.go        reads a log that is written meanwhile
//	verify.go        SegmentList.Verify: verifies a log that is open
//	restore.go       SegmentList.Restore: makes a damaged segment again
//	stats.go         numbers of a log
//	histogram.go     a histogram
//	dir.go           Dir
//	dirlock.go       the lock of a directory
package persist
