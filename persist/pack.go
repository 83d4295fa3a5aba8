package persist

import (
	"errors"
	"fmt"
	"slices"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// How a segment is packed, beside all other work:
//
//  1. its frames are read, verified and packed into a file under a temporary name; each chunk is unpacked again and
//     compared; the file is synced
//  2. the file gets the segment's name, and so takes its place, and the directory is synced
//
// A crash leaves the one or the other under that name, whole: both are durable by then. Who reads the segment as it was
// goes on. A full disk, a failing one, damage and a segment that packing does not make smaller leave it as it is.

// packGain is what packing must save, as a share of a segment: less is not worth what reading it costs.
const packGain = 16

// Pack packs the oldest segment that is not packed yet and ends at or before an offset, up to which the log is not
// needed by recovery. It returns false if there is none. The last segment and bytes that are not durable stay as they
// are. pace, which may be nil, is called behind each chunk and may take its time; its error ends the packing and is
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
				var corrupt *format.CorruptError
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
func (l *Log) toPack(before uint64) (seg logfile.Segment, end uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	segs := l.files.segs
	for i := 0; i+1 < len(segs); i++ {
		end := segs[i+1].Start
		// As in DropBefore: only behind a durable byte of the next segment its header is durable, and this one's end.
		if end > before || end >= l.durable.Load() || l.closing || l.calls.healing() {
			break
		}
		if _, known := l.files.packed[segs[i].Start]; !known {
			return segs[i], end, true
		}
	}
	return logfile.Segment{}, 0, false
}

// notePacked takes down how large the file of a segment is now, -1: it stays as it is.
func (l *Log) notePacked(seg logfile.Segment, size int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Contains(l.files.segs, seg) {
		l.files.packed[seg.Start] = size
		l.files.sumPacked()
	}
}

// findPacked notes which segments an earlier process packed. What cannot be read now Pack finds out. REQUIRES: nobody
// else uses the log yet.
func (l *Log) findPacked() {
	segs := l.files.segs
	for i := range segs[:len(segs)-1] {
		info, err := l.opts.FS.Stat(segs[i].Path)
		if err != nil || info.Size() == segs[i].Offset(segs[i+1].Start) {
			continue
		}
		if size, packed, err := l.packedSize(&segs[i]); err == nil && packed {
			l.files.packed[segs[i].Start] = size
		}
	}
	l.files.sumPacked()
}

// packedSize returns the size of the file of a segment that is packed already, by an earlier process.
func (l *Log) packedSize(seg *logfile.Segment) (size int64, packed bool, err error) {
	file, err := l.opts.FS.Open(seg.Path)
	if err != nil {
		return 0, false, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	head, err := vfs.ReadAtMost(file, make([]byte, format.SegmentHeaderLen), 0)
	if err != nil || !format.IsPackedHeader(head) {
		return 0, false, err
	}
	size, err = file.Size()
	return size, true, err
}

// pack makes the packed file of a segment and puts it in its place. It returns its size, -1 if it is not worth it.
func (l *Log) pack(seg *logfile.Segment, end uint64, pace func() error) (size int64, err error) {
	m := &l.files.maker
	if err := m.Guarded(); err != nil {
		return 0, err
	}
	limit := int64(end-seg.Start) + format.SegmentHeaderLen
	limit -= limit / packGain
	if space, err := m.FS.Space(format.LogDir(m.Dir)); err == nil && space.Free-m.Reserve.Load() < limit {
		return 0, &logfile.NoRoomError{Free: space.Free, Reserve: m.Reserve.Load(), Want: limit}
	}
	from, err := m.FS.Open(seg.Path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	temp := m.TempPath()
	to, err := m.FS.Create(temp)
	if err != nil {
		return 0, err
	}
	size, err = logfile.PackSegment(to, m.Dir, seg, from, end, logfile.PackOptions{Chunk: l.opts.packChunk, Limit: limit, Pace: pace})
	if err = errors.Join(err, to.Close()); err == nil {
		err = l.replace(seg, end, temp)
	}
	if err != nil {
		_ = m.FS.Remove(temp) // else at the next start
		if errors.Is(err, logfile.ErrNotSmaller) || errors.Is(err, errDropped) {
			return -1, nil
		}
		return 0, err
	}
	return size, m.FS.SyncDir(format.LogDir(m.Dir))
}

var errDropped = errors.New("the segment was dropped meanwhile")

// replace gives a packed file the name of its segment, if that is still there.
func (l *Log) replace(seg *logfile.Segment, end uint64, temp string) error {
	l.dropMu.Lock()
	defer l.dropMu.Unlock()
	if err := l.files.maker.Guarded(); err != nil {
		return err
	}
	l.mu.Lock()
	i := slices.Index(l.files.segs, *seg)
	there := i >= 0 && i+1 < len(l.files.segs) && l.files.segs[i+1].Start == end
	gone, closing := l.refusals[reasonGone], l.closing
	l.mu.Unlock()
	switch {
	case closing:
		return format.ErrClosed
	case gone != nil:
		return gone
	case !there:
		return errDropped
	}
	return l.opts.FS.Rename(temp, seg.Path)
}
