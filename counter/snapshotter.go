package counter

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/counter/internal/core"

	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
)

// snapshotter makes snapshots, one at a time, without a fork and without a global stop: each block is copied under its
// own lock, at its own moment, with the log offset it stands at then; only blocks that changed since their last image
// are copied and written. Memory grows by one block's image.
//
//  1. note the log's position P and the schema, with no change of the schema in between: replay will start at P
//  2. block after block: an image, or, if it did not change, the old image counted as standing at the present offset
//  3. sync the log past every image, then write the manifest, which makes the snapshot durable as one
//  4. remove images that neither of the two newest manifests names, and log that none of them needs
type snapshotter struct {
	s         *core.Data
	space     *spaceWatch
	retention *retention
	packing   *packing
	growth    int64                 // Options.SnapshotGrowth
	lineage   func() format.Lineage // of the log
	eachLook  func()                // is called each second; nil: there is nothing to do

	mu sync.Mutex // held while a snapshot is made

	running  atomic.Bool
	asked    atomic.Uint64 // how often images were to be written anew
	state    sync.Mutex    // guards stats, pause and answered
	stats    SnapshotStats
	answered uint64        // asked, as it was when the last snapshot that succeeded began
	pause    time.Duration // after a failure, doubling up to maxPause
	quit     chan struct{}
	done     chan struct{}
	stopOnce sync.Once
}

// SnapshotStats tells about snapshots.
type SnapshotStats struct {
	Running       bool
	Generation    uint64    // of the newest snapshot; 0: none
	LastTime      time.Time // when it was made
	OldestTime    time.Time // the time of the oldest kept snapshot: how far back a restore reaches
	LastStarted   time.Time
	LastTook      time.Duration
	LastErr       error  // of the last attempt
	LastImages    int    // images written by it
	LastBytes     uint64 // bytes written by it
	Written       uint64 // bytes written by all, since the start, those that failed too
	Blocks        int    // blocks it names
	Bytes         uint64 // bytes of all images it names
	Replay        uint64 // log offset from which recovery replays
	Made, Failed  int    // since the start
	RecoveredTorn string // the bytes cut from the log at the start
	RecoveredAt   time.Duration
	Replayed      uint64 // records
}

func newSnapshotter(s *core.Data, space *spaceWatch, retention *retention, packing *packing, growth int64) *snapshotter {
	return &snapshotter{s: s, space: space, retention: retention, packing: packing, growth: growth, quit: make(chan struct{}), done: make(chan struct{})}
}

// recovered takes down where the store stands after the start.
func (v *snapshotter) recovered(rec persist.Recovery) {
	v.stats.Replayed = rec.Records
	if rec.Torn != nil {
		v.stats.RecoveredTorn = rec.Torn.Error()
	}
	if m := v.s.Dir.Manifests(); len(m) > 0 {
		v.count(m[0])
		v.stats.LastTime = time.UnixMilli(m[0].TimeMS)
	}
}

// count updates the numbers of a manifest for INFO.
func (v *snapshotter) count(m *format.Manifest) {
	v.stats.Generation, v.stats.Replay = m.Generation, m.Replay
	v.stats.Blocks, v.stats.Bytes = m.Size()
}

func (v *snapshotter) start() {
	if v.s.Config.Manual {
		close(v.done)
		return
	}
	go v.run()
}

func (v *snapshotter) stop() {
	v.stopOnce.Do(func() { close(v.quit) })
	<-v.done
	v.mu.Lock() // a Snapshot that somebody else started
	defer v.mu.Unlock()
}

// maxPause is the longest time between two attempts to make a snapshot: each may write as much as the last one before
// it fails.
const maxPause = time.Minute

// run looks each second.
func (v *snapshotter) run() {
	defer close(v.done)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-v.quit:
			return
		case <-tick.C:
		}
		v.snapshotIfDue()
	}
}

// snapshotIfDue watches the room on disk, drops log that is not to be retained any more, and makes a snapshot when it is time.
func (v *snapshotter) snapshotIfDue() {
	if v.eachLook != nil {
		v.eachLook()
	}
	disk := v.space.measure()
	_ = v.s.Log.Segments().DropBefore(v.retention.dropBefore()) // a snapshot tells
	if disk.Low && v.growth >= 0 && v.mu.TryLock() {
		if err := v.space.makeRoom(); err != nil {
			v.s.Config.Logger.Error("cannot free disk space", "error", err)
		}
		v.mu.Unlock()
	}
	if v.due(disk.Low) {
		_ = v.make() // told by the logger and by Snapshots
	}
}

// due: images are damaged; or the log to replay is larger than SnapshotGrowth, and than the last snapshot; or the disk
// is low, and a snapshot frees a lot.
func (v *snapshotter) due(low bool) bool {
	v.state.Lock()
	stats, pause, asked := v.stats, v.pause, v.asked.Load() != v.answered
	v.state.Unlock()
	if stats.LastErr != nil && time.Since(stats.LastStarted) < pause {
		return false // the disk's trouble is not made better by trying each second
	}
	if asked || v.growth < 0 {
		return asked
	}
	return v.s.Log.Written()-stats.Replay > max(uint64(v.growth), stats.Bytes) || low && v.space.worthwhile()
}

// Snapshots tells about snapshots. The zero value where data is in memory only.
func (a Admin) Snapshots() SnapshotStats {
	s := a.s
	if s.snapshots == nil {
		return SnapshotStats{}
	}
	s.snapshots.state.Lock()
	stats := s.snapshots.stats
	s.snapshots.state.Unlock()
	stats.Running = s.snapshots.running.Load()
	if kept := s.data.Dir.Manifests(); len(kept) > 0 {
		stats.OldestTime = time.UnixMilli(kept[len(kept)-1].TimeMS)
	}
	return stats
}

// make makes a snapshot now, beside all other work. The error is ErrBusy while another is being made,
// ErrClosed, or an error of the disk; the last snapshot counts then.
func (v *snapshotter) make() error {
	if !v.mu.TryLock() {
		return ErrBusy
	}
	defer v.mu.Unlock()
	v.running.Store(true)
	defer v.running.Store(false)
	began, asked := time.Now(), v.asked.Load()
	w := &snapshot{s: v.s, by: v}
	err := v.space.spaceFor("a snapshot", v.space.snapshotBytes(), true)
	if err == nil {
		err = w.make()
	}
	if err != nil {
		w.undo()
	}
	v.state.Lock()
	defer v.state.Unlock()
	v.stats.LastStarted, v.stats.LastTook, v.stats.LastErr = began, time.Since(began), err
	v.stats.LastImages, v.stats.LastBytes = w.images, w.bytes
	v.stats.Written += w.bytes
	if err != nil {
		v.stats.Failed++
		v.pause = min(max(2*v.pause, time.Second), maxPause)
		v.s.Config.Logger.Error("snapshot failed", "error", err)
		return err
	}
	v.stats.Made++
	v.pause, v.answered = 0, asked
	v.stats.LastTime = began
	v.count(w.manifest)
	v.s.Config.Logger.Info("snapshot made", "generation", w.manifest.Generation, "blocks", v.stats.Blocks, "images_written", w.images,
		"bytes_written", w.bytes, "replay_from", w.manifest.Replay, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// Snapshot makes a snapshot now, beside all other work. The error is ErrBusy while another is being made, ErrInMemory,
// ErrClosed, or an error of the disk; the last snapshot counts then.
func (s *Store) Snapshot() error {
	if s.snapshots == nil {
		return ErrInMemory
	}
	return s.snapshots.make()
}
