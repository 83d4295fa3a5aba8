// Package repl ships the log from a primary to its replicas, and turns one into the other.
//
// A replica holds the primary's log byte for byte and applies it. So a replica may feed replicas, and any node can go
// on from any offset that another still has on disk; what decides is the lineages of the two logs (format.Lineage).
//
// # Protocol
//
// A replica connects to the primary's port and sends Redis commands:
//
//	AUTH ..., PING
//	REPLCONF listening-port <n> [ip-address <ip>]
//	REPLCONF version counterd capa counterd1     without it: a clear refusal, as a Redis could not read what follows
//	REPLCONF process <id>                        40 random hex digits: links of the process before this one are
//	                                             closed. A primary that does not know it refuses it, and is followed
//	                                             nevertheless
//	REPLCONF hurry 0                             whether the primary takes REPLCONF HURRY, below; not between nodes of a cluster
//	REPLCONF history <lineage>                   what its log's past is
//	REPLCONF node-id <id> epoch <n> to <id>      between nodes of a cluster: see epoch.go
//	PSYNC <replid> <offset>                      the end of its log; ? -1 if it wants a full copy
//
// and is answered one of
//
//	+CONTINUE <replid> <offset> <bytes>          and <bytes> of lineage, CRLF, then the stream from that offset
//	-DIVERGED <offset>                           the logs agree up to there only: cut back and come again
//	-NOTYET <offset>                             this node is a replica whose log is the beginning of the other's and
//	                                             ends there: come again
//	+FULLRESYNC <replid> <offset> <bytes> <bytes> a manifest and a lineage, each with CRLF
//
// It is FULLRESYNC too where the log at that offset is gone, or damaged on the primary's disk.
//
// After FULLRESYNC the replica asks for each file it does not have yet by REPLCONF fetch <tier> <name>, which is
// answered by a bulk string (-LOST for a cold file that the primary does not have any more; a damaged one is sent as it
// is; REPLCONF verify cold <name> has the primary read all of one), and then for the stream by PSYNC ? <offset>. The snapshot is the newest that exists: none is made. It is kept
// until the connection ends. To a replica that has said REPLCONF capa cursors, the stream begins at the oldest cursor of the feed, if that is
// lower. A replica that was cut off connects again and asks for the missing files. It answers clients from its own data until everything has
// come. Then it saves the part of its own data that the primary lacks, and changes to the copy in one step (copy.go).
// Meanwhile it says REPLCONF ACK 0 FACK 0 each second: one that is silent for repl-timeout is cut off.
//
// Any node of the same log may ask for the posts of a range, on a connection of its own: REPLCONF rows (refill.go). It may ask for frames of a
// damaged part of the log (refilllog.go), and of the end (lastframes.go).
//
// A client that sends REPLCONF rdb-only 1 and no port, as redis-cli --rdb does, is no replica: SYNC and PSYNC are answered by an
// archive (package persist).
//
// The stream is a sequence of messages that begin with one byte:
//
//	F  a frame of the log, 36 bytes of header, then the bytes that the header announces
//	P  8 bytes, little-endian: where the primary's log ends; each second
//	G  asks for an acknowledgement now
//	M  a message of PUBLISH for the replica's subscribers (publish.go)
//	H  a message of SPUBLISH
//	C  8 bytes, little-endian: in a cluster, the primary of the shard has confirmed its log up to there (confirmed.go);
//	   without one, the log is safe up to there (quorum.go)
//	Q  a range of posts to compare at this place of the log; D its digests; R its posts, if it differs (compare.go)
//
// The replica sends REPLCONF ACK <applied> FACK <durable> each 100 ms and when it is asked; in a cluster behind each
// batch of frames, as clients wait for it (quorum.go). REPLCONF HURRY <durable> behind one says that clients of the replica wait until its log
// is safe up to there, by a message C: the primary syncs its log.
//
// A replica that has lost files, and could not fetch the posts of their ranges, asks for a full copy although the logs agree (mend.go).
//
// # Roles on disk
//
// A replica's directory names its primary (addressnote.go), that of a node that is giving its role up to whom
// (handover.go): so after a kill at any moment of a handover the nodes find the primary by themselves. A link takes
// nothing before its primary is noted: Node.Follow does that first and tells of an error, Node.Pursue leaves it to the
// link, which tries until the disk takes it.
//
// # Trust
//
// What a primary sends is checked before anything is changed by it, as a bad disk or a bad program may send it: a frame
// by its checksum, its place and its records (counter.FrameChecker), a snapshot by its manifest and by each file,
// whole. What fails leaves the replica with the data it has; it tries again, and counterd_link_error in INFO says why.
//
// # Nothing is compressed on the way
//
// A replica takes 36 ms of a processor to apply a MB of log, which a link of 1 Gbit/s brings in 8: compression would pay
// below 0.2 Gbit/s. Images shrink to 0.6 of their bytes at 6 to 7 ms a MB, as long as that link takes to send them whole;
// cold files are dense. A replica that goes on in the compressed part of the log (package persist) costs its primary
// 2 to 3 ms a MB more than elsewhere.
//
// # Memory
//
// A Feeder reads the log's files (persist.Reader): a replica that is slow or gone costs disk, and the primary's memory
// does not grow. Nor does a replica's whose disk fails or is full: it takes a frame only while its log would take a
// client's change (session.ready), and otherwise leaves the bytes in the connection.
//
// # Files
//
//	node.go epoch.go             a node: primary, replica or neither; the same in a cluster, by epochs
//	addressnote.go handover.go   the primary's address, and the successor's, in the directory: PRIMARY and HANDOVER; connections to
//	                             other nodes, their roles, and the commands of a failover
//	link.go linksession.go       the replica's side: the link to the primary, and one connection of it
//	copy.go fetched.go           a full copy, and the files of one that have arrived
//	mend.go                      a full copy that replaces lost files
//	healing.go                   a damaged directory that is emptied and filled again, a primary's from a replica
//	replicas.go                  the file REPLICAS
//	refill.go                    a damaged cold file: its posts are fetched from another node
//	refilllog.go                 a damaged log segment: its frames are fetched from another node, also at a start
//	search.go                    whom a node asks that cannot open its data; a replica waits until its primary has opened its own
//	lastframes.go                frames of the log of a node that cannot open its data, and the end of it
//	verifynotes.go               PRIMARY, CONFIRMED and REPLICAS are compared with memory
//	peer.go peersync.go          the primary's side: one replica, and how it resumes or gets a full copy
//	peerfeed.go peers.go         the stream to a replica; all replicas
//	quorum.go confirmed.go       changes that enough replicas have, or that are safe; the file CONFIRMED
//	message.go commands.go       the messages of the stream; changes as Redis commands, for redis-cli --replica
//	publish.go                   messages of PUBLISH and SPUBLISH
//	compare.go                   posts are compared with other nodes: the messages, and what came of it
//	comparer.go compareside.go   the primary's side, which walks over all posts; the replica's
//	comparebudget.go             the processor time that comparing takes
//
// # Locks
//
// Node.mu, Peers.mu, Link.mu: leaves, in no order, never held across I/O or a call of the store. Under quorum.mu the
// store gets the confirmed offset.
package repl
