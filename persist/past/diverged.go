package past

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/counterd/counterd/persist/archive"
	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// Data that a node has and its primary does not have is saved in the data directory before the node replaces it. Only an
// operator, or the rule of keepDiverged, removes what was saved:
//
//	diverged-<epoch>-<offset>[-<n>].aof   frames cut from the log's end (Cut): a segment without padding, whose
//	                                      header has the end as durable offset and 64, its own length, as
//	                                      capacity; the n-th at that offset
//	diverged-<n>.archive                  a whole data set, where the logs have no past in common (SaveDiverged)
//
// Both files get their names when they are whole and durable, so a file that is not whole is damaged.

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
	names, err := vfs.ListDir(fsys, dir)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if at, ok := format.ParseDivergedTail(name); ok {
			tails = append(tails, Diverged{Path: path, Offset: at})
		}
		if n, ok := format.ParseDivergedArchive(name); ok {
			archives = append(archives, Diverged{Path: path, Archive: true, number: n})
		}
	}
	slices.SortFunc(archives, func(a, b Diverged) int { return cmp.Compare(a.number, b.number) })
	return tails, archives, nil
}

// SaveDiverged saves the data set of a directory as an archive in the same directory, durably. It then removes the oldest
// archives beyond keepDiverged, and returns their names. After an error, also the error of ctx, no archive is left.
func SaveDiverged(ctx context.Context, fsys vfs.FS, dir string, w *archive.Writer) (path string, removed []string, err error) {
	_, archives, err := ListDiverged(fsys, dir)
	if err != nil {
		return "", nil, err
	}
	n := uint64(1)
	if len(archives) > 0 {
		n = archives[len(archives)-1].number + 1
	}
	path = filepath.Join(dir, format.DivergedArchiveName(n))
	temp := path + format.TempSuffix
	if err := vfs.RemoveIfThere(fsys, temp); err != nil {
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
		return "", nil, errors.Join(err, vfs.RemoveIfThere(fsys, temp))
	}
	if err := fsys.SyncDir(dir); err != nil {
		return "", nil, err
	}
	for len(archives) >= keepDiverged {
		if err := vfs.RemoveIfThere(fsys, archives[0].Path); err != nil {
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
func saveTail(fsys vfs.FS, dir string, at uint64, h format.History) (tail CutTail, chain uint32, err error) {
	tail = CutTail{From: at, To: at}
	var file vfs.File
	var used int64
	temp := filepath.Join(dir, format.DivergedTailName(h.Epoch, at, 1)+format.TempSuffix)
	v := logfile.Visitor{
		Segment: func(s logfile.Header) error {
			if s.Start <= at {
				chain = s.Chain
			}
			return nil
		},
		Frame: func(_ logfile.SegmentInfo, f *format.Frame) error {
			if f.End() <= at {
				chain = f.CRC
				return nil
			}
			if f.Start < at {
				return fmt.Errorf("cut the log at %d: want the end of a frame, got a place in one of %d to %d", at, f.Start, f.End())
			}
			if file == nil {
				if err := vfs.RemoveIfThere(fsys, temp); err != nil {
					return err
				}
				var err error
				if file, err = fsys.Create(temp); err != nil {
					return err
				}
				used, tail.FirstMS = format.SegmentHeaderLen, f.TimeMS
			}
			if _, err := file.WriteAt(f.Raw, used); err != nil {
				return err
			}
			used += int64(len(f.Raw))
			tail.Frames++
			tail.To, tail.LastMS = f.End(), f.TimeMS
			return nil
		},
		Record: func(f *format.Frame, _ uint64, rec *format.Record) error {
			if f.Start < at {
				return nil
			}
			switch rec.Kind {
			case format.KindSet:
				tail.Sets++
			case format.KindSetItem:
				tail.Sets += uint64(len(rec.Columns))
			case format.KindDelete:
				tail.Deletes++
			case format.KindFlush:
				tail.Flushes++
			case format.KindSchema:
				tail.Schemas++
			}
			return nil
		},
	}
	_, err = logfile.Walk(fsys, dir, at, 0, v)
	if errors.Is(err, format.ErrCorrupt) && tail.To > at {
		err = nil // damage behind what was saved: it goes with the tail
	}
	if file != nil {
		if err == nil {
			head := format.SegmentHeader{History: h, Start: at, Durable: tail.To, Chain: chain, Size: format.SegmentHeaderLen}
			_, err = file.WriteAt(head.AppendTo(nil), 0)
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

// keepTail renames a tail that was saved under a temporary name to the first free name of its offset. An earlier tail of that
// offset has other bytes and stays. If a file has the same bytes, a crash broke off the cut that saved them: that file stays, and
// the temporary one is removed. The name is durable before the tail goes: the copy of HISTORY is written to the same directory first.
func keepTail(fsys vfs.FS, dir, temp string, epoch uint32, at uint64) (path string, err error) {
	for n := 1; ; n++ {
		path = filepath.Join(dir, format.DivergedTailName(epoch, at, n))
		same, err := vfs.SameContent(fsys, path, temp)
		switch {
		case vfs.IsNotExist(err):
			return path, fsys.Rename(temp, path)
		case err != nil:
			return "", err
		case same:
			return path, fsys.Remove(temp)
		}
	}
}

// WalkDiverged reads the frames of a tail that was cut from a log, as Walk reads a log. At damage it returns a *CorruptError,
// after it has passed on everything before the damage.
func WalkDiverged(fsys vfs.FS, d Diverged, v logfile.Visitor) (result logfile.Walked, err error) {
	result = logfile.Walked{First: d.Offset, End: d.Offset, Segments: 1}
	file, err := fsys.Open(d.Path)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	seg := logfile.Segment{Start: d.Offset, Path: d.Path}
	h, fault, err := logfile.ReadSegmentHeader(file, &seg)
	if err != nil {
		return result, err
	}
	bad := func(at uint64, off int64, fault *format.Fault) error {
		return &format.CorruptError{File: d.Path, Offset: off, LogOffset: at, Want: fault.Want, Got: fault.Got}
	}
	if fault != nil {
		return result, bad(0, 0, fault)
	}
	result.History = h.History
	end := h.Durable
	size, err := file.Size()
	if err != nil {
		return result, err
	}
	info := logfile.SegmentInfo{Path: d.Path, Start: d.Offset, End: d.Offset + uint64(max(size-format.SegmentHeaderLen, 0))}
	if v.Segment != nil {
		if err := v.Segment(logfile.Header{SegmentInfo: info, History: h.History, Durable: h.Durable, Chain: h.Chain}); err != nil {
			return result, ignoreEOF(err)
		}
	}
	var s logfile.Scanner
	s.Reset(file, seg, d.Offset, info.End)
	var f format.Frame
	var rec format.Record
	for {
		fault, err := s.Next(&f)
		switch {
		case err == io.EOF && result.End != end:
			return result, bad(result.End, size, &format.Fault{Want: fmt.Sprintf("frames up to log offset %d", end), Got: "the file's end"})
		case err == io.EOF:
			return result, nil
		case err != nil:
			return result, err
		case fault != nil:
			return result, bad(s.Pos, seg.Offset(s.Pos), fault)
		}
		if v.Frame != nil {
			err = v.Frame(info, &f)
		}
		if err == nil {
			err = f.Records(&rec, 0, func(pos uint64, rec *format.Record) error {
				result.Records++
				if v.Record == nil {
					return nil
				}
				return v.Record(&f, pos, rec)
			})
		}
		if err != nil {
			return result, ignoreEOF(logfile.BadRecord(err, filepath.Dir(d.Path), seg, &f))
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
		_, err := WalkDiverged(fsys, d, logfile.Visitor{})
		return err
	}
	a, err := archive.Open(fsys, d.Path)
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
	seg := logfile.Segment{Start: d.Offset, Path: d.Path}
	h, _, err := logfile.ReadSegmentHeader(file, &seg)
	if err != nil {
		return err
	}
	if err := file.Truncate(seg.Offset(at)); err != nil {
		return err
	}
	h.Durable = at
	if _, err := file.WriteAt(h.AppendTo(nil), 0); err != nil {
		return err
	}
	return file.Sync()
}

// TailFile tells whether a file is one that keeps a tail of a log, whatever it is called, and returns it for
// WalkDiverged. torn: it is what a start cut, of which no frame has to be whole.
func TailFile(fsys vfs.FS, path string) (d Diverged, torn, ok bool, err error) {
	file, err := fsys.Open(path)
	if err != nil {
		return d, false, false, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	b, err := vfs.ReadAtMost(file, make([]byte, format.SegmentHeaderLen), 0)
	if err != nil || len(b) < format.SegmentHeaderLen {
		return d, false, false, err
	}
	start := binary.LittleEndian.Uint64(b[40:])
	h, fault, err := format.DecodeSegmentHeader(b, path, start)
	if err != nil || fault != nil || h.Size != format.SegmentHeaderLen { // a segment of a log has room for frames
		return d, false, false, err
	}
	return Diverged{Path: path, Offset: start}, h.Durable == start, true, nil
}
