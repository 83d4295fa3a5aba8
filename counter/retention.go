package counter

import (
	"path/filepath"
	"sync/atomic"
)

// retention says what stays on disk: files that a kept snapshot names, or a block in use, or a pin; and the log from the
// lowest offset on that recovery, a pin or RetainBytes asks for. The snapshotter and spaceWatch remove all else by these
// rules.
type retention struct {
	bytes atomic.Uint64 // Options.RetainBytes as it is now
}

// dropBefore is the offset below which no log is needed: by the two newest snapshots, and by RetainBytes.
func (r *retention) dropBefore(s *Store) uint64 {
	before := s.dir.ReplayFrom()
	if retain := r.bytes.Load(); retain > 0 {
		before = min(before, s.log.Segments().KeepFrom(retain))
	}
	return min(before, s.repl.pins.from())
}

// neededFrom is the offset below which no log is needed by recovery or by a replica that copies.
func (r *retention) neededFrom(s *Store) uint64 {
	return min(s.dir.ReplayFrom(), s.repl.pins.from())
}

// removeOrphans removes the files that no manifest names, but for cold files that a block has been written to since.
func (r *retention) removeOrphans(s *Store) error {
	if err := s.dir.CheckLock(); err != nil {
		return err
	}
	s.repl.pins.mu.Lock() // what is about to be pinned is a manifest's, and so no orphan
	orphans, err := s.dir.Orphans()
	pinned := s.repl.pins.names()
	s.repl.pins.mu.Unlock()
	if err != nil {
		return err
	}
	for _, path := range orphans {
		if _, ok := pinned[filepath.Base(path)]; ok || s.tiers.Keeps(filepath.Base(path)) {
			continue
		}
		if err := s.opts.FS.Remove(path); err != nil && !isNotExist(err) {
			return err
		}
	}
	return nil
}
