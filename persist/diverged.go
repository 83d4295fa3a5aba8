package persist

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/counterd/counterd/persist/vfs"
)

// What a node held and its primary does not is saved in the data directory before it goes, and nothing but an operator,
// or the rule of keepDiverged, removes it:
//
//	diverged-<epoch>-<offset>[-<n>].aof   frames cut from the log's end (Cut): a segment without padding, whose
//	                                      header has the end as durable offset and 64, its own length, as
//	                                      capacity; the n-th at that offset
//	diverged-<n>.archive                  a whole data set, where the logs have no past in common (SaveDiverged)
//
// Both get their names when they are whole and durable, so anything wrong with one is damage.

// keepDiverged data sets are kept: the oldest goes when a newer one is durable. A node that is sent from one stranger
// to the next must not fill its disk with copies of data that it copied itself, and the one that an operator wants back
// is the last but one at worst.
const keepDiverged = 2

// Diverged is a file with what a node held and its primary does not.
type Diverged struct {
	Path    string
	Archive bool   // a whole data set; otherwise frames
	Offset  uint64 // log offset where the frames begin
	number  uint64 // of an archive
}

// ListDiverged returns the files of a data directory: tails by name, archives the oldest first.
func ListDiverged(fsys vfs.FS, dir string) (tails, archives []Diverged, err error) {
	names, err := listDir(fsys, dir)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if at, ok := parseDivergedTail(name); ok {
			tails = append(tails, Diverged{Path: path, Offset: at})
		}
		if n, ok := parseDivergedArchive(name); ok {
			archives = append(archives, Diverged{Path: path, Archive: true, number: n})
		}
	}
	slices.SortFunc(archives, func(a, b Diverged) int { return cmp.Compare(a.number, b.number) })
	return tails, archives, nil
}

// SaveDiverged saves the data set of a directory in it, as an archive, durably, and then removes the oldest of more
// than keepDiverged, which it returns. An error, that of ctx for one, leaves nothing behind.
func SaveDiverged(ctx context.Context, fsys vfs.FS, dir string, w *ArchiveWriter) (path string, removed []string, err error) {
	_, archives, err := ListDiverged(fsys, dir)
	if err != nil {
		return "", nil, err
	}
	n := uint64(1)
	if len(archives) > 0 {
		n = archives[len(archives)-1].number + 1
	}
	path = filepath.Join(dir, divergedArchiveName(n))
	temp := path + tempSuffix
	if err := removeIfThere(fsys, temp); err != nil {
		return "", nil, err
	}
	file, err := fsys.Create(temp)
	if err != nil {
		return "", nil, err
	}
	if _, err = w.WriteCompressed(&contextWriter{ctx, io.NewOffsetWriter(file, 0)}); err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = fsys.Rename(temp, path)
	}
	if err != nil {
		return "", nil, errors.Join(err, removeIfThere(fsys, temp))
	}
	if err := fsys.SyncDir(dir); err != nil {
		return "", nil, err
	}
	for len(archives) >= keepDiverged {
		if err := removeIfThere(fsys, archives[0].Path); err != nil {
			return path, removed, err
		}
		removed = append(removed, archives[0].Path)
		archives = archives[1:]
	}
	return path, removed, nil
}

// contextWriter writes until ctx ends.
type contextWriter struct {
	ctx context.Context
	w   io.Writer
}

func (w *contextWriter) Write(b []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.w.Write(b)
}

// saveTail copies the frames from an offset on to a file and counts what they hold. It returns the checksum of the
// frame before.
func saveTail(fsys vfs.FS, dir string, at uint64, h History) (tail CutTail, chain uint32, err error) {
	tail = CutTail{From: at, To: at}
	var file vfs.File
	var used int64
	temp := filepath.Join(dir, divergedTailName(h.Epoch, at, 1)+tempSuffix)
	v := LogVisitor{
		Segment: func(s SegmentHeader) error {
			if s.Start <= at {
				chain = s.Chain
			}
			return nil
		},
		Frame: func(_ SegmentInfo, f *Frame) error {
			if f.End() <= at {
				chain = f.CRC
				return nil
			}
			if f.Start < at {
				return fmt.Errorf("cut the log at %d: want the end of a frame, got a place in one of %d to %d", at, f.Start, f.End())
			}
			if file == nil {
				if err := removeIfThere(fsys, temp); err != nil {
					return err
				}
				var err error
				if file, err = fsys.Create(temp); err != nil {
					return err
				}
				used, tail.FirstMS = segmentHeaderLen, f.TimeMS
			}
			if _, err := file.WriteAt(f.Raw, used); err != nil {
				return err
			}
			used += int64(len(f.Raw))
			tail.Frames++
			tail.To, tail.LastMS = f.End(), f.TimeMS
			return nil
		},
		Record: func(f *Frame, _ uint64, rec *Record) error {
			if f.Start < at {
				return nil
			}
			switch rec.Kind {
			case KindSet:
				tail.Sets++
			case KindSetItem:
				tail.Sets += uint64(len(rec.Columns))
			case KindDelete:
				tail.Deletes++
			case KindFlush:
				tail.Flushes++
			case KindSchema:
				tail.Schemas++
			}
			return nil
		},
	}
	_, err = WalkLog(fsys, dir, at, 0, v)
	if errors.Is(err, ErrCorrupt) && tail.To > at {
		err = nil // damage behind what was saved: it goes with the tail
	}
	if file != nil {
		if err == nil {
			head := segmentHeader{history: h, start: at, durable: tail.To, chain: chain, size: segmentHeaderLen}
			_, err = file.WriteAt(head.appendTo(nil), 0)
		}
		if err == nil {
			err = file.Sync()
		}
		if err = errors.Join(err, file.Close()); err == nil {
			tail.File, err = keepTail(fsys, dir, temp, h.Epoch, at)
		}
	}
	return tail, chain, err
}

// keepTail gives a tail that was saved under a temporary name, durably, its name: one that is free, as what was cut
// before at the same offset is another. But a crash may have broken off the cut that saved the same tail: that one is
// left as it is.
func keepTail(fsys vfs.FS, dir, temp string, epoch uint32, at uint64) (path string, err error) {
	for n := 1; ; n++ {
		path = filepath.Join(dir, divergedTailName(epoch, at, n))
		same, err := sameContent(fsys, path, temp)
		switch {
		case isNotExist(err):
			if err := fsys.Rename(temp, path); err != nil {
				return "", err
			}
			return path, fsys.SyncDir(dir)
		case err != nil:
			return "", err
		case same:
			if err := fsys.Remove(temp); err != nil {
				return "", err
			}
			return path, fsys.SyncDir(dir) // the crash may have been before that
		}
	}
}

// sameContent tells whether two files hold the same bytes.
func sameContent(fsys vfs.FS, a, b string) (same bool, err error) {
	var files [2]vfs.File
	var sizes [2]int64
	for i, path := range []string{a, b} {
		file, err := fsys.Open(path)
		if err != nil {
			return false, err
		}
		defer file.Close() // only read
		files[i] = file
		if sizes[i], err = file.Size(); err != nil {
			return false, err
		}
	}
	if sizes[0] != sizes[1] {
		return false, nil
	}
	x, y := make([]byte, resyncWindow), make([]byte, resyncWindow)
	for off := int64(0); off < sizes[0]; off += resyncWindow {
		p, err := readAtMost(files[0], x, off)
		if err != nil {
			return false, err
		}
		q, err := readAtMost(files[1], y, off)
		if err != nil || !bytes.Equal(p, q) {
			return false, err
		}
	}
	return true, nil
}

// WalkDiverged reads the frames of a tail that was cut from a log, as WalkLog reads a log. Damage gives a *CorruptError
// after everything before it was told.
func WalkDiverged(fsys vfs.FS, d Diverged, v LogVisitor) (result LogWalk, err error) {
	result = LogWalk{First: d.Offset, End: d.Offset, Segments: 1}
	file, err := fsys.Open(d.Path)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	seg := segment{d.Offset, d.Path}
	h, fault, err := readSegmentHeader(file, &seg)
	if err != nil {
		return result, err
	}
	bad := func(at uint64, off int64, fault *frameFault) error {
		return &CorruptError{File: d.Path, Offset: off, LogOffset: at, Want: fault.want, Got: fault.got}
	}
	if fault != nil {
		return result, bad(0, 0, fault)
	}
	result.History = h.history
	end := h.durable
	size, err := file.Size()
	if err != nil {
		return result, err
	}
	info := SegmentInfo{Path: d.Path, Start: d.Offset, End: d.Offset + uint64(max(size-segmentHeaderLen, 0))}
	if v.Segment != nil {
		if err := v.Segment(SegmentHeader{SegmentInfo: info, History: h.history, Durable: h.durable, Chain: h.chain}); err != nil {
			return result, ignoreEOF(err)
		}
	}
	var s scanner
	s.reset(file, seg, d.Offset, info.End)
	var f Frame
	var rec Record
	for {
		fault, err := s.next(&f)
		switch {
		case err == io.EOF && result.End != end:
			return result, bad(result.End, size, &frameFault{want: fmt.Sprintf("frames up to log offset %d", end), got: "the file's end"})
		case err == io.EOF:
			return result, nil
		case err != nil:
			return result, err
		case fault != nil:
			return result, bad(s.pos, seg.offset(s.pos), fault)
		}
		if v.Frame != nil {
			err = v.Frame(info, &f)
		}
		if err == nil {
			err = f.Records(&rec, 0, func(pos uint64, rec *Record) error {
				result.Records++
				if v.Record == nil {
					return nil
				}
				return v.Record(&f, pos, rec)
			})
		}
		if err != nil {
			return result, ignoreEOF(badRecord(err, filepath.Dir(d.Path), seg, &f))
		}
		result.Frames++
		result.End, result.TimeMS = f.End(), f.TimeMS
	}
}

// ignoreEOF makes the error by which a visitor ends a walk none.
func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// Verify verifies the checksums of the file. Damage gives a *CorruptError.
func (d Diverged) Verify(fsys vfs.FS) (err error) {
	if !d.Archive {
		_, err := WalkDiverged(fsys, d, LogVisitor{})
		return err
	}
	a, err := OpenArchive(fsys, d.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	return a.Verify(nil)
}

// End makes a tail end behind the frame that ends at a log offset, durably.
func (d Diverged) End(fsys vfs.FS, at uint64) (err error) {
	file, err := fsys.OpenRW(d.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	seg := segment{d.Offset, d.Path}
	h, _, err := readSegmentHeader(file, &seg)
	if err != nil {
		return err
	}
	if err := file.Truncate(seg.offset(at)); err != nil {
		return err
	}
	h.durable = at
	if _, err := file.WriteAt(h.appendTo(nil), 0); err != nil {
		return err
	}
	return file.Sync()
}
