package counter

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/vfs"
)

// Replication, as far as it is the store's: whose log this is, frames of a primary, and files kept while they are copied.
//
// A replica's log holds the primary's frames byte for byte. A frame is appended, and then its records are applied; the two are one step
// for whoever copies a block, so an image at an offset holds all records below it. What a crash leaves appended but not applied is replayed,
// and values are absolute, so nothing counts twice.

// ErrReplica: the store follows a primary and takes no changes of its own. Nothing was changed.
var ErrReplica = errors.New("counter: the store is a replica: only its primary's changes are taken")

// owed is what could not be written of the log's past. Until it is, the log refuses: no change and no frame may follow a past that the next start reads otherwise.
type owed uint8

const (
	owedNothing owed = iota
	owedStart        // the start could not begin its term
	owedPast         // a change of role failed, and may have written its past or not: that in force must be written again
)

// replication is the part of a Store that this file is about.
type replication struct {
	// applying is held for writing from the append of a frame to the end of its application, and for reading while a block and its offset are
	// copied for an image. Outermost of all locks.
	applying sync.RWMutex
	owed     owed         // what the disk lacks: written under applying and gate, read under one of them
	changing atomic.Bool  // the past is being changed: changes are refused; set under gate held exclusively
	replayer *replayer    // guarded by applying
	observer func(*Batch) // guarded by applying; may be nil
	checker  FrameChecker // guarded by applying

	mu      sync.Mutex // guards the rest; innermost
	lineage persist.Lineage
	pins    map[*Pin]struct{}
}

// Lineage is the past of the store's log. The zero value where data is in memory only.
func (s *Store) Lineage() persist.Lineage {
	s.repl.mu.Lock()
	defer s.repl.mu.Unlock()
	return s.repl.lineage
}

// Replica tells whether the store follows a primary.
func (s *Store) Replica() bool { return s.replica.Load() }

// Observe has f called after changes of the primary were applied, while the batch that made them is open; nil stands for a change of everything, by
// FLUSHALL or of the schema. f must not call the store. It is for what depends on items: WATCH. Open again, the store has no observer.
func (s *Store) Observe(f func(*Batch)) {
	s.repl.applying.Lock()
	s.repl.observer = f
	s.repl.applying.Unlock()
}

// Log is the store's log, to read from; nil where data is in memory only.
func (s *Store) Log() *persist.Log { return s.log }

// recoverLineage reads whose log this is, after it was replayed up to end. A primary begins a new term: others may hold bytes behind end
// that a crash took from this disk.
func (s *Store) recoverLineage(l persist.Lineage, found persist.History, end uint64) error {
	if len(l.Terms) == 0 && found.ReplID != (persist.ReplID{}) {
		l.Terms = []persist.Term{{ReplID: found.ReplID, Epoch: found.Epoch}}
	}
	s.repl.lineage = l
	s.replica.Store(l.Replica)
	l = startOf(l, end)
	err := s.writePast(l)
	if err == nil {
		s.putPast(l)
	}
	if err != nil && vfs.IsTrouble(err) {
		s.opts.Logger.Error("the disk takes no writes: posts can be read, changes are refused until it is well", "error", err)
		s.owe(owedStart, err)
		return nil
	}
	return err
}

// startOf is the past of a log that ends at end from the start of a process on.
func startOf(l persist.Lineage, end uint64) persist.Lineage {
	if !l.Replica {
		return l.Begin(end)
	}
	l = l.Cut(end + 1)
	l.Replica = true
	return l
}

// writePast makes the log durable, and l its past from its end on. REQUIRES: nobody changes anything meanwhile.
func (s *Store) writePast(l persist.Lineage) error {
	if err := s.dir.Sync(); err != nil {
		return err
	}
	if err := s.log.Sync(); err != nil {
		return err
	}
	if err := persist.WriteLineage(s.opts.FS, s.dir.Path(), &l); err != nil {
		return err
	}
	return s.log.SetHistory(l.Current())
}

// putPast puts a past in force that is durable. REQUIRES: gate held exclusively.
func (s *Store) putPast(l persist.Lineage) {
	s.repl.mu.Lock()
	s.repl.lineage = l
	s.repl.mu.Unlock()
	s.replica.Store(l.Replica)
	if s.repl.owed != owedNothing {
		s.repl.owed = owedNothing
		s.log.Refuse(nil)
	}
}

// owe notes what could not be written, and why. REQUIRES: gate held exclusively.
func (s *Store) owe(what owed, err error) {
	if s.repl.owed == owedNothing {
		s.repl.owed = what
	}
	s.log.Refuse(err)
}

// payOwed writes what could not be written before, as the disk took no writes.
func (s *Store) payOwed() {
	s.gate.RLock()
	owes := s.repl.owed
	s.gate.RUnlock()
	if owes == owedNothing {
		return
	}
	err := s.become(func(end uint64) persist.Lineage {
		if s.repl.owed != owedStart { // or another change of role was first
			return s.Lineage()
		}
		return startOf(s.Lineage(), end)
	})
	if err == nil {
		s.opts.Logger.Info("the disk takes writes: whose log it is has been written down")
	}
}

// Follow makes the store a replica whose log is of the given past: it agrees with the primary's up to the log's end, or the store has no log
// entry yet. From then on changes answer ErrReplica and Replicate is the only way to write. It tells whether the
// past is another than before.
func (s *Store) Follow(l persist.Lineage) (changed bool, err error) {
	if s.log == nil {
		return false, ErrInMemory
	}
	l.Replica = true
	if now := s.Lineage(); bytes.Equal(now.AppendText(nil), l.AppendText(nil)) {
		return false, nil // if it is owed, frames are refused until it is written
	}
	return true, s.become(func(uint64) persist.Lineage { return l })
}

// Yield makes a primary a replica that has not found its primary yet: its past stays what it is.
func (s *Store) Yield() error {
	if s.log == nil {
		return ErrInMemory
	}
	if s.Replica() {
		return nil
	}
	return s.become(func(uint64) persist.Lineage {
		l := s.Lineage()
		l.Replica = true
		return l
	})
}

// Lead makes the store a primary: a new term begins at the log's end. It returns that offset.
func (s *Store) Lead() (at uint64, err error) {
	if s.log == nil {
		return 0, ErrInMemory
	}
	err = s.become(func(end uint64) persist.Lineage {
		at = end
		l := s.Lineage()
		return l.Begin(end)
	})
	return at, err
}

// become puts a new past in force, with nobody changing anything meanwhile: the log is made durable first. Changes are refused while the disk is
// waited for, and reads go on: the gate is held for a moment before and behind it.
func (s *Store) become(next func(end uint64) persist.Lineage) error {
	s.repl.applying.Lock() // no frame of a primary comes, and Close waits
	defer s.repl.applying.Unlock()
	if err := s.refuseChanges(); err != nil {
		return err
	}
	defer s.repl.changing.Store(false)
	if err := s.log.Sync(); err != nil { // before next, which may count on the log's end
		return err
	}
	l := next(s.log.Position())
	err := s.writePast(l)
	s.gate.Lock()
	defer s.gate.Unlock()
	if err != nil {
		s.owe(owedPast, fmt.Errorf("whose log it is could not be written down: %w", err))
		return err
	}
	s.putPast(l)
	return nil
}

// refuseChanges returns when no change is at work and none will be made until changing is false again.
func (s *Store) refuseChanges() error {
	s.gate.Lock()
	defer s.gate.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.repl.changing.Store(true)
	return nil
}

// Replicate appends a primary's frame, header included, and applies its records, those of a frame that is one change with all readers kept out. It returns the log offset behind it; the log's Commit makes it
// one to acknowledge. While the log takes no changes, as the disk fails or is full, the error is its Ready's, a *persist.NotReadyError, and nothing was changed: the
// same frame may be given again when Ready is nil. A frame that is not the next one, or whose records cannot be applied, gives an error that matches persist.ErrCorrupt, and nothing
// was changed. After any other error memory may lack what the log has: the store must be opened again.
func (s *Store) Replicate(raw []byte) (end uint64, err error) {
	s.repl.applying.Lock()
	defer s.repl.applying.Unlock()
	s.gate.RLock()
	if s.closed {
		s.gate.RUnlock()
		return 0, ErrClosed
	}
	if !s.replica.Load() {
		s.gate.RUnlock()
		return 0, fmt.Errorf("counter: a frame for a store that is a primary: %w", persist.ErrNotReady)
	}
	// As before a change of a client: what the disk does not take stays in memory, and a primary sends as much as it likes.
	if err := s.log.Ready(); err != nil {
		s.gate.RUnlock()
		return 0, err
	}
	at := s.log.Position()
	s.repl.checker.schema = s.schema.Load()
	if err = s.repl.checker.Check(raw); err == nil {
		end, err = s.log.AppendFrame(raw)
	}
	s.gate.RUnlock()
	if err != nil {
		return 0, err
	}
	r := s.repl.replayer
	if r == nil {
		r = &replayer{s: s, b: s.NewBatch()}
		r.b.silent = true
		s.repl.replayer = r
	}
	r.observer, r.b.applied = s.repl.observer, end
	// What was one change to the primary's readers is one to the readers here. Other frames keep nobody out: what they hold was never promised to be seen together.
	whole := persist.FrameWhole(raw)
	begin := r.b.Begin
	if whole {
		begin = r.b.BeginExclusive
	}
	if err := begin(); err != nil {
		return end, err
	}
	defer r.b.End()
	var rec persist.Record
	f := persist.Frame{FrameHeader: persist.FrameHeader{Start: at}, Raw: raw, Payload: raw[persist.FrameHeaderLen:]}
	err = f.Records(&rec, at, func(pos uint64, rec *persist.Record) error {
		if rec.Kind != persist.KindFlush && rec.Kind != persist.KindSchema {
			return r.apply(pos, rec)
		}
		err := r.flush()
		if !whole {
			r.b.End()
			if err == nil {
				err = r.b.BeginExclusive()
			}
		}
		if err != nil {
			return err
		}
		if err = r.apply(pos, rec); err != nil {
			return err
		}
		s.altered = end
		if r.observer != nil {
			r.observer(nil)
		}
		if whole {
			return nil
		}
		r.b.End()
		return r.b.Begin()
	})
	if err == nil {
		err = r.flush()
	}
	return end, err
}

// Pin keeps files and log from being removed while they are copied to a replica.
type Pin struct {
	s        *Store
	Manifest *persist.Manifest // the newest; nil: there is none, and the log goes back to its beginning
	names    map[string]struct{}
	from     uint64 // log offset from which on the log is kept
}

// PinSnapshot pins the newest snapshot and the log from its replay offset on.
func (s *Store) PinSnapshot() (*Pin, error) {
	if s.dir == nil {
		return nil, ErrInMemory
	}
	p := &Pin{s: s, names: make(map[string]struct{})}
	s.repl.mu.Lock()
	defer s.repl.mu.Unlock()
	if m := s.dir.Manifests(); len(m) > 0 { // under mu: files go under it too
		p.Manifest, p.from = m[0], m[0].Replay
		_ = m[0].Blocks(func(_ *persist.CounterFiles, b *persist.BlockFile) error { // fn returns nil
			p.names[b.Name] = struct{}{}
			return nil
		})
	}
	s.repl.pin(p)
	return p, nil
}

// PinLog pins the log from an offset on.
func (s *Store) PinLog(from uint64) *Pin {
	p := &Pin{s: s, from: from}
	s.repl.mu.Lock()
	defer s.repl.mu.Unlock()
	s.repl.pin(p)
	return p
}

// PinNames keeps files that are not named by a manifest of the store: what is being copied from a primary.
func (s *Store) PinNames(names []string) *Pin {
	p := &Pin{s: s, names: make(map[string]struct{}), from: ^uint64(0)}
	for _, name := range names {
		p.names[name] = struct{}{}
	}
	s.repl.mu.Lock()
	defer s.repl.mu.Unlock()
	s.repl.pin(p)
	return p
}

func (r *replication) pin(p *Pin) {
	if r.pins == nil {
		r.pins = make(map[*Pin]struct{})
	}
	r.pins[p] = struct{}{}
}

// Path returns where a file that the pinned manifest names is; ok is false for any other.
func (p *Pin) Path(tier persist.Tier, name string) (path string, ok bool) {
	if _, ok := p.names[name]; !ok {
		return "", false
	}
	b := persist.BlockFile{Tier: tier, Name: name}
	return b.Path(p.s.dir.Path()), true
}

// Release ends the pin. It may be called twice.
func (p *Pin) Release() {
	p.s.repl.mu.Lock()
	delete(p.s.repl.pins, p)
	p.s.repl.mu.Unlock()
}

// pinned returns the names that must stay and the lowest log offset that must.
func (r *replication) pinned() (names map[string]struct{}, from uint64) {
	names, from = make(map[string]struct{}), ^uint64(0)
	for p := range r.pins {
		maps.Copy(names, p.names)
		from = min(from, p.from)
	}
	return names, from
}

// Manifests returns the snapshots kept, newest first.
func (s *Store) Manifests() []*persist.Manifest {
	if s.dir == nil {
		return nil
	}
	return s.dir.Manifests()
}

// Path is the data directory; empty where data is in memory only.
func (s *Store) Path() string {
	if s.dir == nil {
		return ""
	}
	return s.dir.Path()
}

// Monitored tells whether SetMonitored was ever called on the store's directory.
func (s *Store) Monitored() (bool, error) {
	if s.dir == nil {
		return false, nil
	}
	_, err := s.opts.FS.Stat(filepath.Join(s.dir.Path(), monitoredName))
	if isNotExist(err) {
		return false, nil
	}
	return err == nil, err
}

// SetMonitored notes, durably, that something outside decides which node is the primary: after a restart the store's owner is to wait for its word.
func (s *Store) SetMonitored() error {
	if s.dir == nil {
		return nil
	}
	return vfs.WriteFileAtomic(s.opts.FS, filepath.Join(s.dir.Path(), monitoredName), []byte("A Sentinel watched this node.\n"))
}

// monitoredName is a file whose presence alone counts.
const monitoredName = "MONITORED"
