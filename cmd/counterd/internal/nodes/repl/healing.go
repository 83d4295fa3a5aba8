package repl

import (
	"errors"
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
// Invariant: while HEALING is in the directory, healing.now is set.
type healing struct {
	now  atomic.Pointer[format.Healing] // nil: the node is not healing
	done atomic.Uint64                  // how often it was made whole, since the process began
}

// ErrHealing: the data of the node was damaged, and that of another node is not here yet.
var ErrHealing = errors.New("the data of this node was damaged and set aside, and it has not copied the data of another node yet")

// Healing says why the node is healing, and since when; nil: it is not.
func (n *Node) Healing() *format.Healing { return n.healing.now.Load() }

// Healed is how often the node was healed since the process began.
func (n *Node) Healed() uint64 { return n.healing.done.Load() }

// Open opens a store by open, in a directory. If damage prevents it and another node has the data (helped; or the
// directory says whose replica the node is), the files are set aside, and an empty store is opened.
func (n *Node) Open(dir string, helped bool, open func() (*counter.Store, error)) (*counter.Store, error) {
	store, err := open()
	if dir == "" {
		return store, err
	}
	for try := 1; try < openTries && unreadable(err); try++ {
		n.logger.Error("the disk fails while the data directory is opened; trying again", "dir", dir, "error", err)
		time.Sleep(openAgain)
		store, err = open()
	}
	if err != nil && damaged(err) {
		if !helped {
			note, _ := readAddress(n.fs, notePath(dir, primaryName))
			helped = note.Address != Address{}
		}
		if !helped {
			return nil, err
		}
		n.logger.Error("the data directory is damaged; setting its files aside, and copying the data of another node", "dir", dir, "error", err)
		if store, err = openEmptied(n.fs, dir, err, open); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, err
	}
	h, err := past.ReadHealing(n.fs, dir)
	if err != nil { // it is there
		h = &format.Healing{Reason: err.Error()}
	}
	n.healing.now.Store(h)
	if h != nil {
		n.logger.Warn("this node has no data of its own until it has copied that of another node", "reason", h.Reason)
	}
	return store, nil
}

// openEmptied sets the files of a directory aside and opens it again.
func openEmptied(fs vfs.FS, dir string, damage error, open func() (*counter.Store, error)) (*counter.Store, error) {
	_, err := counter.NoteBehind(fs, dir)
	if err == nil {
		err = past.GiveUp(fs, dir, damage.Error(), time.Now().UnixMilli())
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

// healed ends the healing when the store has all that the primary had when the link came up.
func (s *session) healed(log *counter.Replication) {
	h := &s.node.healing
	was := h.now.Load()
	if was == nil || log.Durable() < s.goal {
		return
	}
	kept, err := past.Healed(s.node.fs, s.node.host.Store().Path(), s.lost > 0)
	if err != nil {
		s.node.logger.Warn("cannot record that this node has all data again", "error", err)
		return
	}
	h.now.Store(nil)
	h.done.Add(1)
	if s.lost > 0 {
		s.node.logger.Error("this node has all data that its primary can read; keep the damaged files: they may have the posts that the primary has lost",
			"reason", was.Reason, "lost", s.lost, "files", kept)
	} else {
		s.node.logger.Warn("this node has all data again; the damaged files can be removed when they were examined", "reason", was.Reason,
			"took", time.Since(time.UnixMilli(was.Since)).Round(time.Millisecond), "files", kept)
	}
	s.node.host.RoleChanged()
}
