package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// The role of a store, primary or replica, and the lineage of its log change together (become): a lineage is a list of
// terms, each begun by a primary at a log offset. A primary begins a term; a replica takes its primary's lineage over.

// pendingWrites is the part of the lineage that could not be written. Until it is, the log refuses: no change and no frame
// may follow a lineage that the next start reads otherwise.
type pendingWrites uint8

const (
	nothingPending pendingWrites = iota
	startPending                 // the start could not begin its term
	// A change of role failed, and may have written its lineage or not: that in force must be written again.
	lineagePending
)

// RecoverLineage reads whose log this is, after it was replayed. A primary begins a new term: others may hold bytes behind its
// end that a crash took from this disk.
//
// A log with frames of a term that HISTORY does not have shares its past with nobody: nobody can tell how far it and
// another agree, so a replica saves its data and takes a full copy.
func RecoverLineage(r *Replication, l format.Lineage, rec *persist.Recovery) error {
	if found := rec.History; len(l.Terms) == 0 && found.ReplID != (format.ReplID{}) {
		l.Terms = []format.Term{{ReplID: found.ReplID, Epoch: found.Epoch}}
		l.Replica = l.Replica || found.Replica // HISTORY is gone, and a replica must not come back as a primary
	}
	if rec.Strange != nil {
		r.s.Config.Logger.Error("the file HISTORY does not belong to this log; treating the log as unknown to other nodes", "error", rec.Strange)
		l.Terms = []format.Term{{ReplID: format.NewReplID(), Epoch: max(rec.Epoch, l.Current().Epoch)}}
	}
	l.Cursors = l.Cursors || r.s.Cursors.Seen() || r.s.Time.Seconds() > 0
	r.lineage = l
	r.s.Replica.Store(l.Replica || r.s.Config.Elected)
	l = startOf(r, l, rec.End)
	err := r.writeLineage(l)
	if err == nil {
		r.putLineage(l)
	}
	if err != nil && vfs.IsTrouble(err) {
		r.s.Config.Logger.Error("the disk does not accept writes; serving reads, refusing changes until it recovers", "error", err)
		r.notePending(startPending, err)
		return nil
	}
	return err
}

// startOf is the lineage of a log that ends at end, from the start of a process on.
func startOf(r *Replication, l format.Lineage, end uint64) format.Lineage {
	if !l.Replica && !r.s.Config.Elected {
		return l.Begin(end)
	}
	l = l.Cut(end + 1)
	l.Replica = true
	return l
}

// writeLineage makes the log durable, and l its lineage from its end on. REQUIRES: nobody changes anything meanwhile.
func (r *Replication) writeLineage(l format.Lineage) error {
	s := r.s
	if err := r.boot.begin(); err != nil {
		return err
	}
	if err := s.Dir.Sync(); err != nil {
		return err
	}
	if err := s.Log.Sync(); err != nil {
		return err
	}
	if err := logfile.WriteLineage(s.Config.FS, s.Dir.Path(), &l); err != nil {
		return err
	}
	return s.Log.SetHistory(l.Current())
}

// putLineage puts a lineage in force that is durable. REQUIRES: Data.Gate held exclusively.
func (r *Replication) putLineage(l format.Lineage) {
	r.mu.Lock()
	r.lineage = l
	r.mu.Unlock()
	r.s.Cursors.Admitted.Store(l.Cursors)
	r.s.Replica.Store(l.Replica)
	if r.pending != nothingPending {
		r.pending = nothingPending
		r.s.Log.Refuse(nil)
	}
}

// notePending remembers what could not be written, and why. REQUIRES: Data.Gate held exclusively.
func (r *Replication) notePending(what pendingWrites, err error) {
	if r.pending == nothingPending {
		r.pending = what
	}
	r.s.Log.Refuse(err)
}

// WritePending writes what could not be written before, as the disk took no writes.
func WritePending(r *Replication) {
	r.s.Gate.RLock()
	owes := r.pending
	r.s.Gate.RUnlock()
	if owes == nothingPending {
		return
	}
	err := r.changeRole(func(end uint64) format.Lineage {
		if r.pending != startPending { // or another change of role was first
			return r.Lineage()
		}
		return startOf(r, r.Lineage(), end)
	})
	if err == nil {
		r.s.Config.Logger.Info("the disk accepts writes again; recorded the owner of the log")
	}
}

// Follow makes the store a replica whose log has the given lineage: it agrees with the primary's up to the log's end,
// or the store has no log entry yet. From then on changes answer ErrReplica and Replicate is the only way to write, and
// it takes frames of these terms alone. Follow tells whether the lineage is another than before.
//
// Terms may begin behind the log's end. A start of the store forgets those, as nothing of the log is of them, so Follow is
// called again before the first frame that comes then.
func (r *Replication) Follow(l format.Lineage) (changed bool, err error) {
	if r.s.Log == nil {
		return false, core.ErrInMemory
	}
	l.Replica = true
	now := r.Lineage()
	l.Cursors = l.Cursors || now.Cursors
	l.NeedsSnapshot = now.NeedsSnapshot // the primary's is of another directory
	if bytes.Equal(now.AppendText(nil), l.AppendText(nil)) {
		return false, nil // if it is owed, frames are refused until it is written
	}
	return true, r.changeRole(func(uint64) format.Lineage { return l })
}

// Yield makes a primary a replica that has not found its primary yet: its lineage stays what it is.
func (r *Replication) Yield() error {
	if r.s.Log == nil {
		return core.ErrInMemory
	}
	if r.s.Replica.Load() {
		return nil
	}
	return r.changeRole(func(uint64) format.Lineage {
		l := r.Lineage()
		l.Replica = true
		return l
	})
}

// Lead makes the store a primary: a new term begins at the log's end. It returns that offset. An Elected store leads by
// LeadAt alone: ErrElected.
func (r *Replication) Lead() (at uint64, err error) {
	if r.s.Log == nil {
		return 0, core.ErrInMemory
	}
	if r.s.Config.Elected {
		return 0, ErrElected
	}
	err = r.changeRole(func(end uint64) format.Lineage {
		at = end
		l := r.Lineage()
		return l.Begin(end)
	})
	return at, err
}

// changeRole puts a new lineage in force, with nobody changing anything meanwhile: the log is made durable first. Changes
// are refused while the disk is waited for, and reads go on: the gate is held for a moment before and behind it.
func (r *Replication) changeRole(next func(end uint64) format.Lineage) error {
	r.s.Applying.Lock() // no frame of a primary comes, and Close waits
	defer r.s.Applying.Unlock()
	if err := r.refuseChanges(); err != nil {
		return err
	}
	defer r.s.Changing.Store(false)
	if r.s.Config.Elected {
		r.stopConfirming() // before the disk is waited for
	}
	if err := r.s.Log.Sync(); err != nil { // before next, which may count on the log's end
		return err
	}
	l := next(r.s.Log.Position())
	err := r.writeLineage(l)
	r.s.Gate.Lock()
	defer r.s.Gate.Unlock()
	r.s.Changing.Store(false) // together with the new role, so that nobody sees the old one's refusal without its reason
	if err != nil {
		r.notePending(lineagePending, fmt.Errorf("whose log it is could not be written down: %w", err))
		return err
	}
	r.putLineage(l)
	if !l.Replica {
		r.s.Producers.Resume()
	}
	return nil
}

// refuseChanges returns when no change is at work and none will be made until changing is false again.
func (r *Replication) refuseChanges() error {
	r.s.Gate.Lock()
	defer r.s.Gate.Unlock()
	if r.s.Closed {
		return core.ErrClosed
	}
	r.s.Changing.Store(true)
	return nil
}

// Refuse has every change answered by err, which has changed nothing then, until it is called with nil. It returns when no
// change is at work. Frames of a primary are accepted nevertheless. Only a store with a log refuses.
func (r *Replication) Refuse(err error) {
	r.s.Gate.Lock()
	defer r.s.Gate.Unlock()
	if err == nil {
		r.s.Refusal.Store(nil)
		return
	}
	r.s.Refusal.Store(&err)
}

// monitoredName is a file of the data directory whose presence alone counts.
const monitoredName = "MONITORED"

// Monitored tells whether SetMonitored was ever called on the store's directory.
func (r *Replication) Monitored() (bool, error) {
	if r.s.Dir == nil {
		return false, nil
	}
	_, err := r.s.Config.FS.Stat(filepath.Join(r.s.Dir.Path(), monitoredName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		r.monitored.Store(true)
	}
	return err == nil, err
}

// SetMonitored writes down, durably, that something outside decides which node is the primary: after a restart the
// store's owner is to wait for its word.
func (r *Replication) SetMonitored() error {
	if r.s.Dir == nil {
		return nil
	}
	path := filepath.Join(r.s.Dir.Path(), monitoredName)
	err := vfs.WriteFileAtomic(r.s.Config.FS, path, []byte("A Sentinel watched this node.\n"))
	if err == nil {
		r.monitored.Store(true)
	}
	return err
}

// SaveDiverged saves the store's data in its directory, as an archive, where it stays when another primary's data takes
// its place: see past.SaveDiverged. No change may be made meanwhile that is to be in it: the store is a replica.
func (r *Replication) SaveDiverged(ctx context.Context) (path string, removed []string, err error) {
	a, err := r.archive()
	if err != nil {
		return "", nil, err
	}
	path, removed, err = a.SaveDiverged(ctx, r.s)
	return path, removed, errors.Join(err, a.Close())
}
