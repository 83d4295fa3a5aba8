package persist

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/counterd/counterd/persist/vfs"
)

// How a segment is packed, beside all other work:
//
//  1. its frames are read, verified and packed into a file under a temporary name; each block is unpacked again and
//     compared; the file is synced
//  2. the file gets the segment's name, and so takes its place, and the directory is synced
//
// A crash leaves the one or the other under that name, whole: both are durable by then. Who reads the segment as it was
// goes on. A full disk, a failing one, damage and a segment that packing does not make smaller leave it as it is.

// packGain is what packing must save, as a share of a segment: less is not worth what reading it costs.
const packGain = 16

// packSyncBytes are written between syncs, so that none takes long: the log's own wait behind it.
const packSyncBytes = 2 << 20

// Pack packs the oldest segment that is not packed yet and ends at or before an offset, up to which the log is not
// needed by recovery. It returns false if there is none. The last segment and bytes that are not durable stay as they
// are. pace, which may be nil, is called behind each block and may take its time; its error ends the packing and is
// returned. Errors change nothing. A segment that is damaged, or that packing does not make smaller, is not tried again
// by this process.
func (l *Log) Pack(before uint64, pace func() error) (packed bool, err error) {
	l.packMu.Lock()
	defer l.packMu.Unlock()
	for {
		seg, end, ok := l.toPack(before)
		if !ok {
			return false, nil
		}
		size, already, err := l.packedSize(&seg)
		if err != nil {
			return false, fmt.Errorf("pack log segment: %w", err)
		}
		if !already {
			if size, err = l.pack(&seg, end, pace); err != nil {
				var corrupt *CorruptError
				if errors.As(err, &corrupt) {
					l.notePacked(seg, -1)
				}
				return false, fmt.Errorf("pack log segment: %w", err)
			}
		}
		l.notePacked(seg, size)
		if !already && size > 0 {
			return true, nil
		}
	}
}

// toPack returns the oldest segment that may be packed, and where it ends.
func (l *Log) toPack(before uint64) (seg segment, end uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	segs := l.files.segs
	for i := 0; i+1 < len(segs); i++ {
		end := segs[i+1].start
		// As in DropBefore: only behind a durable byte of the next segment its header is durable, and this one's end.
		if end > before || end >= l.durable.Load() || l.closing || l.healing {
			break
		}
		if _, known := l.files.packed[segs[i].start]; !known {
			return segs[i], end, true
		}
	}
	return segment{}, 0, false
}

// notePacked takes down how large the file of a segment is now, -1: it stays as it is.
func (l *Log) notePacked(seg segment, size int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Contains(l.files.segs, seg) {
		l.files.packed[seg.start] = size
		l.files.sumPacked()
	}
}

// findPacked notes which segments an earlier process packed. What cannot be read now Pack finds out. REQUIRES: nobody
// else uses the log yet.
func (l *Log) findPacked() {
	segs := l.files.segs
	for i := range segs[:len(segs)-1] {
		info, err := l.opts.FS.Stat(segs[i].path)
		if err != nil || info.Size() == segs[i].offset(segs[i+1].start) {
			continue
		}
		if size, packed, err := l.packedSize(&segs[i]); err == nil && packed {
			l.files.packed[segs[i].start] = size
		}
	}
	l.files.sumPacked()
}

// packedSize returns the size of the file of a segment that is packed already, by an earlier process.
func (l *Log) packedSize(seg *segment) (size int64, packed bool, err error) {
	file, err := l.opts.FS.Open(seg.path)
	if err != nil {
		return 0, false, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	head, err := readAtMost(file, make([]byte, segmentHeaderLen), 0)
	if err != nil || !isPackedHeader(head) {
		return 0, false, err
	}
	size, err = file.Size()
	return size, true, err
}

// pack makes the packed file of a segment and puts it in its place. It returns its size, -1 if it is not worth it.
func (l *Log) pack(seg *segment, end uint64, pace func() error) (size int64, err error) {
	m := &l.files.maker
	if err := m.guarded(); err != nil {
		return 0, err
	}
	limit := int64(end-seg.start) + segmentHeaderLen
	limit -= limit / packGain
	if space, err := m.fsys.Space(LogDir(m.dir)); err == nil && space.Free-m.reserve.Load() < limit {
		return 0, &NoRoomError{Free: space.Free, Reserve: m.reserve.Load(), Want: limit}
	}
	from, err := m.fsys.Open(seg.path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	temp := filepath.Join(LogDir(m.dir), fmt.Sprintf("segment-%d%s", m.tempNo.Add(1), tempSuffix))
	to, err := m.fsys.Create(temp)
	if err != nil {
		return 0, err
	}
	w := packWriter{file: to, block: l.opts.packBlock, limit: limit, pace: pace}
	err = w.segment(m.dir, seg, from, end)
	if err = errors.Join(err, to.Close()); err == nil {
		err = l.replace(seg, end, temp)
	}
	if err != nil {
		_ = m.fsys.Remove(temp) // else at the next start
		if errors.Is(err, errNotSmaller) || errors.Is(err, errDropped) {
			return -1, nil
		}
		return 0, err
	}
	return w.off, m.fsys.SyncDir(LogDir(m.dir))
}

var (
	errNotSmaller = errors.New("packing does not make the segment smaller")
	errDropped    = errors.New("the segment was dropped meanwhile")
)

// replace gives a packed file the name of its segment, if that is still there.
func (l *Log) replace(seg *segment, end uint64, temp string) error {
	l.dropMu.Lock()
	defer l.dropMu.Unlock()
	if err := l.files.maker.guarded(); err != nil {
		return err
	}
	l.mu.Lock()
	i := slices.Index(l.files.segs, *seg)
	there := i >= 0 && i+1 < len(l.files.segs) && l.files.segs[i+1].start == end
	gone, closing := l.refusals[reasonGone], l.closing
	l.mu.Unlock()
	switch {
	case closing:
		return ErrClosed
	case gone != nil:
		return gone
	case !there:
		return errDropped
	}
	return l.opts.FS.Rename(temp, seg.path)
}

// packWriter writes a packed segment to a new file. NOT safe for concurrent use.
type packWriter struct {
	file  vfs.File
	block int   // bytes of the log in a block
	limit int64 // more is errNotSmaller
	pace  func() error

	packer *blockPacker
	blocks []packedBlock
	raw    []byte // frames of the block that is being filled
	start  uint64 // log offset of its first
	buf    []byte
	off    int64
	synced int64
}

// segment packs the frames of a segment file, which ends at a log offset.
func (w *packWriter) segment(dir string, seg *segment, from vfs.File, end uint64) error {
	h, fault, err := readSegmentHeader(from, seg)
	if err != nil {
		return err
	}
	if w.packer, err = newBlockPacker(); err != nil {
		return err
	}
	if fault == nil {
		if err := w.write(appendPackedHeader(nil, h, end, false)); err != nil {
			return err
		}
		var s scanner
		var f Frame
		s.reset(from, *seg, seg.start, end)
		for w.start = seg.start; s.pos < end; {
			if fault, err = s.next(&f); err == io.EOF || fault != nil {
				break
			}
			if err == nil {
				err = w.frame(&f)
			}
			if err != nil {
				return err
			}
		}
		if fault == nil && s.pos != end {
			fault = &frameFault{want: fmt.Sprintf("frames up to %d, where the next segment starts", end), got: "none"}
		}
		if fault != nil {
			return &CorruptError{Dir: dir, File: seg.path, Offset: seg.offset(s.pos), LogOffset: s.pos, Want: fault.want, Got: fault.got}
		}
	}
	if fault != nil {
		return &CorruptError{Dir: dir, File: seg.path, LogOffset: seg.start, Want: fault.want, Got: fault.got}
	}
	return w.finish()
}

// frame takes the next frame.
func (w *packWriter) frame(f *Frame) error {
	w.raw = append(w.raw, f.Raw...)
	if len(w.raw) < w.block {
		return nil
	}
	return w.flush()
}

// flush writes the block that is being filled.
func (w *packWriter) flush() (err error) {
	if len(w.raw) == 0 {
		return nil
	}
	if w.buf, err = w.packer.appendBlock(w.buf[:0], w.raw, w.start); err != nil {
		return err
	}
	w.blocks = append(w.blocks, packedBlock{w.start, w.off})
	w.start += uint64(len(w.raw))
	w.raw = w.raw[:0]
	if err := w.write(w.buf); err != nil {
		return err
	}
	if w.off-w.synced >= packSyncBytes {
		w.synced = w.off
		if err := w.file.Sync(); err != nil {
			return err
		}
	}
	if w.pace != nil {
		return w.pace()
	}
	return nil
}

// write appends to the file.
func (w *packWriter) write(b []byte) error {
	if w.off+int64(len(b)) > w.limit {
		return errNotSmaller
	}
	_, err := w.file.WriteAt(b, w.off)
	w.off += int64(len(b))
	return err
}

// finish writes what is left, index and footer, and syncs.
func (w *packWriter) finish() error {
	if err := w.flush(); err != nil {
		return err
	}
	if err := w.write(appendPackedIndex(nil, w.blocks, w.off)); err != nil {
		return err
	}
	return w.file.Sync()
}

// unpackTo puts a segment that is not packed, and ends at a log offset inside of it, in the place of one that is, in
// one step, durably.
func unpackTo(fsys vfs.FS, seg *segment, packed *packedFile, at uint64) (err error) {
	temp := seg.path + tempSuffix
	if err := removeIfThere(fsys, temp); err != nil {
		return err
	}
	to, err := fsys.Create(temp)
	if err != nil {
		return err
	}
	err = copySegment(to, seg, packed, at)
	if err = errors.Join(err, to.Close()); err == nil {
		err = fsys.Rename(temp, seg.path)
	}
	if err != nil {
		return errors.Join(err, removeIfThere(fsys, temp))
	}
	return fsys.SyncDir(filepath.Dir(seg.path))
}

// copySegment writes the segment that a packed one was, up to a log offset.
func copySegment(to vfs.File, seg *segment, packed *packedFile, at uint64) error {
	buf := make([]byte, packBlockLen)
	for off := int64(0); off < seg.offset(at); {
		b, err := readAtMost(packed, buf[:min(int64(len(buf)), seg.offset(at)-off)], off)
		if err != nil {
			return err
		}
		if len(b) == 0 {
			break
		}
		if _, err := to.WriteAt(b, off); err != nil {
			return err
		}
		off += int64(len(b))
	}
	h, fault, err := readSegmentHeader(packed, seg)
	if err == nil && fault == nil {
		h.durable = min(h.durable, at)
		_, err = to.WriteAt(h.appendTo(nil), 0)
	}
	return errors.Join(err, to.Sync())
}
