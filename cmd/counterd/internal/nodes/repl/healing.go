package repl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/counterd/counterd/counter"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/past"
	"github.com/counterd/counterd/persist/vfs"
)

// A directory that damage keeps from being opened does not keep the node down where another node has the data. The node
// sets the files aside (past.GiveUp), starts without data as a replica, and takes a full copy as any new replica does.
//
// Until it has all that its primary had when the link came up, the node is healing: it answers no reads, leads nothing,
// feeds nobody and gives no backup. HEALING says so in the directory, so that a restart does not forget it. In a cluster the
// node forgets its starts too (topology.Start): it counts as an older copy, which acknowledges nothing and is taken out of
// the in-sync set before it follows.
//
// Healer is that part of a node. All methods may be called concurrently.
//
// Invariant: while HEALING is in the directory, now is set.
type Healer struct {
	node *Node

	now  atomic.Pointer[format.Healing] // nil: the node is not healing
	done atomic.Uint64                  // how often it was made whole, since the process began

	leading atomic.Bool   // leadAgain was called
	lost    atomic.Uint64 // bytes of log that no node had

	notes []func() (damage, err error) // Keep's

	closed closedLog // of a directory that is not open
	noEnd  string    // why tellEnd could not read the end of the log the last time

	waits  atomic.Pointer[string] // the damage, while the node looks for another node with its data; nil: it does not
	awaits atomic.Pointer[string] // the replica that has the end of the log, while the node waits for it; nil: it does not
}

// ErrHealing: the data of the node was damaged, and that of another node is not here yet.
var ErrHealing = errors.New("the data of this node was damaged and set aside, and it has not copied the data of another node yet")

// ErrFeedsNobody is ErrHealing as a replica is told it.
var ErrFeedsNobody = errors.New("NOMASTERLINK " + ErrHealing.Error())

// Healing says why the node is healing, and since when; nil: it is not.
func (n *Node) Healing() *format.Healing { return n.healing.now.Load() }

// Healer is the part of the node that gets its data back after damage.
func (n *Node) Healer() *Healer { return &n.healing }

// Healed is how often the node was healed since the process began.
func (h *Healer) Healed() uint64 { return h.done.Load() }

// Waits is the damage while the node looks for another node with its data, or the replica that it awaits (Awaits), and nothing is set aside;
// empty: it does neither.
func (h *Healer) Waits() string {
	if text := h.waits.Load(); text != nil {
		return *text
	}
	return h.Awaits()
}

// Awaits tells which replica the node waits for, as that one has more of its log; empty: it does not wait.
func (h *Healer) Awaits() string {
	if text := h.awaits.Load(); text != nil {
		return *text
	}
	return ""
}

// Await sets what Awaits returns.
func (h *Healer) Await(text string) { h.awaits.Store(&text) }

// Keep has a small file of the directory verified while the node serves. verify compares the file with memory, and writes it again where
// they differ: damage is the difference, and err why it could not. Call it before the node starts.
func (h *Healer) Keep(verify func() (damage, err error)) { h.notes = append(h.notes, verify) }

// Files is the file system with the data directory.
func (h *Healer) Files() vfs.FS { return h.node.fs }

// Open opens a store by open, in a directory. If damage prevents it, or the end of the log is missing, search finds another node that has
// the data. Where there is one, or the directory says whose replica the node is, the log gets that node's frames (mendLog). Where that
// is not enough the files are set aside, and an empty store is opened. The error of a search is returned with the damage, and nothing
// was changed.
func (n *Node) Open(ctx context.Context, dir string, search Search, open func() (*counter.Store, error)) (*counter.Store, error) {
	if dir == "" {
		return open()
	}
	var store *counter.Store
	stop := n.healing.closed.begin(dir)
	by, err := n.healing.findEnd(ctx, dir, search)
	stop()
	switch {
	case err != nil && damaged(err): // the end is on a node that does not give its frames
		store, err = n.healing.openEmptied(dir, err, by, open)
	case err == nil:
		store, err = open()
		for try := 1; try < openTries && unreadable(err); try++ {
			n.logger.Error("the disk fails while the data directory is opened; trying again", "dir", dir, "error", err)
			time.Sleep(openAgain)
			store, err = open()
		}
		if err != nil && damaged(err) {
			store, err = n.healing.openDamaged(ctx, dir, err, by, search, open)
		}
	}
	if err != nil {
		return nil, err
	}
	return n.healing.opened(dir, store)
}

// openDamaged is Open for a directory that is damaged. by has the data, or has given the end of the log, if it is known so early.
func (h *Healer) openDamaged(ctx context.Context, dir string, damage error, by Helper, search Search, open func() (*counter.Store, error)) (*counter.Store, error) {
	if by == (Helper{}) && !search.InCluster() {
		note, _ := readAddress(h.node.fs, notePath(dir, primaryName))
		by.Parts = note.Address
	}
	if by.Closed {
		by = Helper{}
	}
	frames := true   // those of a node that cannot open its data may help
	var tried Helper // that could not give the frames
	for {
		done, told, err := h.mendBy(ctx, dir, damage, &by, frames, search)
		switch {
		case errors.Is(err, ErrHoldsNothing):
			return h.openAnew(dir, damage, open)
		case err != nil:
			return nil, errors.Join(damage, err)
		}
		switch {
		case done == logMended:
			store, err := open()
			if err == nil || !damaged(err) {
				return store, err
			}
			if damage = err; by == (Helper{}) || by.Closed { // a node that may have the frames alone gave them, and the log is not all that is damaged
				by = Helper{}
				continue
			}
		case told.Follow != (Address{}):
			by = told.helper()
			continue
		case errors.Is(ctx.Err(), context.Canceled): // the process ends
			return nil, errors.Join(damage, ctx.Err())
		case done.later() && ctx.Err() == nil && !by.Named && (by.From != (Address{}) || search.InCluster()):
			if by.Closed && by == tried && done == logAway {
				frames = false // that node is there, and its log has not grown: it has lost the frames, too
			}
			tried, by = by, Helper{} // the node that was found has gone
			continue
		}
		if by.Closed {
			by, frames = Helper{}, false
			continue
		}
		waited, told, err := h.awaitPrimary(ctx, dir, damage, by, search)
		switch {
		case err != nil:
			return nil, errors.Join(damage, err)
		case told.Follow != (Address{}):
			by = told.helper()
			continue
		case done.later() && ctx.Err() == nil && (waited || by.Named): // it may give the frames now
			continue
		}
		return h.openEmptied(dir, damage, by, open)
	}
}

// later tells whether another attempt may give the log its frames.
func (m logMend) later() bool { return m == logAway || m == logFull }

// opened brings the node up to date with a store that was opened in a directory.
func (h *Healer) opened(dir string, store *counter.Store) (*counter.Store, error) {
	n := h.node
	was, err := past.ReadHealing(n.fs, dir)
	if err != nil { // it is there
		was = &format.Healing{Reason: err.Error()}
	}
	h.now.Store(was)
	if log := store.Replication(); lacksConfirmed(n.fs, dir, log.Position(), n.logger) {
		if err := log.MarkBehind(); err != nil && !log.Behind() {
			return nil, errors.Join(err, store.Close())
		}
	}
	if err := past.ForgetLonger(n.fs, dir); err != nil {
		n.logger.Warn("cannot remove the note of the log of a replica; ignoring it", "error", err)
	}
	if was != nil && was.Lead != (format.ReplID{}) && !store.Replica() { // it leads again, with a backup's data, or ended before it had noted so
		h.noteRestored(dir, was, store)
		if err := h.end(dir, was, true); err != nil {
			return nil, errors.Join(err, store.Close())
		}
		n.replicas.renew(store)
		return store, nil
	}
	if was == nil {
		n.replicas.renew(store)
	} else {
		n.logger.Warn("this node has no data of its own until it has copied that of another node", "reason", was.Reason)
	}
	return store, nil
}

// noteRestored says which changes are lost of a node that leads again with a backup's data.
func (h *Healer) noteRestored(dir string, was *format.Healing, store *counter.Store) {
	if was.Host != "" { // a replica's data: restored has said it
		return
	}
	end := store.Replication().Position()
	known, err := past.DamagedLog(h.node.fs, dir, max(was.First, 1), end, func([]byte) error { return nil })
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.node.logger.Warn("cannot read how far the damaged log had come", "error", err)
	}
	h.node.logger.Warn("this node is primary again, with the data of a backup; its history is a new one from here on", "offset", end, "reason", was.Reason)
	if known < end {
		h.node.logger.Error("changes are lost, nobody knows how many: the damaged log is missing from the end of the backup on", "from", known, "offset", end)
	}
	h.noteLost(was, end, known)
}

// noteLost counts and tells the part of this node's log that is lost: from the offset end on, as far as is known.
func (h *Healer) noteLost(was *format.Healing, end, known uint64) {
	if known <= end {
		return
	}
	h.lost.Add(known - end)
	h.node.logger.Error("changes that only this node had are lost with its damaged log; the rest of them is in the files that were set aside",
		"from", end, "to", known, "bytes", known-end, "folder", format.DamagedName(format.LogDirName, max(was.First, 1)))
}

// MayLead tells whether a node outside of a cluster was a primary for all that its directory notes: it followed nobody, and handed over
// to nobody.
func (h *Healer) MayLead(dir string) bool {
	for _, name := range []string{primaryName, primaryName + vfs.CopySuffix, handoverName, handoverName + vfs.CopySuffix} {
		if _, err := h.node.fs.Stat(notePath(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}

// openEmptied sets the files of a directory aside and opens it again.
func (h *Healer) openEmptied(dir string, damage error, by Helper, open func() (*counter.Store, error)) (*counter.Store, error) {
	n := h.node
	if by.Restored != "" {
		n.logger.Error("the data directory is damaged; setting its files aside, and taking the data of a backup", "dir", dir, "error", damage, "restored", by.Restored)
		damage = fmt.Errorf("%s: %w", by.Restored, damage)
	} else {
		n.logger.Error("the data directory is damaged; setting its files aside, and copying the data of another node", "dir", dir, "error", damage)
	}
	_, err := counter.NoteBehind(n.fs, dir)
	if err == nil {
		err = past.GiveUp(n.fs, dir, format.Healing{Reason: damage.Error(), Since: time.Now().UnixMilli(), Host: by.From.Host, Port: by.From.Port, Lead: by.Lead})
	}
	if err != nil {
		return nil, errors.Join(damage, err)
	}
	return open()
}

// damaged tells whether an error of opening a store says that files are damaged. Files of a newer version are not.
func damaged(err error) bool {
	return !errors.Is(err, format.ErrUnsupportedFormat) && (errors.Is(err, format.ErrCorrupt) || errors.Is(err, syscall.EIO))
}

// A disk that cannot be reached for a moment fails reads of files that are whole, on all nodes at once if they share it.
// Nobody would have the data if all of them set their files aside.
const (
	openTries = 5
	openAgain = 500 * time.Millisecond
)

// unreadable tells whether an error of opening a store says that the disk fails. Where a file needed for the start cannot be
// read, that may be the cause of an ErrCorrupt.
func unreadable(err error) bool { return errors.Is(err, syscall.EIO) }

// From is the node that a healing node copies, as HEALING says; zero: it does not say so.
func (h *Healer) From() Address {
	if was := h.now.Load(); was != nil && was.Host != "" {
		return Address{Host: was.Host, Port: was.Port}
	}
	return Address{}
}

// LeadsAgain tells whether a healing node is the primary of the node that it copies, and leads again.
func (h *Healer) LeadsAgain() bool {
	was := h.now.Load()
	return was != nil && was.Lead != (format.ReplID{})
}

// Lost is how many bytes of this node's log were lost by damage, as no other node had them.
func (h *Healer) Lost() uint64 { return h.lost.Load() }

// healed ends the healing when the store has all that the primary had when the link came up.
func (s *session) healed(log *counter.Replication) {
	h := &s.node.healing
	was := h.now.Load()
	if was == nil || log.Durable() < s.goal {
		return
	}
	lineage := log.Lineage()
	if s.leadAgain(&lineage) {
		return
	}
	if err := h.end(s.node.host.Store().Path(), was, h.tellLost(was, max(s.lost, lostBlocks(s.node.host.Store())))); err != nil {
		s.node.logger.Warn("cannot record that this node has all data again", "error", err)
		return
	}
	s.node.host.RoleChanged()
}

// tellLost says that the node that was copied has lost the posts of some ranges, and tells whether that is so.
func (h *Healer) tellLost(was *format.Healing, ranges int) bool {
	if ranges > 0 {
		h.node.logger.Error("this node has all data that the copied node can read; keep the damaged files: they may have the posts that the copied node has lost",
			"reason", was.Reason, "lost", ranges)
	}
	return ranges > 0
}

// leadAgain begins to lead where this node is the primary of the replica that it copies, and has all of the replica's log. It tells
// whether that is so. A node that ended while it made its own frames again has more.
func (s *session) leadAgain(lineage *format.Lineage) bool {
	h := &s.node.healing
	was := h.now.Load()
	if was == nil || was.Lead == (format.ReplID{}) || s.id != "" || len(lineage.Terms) == 0 || was.Lead != lineage.Current().ReplID || s.primary != h.From() {
		return false
	}
	if !h.leading.Swap(true) {
		go h.leadAgain(was, s.lost)
	}
	return true
}

// end notes that the node has all data again; keep: none of the damaged files is removed, as another node, or this one,
// lacks something.
func (h *Healer) end(dir string, was *format.Healing, keep bool) error {
	kept, err := past.Healed(h.node.fs, dir, keep)
	if err != nil {
		return err
	}
	h.now.Store(nil)
	h.leading.Store(false)
	h.done.Add(1)
	if keep {
		return nil // the loss was logged
	}
	h.node.logger.Warn("this node has all data again; the damaged files can be removed when they were examined", "reason", was.Reason,
		"took", time.Since(time.UnixMilli(was.Since)).Round(time.Millisecond), "files", kept)
	return nil
}

// Restores tells whether a replica may be fed by this one although its primary is away: it is that primary itself, in the
// term of this node's log, and its directory was damaged.
func (h *Healer) Restores(p *Peer) bool {
	n := h.node
	store := n.host.Store()
	if p.heals == "" || n.settings().NodeID != "" || n.Healing() != nil || !store.Durable() || !store.Replica() {
		return false
	}
	past := store.Replication().Lineage()
	return past.Current().ReplID.String() == p.heals
}

// A primary that heals from a replica leads again in the end: the replica had no other primary meanwhile, so its log is this
// node's up to where it had come. The rest of the node's own log is still in the files that were set aside, as far as they
// are whole: it is made again, frame by frame. A replica that was told to lead, or to follow another node, is in another
// term by then, and this node stays its replica.
//
// leadAgain is called when the node has all that the replica had, which has lost the posts of so many ranges. The link ends, and comes back where the node cannot lead.
func (h *Healer) leadAgain(was *format.Healing, lost int) {
	n := h.node
	n.change.Lock()
	defer n.change.Unlock()
	n.mu.Lock()
	closed := n.closed
	n.mu.Unlock()
	if closed || n.Healing() != was {
		return
	}
	before := n.unlink()
	err := h.leadRestored(was, lost)
	if err != nil && n.Healing() == was {
		n.logger.Error("cannot become primary again behind the healing; trying again", "error", err)
		h.leading.Store(false)
		if _, err := n.relink(before, true, false); err != nil {
			n.logger.Warn("cannot follow the node that has the data", "error", err)
		}
	}
	n.host.RoleChanged()
}

// leadRestored makes the node lead. REQUIRES: change, and no link.
func (h *Healer) leadRestored(was *format.Healing, lost int) error {
	n := h.node
	store := n.host.Store()
	log := store.Replication()
	lineage := log.Lineage()
	if lineage.Current().ReplID != was.Lead {
		return fmt.Errorf("the log is in term %s by now, want %s", lineage.Current().ReplID, was.Lead)
	}
	from := log.Position()
	known, err := past.DamagedLog(n.fs, store.Path(), max(was.First, 1), from, func(raw []byte) error {
		_, err := log.Replicate(raw)
		return err
	})
	if err != nil {
		n.logger.Warn("the rest of this node's own log cannot be used", "from", log.Position(), "error", err)
	}
	if err := log.Sync(); err != nil {
		return err
	}
	end := log.Position()
	if _, err := log.Lead(); err != nil {
		return err
	}
	if err := n.forget(); err != nil {
		n.logger.Warn("cannot remove the record of the former primary; ignoring it", "error", err)
	}
	n.replicas.renew(store)
	n.peers.DisconnectAll()
	n.logger.Warn("this node is primary again: it has the data of its replica, and the rest of its own log", "from", from, "bytes", end-from, "end", end)
	h.noteLost(was, end, known)
	return h.end(store.Path(), was, h.tellLost(was, max(lost, lostBlocks(store))) || known > end)
}
