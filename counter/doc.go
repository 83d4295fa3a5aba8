// Package counter is the engine of counterd and its Go API: counters of posts, at 5 bytes a post in memory and about 2
// in files, kept on disk by a log and snapshots.
//
//	s, err := counter.Open("dir", counter.Options{}) // "" for memory only
//	err = s.AlterScript("add counter weibo\nadd column weibo repost hint=16 max=32 suffix=cntrn")
//	n, err := s.Incr("19089006004.cntrn", 1)
//	values, err := s.MGet("19089006004.cntrn", "7.cntrn")
//	items, next, err := s.Scan(0, 100)
//	err = s.Snapshot() // or leave it to the store
//	err = s.Close()
//
// A Batch runs many operations at once. Store.Admin and Store.Replication give what a server needs beyond that.
//
// # Store
//
// A Store holds a schema (package schema) and, for each counter of it, the posts of that counter. A post is a 63-bit id,
// the mid, with a value for each column. Without a directory a store keeps everything in memory. With one, the log
// (package persist) has every change, and snapshots bound how much of the log a start has to replay. All methods of a Store
// are safe for concurrent use. A Batch belongs to one goroutine.
//
// # Words
//
//	item        one mid of one counter, with all its columns; users call it a post
//	row         an item's columns as a table or a file has them
//	keyspace    the items of one counter, or those of one counter in one group of hash slots
//	block       a range of mids of a keyspace and what holds its items: hot, in memory, or cold, in a file
//	directory   the list of a keyspace's blocks, by range
//	overlay     the changes of a cold block since its file was written
//	location    where an item is in its block: in the table, in the file, or in a partial row
//	partial row the values that were set of an item while its cold file could not be read
//	image       a file with a block's table, its overlay, or the table of producers
//	snapshot    images and cold files that belong together, and the log offset at which replay begins. A manifest names
//	            them, and generations count the manifests
//	rewrite     writes a block's rows to a new cold file. The block may be hot, or cold with an overlay
//	tighten     chooses the widths of a block again, when its counters hardly grow any more
//	pin         keeps files and log from being removed while they are copied
//	lineage     the history of a log: the terms of the primaries that wrote it, each from an offset on
//	producer    a client that numbers its changes, so that the store makes each of them once
//	change set  operations that are made whole or refused whole
//
// # Rooms
//
// Package counter connects these packages. Each has its own doc.go; none of them imports package counter.
//
//	internal/hot        one table in memory: bit-packed and open-addressed, without locks, files and clocks
//	internal/arena      the memory of the tables, outside of the Go heap
//	internal/block      the blocks of a keyspace: directory, widths, sealing, splitting, overlays, partial rows
//	internal/core       batches, change sets and numbered changes, and the guards of the posts
//	internal/tier       blocks between memory and cold files
//	internal/durable    snapshots, the start, pins, room on the disk
//	internal/replica    role and lineage, frames of a primary, groups of hash slots on their way
//	internal/build      a directory made without a store
//	internal/query      queries: a search that continues at a mid, and rows, largest values and sums from it
//	internal/producers  the table of producers, and its image
//	internal/rangecopy  a range of posts as it was at one moment, and its digests
//
// A new item goes to the last block of its keyspace, which is open-ended. When that block holds BlockItems items, it is
// sealed: all but the newest 1/64 of its items are packed densely into a block with a known range. A sealed block has 5 %
// room for late ids. When that is used up, the block is enlarged, or split at its median (block/reshape.go). A sealed block
// packs each column in as many bits as its values are worth (block/widths.go).
//
//	directory   [0 ....... 7001 ....... 9313 ..................... 2^63)
//	             sealed     sealed       open: wide keys, re-encoded when it is sealed
//	             4+4+3 bits 4+5+4        16+16+8 bits, as the hints say
//
// # The way of an INCR
//
//  1. The caller opens a Batch, which enters the store's gate shared (package gate), and adds the operation (core/batch.go, core/op.go).
//  2. Batch.locate finds the keyspace and the block of each operation, and prefetches the memory of its bucket (core/locate.go).
//  3. Batch.fetch reads the pages of cold files that operations need, while no block is locked.
//  4. stretch.next locks the block. Neighbours in one block share the lock (core/stretch.go).
//  5. Batch.apply finds the item and its new value, and Keyspace changes it: hot.Table.Set for a hot block
//     (internal/hot/items.go), or the overlay for a cold one (block/overlay.go).
//  6. The stretch encodes the value after the change as a record, and appends the records of up to 16 blocks to the log at
//     once. Only then are those blocks unlocked: the order of the log is the order of the effects.
//  7. Batch.End leaves the gate. Batch.Commit, or an Ack for several batches (core/sight.go), waits until the log has the record
//     as safe as appendfsync and the in-sync set ask for. Then the caller answers.
//
// A reader sees a change before it is safe. So a batch remembers how far the log must be for what it has read, and Commit
// waits for that too (core/sight.go). A change set locks all of its blocks first, and is one frame of the log (core/changeset.go). A
// change set with tens of thousands of reads runs in slices and compares afterwards (core/longread.go).
//
// # The way of a numbered change
//
// A client that gets no answer cannot know whether its change was made. A Once gives the change a number (core/once.go). The
// table of producers has the last numbers and results of each producer (core/ledger.go). One lock covers the look at that
// table, the change, its record and the new entry, so of two tries at a time one is made. The log has the number before
// the change, in the same frame; replay and replicas take it over:
//
//	... | define 3 "importer" | once 3, seq 1041, hash | set weibo 19089006004 cntrn=8 | once 3, ... | ...
//
// The table has an image in each snapshot. A start without that image is refused, since changes would be made again.
//
// # The way of a cold page
//
// When memory passes MaxMemory, the background chooses the blocks that were not used for longest (tier/tiers.go). A rewrite
// copies such a block under its lock, writes the rows to a cold file (package coldstore) without the lock, and then
// exchanges the blocks under the lock (tier/rewrite.go). Changes of a cold block go to its overlay. An operation on a cold
// block asks the file in which page its mid would be; locate notes it. Batch.fetch reads the page into the page cache while
// no block is locked, so a slow disk delays this batch alone. The background merges overlays into new files, and brings
// blocks back to memory that are used often. Where a page is damaged, its items answer ErrCold, and values that are set
// later become partial rows (block/partial.go). The scrubber reads all files again from time to time (durable/scrub.go).
//
// # The way of a snapshot
//
// The snapshotter decides when (durable/snapshotter.go). A snapshot first notes the log offset at which replay will begin
// (durable/snapshot.go). It then visits the blocks one by one: it locks a block, notes the log offset, copies the table and unlocks
// it. The copy becomes an image at that offset; blocks that did not change keep their image, and cold blocks their file.
// The table of producers follows. After a sync of log and files, the manifest is written last and names all of them.
// What no manifest, block or pin needs is removed then, and so is old log (durable/retention.go, durable/packing.go). Room for
// the next snapshot is kept free on the disk, since a snapshot is the way out of a full one (durable/space.go).
//
// # The way of a start
//
// Open reads the newest manifest, several images at once (durable/recover.go, durable/blockfile.go), and opens the cold files. If a file
// cannot be used, it takes the manifest before. If none is whole, it goes on without the file, and the range of that file
// answers errors (durable/lostrange.go). The log is replayed from the manifest's offset (core/replay.go). A block skips records that
// its image already has. Records have values after the change, so a record that is applied twice does no harm.
//
// # The way of a replica that resumes
//
// The replica tells the lineage and the end of its log; the primary compares both with its own lineage (replica/role.go). If the
// two logs agree up to that end, the primary sends frames from there. Otherwise the replica takes a full copy: the primary
// pins its newest snapshot and the log behind it until they are copied (durable/pin.go). Replication.Follow makes the primary's
// lineage that of the replica. Replication.Replicate checks each frame (replica/framecheck.go), appends it to the replica's own log
// as it is, and applies it by a batch that does not log (replica/replicate.go). Replicas keep producers in the same way. A primary
// answers a client when the in-sync set has the change (replica/quorum.go, replica/shardcommit.go).
//
// # The way of a group of hash slots
//
// A store made with Options.SlotGroups has 256 keyspaces for each counter, one for each group of 64 hash slots
// (replica/groups.go, core/spaces.go), so a group is read or dropped without a look at others. Groups.Own says which groups clients
// may touch. To move a group, the source makes a GroupExport, which pins the log (replica/groupexport.go). It gives what producers
// did up to a log offset, then the posts block by block, then what the log says from that offset on. The target makes a
// GroupImport, which hides the group, writes all of that to its own log and applies it as a replica would
// (replica/groupimport.go). When little is left, the owner of the move stops the source, gives the rest, and the target accepts the
// group (Groups.Accept); the source drops it. Both steps are records of the log, so a crash does not lose the state
// (replica/groupstate.go). Numbers of producers move along: a repeat stays a repeat.
//
// Groups cost memory and time: 5.74 bytes a post instead of 5.20 at 100 M posts (BenchmarkSlotGroupsBytes), and 8-12 % more
// processor time for GET. SCAN goes from group to group, and a query merges the searches of all groups (query/merge.go).
//
// # Queries
//
// Find, Top, Aggregate and Update take the items that meet a Query: a range or a list of mids, and conditions on columns
// (find.go, core/update.go). They run in steps of 0.3 ms, each in a batch, and a search continues at a mid, whatever happened to
// the blocks (query/search.go). A search holds a hot block's lock for 3 us at a time (query/hotblock.go), and a cold
// block's only while it compares rows with the overlay (query/coldblock.go). It passes over files and pages by the bounds
// of their values. Update checks and changes an item under one lock.
//
// Processor time a post of the range, beside a plain loop over arrays of 8 bytes a value (BenchmarkQuery, 1 M posts,
// three columns, all of them returned):
//
//	condition meets           arrays    hot    cold   pages read
//	nothing                   0.4 ns   0.2     0.007       0 %
//	1 of 7300 posts           0.4      0.4     0.5        24 %
//	1 of 290, small values    0.8      2.1     2.3       100 %
//	1 of 14                   2.7      6.2     6.5       100 %
//	all                       2.8       59     9.3       100 %
//
// A hot block is in no order: to sort all of its posts is most of the 59 ns. The 100 posts with the most comments of 12
// million take 9.4 ms hot and 1.8 ms cold, with 6 % of the pages read.
//
// # Builds
//
// A Build makes a directory without a store (build/build.go, build/space.go). Posts come in order of mid. The build cuts them into
// ranges and writes these as cold files and images, several at once. All stand at the offset at which the log begins.
//
// # How to add a type of column
//
// All columns are unsigned integers of at most 2^63-1 today. Another type needs a change in these places, in this order:
//
//	schema/column.go, schema/script.go, schema/durable.go   the attribute, its text and its limits
//	schema/layout.go, schema/layout_codec.go                the field of a packed row, and its encoding in images
//	internal/hot/items.go, internal/hot/overflow.go        reading and writing a value; what does not fit the packed bits
//	internal/block/item.go, internal/block/widths.go        an item's values wherever they are; the choice of widths
//	coldstore/meta.go, coldstore/bounds.go, coldstore/page  the column of a cold file, its pages, the bounds of its values
//	persist/format/record.go                                the value in a record of the log
//	core/op.go, core/batch.go, core/change.go, core/setrow.go  operations on it; what is out of range
//	internal/query/query.go, internal/query/aggregate.go    comparisons and sums
//
// A format that older versions cannot read gets a new version number where the file states one.
//
// # Files
//
//	api.go store.go options.go errors.go  the store: the first things that a program needs, and options and errors
//	batch.go                              operations and batches: see internal/core
//	find.go queryupdate.go toplists.go    queries as a batch runs them; changes of the found items: see internal/query; top lists
//	reader.go scan.go randomitem.go       reads of a batch without keys: blocks, items in order of mid, one by chance
//	digest.go rangecopier.go              comparisons of nodes, block by block or at one moment
//	admin.go                              for operators: metrics, options that change while the store is open, tiers by hand
//	brokenlog.go                          damaged segments of the log, and frames of another node for them
//	damagedranges.go                      ranges whose file is damaged, and posts of another node for them
//	files.go holdsdata.go salvage.go      files as tools show and salvage them: see internal/durable
//	replication.go                        replication, and groups of hash slots: see internal/replica
//	changefeed.go                         the log as changes: see internal/feed
//	windows.go                            the windows of derived columns go on
//	builddir.go                           a directory is made without a store: see internal/build
//
// # Locks
//
// The comment of core.Data has the order of all locks. A batch waits for a disk with the gate held shared and no block
// locked. A writer of the gate waits for such a batch too, and other batches do not (package gate). A reader locks one block at
// a time, for 50-100 ns an operation, and a writer up to 16. Sealing takes some milliseconds and stops one block only.
// The background does long work in turns (package pace), and without the block's lock where it can (tier/beside.go).
//
// # Processors
//
// A cache line that several processors write costs each of them 70 ns and more. So an operation writes one such line, the
// one of its block (block/block.go). A batch takes one door of the gate, and the log's lock once for the changes in up to 16
// blocks. BenchmarkCores tells what an operation costs on one processor, and on all.
package counter
