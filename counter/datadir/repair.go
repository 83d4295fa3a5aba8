package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/counterd/counterd/persist"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/past"
	"github.com/counterd/counterd/persist/snapfile"
	"github.com/counterd/counterd/persist/vfs"
)

// ErrUnrepairable: no manifest whose files are good and no log from offset 0: nothing to start from.
var ErrUnrepairable = errors.New("nothing to start from: no good snapshot and no log from its beginning")

// Repair makes a damaged data directory one that opens, and loses what is damaged and, of the log, all behind it:
//
//  0. If no manifest is good and some are whole but under another's name, they get names.
//  1. Manifests that are damaged, or name a damaged image, are set aside, as long as an older one or a log from offset
//     0 is left to start from.
//  2. A damaged header of a log segment, with whole frames behind it: it is written again, also in a segment that no start reads.
//     Damage in the log before the offset to replay from: the log is made to begin behind it.
//  3. Other damage in the log: it is cut there, and goes on under a new replication id, as its offsets are given out a
//     second time.
//     Before a cut opts.Lacks is called, so that a node of a cluster counts as one that may lack what it acknowledged.
//  4. Damaged cold files: an older manifest without them, or none, is taken if the log goes back so far and is whole,
//     which loses nothing. Else the rest is repaired; what is left is for the server, which answers errors for the mids
//     of a damaged page, or of a file that cannot be opened. For the latter the error is a *BlockFault, which names the
//     mids. So it is where no snapshot has a good image of a block, and the log does not go back to 0: the snapshot by
//     which the fewest items are lost is taken.
//  5. If the log is cut below offsets of the snapshot, HISTORY says first that the log needs a snapshot, and has
//     no past that others know: replicas take a full copy, and so does this node if it is one. Behind the cut, a manifest is written
//     in which everything stands at the cut: the images are newer than the cut, and later changes are newer than the images.
//  6. A damaged HISTORY is made anew from the log, which says whose it is and whether a primary made it. It says that the log needs
//     a snapshot, as it is not known any more, unless the directory has no file of one. What a crash broke off is finished first.
//  7. Of what was cut from the log before (diverged-*) the whole frames are kept.
//
// Where the log is cut, block files that only manifests set aside named are set aside too, as the next start removes
// what nobody names.
//
// Nothing is deleted: a file is renamed, or copied before it is cut, to its name with ".broken-<n>" added. opts.Say is
// told each step. A second run finds nothing to do. The directory must not be open; a server holding it gives
// vfs.ErrLocked.
func Repair(fsys vfs.FS, dir string, opts RepairOptions) (err error) {
	lock, err := persist.LockDir(fsys, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	r := repair{fsys: fsys, dir: dir, opts: opts}
	if _, err := vfs.RemoveTemps(fsys, format.LogDir(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := r.mendLineage(); err != nil {
		return err
	}
	if err := r.nameManifests(); err != nil {
		return err
	}
	if err := r.chooseManifest(); err != nil {
		return err
	}
	for last := int64(-1); ; {
		err := r.walkLog()
		var corrupt *format.CorruptError
		if !errors.As(err, &corrupt) {
			if err != nil {
				return err
			}
			// Left by a repair that was broken off: they claim a longer log than there is, and a server believes them.
			if err := r.dropManifests(func(m *format.Manifest) bool { return m != nil && m.Offset > r.walked.End }); err != nil {
				return err
			}
			if err := r.mendOldHeaders(); err != nil {
				return err
			}
			if err := r.restoreLineage(); err != nil {
				return err
			}
			if err := r.mendDiverged(); err != nil {
				return err
			}
			return r.reportCold()
		}
		if int64(corrupt.LogOffset) <= last {
			return fmt.Errorf("repair made no progress: %w", err)
		}
		last = int64(corrupt.LogOffset)
		if err := r.mend(corrupt); err != nil {
			return err
		}
	}
}

// RepairOptions are the options of Repair.
type RepairOptions struct {
	Say func(string) // told each step; nil: nobody is

	Cold snapfile.ColdCheck // opens and verifies cold files, as in CheckOptions

	// Lacks is called before the log is cut, which may take what was acknowledged: a node of a cluster must not become
	// primary with such a directory while others have the rest. nil: nobody needs to know.
	Lacks func() error
}

type repair struct {
	fsys vfs.FS
	dir  string
	opts RepairOptions

	base   *format.Manifest // to start from; nil: the log alone
	known  uint64           // the log went so far once, as manifests say
	newest uint64           // highest generation seen
	walked logfile.Walked   // of the last walkLog
	claim  uint64           // the log was durable up to here, as the directory says

	faults []*snapfile.BlockFault // of base

	noLineage bool // it was damaged
	replica   bool // the log was a replica's before it was cut
}

func (r *repair) sayf(format string, args ...any) {
	if r.opts.Say != nil {
		r.opts.Say(fmt.Sprintf(format, args...))
	}
}

func (r *repair) replay() uint64 {
	if r.base == nil {
		return 0
	}
	return r.base.Replay
}

// walkLog walks the log from where a server would. A log that does not hold that offset is corrupt there.
func (r *repair) walkLog() error {
	from := r.replay()
	missing := &format.CorruptError{Dir: r.dir, File: format.LogDir(r.dir), LogOffset: from, Want: "a segment with the offset to replay from", Got: "none", Err: format.ErrGap}
	segs, err := logfile.Segments(r.fsys, r.dir)
	if err != nil {
		return err
	}
	if len(segs) == 0 || segs[0].Start > from {
		r.walked = logfile.Walked{End: from}
		return missing
	}
	claim, err := logfile.ReadClaim(r.fsys, r.dir)
	if err != nil {
		return err
	}
	known := max(from, claim.Offset, r.known)
	if r.base != nil {
		known = max(known, r.base.Offset)
	}
	r.claim = claim.Offset
	r.walked, err = logfile.Walk(r.fsys, r.dir, from, known, logfile.Visitor{
		Frame: func(seg logfile.SegmentInfo, f *format.Frame) error { return logfile.VerifyFrame(f, r.dir, seg) },
	})
	return err
}

// mend repairs one damage of the log.
func (r *repair) mend(bad *format.CorruptError) error {
	r.sayf("%v", bad)
	if done, err := r.mendHeader(bad); done || err != nil {
		return err
	}
	if bad.LogOffset < r.replay() {
		done, err := r.startLogBehind(bad)
		if done || err != nil {
			return err
		}
	}
	return r.cut(max(bad.LogOffset, r.replay()))
}

// startLogBehind makes the log begin with the first whole frame behind damage that nobody replays. It returns false if
// there is none at or before the offset to replay from.
func (r *repair) startLogBehind(bad *format.CorruptError) (bool, error) {
	segs, err := logfile.Segments(r.fsys, r.dir)
	if err != nil {
		return false, err
	}
	i := 0
	for i+1 < len(segs) && segs[i+1].Start <= bad.LogOffset {
		i++
	}
	start, frames, found, err := logfile.FramesBehind(r.fsys, segs[i], bad.LogOffset+1, r.replay())
	if err != nil || !found {
		return false, err
	}
	h := logfile.Header{SegmentInfo: logfile.SegmentInfo{Start: start}, History: r.walked.History, Durable: start}
	if h.History == (format.History{}) && r.base != nil {
		h.History = r.base.History
	}
	r.sayf("the log begins at offset %d now, behind the damage; replay from %d needs no more", start, r.replay())
	if err := logfile.NewSegment(r.fsys, r.dir, h, frames); err != nil {
		return false, err
	}
	for i := 0; err == nil && i < len(segs) && segs[i].Start < start; i++ {
		err = r.setAside(segs[i].Path)
	}
	return true, err
}

// cut ends the log at an offset: at most the end of the last walk, but for a log that was missing.
func (r *repair) cut(at uint64) error {
	segs, err := logfile.Segments(r.fsys, r.dir)
	if err != nil {
		return err
	}
	h := logfile.Header{SegmentInfo: logfile.SegmentInfo{Start: at}, History: r.walked.History, Durable: at, Chain: r.walked.Chain}
	if r.base != nil {
		h.History.Epoch = max(h.History.Epoch, r.base.History.Epoch)
	}
	r.replica = r.replica || h.History.Replica
	h.History.ReplID, h.History.Replica = format.NewReplID(), false
	if r.opts.Lacks != nil {
		if err := r.opts.Lacks(); err != nil {
			return err
		}
	}
	if err := r.keepOrphans(); err != nil {
		return err
	}
	if r.base == nil && r.known > at {
		r.sayf("LOST: no snapshot can be used, so all that was changed behind offset %d of %d is gone from this directory; what snapshots held of it is in the files set aside", at, r.known)
	}
	gap := r.walked.End < at // then nothing of the log before can be used
	switch durable := max(r.claim, r.known); {
	case durable > at:
		r.sayf("LOST: the log was durable up to offset %d, and ends at %d now: these %d bytes of changes are gone from this directory, but for what snapshots hold of them; the files set aside have the log as it was", durable, at, durable-at)
	case gap:
		r.sayf("LOST: the log ended at offset %d, and the snapshot needs it from offset %d on: changes behind the snapshot, if there were any, are gone from this directory", r.walked.End, at)
	}
	r.known = min(r.known, at)
	clips := r.base != nil && r.base.Offset > at
	if clips { // first: from the cut on, only the snapshot has some changes
		if err := r.forgetPast(h.History); err != nil {
			return err
		}
	}
	r.sayf("the log ends at offset %d now and goes on as history %s", at, h.History.ReplID)
	// The new segment comes first, in the place of one that starts there. From then on the log has its new history, so
	// that no offset is given out twice under the old one, and what is behind it tells a repair that comes after a crash
	// to cut here again.
	var cut *logfile.SegmentInfo // holds at
	for i := len(segs) - 1; i >= 0 && err == nil; i-- {
		switch reaches := i+1 == len(segs) || segs[i+1].Start > at; {
		case gap:
			err = r.setAside(segs[i].Path)
		case segs[i].Start == at:
			err = r.copyAside(segs[i].Path)
		case reaches && segs[i].Start < at:
			cut = &segs[i]
			err = r.copyAside(cut.Path)
		}
	}
	if err != nil {
		return err
	}
	if err := logfile.NewSegment(r.fsys, r.dir, h, nil); err != nil {
		return err
	}
	for i := len(segs) - 1; i >= 0 && segs[i].Start > at && !gap; i-- {
		if err := r.setAside(segs[i].Path); err != nil {
			return err
		}
	}
	if cut != nil {
		if err := logfile.EndSegment(r.fsys, *cut, at); err != nil {
			return err
		}
	}
	if err := logfile.DropClaim(r.fsys, r.dir); err != nil { // until then, too, a repair after a crash comes here again
		return err
	}
	if clips { // last: that the manifest stands behind the log's end tells a repair after a crash to come here again
		return r.writeClipped(at, h.History)
	}
	return nil
}

// keepOrphans sets aside the block files that no manifest names any more. The next start would remove them, and with
// the log about to be cut they may hold what is nowhere else.
func (r *repair) keepOrphans() error {
	good, _, err := snapfile.ReadManifests(r.fsys, r.dir)
	if err != nil {
		return err
	}
	orphans, err := snapfile.FindOrphans(r.fsys, r.dir, good)
	for _, path := range orphans {
		if err == nil {
			err = r.setAside(path)
		}
	}
	return err
}

// writeClipped writes a manifest in which nothing stands behind an offset and sets the others aside.
func (r *repair) writeClipped(at uint64, history format.History) error {
	m := *r.base
	m.Generation = r.newest + 1
	m.History, m.OldReplID, m.OldEnd = history, format.ReplID{}, 0
	m.Offset, m.Replay = at, min(m.Replay, at)
	m.Counters = nil
	for _, c := range r.base.Counters {
		c.Blocks = append([]format.BlockFile(nil), c.Blocks...)
		for i := range c.Blocks {
			c.Blocks[i].Offset = min(c.Blocks[i].Offset, at)
		}
		m.Counters = append(m.Counters, c)
	}
	if m.Producers != nil {
		producers := *m.Producers
		producers.Offset = min(producers.Offset, at)
		m.Producers = &producers
	}
	if err := snapfile.WriteManifest(r.fsys, r.dir, &m); err != nil {
		return err
	}
	r.sayf("wrote %s: the snapshot counts as of offset %d", filepath.Join(r.dir, format.ManifestName(m.Generation)), at)
	r.base, r.newest = &m, m.Generation
	return r.dropManifests(func(other *format.Manifest) bool { return other == nil || other.Generation != m.Generation })
}

// forgetPast says that the log, which is about to be cut below the snapshot, needs that, and gives it no past that others know. A replica could get
// the cut bytes again from its primary, but may lead before.
func (r *repair) forgetPast(history format.History) error {
	l, err := logfile.ReadLineage(r.fsys, r.dir)
	if err != nil {
		return err
	}
	l.NeedsSnapshot = true
	if len(l.Terms) > 0 {
		r.sayf("the state is newer than the log: this node and its replicas will need a full copy of their primary")
		l.Terms = []format.Term{{ReplID: history.ReplID, Epoch: history.Epoch}}
	} else {
		l.Replica = l.Replica || r.replica
	}
	return logfile.WriteLineage(r.fsys, r.dir, &l)
}

// setAside renames a file, durably.
func (r *repair) setAside(path string) error { return past.SetAside(r.fsys, path, r.opts.Say) }

// copyAside copies a file that is about to be changed, durably.
func (r *repair) copyAside(path string) error { return past.CopyAside(r.fsys, path, r.opts.Say) }
