package logfile

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"syscall"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// ReadLineage reads the lineage of a data directory, of the file HISTORY or of its copy; none gives one without terms. A copy that is
// older than the log does not count (OutdatedLineage).
func ReadLineage(fsys vfs.FS, dir string) (format.Lineage, error) {
	name := format.LineagePath(dir)
	l, err := readLineageFile(fsys, dir, name)
	if !lostLineage(err) {
		return l, err
	}
	second, cerr := readLineageCopy(fsys, dir)
	switch {
	case cerr == nil:
		return second, nil
	case !vfs.IsNotExist(err):
		return l, err
	case !vfs.IsNotExist(cerr):
		return format.Lineage{}, cerr
	}
	return format.Lineage{}, nil
}

// readLineageCopy reads the copy of HISTORY, which is to count instead of the file.
func readLineageCopy(fsys vfs.FS, dir string) (format.Lineage, error) {
	name := format.LineagePath(dir) + vfs.CopySuffix
	l, err := readLineageFile(fsys, dir, name)
	if err != nil {
		return l, err
	}
	segs, err := ListSegments(fsys, dir)
	if err == nil {
		err = OutdatedLineage(fsys, segs, &l)
	}
	if errors.Is(err, errOutdated) {
		err = &format.CorruptError{Dir: dir, File: name, Want: "the history of the log", Got: "an older one", Err: err}
	}
	return l, err
}

// errOutdated: the log was written behind a copy of HISTORY.
var errOutdated = errors.New("the copy of HISTORY is older than the log")

// OutdatedLineage returns an error if the log in segments has frames that were written since a copy of HISTORY. A program of an earlier
// version writes no copy, so a newer version can find one that is older than the log. The copy then lacks a term, or takes the log of a
// replica for a primary's.
//
// It looks at the last frame that is whole, and at the header of its segment. The first term of a history covers earlier ones, as for
// Lineage.Admits. While a change of the directory is not finished, its history is of a log that is not in place yet.
func OutdatedLineage(fsys vfs.FS, segs []Segment, l *format.Lineage) error {
	if l.Begun() != "" {
		return nil
	}
	for i := len(segs) - 1; i >= 0; i-- {
		end := uint64(math.MaxUint64)
		if i+1 < len(segs) {
			end = segs[i+1].Start
		}
		h, f, ok, err := lastFrame(fsys, segs[i], end)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if err := l.Admits(f.Start, f.Epoch); err != nil {
			return fmt.Errorf("%w: %w", errOutdated, err)
		}
		known := slices.ContainsFunc(l.Terms, func(t format.Term) bool { return t.ReplID == h.ReplID })
		if !known && len(l.Terms) > 1 && f.Start >= l.Terms[1].Start || h.Replica && !l.Replica && h.ReplID == l.Current().ReplID {
			return fmt.Errorf("%w: log offset %d is of term %s, replica %t", errOutdated, f.Start, h.ReplID, h.Replica)
		}
		return nil
	}
	return nil
}

// lastFrame returns the history of a segment that ends at a log offset, and its last frame before any damage; ok is false if there is none.
func lastFrame(fsys vfs.FS, seg Segment, end uint64) (h format.History, last format.FrameHeader, ok bool, err error) {
	file, err := OpenSegmentFile(fsys, &seg)
	if lostLineage(err) {
		return h, last, false, nil
	}
	if err != nil {
		return h, last, false, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	header, fault, err := ReadSegmentHeader(file, &seg)
	if fault != nil || lostLineage(err) {
		return h, last, false, nil
	}
	if err != nil {
		return h, last, false, err
	}
	size, err := file.Size()
	if err != nil {
		return h, last, false, err
	}
	var scanner Scanner
	var f format.Frame
	for scanner.Reset(file, seg, seg.Start, min(end, seg.Start+uint64(max(size-format.SegmentHeaderLen, 0)))); ; {
		if fault, err := scanner.Next(&f); fault != nil || err != nil {
			return header.History, last, ok, nil
		}
		last, ok = f.FrameHeader, true
	}
}

// LineageFault tells why HISTORY or its copy does not count, where the other one does: damage. A missing copy is none, as older
// programs write no copy.
func LineageFault(fsys vfs.FS, dir string) error {
	name := format.LineagePath(dir)
	if _, err := readLineageFile(fsys, dir, name); lostLineage(err) {
		if _, cerr := readLineageCopy(fsys, dir); cerr == nil {
			return err
		}
	} else if err == nil {
		if _, cerr := readLineageFile(fsys, dir, name+vfs.CopySuffix); lostLineage(cerr) && !vfs.IsNotExist(cerr) {
			return cerr
		}
	}
	return nil
}

// lostLineage tells whether an error means that a file is damaged, gone, or cannot be had from the disk.
func lostLineage(err error) bool {
	return err != nil && !errors.Is(err, format.ErrUnsupportedFormat) && (vfs.IsNotExist(err) || errors.Is(err, format.ErrCorrupt) || errors.Is(err, syscall.EIO))
}

func readLineageFile(fsys vfs.FS, dir, name string) (format.Lineage, error) {
	text, err := vfs.ReadFile(fsys, name, format.MaxLineageText)
	if errors.Is(err, vfs.ErrTooLarge) {
		return format.Lineage{}, &format.CorruptError{Dir: dir, File: name, Want: fmt.Sprintf("at most %d bytes", format.MaxLineageText), Got: "more", Err: err}
	}
	if err != nil {
		return format.Lineage{}, err
	}
	l, err := format.DecodeLineage(name, text)
	return l, format.WithDir(err, dir)
}

// WriteLineage makes l the lineage of a data directory, durably.
func WriteLineage(fsys vfs.FS, dir string, l *format.Lineage) error {
	return vfs.WriteTwice(fsys, format.LineagePath(dir), l.AppendText(nil))
}

// HasAll tells whether the log of a directory has all changes, if it is not damaged: it begins at 0, and HISTORY does not say that the log needs a
// snapshot. A directory without HISTORY counts as one whose log no repair has cut, unless it has a file of a snapshot (HadSnapshot).
func HasAll(fsys vfs.FS, dir string) (bool, error) {
	segs, err := ListSegments(fsys, dir)
	if err != nil || len(segs) == 0 || segs[0].Start != 0 {
		return false, err
	}
	l, err := ReadLineage(fsys, dir)
	if err != nil || l.NeedsSnapshot || len(l.Terms) > 0 {
		return err == nil && !l.NeedsSnapshot, err
	}
	had, err := HadSnapshot(fsys, dir)
	return err == nil && !had, err
}

// HadSnapshot tells whether a directory has a file of a snapshot, in use or set aside. Then HISTORY may have said that the log needs a snapshot:
// it is written before the first snapshot is, and each repair that says so leaves such files.
func HadSnapshot(fsys vfs.FS, dir string) (bool, error) {
	for _, sub := range []string{dir, format.ImageDir(dir), format.ColdDir(dir)} {
		names, err := vfs.ListDir(fsys, sub)
		if err != nil {
			return false, err
		}
		isOf := format.IsOfBlock
		if sub == dir {
			isOf = format.IsOfManifest
		}
		if slices.ContainsFunc(names, isOf) {
			return true, nil
		}
	}
	return false, nil
}
