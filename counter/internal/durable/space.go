package durable

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/counterd/counterd/counter/internal/core"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

// A full disk has one way out that is ours: a snapshot, after which log can be dropped. So as much of the disk is
// reserved as the next snapshot would write, and neither the log nor demoted ranges take of it: changes are refused,
// with MISCONF, while the way out still fits. Before that, when little is left beyond the reserve:
//
//  1. it is logged, and INFO shows disk_low
//  2. log that only RetainBytes and cursors of the feed keep is dropped, oldest first, as far as is needed
//  3. snapshots are made early, where the log that they free is worth it
//  4. where the next snapshot does not fit any more, the newest one is read and verified, and then what only the older
//     one needs is given up, or, of a first snapshot, the log before it
//
// Each second the snapshotter looks (Space.measure).

// FreeUnknown is the Free of DiskStats where it is not known.
const FreeUnknown = vfs.MaxSpace

// DiskStats tells about the room on the data directory's file system, in bytes.
type DiskStats struct {
	Free    int64 // FreeUnknown: the file system does not tell
	Total   int64 // 0: not known
	Reserve int64 // bytes kept free for a snapshot
	Low     bool  // little is left beyond the reserve
	Dropped int   // log segments dropped early for that
}

// Space has the result of the last check.
type Space struct {
	s         *core.Data
	retention *Retention

	mu    sync.Mutex // guards stats
	stats DiskStats

	verified time.Time // when makeRoom last read a snapshot; guarded by Snapshots.Mu
}

const (
	// fixedReserve is the reserve besides images: a segment for changes already admitted, manifest, history.
	fixedReserve = 4 << 20
	// reserveMost bounds the reserve by a share of the disk: a disk that small cannot promise a snapshot, and is used
	// nevertheless.
	reserveMost = 4
	// The disk is low when a sixteenth of it, within bounds, is not left beyond the reserve. 128 MiB are two segments:
	// 10 s at full load.
	lowShare          = 16
	leastLow, mostLow = 4 << 20, 128 << 20
	// plenty is so much beyond all memory that nobody has to count what a snapshot would write.
	plenty = 512 << 20
)

// Init makes it for s.
func (w *Space) Init(s *core.Data, retention *Retention) { w.s, w.retention = s, retention }

// Last is the result of the last check.
func (w *Space) Last() DiskStats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stats
}

// SnapshotBytes is the size of the images of a snapshot made now.
func (w *Space) SnapshotBytes() (sum int64) {
	w.s.Gate.RLock()
	defer w.s.Gate.RUnlock()
	for ks := range w.s.Keyspaces {
		if w.s.Closed {
			break
		}
		for _, b := range ks.Dir.Load().Blocks {
			b.Mu.Lock()
			if (b.Cold == nil || b.Tab.Len() > 0) && (b.Dirty || b.Image == nil) {
				sum += int64(b.Tab.Bytes())
			}
			b.Mu.Unlock()
		}
	}
	return sum + w.s.Producers.ImageBytes()
}

// measure asks the disk how full it is, sets the reserve, and drops log that is only retained while little is left.
func (w *Space) measure() DiskStats {
	space, err := w.s.Config.FS.Space(w.s.Dir.Path())
	if err != nil {
		space = vfs.Space{Free: vfs.MaxSpace}
	}
	need := w.s.Arena.Used()
	if space.Free < 2*need+plenty {
		need = w.SnapshotBytes()
	}
	st := DiskStats{Free: space.Free, Total: space.Total, Reserve: need + need/16 + fixedReserve}
	margin := int64(leastLow)
	if space.Total > 0 {
		st.Reserve = min(st.Reserve, space.Total/reserveMost)
		margin = min(max(space.Total/lowShare, leastLow), mostLow)
	}
	w.s.Log.Reserve(st.Reserve)

	was := w.Last()
	if was.Low {
		margin += margin / 4 // or it would be low and not low in turns
	}
	st.Dropped = was.Dropped
	if st.Low = st.Free-st.Reserve < margin; st.Low {
		if !was.Low {
			w.s.Config.Logger.Warn("the disk is almost full; changes will be refused when only the reserve for a snapshot is left", "free", st.Free, "reserve", st.Reserve)
		}
		w.dropRetained(&st, margin)
	} else if was.Low {
		w.s.Config.Logger.Info("the disk has free space again", "free", st.Free, "reserve", st.Reserve)
	}
	w.mu.Lock()
	w.stats = st
	w.mu.Unlock()
	return st
}

// dropRetained drops segments that only RetainBytes and cursors keep, oldest first, until enough is free.
func (w *Space) dropRetained(st *DiskStats, margin int64) {
	for limit := w.retention.neededFrom(); st.Free-st.Reserve < margin; {
		segs := w.s.Log.Segments().List()
		if len(segs) < 2 || segs[0].End > limit {
			return
		}
		err := w.s.Log.Segments().DropBefore(segs[0].End)
		if now := w.s.Log.Segments().List(); err != nil || now[0].Start == segs[0].Start {
			return // told by the snapshot that tries again
		}
		st.Dropped++
		w.s.Config.Logger.Warn("the disk is almost full; removed a log segment that aof-retain or feed-retain had kept", "file", segs[0].Path, "free", st.Free)
		st.Free += segs[0].Bytes // the next look will see whether it is so
	}
}

// worthwhile tells whether a snapshot now frees a lot more log than it writes. The segment that is written to stays.
func (w *Space) worthwhile() bool {
	freed, from := int64(0), w.s.Dir.ReplayFrom()
	for _, seg := range w.s.Log.Segments().List() {
		if seg.End > from {
			freed += seg.Bytes
		}
	}
	return freed > 2*w.SnapshotBytes()+fixedReserve
}

// makeRoom gives up the files that are kept in case that the newest snapshot is bad, if the next one does not fit otherwise. It
// reads the newest first.
func (w *Space) makeRoom() error {
	manifests := w.s.Dir.Manifests()
	if len(manifests) == 0 || time.Since(w.verified) < MaxPause || w.Require("a snapshot", w.SnapshotBytes(), true) == nil {
		return nil
	}
	m := manifests[0]
	if len(manifests) == 1 && w.s.Log.Segments().List()[0].End > m.Replay {
		return nil // there is nothing to give up
	}
	w.verified = time.Now()
	cold := ColdVerifier(w.s.Config.FS)
	if err := m.Files(func(c *format.CounterFiles, b *format.BlockFile) error {
		path := b.Path(w.s.Dir.Path())
		if b.Tier == format.TierCold {
			return cold(path, c, b)
		}
		img, err := snapfile.OpenImage(w.s.Config.FS, path)
		if err != nil {
			return err
		}
		err = img.Verify()
		if err == nil && img.CRC != b.CRC {
			err = corruptFile(w.s.Dir, path, fmt.Sprintf("checksum %08x, as in the manifest", b.CRC), fmt.Sprintf("%08x", img.CRC), nil)
		}
		return errors.Join(err, img.Close())
	}); err != nil {
		return fmt.Errorf("the newest snapshot is not good: %w", err)
	}
	if err := w.s.Dir.KeepOnly(m); err != nil {
		return err
	}
	w.s.Config.Logger.Warn("the disk is almost full; removed the second newest snapshot and its log to make room for the next one", "generation", m.Generation)
	return errors.Join(w.retention.RemoveOrphans(), w.s.Log.Segments().DropBefore(w.retention.neededFrom()))
}

// Require returns an error if the directory is not ours any more, or the disk has no room for n bytes more; beyond the
// reserve, if the reserve is not for them.
func (w *Space) Require(what string, n int64, reserved bool) error {
	if err := w.s.Dir.CheckLock(); err != nil {
		return err
	}
	space, err := w.s.Config.FS.Space(w.s.Dir.Path())
	if err != nil || space.Free == vfs.MaxSpace {
		return nil // writing will tell
	}
	free := space.Free
	if !reserved {
		free -= w.Last().Reserve
	}
	if free < n {
		return fmt.Errorf("counter: %s takes %d bytes, and %d are free: %w", what, n, max(0, free), syscall.ENOSPC)
	}
	return nil
}
