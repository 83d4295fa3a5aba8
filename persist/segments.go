package persist

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/counterd/counterd/persist/vfs"
)

// SegmentInfo describes one segment file.
type SegmentInfo struct {
	Path       string
	Start, End uint64 // log offsets; of the last one End is how far it is written, or 0 where that is not known
	Bytes      int64  // of the file, without what is preallocated; 0 where that is not known
	Packed     bool   // it is compressed; false where that is not known
}

func (s SegmentInfo) segment() *segment { return &segment{s.Start, s.Path} }

// Segments returns the segment files of a data directory, oldest first. A missing directory gives none.
func Segments(fsys vfs.FS, dir string) ([]SegmentInfo, error) {
	segs, err := listSegments(fsys, dir)
	infos := make([]SegmentInfo, len(segs))
	for i, s := range segs {
		infos[i] = SegmentInfo{Path: s.path, Start: s.start}
		if i+1 < len(segs) {
			infos[i].End = segs[i+1].start
		}
	}
	return infos, err
}

// listSegments returns the segments in dir/log by start offset. A missing directory gives none.
func listSegments(fsys vfs.FS, dir string) ([]segment, error) {
	names, err := listDir(fsys, LogDir(dir))
	if err != nil {
		return nil, err
	}
	var segs []segment
	for _, name := range names { // sorted, and the names have one length
		if start, ok := ParseSegmentName(name); ok {
			segs = append(segs, segment{start, filepath.Join(LogDir(dir), name)})
		}
	}
	return segs, nil
}

// Segments returns the segments kept, oldest first. They are consecutive.
func (l *Log) Segments() []SegmentInfo {
	l.mu.Lock()
	defer l.mu.Unlock()
	infos := make([]SegmentInfo, len(l.files.segs))
	for i, s := range l.files.segs {
		end := max(l.written.Load(), s.start)
		if i+1 < len(l.files.segs) {
			end = l.files.segs[i+1].start
		}
		infos[i] = SegmentInfo{s.path, s.start, end, l.files.bytesOf(i, l.written.Load()), l.files.packed[s.start] > 0}
	}
	return infos
}

// KeepFrom returns the log offset from which on the segment files take a number of bytes on disk, or a little more, at
// the start of a segment; 0 if all of them take less.
func (l *Log) KeepFrom(bytes uint64) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	sum, written := uint64(0), l.written.Load()
	for i := len(l.files.segs) - 1; i >= 0; i-- {
		if sum += uint64(l.files.bytesOf(i, written)); sum >= bytes {
			return l.files.segs[i].start
		}
	}
	return 0
}

// DropBefore removes the segments that hold only bytes below an offset, oldest first, each durably before the next:
// a crash never leaves a gap. The last segment and bytes that are not durable always stay. A reader inside a dropped
// segment gets ErrGone, at the latest when it has read it.
func (l *Log) DropBefore(offset uint64) error {
	l.dropMu.Lock()
	defer l.dropMu.Unlock()
	for {
		l.mu.Lock()
		// The next segment must have a durable byte, so that its header is durable: it alone tells the history then.
		segs := l.files.segs
		drop := len(segs) > 1 && segs[1].start <= offset && segs[1].start < l.durable.Load() && !l.closed && !l.healing
		first := segs[0]
		drop = drop && l.refusals[reasonGone] == nil
		if drop {
			l.files.segs = segs[1:]
			l.files.sumPacked()
			l.layout.Add(1)
		}
		l.mu.Unlock()
		if !drop {
			return nil
		}
		err := removeIfThere(l.opts.FS, first.path)
		if err == nil {
			err = l.opts.FS.SyncDir(LogDir(l.opts.Dir))
		}
		if err != nil {
			l.mu.Lock()
			l.files.segs = append([]segment{first}, l.files.segs...)
			l.files.sumPacked()
			l.layout.Add(1)
			l.mu.Unlock()
			return fmt.Errorf("drop log segment: %w", err)
		}
		l.mu.Lock()
		delete(l.files.packed, first.start)
		l.mu.Unlock()
	}
}

// NewSegment makes the segment file of h.Start, durably, in the place of one that is there: of a header and frames,
// which stand one behind the other. The log must not be open.
func NewSegment(fsys vfs.FS, dir string, h SegmentHeader, frames [][]byte) error {
	m := segmentMaker{fsys: fsys, dir: dir, least: minSegment}
	s, err := m.rewrite(segmentHeader{history: h.History, start: h.Start, durable: h.Durable, chain: h.Chain}, frames, nil)
	if err != nil {
		return err
	}
	return s.file.Close()
}

// EndSegment makes a log offset inside a segment file its end. The log must not be open.
func EndSegment(fsys vfs.FS, seg SegmentInfo, at uint64) error { return endAt(fsys, seg.segment(), at) }

// endAt makes an offset inside a segment its end. The header of a segment that was begun by a restart says that bytes
// behind its start are durable (takeOver): it must not say so of what is cut, or the log would count as damaged.
func endAt(fsys vfs.FS, seg *segment, at uint64) (err error) {
	if whole, err := openSegmentFile(fsys, seg); err != nil {
		return err
	} else if packed, ok := whole.(*packedFile); ok {
		if at < packed.end {
			err = unpackTo(fsys, seg, packed, at)
		}
		return errors.Join(err, packed.Close())
	} else if err := whole.Close(); err != nil {
		return err
	}
	file, err := fsys.OpenRW(seg.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	h, fault, err := readSegmentHeader(file, seg)
	if err == nil && fault == nil && h.durable > at {
		h.durable = at
		if _, err = file.WriteAt(h.appendTo(nil), 0); err == nil {
			err = file.Sync()
		}
	}
	if err != nil {
		return err
	}
	size, err := file.Size()
	if err == nil && size > seg.offset(at) {
		err = file.Truncate(seg.offset(at))
	}
	return err
}

// FramesBehind looks in a segment file for the first whole frame that starts at a log offset or behind it, wherever
// damage ends. It returns where it starts, and the frames from there to the next damage. found is false if it starts
// behind last, or if there is none.
func FramesBehind(fsys vfs.FS, seg SegmentInfo, at, last uint64) (start uint64, frames [][]byte, found bool, err error) {
	file, err := openSegmentFile(fsys, seg.segment())
	if err != nil {
		return 0, nil, false, err
	}
	defer file.Close() // only read
	size, err := file.Size()
	if err != nil {
		return 0, nil, false, err
	}
	rest, err := searchRemains(file, *seg.segment(), size, at)
	if err != nil || rest.frames == 0 || rest.first > last {
		return 0, nil, false, err
	}
	limit := seg.Start + uint64(size-segmentHeaderLen)
	if seg.End > 0 {
		limit = min(limit, seg.End)
	}
	var s scanner
	s.reset(file, *seg.segment(), rest.first, limit)
	var f Frame
	for {
		fault, err := s.next(&f)
		if fault != nil || err == io.EOF {
			return rest.first, frames, true, nil
		}
		if err != nil {
			return 0, nil, false, err
		}
		frames = append(frames, append([]byte(nil), f.Raw...))
	}
}
