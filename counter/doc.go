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
// Many operations at once go into a Batch. The rest is for who runs a server: Batch's exclusive mode and Ack; figures,
// limits, tiers, digests and archives, behind Store.Admin; and what replication needs, behind Store.Replication.
//
// # Words
//
//	item        one mid of one counter, with all its columns; what users call a post
//	row         an item's columns as a table or a file has them
//	keyspace    the items of one counter: all, or those of one group of hash slots
//	block       a range of mids of a counter and what holds its items: hot, in memory, or cold, in a file
//	directory   the list of a keyspace's blocks, by range
//	overlay     what was changed in a cold block since its file was written
//	location    where an item is in its block: in the table, in the file, in a partial row
//	image       a block's table, its overlay, or the table of producers, as a file
//	snapshot    images and cold files that belong together, with the log offset they stand at; its manifest names them,
//	            and generations count the manifests
//	rewrite     a block's rows to a new cold file, be it a hot block's or a cold one's with its overlay
//	tighten     choosing a block's widths again, when its counters hardly grow any more
//	pin         what keeps files and log while they are copied
//	lineage     whose log this is: the terms of the primaries that wrote it, each from an offset on
//	producer    a client that numbers its changes, so that each is made once however often it is asked for
//
// # Structure
//
// A Store has a schema (package schema) and, for each counter, a keyspace: a directory of blocks, each holding a range
// of mids in one table (package hot). Ids grow with time, so new items go to the last block, which is open-ended; once
// it holds BlockItems it is sealed: its items but for the newest 1/64 are packed densely into a block with a known
// range, and a new open block goes on. A sealed block keeps 5 % headroom for late ids; when that is used up it is
// enlarged or, at one and a half times BlockItems, split at its median. Where ids do not rise, the open block is split
// at its median as well.
//
//	directory   [0 ....... 7001 ....... 9313 ..................... 2^63)
//	             sealed     sealed       open: wide keys, re-encoded when it is sealed
//	             4+4+3 bits 4+5+4        16+16+8 bits, as the hints say
//
// A sealed block packs its columns in as many bits as its values make worth while, and is re-packed when they have
// outgrown those (block/widths.go).
//
// All of these replace one block by one or two new ones (block/reshape.go), while that block's lock is held and nothing else
// is. So is a change of the columns: blocks keep the layout they were made with and answer the default for a column
// they lack, until they are re-packed in the background, or by the first write to such a column. What need not be done
// at once is done beside the block's readers and writers (beside.go): the background re-packs that way, and seals an open
// block ahead, when an eighth is left.
//
// # Disk
//
// Every change is logged, as the value after it, while its block's lock is held (batch.go), and handed to the kernel,
// or made durable, by Batch.Commit before it is acknowledged, or told to a reader: a block knows how far the log must
// be for that. Snapshots copy one block at a time (snapshot.go); recovery reads images and replays the log behind them
// (recover.go). Above MaxMemory the coldest blocks become cold: their rows go to a file and changes of them to an
// overlay (block/overlay.go), or, where the file is damaged, to partial rows (block/partial.go), as where a block's image is
// (lostrange.go); they are written, merged and brought back in the background (rewrite.go, tiers.go). What reads
// whole blocks sees file, overlay and partial rows as one (block/rows.go). A replica appends its primary's frames and applies
// them (replicate.go). What the next snapshot would write is kept free on the disk: it is the way out of a full one
// (space.go). What no snapshot, block or pin needs is removed (retention.go); log that is kept beyond that is compressed
// (packing.go).
//
// A Build makes a directory without a store (build.go, buildspace.go): posts that come in order of mid are cut into
// ranges, and these written as cold files and images, several at once. All stand at the offset at which the log begins.
//
// # Batches
//
// Everything runs in a Batch (batch.go): many operations, whose blocks are found and whose cache lines are asked for
// before the first is used. Operations on one item keep their order; neighbours on one block run under one lock, and what
// several of them change goes to the log in one piece (stretch.go).
// Operations that are one change, as an MSET's, or one look at several items, are a change set (changeset.go): it is made whole
// or refused whole, is one frame of the log, and no other change set sees a part of it. A change set of tens of thousands of reads
// is run in slices, with others let in between, and what it promises is seen to by comparing (longread.go).
//
// # Numbered changes
//
// Who gets no answer cannot know whether its change was made. A Once (once.go) says whose number a change is: of one
// operation, a change set, or a transaction. What each producer did last is in one table (package producers): the look at it,
// the change, its record and the entry are one under the table's lock (ledger), so that two tries at a time are one
// change. In the log a once stands before its change and in its frame; an INCR's takes 8 bytes at most, and its result
// is the value behind it:
//
//	... | define 3 "importer" | once 3, seq 1041, hash | set weibo 19089006004 cntrn=8 | once 3, ... | ...
//
// Replay and replicas take these records over as they come. The table has an image of its own in each snapshot, which
// stands at an offset as a block's does. A start without it is refused, like one without the image of a last block:
// changes would be made again.
//
// # Queries
//
// Find, Top, Aggregate and Update take the items that meet a Query, a range or a list of mids and conditions on columns
// (query/query.go), in steps of 0.3 ms, each in a batch: a search (query/search.go) goes on at a mid, whatever happened to the
// blocks. It holds a hot block's lock for 3 us at a time (query/hotblock.go) and a cold block's while it compares rows with
// the overlay (query/coldblock.go). What cannot meet the conditions is passed over: files and pages by the bounds of their
// values, hot blocks where no value of the overflow table does. Update checks and changes an item under one lock.
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
// # Replication
//
// A store follows a primary or leads. What that takes stands behind Store.Replication: the role, the log and its
// lineage, which tells how far it and another log agree (role.go), the frames of a primary (replicate.go), files that
// stay while they are copied (pin.go). Who embeds a store needs none of it.
//
// # Groups of hash slots
//
// A store made with Options.SlotGroups, as a node of a cluster is, has 256 keyspaces a counter: one for each group of hash
// slots (package slot), with blocks and files of its own. So a group is dropped, or read to be moved, without a look at
// others. The log is the same as in other stores, and says nothing of groups: a replica may be of either kind, and a
// directory stays what it was made as. What that takes:
//
//	memory    tables and cold files have a post's number in its group instead of its mid, or each would take a byte more
//	          for the gaps; blocks are smaller, as there are 256 open ones: 5.74 bytes a post to 5.20 at 100 M posts
//	          (BenchmarkGroupedBytes)
//	GET       8-12 % more processor time, INCR 7: a lock and a directory for nearly each post
//	SCAN      goes from group to group; its cursor is a mid of the group it is in
//	queries   in order of mids (query/merge.go) a search of each group runs, and their rows are merged; the first row
//	          waits for 256 open blocks. Top, Aggregate and Digests take one group after the other
//	nothing   an empty group has no file in a snapshot, and an empty counter takes 0.5 MB of memory
//
// Groups.Own says which groups clients may touch. Others' posts are refused and not listed, in any store.
//
// # Groups on their way
//
// Groups of hash slots move between stores that are in use (groupstate.go). GroupExport gives what was done for producers
// at one log offset, then the posts, a block at a time, then what the log says from that offset on; GroupImport takes it
// over as records of its own log, which go the way of a primary's at a replica. Posts travel, and are logged, as pages of
// cold files. Both sides' numbers of producers are one behind that: what either made is a repeat.
//
// # Files
//
//	api.go store.go options.go errors.go    the store: what a program needs first, and what else it says
//	batch.go op.go ack.go                   operations, run together; what they wait for before they are acknowledged
//	stretch.go sight.go gate.go             what a batch logs at once, may show, and keeps others out by
//	locate.go                               the blocks of operations, and the pages of cold files that a batch waits for
//	changeset.go longread.go bounds.go setrow.go  operations that stand or fall together; long reads; additions within bounds; rows
//	once.go producers.go                    numbered changes, and what is kept of who made them
//
//	internal/block                          the items of a counter in blocks: hot in tables, cold in files
//	spaces.go                               the keyspaces of a store, by counter and group of hash slots
//	beside.go repack.go                     blocks that take another's place beside their readers and writers
//
//	tiers.go rewrite.go pace.go             which blocks become cold, or hot again; how
//	scrub.go lostrange.go salvage.go        files that are read again; ranges whose image is lost; what can be saved
//
//	snapshot.go snapshotter.go verify.go    snapshots: made, when, checked
//	blockfile.go archive.go                 the file of one block; a snapshot and its log as one file
//	recover.go replay.go                    a store is opened: images, then the log behind them
//	space.go retention.go packing.go        room for the next snapshot; what is removed; log that is compressed
//
//	replication.go role.go quorum.go boot.go  what replication needs: role and lineage, who must have a change, the last end
//	shardcommit.go                          waits until the whole shard has a change
//	replicate.go framecheck.go pin.go       a primary's frames, checked and applied; files that stay while they are copied
//	slotgroups.go groupstate.go             groups of hash slots: which may be touched, which are on their way
//	groupexport.go groupimport.go           what another store needs to take them over, and how it does
//
//	internal/query                          queries: the search that goes on at a mid; rows, largest values, sums
//	find.go update.go updaterow.go           queries as a batch runs them; changes of what a query finds
//	scan.go scancache.go randomitem.go      items in order of mid; one by chance
//
//	build.go buildspace.go                  a directory is made without a store
//	holdsdata.go                            whether a directory has one
//	admin.go stats.go usage.go              for who runs a server: figures, of blocks and of counters
//	digest.go inspect.go                    what nodes compare; what tools show of files
//
// # Locks
//
// See Store for the order. A disk is waited for with the store's gate shared, and with no block locked (Batch.fetch): who
// wants the gate alone waits for it too, and others do not (gate.go). Readers lock one block at a time, for 50-100 ns an operation, writers up to 16; whatever takes
// long (sealing: some ms) stops that block only. What the background does for long it does in turns (pace.go), and syncs
// take no processor of the runtime along (package vfs).
//
// # Processors
//
// What several processors write costs each of them a cache line from another, 70 ns and more. So an operation writes one
// such line, its block's (block/block.go); a batch of them takes one of the gate's locks (gate.go), and the log's once for the
// changes in up to 16 blocks (stretch.go). BenchmarkCores tells what an operation costs on one processor, and on all.
package counter
