package counter

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/counterd/counterd/counter/internal/hot"
	"github.com/counterd/counterd/persist"
)

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// saver makes snapshots, one at a time, without a fork and without a global stop: each block is copied under its own
// lock, at its own moment, with the log offset it stands at then; only blocks that changed since their last image are
// copied and written. Memory grows by one block's image.
//
//  1. note the log's position P and the schema, with no change of the schema in between: replay will start at P
//  2. block after block: an image, or, if it did not change, the old image counted as standing at the present offset
//  3. sync the log past every image, then write the manifest, which makes the snapshot durable as one
//  4. remove images that neither of the two newest manifests names, and log that none of them needs
type saver struct {
	mu sync.Mutex // held while a snapshot is made

	running  atomic.Bool
	asked    atomic.Uint64 // how often images were to be written anew
	state    sync.Mutex    // guards stats, pause and answered
	stats    SaveStats
	answered uint64        // asked, as it was when the last snapshot that succeeded began
	pause    time.Duration // after a failure, doubling up to maxPause
	quit     chan struct{}
	done     chan struct{}
	stopOnce sync.Once
}

// SaveStats tells about snapshots.
type SaveStats struct {
	Running       bool
	Generation    uint64    // of the newest snapshot; 0: none
	LastTime      time.Time // when it was made
	LastStarted   time.Time
	LastTook      time.Duration
	LastErr       error  // of the last attempt
	LastImages    int    // images written by it
	LastBytes     uint64 // bytes written by it
	Blocks        int    // blocks it names
	Bytes         uint64 // bytes of all images it names
	Replay        uint64 // log offset from which recovery replays
	Saves, Failed int    // since the start
	RecoveredTorn string // what was cut from the log at the start
	RecoveredAt   time.Duration
	Replayed      uint64 // records
}

func newSaver() *saver {
	return &saver{quit: make(chan struct{}), done: make(chan struct{})}
}

// recovered notes where the store stands after the start.
func (v *saver) recovered(s *Store, rec persist.Recovery) {
	v.stats.Replayed = rec.Records
	if rec.Torn != nil {
		v.stats.RecoveredTorn = rec.Torn.Error()
	}
	if m := s.dir.Manifests(); len(m) > 0 {
		v.note(m[0])
		v.stats.LastTime = time.UnixMilli(m[0].TimeMS)
	}
}

// note takes over what INFO tells of a manifest.
func (v *saver) note(m *persist.Manifest) {
	v.stats.Generation, v.stats.Replay, v.stats.Blocks, v.stats.Bytes = m.Generation, m.Replay, 0, 0
	_ = m.Blocks(func(_ *persist.CounterFiles, b *persist.BlockFile) error { // fn returns nil
		v.stats.Blocks++
		v.stats.Bytes += b.Bytes
		return nil
	})
}

func (v *saver) start(s *Store) {
	if s.opts.Manual {
		close(v.done)
		return
	}
	go v.run(s)
}

func (v *saver) stop() {
	v.stopOnce.Do(func() { close(v.quit) })
	<-v.done
	v.mu.Lock() // a Snapshot that somebody else started
	defer v.mu.Unlock()
}

// maxPause is the longest time between two attempts to make a snapshot: each may write as much as the last one before
// it fails.
const maxPause = time.Minute

// run looks each second.
func (v *saver) run(s *Store) {
	defer close(v.done)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-v.quit:
			return
		case <-tick.C:
		}
		v.look(s)
	}
}

// look watches the room on disk, drops log that is not to be retained any more, and makes a snapshot when it is time.
func (v *saver) look(s *Store) {
	s.repl.payOwed()
	disk := s.space.look(s)
	_ = s.log.DropBefore(s.dropBefore()) // a snapshot tells
	if disk.Low && s.opts.SnapshotGrowth >= 0 && v.mu.TryLock() {
		if err := s.space.makeRoom(s); err != nil {
			s.opts.Logger.Error("no room could be made on the disk", "error", err)
		}
		v.mu.Unlock()
	}
	if v.due(s, disk.Low) {
		_ = s.Snapshot() // told by the logger and by Saves
	}
}

// due: images are damaged; or the log to replay is larger than SnapshotGrowth, and than the last snapshot; or the disk is
// low, and a snapshot frees a lot.
func (v *saver) due(s *Store, low bool) bool {
	v.state.Lock()
	stats, pause, asked := v.stats, v.pause, v.asked.Load() != v.answered
	v.state.Unlock()
	if stats.LastErr != nil && time.Since(stats.LastStarted) < pause {
		return false // the disk's trouble is not made better by trying each second
	}
	if asked || s.opts.SnapshotGrowth < 0 {
		return asked
	}
	return s.log.Written()-stats.Replay > max(uint64(s.opts.SnapshotGrowth), stats.Bytes) || low && s.space.worthwhile(s)
}

// Saves tells about snapshots. The zero value where data is in memory only.
func (s *Store) Saves() SaveStats {
	if s.saver == nil {
		return SaveStats{}
	}
	s.saver.state.Lock()
	defer s.saver.state.Unlock()
	stats := s.saver.stats
	stats.Running = s.saver.running.Load()
	return stats
}

// Snapshot makes a snapshot now, beside all other work. The error is ErrBusy while another is being made, ErrInMemory,
// ErrClosed, or what the disk said; the last snapshot counts then.
func (s *Store) Snapshot() error {
	v := s.saver
	if v == nil {
		return ErrInMemory
	}
	if !v.mu.TryLock() {
		return ErrBusy
	}
	defer v.mu.Unlock()
	v.running.Store(true)
	defer v.running.Store(false)
	began, asked := time.Now(), v.asked.Load()
	w := &snapshot{s: s}
	err := s.spaceFor("a snapshot", s.snapshotBytes(), true)
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
	if err != nil {
		v.stats.Failed++
		v.pause = min(max(2*v.pause, time.Second), maxPause)
		s.opts.Logger.Error("snapshot failed", "error", err)
		return err
	}
	v.stats.Saves++
	v.pause, v.answered = 0, asked
	v.stats.LastTime = began
	v.note(w.manifest)
	s.opts.Logger.Info("snapshot made", "generation", w.manifest.Generation, "blocks", v.stats.Blocks, "images_written", w.images,
		"bytes_written", w.bytes, "replay_from", w.manifest.Replay, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// snapshot is one being made.
type snapshot struct {
	s        *Store
	manifest *persist.Manifest
	buf      []byte
	wrote    []wroteImage
	images   int
	bytes    uint64
}

// wroteImage is an image that no manifest names yet.
type wroteImage struct {
	b    *block
	file *persist.BlockFile
}

// undo removes the images of a snapshot that failed. The next one could use only those of blocks that do not change
// meanwhile, and each attempt would leave the others: a disk that is almost full would fill up with them.
func (w *snapshot) undo() {
	s := w.s
	if w.manifest != nil && w.manifest.Generation > 0 { // it may be in force though an error came back
		name := filepath.Join(s.dir.Path(), persist.ManifestName(w.manifest.Generation))
		if _, err := s.opts.FS.Stat(name); !isNotExist(err) {
			return
		}
	}
	for _, i := range w.wrote {
		i.b.mu.Lock()
		if i.b.saved == i.file {
			i.b.saved, i.b.dirty = nil, true
		}
		i.b.mu.Unlock()
		_ = s.opts.FS.Remove(i.file.Path(s.dir.Path())) // an orphan, removed with the next ones
	}
}

func (w *snapshot) make() error {
	s := w.s
	m := &persist.Manifest{History: s.log.History(), TimeMS: time.Now().UnixMilli()}
	w.manifest = m
	if past := s.repl.Lineage(); len(past.Terms) > 1 {
		m.OldReplID, m.OldEnd, _ = past.Before()
	}
	s.repl.applying.RLock()
	s.gate.RLock()
	if s.closed {
		s.gate.RUnlock()
		s.repl.applying.RUnlock()
		return ErrClosed
	}
	m.Replay = s.log.Position()
	m.Offset = m.Replay
	sch := s.schema.Load()
	s.gate.RUnlock()
	s.repl.applying.RUnlock()
	m.Schema = strings.Split(strings.TrimSuffix(string(sch.AppendText(nil)), "\n"), "\n")
	for _, def := range sch.Counters() {
		files := persist.CounterFiles{ID: def.ID, Name: def.Name}
		if err := w.counter(&files); err != nil {
			return err
		}
		m.Counters = append(m.Counters, files)
		m.NextCounter = max(m.NextCounter, def.ID+1)
	}
	_ = m.Blocks(func(_ *persist.CounterFiles, b *persist.BlockFile) error { // fn returns nil
		m.Offset = max(m.Offset, b.Offset)
		return nil
	})
	m.NextBlock = s.blockIDs.Load() + 1
	if err := s.log.Sync(); err != nil {
		return err
	}
	if err := s.dir.WriteManifest(m); err != nil {
		return err
	}
	if err := s.removeOrphans(); err != nil {
		return err
	}
	return s.log.DropBefore(s.dropBefore())
}

// dropBefore is the offset below which no log is needed: by the two newest snapshots, and by RetainBytes.
func (s *Store) dropBefore() uint64 {
	before := s.dir.ReplayFrom()
	if end, retain := s.log.Written(), s.retain.Load(); retain > 0 {
		if end < retain {
			return 0
		}
		before = min(before, end-retain)
	}
	return min(before, s.repl.pins.from())
}

// counter lists, and where needed writes, the blocks of one counter. A FLUSHALL meanwhile makes it begin anew; of a
// counter that is dropped nothing is listed: the log tells. The snapshot stands behind the drop then, as it stands
// behind every block's offset: replay that ends before would find the counter, without its posts.
func (w *snapshot) counter(files *persist.CounterFiles) error {
	s := w.s
	var ks *keyspace
	for lo := uint64(0); ; {
		s.repl.applying.RLock()
		s.gate.RLock()
		if s.closed {
			s.gate.RUnlock()
			s.repl.applying.RUnlock()
			return ErrClosed
		}
		now := s.spaces[files.ID]
		if now == nil {
			w.manifest.Offset = max(w.manifest.Offset, s.log.Position())
			s.gate.RUnlock()
			s.repl.applying.RUnlock()
			files.Blocks = nil
			return nil
		}
		if now != ks {
			ks, lo, files.Blocks = now, 0, nil
		}
		b := ks.lock(lo)
		h := persist.ImageHeader{Counter: files.ID, Block: b.id, Lo: b.lo, Hi: b.hi, Items: uint64(b.tab.Len())}
		appendImage := b.tab.AppendImage
		h.Offset = s.log.Position()
		tier, image := persist.TierHot, true
		if b.cold != nil {
			entry := b.cold.entry
			entry.Offset = h.Offset
			files.Blocks = append(files.Blocks, entry)
			tier, image, h.Kind = persist.TierOverlay, b.tab.Len() > 0, overlayImage
			if n := len(b.cold.partial); n > 0 {
				h.Items += uint64(n)
				image, h.Kind, appendImage = true, partialImage, b.appendPartial
			}
		}
		saved := b.saved
		write := image && (b.dirty || saved == nil)
		if write {
			w.buf = appendImage(w.buf[:0])
			b.dirty = false
		}
		b.mu.Unlock()
		s.gate.RUnlock()
		s.repl.applying.RUnlock()
		if write {
			var err error
			if saved, err = w.image(b, tier, h); err != nil {
				return err
			}
		}
		if image {
			entry := *saved
			entry.Offset = h.Offset
			files.Blocks = append(files.Blocks, entry)
		}
		if h.Hi == hot.EndMid {
			return nil
		}
		lo = h.Hi
	}
}

// Kinds of images; hot blocks' is 0.
const (
	overlayImage = 1 // of an overlay
	partialImage = 2 // of an overlay and partial rows: see appendPartial
)

// verifyImages reads all images that a manifest of the store names, and returns what is wrong with them. Those that are
// damaged are written anew from memory, by a snapshot that it starts beside all other work. It calls pace, if not nil,
// behind each image with its size; an error of pace ends it and is returned.
func (s *Store) verifyImages(m *persist.Manifest, pace func(bytes int) error) error {
	bad := make(map[string]bool)
	var errs []error
	stopped := m.Blocks(func(c *persist.CounterFiles, b *persist.BlockFile) error {
		if b.Tier == persist.TierCold {
			return nil
		}
		if err := persist.CheckBlock(s.opts.FS, s.dir.Path(), c, b, nil); err != nil {
			errs, bad[b.Name] = append(errs, err), true
		}
		if pace == nil {
			return nil
		}
		return pace(int(b.Bytes))
	})
	kept := s.dir.Manifests()
	if len(bad) > 0 && slices.Contains(kept, m) { // else it has gone meanwhile, and with it its files
		if len(kept) > 1 {
			s.dir.Reject([]*persist.Manifest{m}) // the other one is what counts until there is a new one, and is kept then
		}
		s.remake(bad)
	}
	return errors.Join(append(errs, stopped)...)
}

// remake has images written anew.
func (s *Store) remake(names map[string]bool) {
	s.gate.RLock()
	for _, ks := range s.spaces {
		if ks == nil {
			continue
		}
		for _, b := range ks.dir.Load().blocks {
			b.mu.Lock()
			if b.saved != nil && names[b.saved.Name] {
				b.dirty = true
			}
			b.mu.Unlock()
		}
	}
	s.gate.RUnlock()
	for name := range names {
		s.opts.Logger.Error("an image is damaged: it is written anew", "file", name)
	}
	s.saver.asked.Add(1)             // behind the marks: one that is being made may have passed these blocks, and one may fail
	go func() { _ = s.Snapshot() }() // told by the logger
}

// image writes w.buf as the image of b.
func (w *snapshot) image(b *block, tier persist.Tier, h persist.ImageHeader) (*persist.BlockFile, error) {
	info, err := persist.WriteImage(w.s.opts.FS, w.s.dir.Path(), h, w.buf)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.dirty = true
		return nil, err
	}
	w.images++
	w.bytes += info.Bytes
	saved := &persist.BlockFile{Tier: tier, Block: h.Block, Lo: h.Lo, Hi: h.Hi, Items: h.Items, Bytes: info.Bytes, CRC: info.CRC, Name: info.Name}
	b.saved = saved
	w.wrote = append(w.wrote, wroteImage{b, saved})
	return saved, nil
}

// removeOrphans removes the files that no manifest names, but for cold files that a block has been written to since.
func (s *Store) removeOrphans() error {
	if err := s.dir.Held(); err != nil {
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
		if _, ok := pinned[filepath.Base(path)]; ok || s.tiers.keeps(filepath.Base(path)) {
			continue
		}
		if err := s.opts.FS.Remove(path); err != nil && !isNotExist(err) {
			return err
		}
	}
	return nil
}
