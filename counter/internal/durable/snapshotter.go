package durable

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/counter/internal/core"

	"github.com/counterd/counterd/persist/format"
)

// Snapshots makes snapshots, one at a time, without a fork and without a global stop: each block is copied under its
// own lock, at its own moment, with the log offset it stands at then; only blocks that changed since their last image
// are copied and written. Memory grows by one block's image.
//
//  1. note the log's position P and the schema, with no change of the schema in between: replay will start at P
//  2. block after block: an image, or, if it did not change, the old image counted as standing at the present offset
//  3. sync the log past every image, then write the manifest, which makes the snapshot durable as one
//  4. remove images that neither of the two newest manifests names, and log that none of them needs
type Snapshots struct {
	s         *core.Data
	space     *Space
	retention *Retention
	packing   *Packing
	growth    int64                 // Options.SnapshotGrowth
	lineage   func() format.Lineage // of the log
	eachLook  func()                // is called each second; nil: there is nothing to do

	Mu sync.Mutex // held while a snapshot is made

	running  atomic.Bool
	asked    atomic.Uint64 // how often images were to be written anew
	twice    atomic.Bool   // another snapshot is to be made behind the next one
	state    sync.Mutex    // guards stats, pause and answered
	Stats    SnapshotStats
	answered uint64        // asked, as it was when the last snapshot that succeeded began
	Pause    time.Duration // after a failure, doubling up to MaxPause
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

func NewSnapshots(s *core.Data, space *Space, retention *Retention, packing *Packing, growth int64, lineage func() format.Lineage, eachLook func()) *Snapshots {
	return &Snapshots{s: s, space: space, retention: retention, packing: packing, growth: growth, lineage: lineage, eachLook: eachLook, quit: make(chan struct{}), done: make(chan struct{})}
}

// NoteStart takes down where the store stands after the start, and has a snapshot made that takes the place of a damaged one. It is one, and not two as in Renew: the whole one
// stays, to which a replica whose log has an end of its own is cut back.
func (v *Snapshots) NoteStart(rec *Recovered) {
	if rec.Renew {
		v.s.Config.Logger.Warn("making a snapshot that replaces the damaged one")
		v.asked.Add(1)
	}
	v.Stats.Replayed = rec.Records
	if rec.Torn != nil {
		v.Stats.RecoveredTorn = rec.Torn.Error()
	}
	if m := v.s.Dir.Manifests(); len(m) > 0 {
		v.count(m[0])
		v.Stats.LastTime = time.UnixMilli(m[0].TimeMS)
	}
}

// count updates the numbers of a manifest for INFO.
func (v *Snapshots) count(m *format.Manifest) {
	v.Stats.Generation, v.Stats.Replay = m.Generation, m.Replay
	v.Stats.Blocks, v.Stats.Bytes = m.Size()
}

func (v *Snapshots) Start() {
	if v.s.Config.Manual {
		close(v.done)
		return
	}
	go v.run()
}

func (v *Snapshots) Stop() {
	v.stopOnce.Do(func() { close(v.quit) })
	<-v.done
	v.Mu.Lock() // a Snapshot that somebody else started
	defer v.Mu.Unlock()
}

// MaxPause is the longest time between two attempts to make a snapshot: each may write as much as the last one before
// it fails.
const MaxPause = time.Minute

// run looks each second.
func (v *Snapshots) run() {
	defer close(v.done)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-v.quit:
			return
		case <-tick.C:
		}
		v.SnapshotIfDue()
	}
}

// SnapshotIfDue watches the room on disk, drops log that is not to be retained any more, and makes a snapshot when it is time.
func (v *Snapshots) SnapshotIfDue() {
	if v.eachLook != nil {
		v.eachLook()
	}
	disk := v.space.measure()
	_ = v.s.Log.Segments().DropBefore(v.retention.dropBefore()) // a snapshot tells
	if disk.Low && v.growth >= 0 && v.Mu.TryLock() {
		if err := v.space.makeRoom(); err != nil {
			v.s.Config.Logger.Error("cannot free disk space", "error", err)
		}
		v.Mu.Unlock()
	}
	if v.Due(disk.Low) {
		_ = v.Make() // told by the logger and by Snapshots
	}
}

// Due: images are damaged; or the log to replay is larger than SnapshotGrowth, and than the last snapshot; or the disk
// is low, and a snapshot frees a lot.
func (v *Snapshots) Due(low bool) bool {
	v.state.Lock()
	stats, pause, asked := v.Stats, v.Pause, v.asked.Load() != v.answered
	v.state.Unlock()
	if stats.LastErr != nil && time.Since(stats.LastStarted) < pause {
		return false // the disk's trouble is not made better by trying each second
	}
	if asked || v.growth < 0 {
		return asked
	}
	return v.s.Log.Written()-stats.Replay > max(uint64(v.growth), stats.Bytes) || low && v.space.worthwhile()
}

// Make makes a snapshot now, beside all other work. The error is ErrBusy while another is being made,
// ErrClosed, or an error of the disk; the last snapshot counts then.
func (v *Snapshots) Make() error {
	if !v.Mu.TryLock() {
		return ErrBusy
	}
	defer v.Mu.Unlock()
	v.running.Store(true)
	defer v.running.Store(false)
	began, asked, twice := time.Now(), v.asked.Load(), v.twice.Swap(false)
	w := &snapshot{s: v.s, by: v}
	err := v.space.Require("a snapshot", v.space.SnapshotBytes(), true)
	if err == nil {
		err = w.make()
	}
	if err != nil {
		w.undo()
	}
	v.state.Lock()
	defer v.state.Unlock()
	v.Stats.LastStarted, v.Stats.LastTook, v.Stats.LastErr = began, time.Since(began), err
	v.Stats.LastImages, v.Stats.LastBytes = w.images, w.bytes
	v.Stats.Written += w.bytes
	if twice && err != nil {
		v.twice.Store(true)
	}
	if err != nil {
		v.Stats.Failed++
		v.Pause = min(max(2*v.Pause, time.Second), MaxPause)
		v.s.Config.Logger.Error("snapshot failed", "error", err)
		return err
	}
	v.Stats.Made++
	v.Pause, v.answered = 0, asked
	if twice {
		v.asked.Add(1)
	}
	v.Stats.LastTime = time.UnixMilli(w.manifest.TimeMS) // as a start has it
	v.count(w.manifest)
	v.s.Config.Logger.Info("snapshot made", "generation", w.manifest.Generation, "blocks", v.Stats.Blocks, "images_written", w.images,
		"bytes_written", w.bytes, "replay_from", w.manifest.Replay, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// Renew makes a snapshot, and has another made behind it, as a file is damaged that kept snapshots name: then none names it.
// After an error, both are made as soon as they can be.
func (v *Snapshots) Renew() error {
	v.twice.Store(true)
	v.asked.Add(1)
	return v.Make()
}

// renewBeside is Renew beside all other work.
func (v *Snapshots) renewBeside() {
	go func() { _ = v.Renew() }() // told by the logger
}

// Totals tells about snapshots.
func (v *Snapshots) Totals() SnapshotStats {
	v.state.Lock()
	stats := v.Stats
	v.state.Unlock()
	stats.Running = v.running.Load()
	if kept := v.s.Dir.Manifests(); len(kept) > 0 {
		stats.OldestTime = time.UnixMilli(kept[len(kept)-1].TimeMS)
	}
	return stats
}

// ErrBusy: a snapshot is being made already.
var ErrBusy = errors.New("counter: a snapshot is being made already")
