package counter

import (
	"path/filepath"
	"sync/atomic"

	"github.com/counterd/counterd/counter/internal/core"
)

// retention says what stays on disk: files that a kept snapshot names, or a block in use, or a pin; and the log from the
// lowest offset on that recovery, a pin or RetainBytes asks for. The snapshotter and spaceWatch remove all else by these
// rules.
type retention struct {
	s    *core.Data
	pins *Pins

	bytes atomic.Uint64 // Options.RetainBytes as it is now
}

// dropBefore is the offset below which no log is needed: by the two newest snapshots, and by RetainBytes.
func (r *retention) dropBefore() uint64 {
	before := r.s.Dir.ReplayFrom()
	if retain := r.bytes.Load(); retain > 0 {
		before = min(before, r.s.Log.Segments().KeepFrom(retain))
	}
	return min(before, r.pins.from())
}

// neededFrom is the offset below which no log is needed by recovery or by a replica that copies.
func (r *retention) neededFrom() uint64 {
	return min(r.s.Dir.ReplayFrom(), r.pins.from())
}

// removeOrphans removes the files that no manifest names, but for cold files that a block has been written to since.
func (r *retention) removeOrphans() error {
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
		if err := r.s.Config.FS.Remove(path); err != nil && !isNotExist(err) {
			return err
		}
	}
	return nil
}
