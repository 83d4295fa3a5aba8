package durable

import (
	"errors"
	"io/fs"
	"path/filepath"
	"sync/atomic"

	"github.com/counterd/counterd/counter/internal/core"
	"github.com/counterd/counterd/counter/internal/pace"
)

// Retention says what stays on disk: files that a kept snapshot names, or a block in use, or a pin; and the log from the
// lowest offset on that recovery, a pin, RetainBytes or a cursor of the feed asks for. The snapshotter and Space remove all else by these
// rules.
type Retention struct {
	s    *core.Data
	pins *Pins

	bytes atomic.Uint64 // Options.RetainBytes as it is now
	feed  atomic.Uint64 // Options.FeedRetainBytes as it is now
}

// Init makes the rules for s, whose pins count, and that keeps so many bytes of log, and so many for cursors of the feed.
func (r *Retention) Init(s *core.Data, pins *Pins, bytes, feed uint64) {
	r.s, r.pins = s, pins
	r.bytes.Store(bytes)
	r.feed.Store(feed)
}

// dropBefore is the offset below which no log is needed: by the two newest snapshots, by RetainBytes, and by the cursors of the feed.
func (r *Retention) dropBefore() uint64 {
	before := r.s.Dir.ReplayFrom()
	if retain := r.bytes.Load(); retain > 0 {
		before = min(before, r.s.Log.Segments().KeepFrom(retain))
	}
	if retain := r.feed.Load(); retain > 0 {
		if from, ok := r.s.Cursors.From(r.s.Log.Stats().First); ok {
			before = min(before, max(from, r.s.Log.Segments().KeepFrom(retain)))
		}
	}
	return min(before, r.pins.retainFrom())
}

// keeps tells whether log is kept beyond what recovery needs.
func (r *Retention) keeps() bool {
	if r.bytes.Load() > 0 {
		return true
	}
	_, ok := r.s.Cursors.From(0)
	return ok && r.feed.Load() > 0
}

// neededFrom is the offset below which no log is needed by recovery or by a replica that copies.
func (r *Retention) neededFrom() uint64 {
	return min(r.s.Dir.ReplayFrom(), r.pins.from())
}

// RemoveOrphans removes the files that no manifest names, but for cold files that a block has been written to since. It rests
// between files: the system takes 0.3 to 4 ms to free one of 1 MB, and a snapshot of 2 million posts leaves 30.
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
	turns := pace.Pace{}
	turns.Rest()
	for _, path := range orphans {
		if _, ok := pinned[filepath.Base(path)]; ok || r.s.Files.Keeps(filepath.Base(path)) {
			continue
		}
		if err := r.s.Config.FS.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		turns.Rest()
	}
	return nil
}

// SetBytes changes Options.RetainBytes.
func (r *Retention) SetBytes(n uint64) { r.bytes.Store(n) }

// SetFeedBytes changes Options.FeedRetainBytes.
func (r *Retention) SetFeedBytes(n uint64) { r.feed.Store(n) }

// FeedBytes is Options.FeedRetainBytes as it is now.
func (r *Retention) FeedBytes() uint64 { return r.feed.Load() }
