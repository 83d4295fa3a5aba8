package persist

import (
	"errors"
	"fmt"
	"sync"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/logfile"
	"github.com/counterd/counterd/persist/vfs"
)

// How a segment is packed, beside all other work:
//
//  1. its frames are read, verified and packed into a file under a temporary name; each chunk is unpacked again and
//     compared; the file is synced
//  2. the file gets the segment's name, and so takes its place
//
// After a crash the name has the old file or the packed one, whole: both are durable by then. So the directory need not be
// synced. A reader that has the old file open goes on with it. The segment stays as it is if the disk is full or fails, if
// the segment is damaged, or if packing does not make it smaller.

// packGain is what packing must save, as a share of a segment: less is not worth what reading it costs.
const packGain = 16

// Packer packs segments. It knows the list of segments and their directory, and reaches nothing else of the log.
type Packer struct {
	list  *SegmentList
	maker *logfile.Maker
	chunk int // see LogOptions.packChunk

	mu sync.Mutex // one Pack at a time
}

// Pack packs the oldest segment that is not packed yet and ends at or before an offset, up to which the log is not
// needed by recovery. It returns false if there is none. The last segment and bytes that are not durable stay as they
// are. pace, which may be nil, is called behind each chunk and may take its time; its error ends the packing and is
// returned. Errors change nothing. A segment that is damaged, or that packing does not make smaller, is not tried again
// by this process.
func (p *Packer) Pack(before uint64, pace func() error) (packed bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		seg, end, ok := p.list.toPack(before)
		if !ok {
			return false, nil
		}
		size, already, err := p.packedSize(&seg)
		if err == nil && !already {
			size, err = p.pack(&seg, end, pace)
		}
		switch {
		case err != nil && !p.list.keeps(&seg): // dropped since it was looked up
			continue
		case err != nil:
			var corrupt *format.CorruptError
			if errors.As(err, &corrupt) {
				p.list.notePacked(seg, -1)
			}
			return false, fmt.Errorf("pack log segment: %w", err)
		}
		p.list.notePacked(seg, size)
		if !already && size > 0 {
			return true, nil
		}
	}
}

// findPacked notes which segments an earlier process packed. Pack reports the segments that cannot be read. REQUIRES: no
// other goroutine uses the log yet.
func (p *Packer) findPacked() {
	files := p.list.files
	segs := files.segs
	for i := range segs[:len(segs)-1] {
		info, err := p.maker.FS.Stat(segs[i].Path)
		if err != nil || info.Size() == segs[i].Offset(segs[i+1].Start) {
			continue
		}
		if size, packed, err := p.packedSize(&segs[i]); err == nil && packed {
			files.packed[segs[i].Start] = size
		}
	}
	files.sumPacked()
}

// packedSize returns the size of the file of a segment that is packed already, by an earlier process.
func (p *Packer) packedSize(seg *logfile.Segment) (size int64, packed bool, err error) {
	file, err := p.maker.FS.Open(seg.Path)
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
func (p *Packer) pack(seg *logfile.Segment, end uint64, pace func() error) (size int64, err error) {
	m := p.maker
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
	size, err = logfile.PackSegment(to, m.Dir, seg, from, end, logfile.PackOptions{Chunk: p.chunk, Limit: limit, Pace: pace})
	if err = errors.Join(err, to.Close()); err == nil {
		err = p.list.replace(seg, end, temp)
	}
	if err == nil && pace != nil { // closing from frees it
		vfs.Uncache(from, int64(end-seg.Start), pace)
	}
	if err != nil {
		_ = m.FS.Remove(temp) // else at the next start
		if errors.Is(err, logfile.ErrNotSmaller) || errors.Is(err, errDropped) {
			return -1, nil
		}
		return 0, err
	}
	return size, nil
}
