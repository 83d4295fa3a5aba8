package repl

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/past"
	"github.com/counterd/counterd/persist/vfs"
)

// confirmed is a node's knowledge of its shard's log: the offset up to which it was confirmed, so that clients may have
// been told that their changes are safe. Every later primary has all of it. A primary that has not is there by a fault, of
// a disk or of a program: this node refuses to cut its log below that offset, and keeps what may be the last copy of
// acknowledged changes.
//
// A primary knows it first hand, and tells the replicas that follow it (message C). They may know a little less than
// what was confirmed last, never more.
//
// What is known ends with an epoch that began unclean: a person gave up what the new primary lacks (FORCE-UNCLEAN), or all
// nodes in sync had lost power. It ends with another shard, and with another history of this node's own log.
//
// Invariant: known.offset only rises, but for these ends. Under mu nothing waits for a disk.
type confirmed struct {
	fs     vfs.FS
	logger logger
	path   string // of the file; empty: it was not read yet

	mu      sync.Mutex // guards the rest
	known   confirmedNote
	noted   confirmedNote // on disk
	notedAt time.Time     // when note was called for a rise last
	due     *time.Timer   // calls note; nil: the file is current
	closed  bool          // the directory may be another process's

	writing sync.Mutex // held while the file is written; before mu
}

// confirmedNote is the file CONFIRMED, so that a restart does not forget it:
//
//	counterd confirmed 1
//	shard <n>
//	history <40 hex digits>    of the log, when it was confirmed
//	epoch <n>                  in which it was
//	offset <n>
//	end crc32c <8 hex digits>
type confirmedNote struct {
	shard   uint64
	history format.ReplID
	epoch   uint64
	offset  uint64
}

const (
	confirmedName   = past.ConfirmedName
	confirmedFormat = "counterd confirmed 1\nshard %d\nhistory %s\nepoch %d\noffset %d\n"
	maxConfirmed    = 1 << 10

	// noteEvery is how often the file is written while the offset rises: a kill loses the last writes only, so the guard's
	// offset is a little lower.
	noteEvery = 5 * time.Second
)

func (n *confirmedNote) text() []byte {
	b := fmt.Appendf(nil, confirmedFormat, n.shard, n.history, n.epoch, n.offset)
	return fmt.Appendf(b, "end crc32c %08x\n", crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}

// parseConfirmed is the inverse of text.
func parseConfirmed(text []byte) (n confirmedNote, ok bool) {
	var history string
	if _, err := fmt.Sscanf(string(text), confirmedFormat, &n.shard, &history, &n.epoch, &n.offset); err != nil {
		return confirmedNote{}, false
	}
	id, err := format.ParseReplID(history)
	if n.history = id; err != nil || !bytes.Equal(n.text(), text) {
		return confirmedNote{}, false
	}
	return n, true
}

// readConfirmed reads the file. !ok: no file counts.
func readConfirmed(fs vfs.FS, path string, logger logger) (n confirmedNote, ok bool) {
	text, err := vfs.ReadFile(fs, path, maxConfirmed)
	if isNotExist(err) {
		return n, false
	}
	if n, ok = parseConfirmed(text); !ok {
		logger.Warn("cannot read the file with the confirmed log offset; ignoring it", "file", path, "error", err)
	}
	return n, ok
}

// lackedBy tells whether a log of a lineage that ends at an offset, in front of the confirmed one, lacks confirmed changes. Those behind the beginning of a later
// term were given up. A start forgets the terms that begin behind the end of its log, so the term of the changes may be gone with them.
func (n *confirmedNote) lackedBy(past *format.Lineage, end uint64) bool {
	i := slices.IndexFunc(past.Terms, func(t format.Term) bool { return t.ReplID == n.history })
	if i < 0 {
		return uint64(past.Current().Epoch) < n.epoch
	}
	return past.End(i, n.offset) > end
}

// lacksConfirmed tells whether the log of a directory, which ends at an offset, lacks confirmed changes. Where the newest frames and DURABLE are gone at once,
// no other file tells so. A replica that was never in sync may lack them without damage.
func lacksConfirmed(fs vfs.FS, dir string, end uint64, logger logger) bool {
	n, ok := readConfirmed(fs, filepath.Join(dir, confirmedName), logger)
	if !ok || n.offset <= end {
		return false
	}
	past, err := logfile.ReadLineage(fs, dir)
	lacks := err != nil || n.lackedBy(&past, end)
	if lacks {
		logger.Error("the log ends in front of changes that were confirmed; this node may lack acknowledged changes until it has caught up with a primary",
			"dir", dir, "offset", end, "confirmed", n.offset, "error", err)
	}
	return lacks
}

// ConfirmedError says that a node does not cut its log for a primary, because it would lose confirmed changes.
// Nothing was changed.
type ConfirmedError struct {
	At        uint64 // log offset up to which the two logs agree
	Confirmed uint64 // log offset up to which changes may have been acknowledged to clients
	Epoch     uint64 // in which that was confirmed
}

// Error names both offsets.
func (e *ConfirmedError) Error() string {
	return fmt.Sprintf("the primary lacks acknowledged changes: its log and this one agree up to offset %d, and in epoch %d changes up to %d were confirmed; this node keeps its log and does not follow",
		e.At, e.Epoch, e.Confirmed)
}

// open reads the file, once. REQUIRES: no other call of c is under way, nor a link.
func (c *confirmed) open(fs vfs.FS, dir string) {
	if c.path != "" {
		return
	}
	c.fs, c.path = fs, filepath.Join(dir, confirmedName)
	n, ok := readConfirmed(c.fs, c.path, c.logger)
	if !ok {
		return
	}
	c.mu.Lock()
	c.known, c.noted = n, n
	c.mu.Unlock()
}

// of says of which shard the node is, and the newest epoch of it that began unclean; 0: none did.
func (c *confirmed) of(shard, unclean uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known.shard != shard || c.known.epoch < unclean {
		c.known = confirmedNote{shard: shard, epoch: unclean}
	}
}

// raise is told that the log of a history is confirmed up to an offset, in an epoch. It does not wait.
func (c *confirmed) raise(history format.ReplID, epoch, offset uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if offset <= c.known.offset {
		return
	}
	c.known.history, c.known.epoch, c.known.offset = history, epoch, offset
	if c.due == nil && !c.closed {
		c.due = time.AfterFunc(noteEvery-time.Since(c.notedAt), func() { // at once if that is over
			c.mu.Lock()
			c.due, c.notedAt = nil, time.Now()
			c.mu.Unlock()
			c.note()
		})
	}
}

// note writes the file, if it is not current.
func (c *confirmed) note() {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	now, was, closed := c.known, c.noted, c.closed
	c.mu.Unlock()
	if closed || now == was || now.offset == 0 || c.path == "" {
		return
	}
	if err := vfs.WriteFileAtomic(c.fs, c.path, now.text()); err != nil {
		c.logger.Warn("cannot write the confirmed log offset", "file", c.path, "error", err)
		return
	}
	c.mu.Lock()
	c.noted = now
	c.mu.Unlock()
}

// close writes the file for the last time.
func (c *confirmed) close() {
	c.note()
	c.writing.Lock() // nothing is being written behind it
	defer c.writing.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed = true; c.due != nil {
		c.due.Stop()
	}
}

// allows returns a *ConfirmedError if a log of a lineage must not be cut at an offset.
func (c *confirmed) allows(past *format.Lineage, at uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.known
	if at >= n.offset || !slices.ContainsFunc(past.Terms, func(t format.Term) bool { return t.ReplID == n.history }) {
		return nil
	}
	return &ConfirmedError{At: at, Confirmed: n.offset, Epoch: n.epoch}
}

// Shard says of which shard of its cluster the node is, and the newest epoch of it that began unclean (topology.Shard), 0
// if none did: only then this node gives up confirmed changes that its primary lacks (ConfirmedError). It is to be called
// before LeadAt and FollowAt.
func (n *Node) Shard(id, unclean uint64) {
	n.change.Lock()
	defer n.change.Unlock()
	n.confirmed.open(n.fs, n.host.Store().Path())
	n.confirmed.of(id, unclean)
}

// noteConfirmed notes what this node itself has confirmed, as it leads.
func (n *Node) noteConfirmed() {
	if epoch := n.peers.quorum.leads(); epoch != 0 {
		log := n.host.Store().Replication()
		past := log.Lineage()
		n.confirmed.raise(past.Current().ReplID, epoch, confirmedBy(log))
	}
}

// confirmedBy is the offset up to which a primary may have acknowledged changes.
func confirmedBy(log *counter.Replication) uint64 {
	own := log.Written()
	if log.AcksDurable() {
		own = log.Durable()
	}
	return min(log.Confirmed(), own)
}
