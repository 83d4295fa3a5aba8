package past

import (
	"errors"
	"io"
	"math"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// DamagedPath is the path of a file or folder of data that GiveUp has set aside, in the set of a number. In set 0 it is in its
// place.
func DamagedPath(dir, name string, set uint64) string {
	if set > 0 {
		name = format.DamagedName(name, set)
	}
	return filepath.Join(dir, name)
}

// DamagedLog gives frame the frames of the log of a set (DamagedPath) that begin at an offset or behind it, as far as they are
// whole and follow each other. known is the highest offset of this log that its files know of; it may have come further. An error of frame ends the reading, and is returned.
func DamagedLog(fsys vfs.FS, dir string, set, from uint64, frame func(raw []byte) error) (known uint64, err error) {
	known, from, segs, err := readDamaged(fsys, dir, set, from, frame)
	if err != nil {
		return known, err
	}
	return max(known, framesBehind(fsys, segs, from)), nil
}

// ClosedFrames returns whole frames of the log of a directory that is not open, from a log offset on, at which a frame begins, and none
// behind end: up to most bytes, or one frame at least. The files may be damaged elsewhere, and the log may be being mended. In a directory that heals, also in an
// open one, they are those of the log that was set aside first.
//
// INVARIANT: any log that has come to end in the term has the same frames there. The history of this directory has that term up to
// end, has begun no change that would make its files speak of another one, and admits each frame.
func ClosedFrames(fsys vfs.FS, dir string, term format.ReplID, from, end uint64, most int) (raw []byte, err error) {
	set, past, err := ownPast(fsys, dir)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(past.Terms, func(t format.Term) bool { return t.ReplID == term })
	if i < 0 || past.Begun() != "" || i+1 < len(past.Terms) && past.Terms[i+1].Start < end {
		return nil, errNoFrames
	}
	at := from
	_, _, _, err = readDamaged(fsys, dir, set, from, func(frame []byte) error {
		var f format.Frame
		if fault := format.DecodeFrame(frame, at, &f); fault != nil || f.End() > end || len(raw) > 0 && len(raw)+len(frame) > most {
			return errEnough
		}
		if err := past.Admits(at, f.Epoch); err != nil {
			return err
		}
		raw, at = append(raw, frame...), f.End()
		return nil
	})
	switch {
	case err != nil && !errors.Is(err, errEnough):
		return nil, err
	case len(raw) == 0:
		return nil, errNoFrames
	}
	return raw, nil
}

// ownPast returns the history of the log that a directory had before it healed, and the set of files with that log; 0: it does not heal.
func ownPast(fsys vfs.FS, dir string) (set uint64, past format.Lineage, err error) {
	h, err := ReadHealing(fsys, dir)
	switch {
	case err != nil:
		return 0, past, err
	case h == nil:
		past, err = logfile.ReadLineage(fsys, dir)
		return 0, past, err
	case h.First == 0:
		return 0, past, errNoFrames
	}
	err = errNoFrames
	for _, name := range []string{format.HistoryName, format.HistoryName + vfs.CopySuffix} { // an older copy does not admit the newest frames
		path := DamagedPath(dir, name, h.First)
		text, rerr := vfs.ReadFile(fsys, path, format.MaxLineageText)
		if rerr == nil {
			past, rerr = format.DecodeLineage(path, text)
		}
		if rerr == nil {
			return h.First, past, nil
		}
		err = errors.Join(err, rerr)
	}
	return 0, past, err
}

var (
	// errNoFrames: a directory that is not open has no frames for another node.
	errNoFrames = errors.New("the log of this directory does not have these frames, or they are of another term")
	// errEnough ends the reading of a log.
	errEnough = errors.New("enough frames")
)

// framesBehind returns the end of the last whole frame behind an offset, also behind damage; 0: there is none.
func framesBehind(fsys vfs.FS, segs []logfile.Segment, from uint64) (end uint64) {
	for i := max(0, logfile.Below(segs, from+1)-1); i < len(segs); i++ {
		for at := max(from, segs[i].Start); ; at = end {
			start, frames, found, err := logfile.FramesBehind(fsys, logfile.SegmentInfo{Start: segs[i].Start, Path: segs[i].Path}, at, math.MaxUint64)
			if !found || err != nil { // damage of the file says nothing
				break
			}
			end = start
			for _, f := range frames {
				end += uint64(len(f))
			}
		}
	}
	return end
}

// readDamaged is DamagedLog up to the first damage, at the offset to.
func readDamaged(fsys vfs.FS, dir string, set, from uint64, frame func(raw []byte) error) (known, to uint64, segs []logfile.Segment, err error) {
	segs, err = logfile.SegmentsIn(fsys, DamagedPath(dir, format.LogDirName, set))
	if err != nil {
		return 0, from, nil, err
	}
	if claims, err := vfs.ReadFile(fsys, DamagedPath(dir, format.ClaimName, set), format.ClaimFileLen); err == nil {
		for _, c := range format.WholeClaims(claims) {
			known = max(known, c.Offset)
		}
	}
	if len(segs) == 0 {
		return known, from, nil, nil
	}
	known = max(known, segs[len(segs)-1].Start)
	var scanner logfile.Scanner
	var f format.Frame
	for i := max(0, logfile.Below(segs, from+1)-1); i < len(segs) && segs[i].Start <= from; i++ { // damage before from does not matter
		file, err := logfile.OpenSegmentFile(fsys, &segs[i])
		if err != nil {
			return known, from, segs, ignoreDamage(err)
		}
		size, err := file.Size()
		limit := segs[i].Start + uint64(max(size-format.SegmentHeaderLen, 0))
		if i+1 < len(segs) {
			limit = min(limit, segs[i+1].Start)
		}
		if from <= limit && err == nil {
			known = max(known, from)
		}
		if from < limit && err == nil {
			scanner.Reset(file, segs[i], from, limit)
			for {
				var fault *format.Fault
				if fault, err = scanner.Next(&f); fault != nil || err != nil {
					break
				}
				if from, known = scanner.Pos, max(known, scanner.Pos); err == nil {
					err = frame(f.Raw)
				}
				if err != nil {
					break
				}
			}
			if errors.Is(err, io.EOF) {
				err = nil
			}
		}
		if err = errors.Join(err, file.Close()); err != nil {
			return known, from, segs, ignoreDamage(err)
		}
	}
	return known, from, segs, nil
}

// ignoreDamage returns nil for an error that says that files are damaged: their content cannot be read.
func ignoreDamage(err error) error {
	if errors.Is(err, format.ErrCorrupt) || errors.Is(err, syscall.EIO) {
		return nil
	}
	return err
}
