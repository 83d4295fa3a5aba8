package past

import (
	"errors"
	"fmt"
	"slices"

	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

// CutTail tells what Cut took from the end of a log.
type CutTail struct {
	From, To      uint64 // log offsets
	Frames        uint64
	Sets, Deletes uint64 // changes of columns, and items removed
	Flushes       uint64
	Schemas       uint64
	Items         uint64 // of a whole data set that was saved, not a tail
	FirstMS       int64  // wall time of the first frame, 0: none
	LastMS        int64  // of the last
	// File is where the frames were saved: a segment with its header, or an archive of a whole data set. "": nothing was
	// cut.
	File string
}

// Cut ends the log of a data directory at an offset, a frame's end, because a primary has other bytes from there on.
// What is cut is saved to a file diverged-<epoch>-<offset>.aof of the directory first, beside those of earlier cuts.
// Manifests of snapshots made behind the offset are removed: recovery starts from an older one. lineage is what the
// log's past is from now on.
//
// An offset that no snapshot and log reach back to gives ErrGone, and nothing was changed or saved: part of what lies
// behind the offset may be in snapshots alone. A full copy is needed, and SaveDiverged before it. The directory must not be
// open (vfs.ErrLocked). After a crash FinishBegun finishes the cut.
func Cut(fsys vfs.FS, dir string, at uint64, lineage format.Lineage) (tail CutTail, err error) {
	lock, err := persist.LockDir(fsys, dir)
	if err != nil {
		return tail, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	segs, err := logfile.ListSegments(fsys, dir)
	if err != nil {
		return tail, err
	}
	good, _, _, err := snapfile.ListManifests(fsys, dir)
	if err != nil {
		return tail, err
	}
	base, alone := uint64(0), error(nil)
	if i := slices.IndexFunc(good, func(m *format.Manifest) bool { return m.Offset <= at }); i >= 0 { // the newest
		base = good[i].Replay
	} else if alone = persist.CheckLogAlone(fsys, dir, nil); alone != nil && !errors.Is(alone, format.ErrCorrupt) {
		return tail, alone
	}
	if len(segs) == 0 || segs[0].Start > base || alone != nil {
		return tail, fmt.Errorf("cut the log at %d: no snapshot as old as that: %w", at, errors.Join(format.ErrGone, alone))
	}
	tail, chain, err := saveTail(fsys, dir, at, lineage.Current())
	if err != nil {
		return tail, err
	}
	lineage.Cutting, lineage.CuttingAt, lineage.CuttingChain = true, at, chain
	if err := logfile.WriteLineage(fsys, dir, &lineage); err != nil {
		return tail, err
	}
	return tail, finishCut(fsys, dir, &lineage)
}

// finishCut does the cut that a lineage announces. It may be done again after a crash at any point.
func finishCut(fsys vfs.FS, dir string, l *format.Lineage) error {
	at := l.CuttingAt
	if err := logfile.RemoveClaim(fsys, dir); err != nil { // durably with the manifests
		return err
	}
	if err := snapfile.RemoveManifests(fsys, dir, func(path string) bool {
		m, err := snapfile.ReadManifest(fsys, path)
		return err == nil && m.Offset <= at
	}); err != nil {
		return err
	}
	segs, err := logfile.ListSegments(fsys, dir)
	if err != nil {
		return err
	}
	first := 0
	for first < len(segs) && segs[first].Start < at {
		first++
	}
	m := logfile.Maker{FS: fsys, Dir: dir, Least: logfile.MinSegment}
	s, err := m.Rewrite(format.SegmentHeader{History: l.Current(), Start: at, Durable: at, Chain: l.CuttingChain}, nil, segs[first:])
	if err != nil {
		return err
	}
	if err := s.File.Close(); err != nil {
		return err
	}
	if first > 0 {
		if err := logfile.EndAt(fsys, &segs[first-1], at); err != nil {
			return err
		}
	}
	l.Cutting, l.CuttingAt, l.CuttingChain = false, 0, 0
	return logfile.WriteLineage(fsys, dir, l)
}
