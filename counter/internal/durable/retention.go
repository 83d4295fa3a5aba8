package durable

import (
	"errors"
	"io/fs"
	"path/filepath"
	"sync/atomic"

	"github.com/counterd/counterd/counter/internal/core"
)

// Retention says what stays on disk: files that a kept snapshot names, or a block in use, or a pin; and the log from the
// lowest offset on that recovery, a pin or RetainBytes asks for. The snapshotter and Space remove all else by these
// rules.
type Retention struct {
	s    *core.Data
	pins *Pins

	bytes atomic.Uint64 // Options.RetainBytes as it is now
}

// Init makes the rules for s, whose pins count, and that keeps so many bytes of log.
func (r *Retention) Init(s *core.Data, pins *Pins, bytes uint64) {
	r.s, r.pins = s, pins
	r.bytes.Store(bytes)
}

// dropBefore is the offset below which no log is needed: by the two newest snapshots, and by RetainBytes.
func (r *Retention) dropBefore() uint64 {
	before := r.s.Dir.ReplayFrom()
	if retain := r.bytes.Load(); retain > 0 {
		before = min(before, r.s.Log.Segments().KeepFrom(retain))
	}
	return min(before, r.pins.from())
}

// neededFrom is the offset below which no log is needed by recovery or by a replica that copies.
func (r *Retention) neededFrom() uint64 {
	return min(r.s.Dir.ReplayFrom(), r.pins.from())
}

// RemoveOrphans removes the files that no manifest names, but for cold files that a block has been written to since.
func (r *Retention) RemoveOrphans() error {
	if err := r.s.Dir.CheckLock(); err != nil {
		return err
	}
	r.pins.mu.Lock() // a file about to be pinned belongs to a manifest, and so is no orphan
	orphans, err := r.s.Dir.Orphans()
	pinned := r.pins.fileNames()
	r.pins.mu.Unlock()
	if err != nil {
		return err
	}
	for _, path := range orphans {
		if _, ok := pinned[filepath.Base(path)]; ok || r.s.Files.Keeps(filepath.Base(path)) {
			continue
		}
		if err := r.s.Config.FS.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// SetBytes changes Options.RetainBytes.
func (r *Retention) SetBytes(n uint64) { r.bytes.Store(n) }
