package persist

import (
	"encoding/binary"
	"io"

	"github.com/counterd/counterd/persist/vfs"
)

const (
	scanBufferLen = 256 << 10 // bytes per read
	firstScanLen  = 4 << 10   // bytes of the first read: most segments of a test and many restarts need no more
	resyncWindow  = 1 << 20   // bytes searched at once for frames behind damage
)

// scanner reads the frames of one segment file in order and verifies each. NOT safe for concurrent use.
//
// Invariant: buf[lo:hi] are the bytes of the log from pos on.
type scanner struct {
	file  vfs.File
	seg   segment
	pos   uint64 // log offset of the next frame
	limit uint64 // log offset where reading ends; may be raised between calls
	buf   []byte
	lo    int
	hi    int
}

// reset makes the scanner read file from pos on, which must be a frame's start.
func (s *scanner) reset(file vfs.File, seg segment, pos, limit uint64) {
	if s.buf == nil {
		s.buf = make([]byte, firstScanLen)
	}
	s.file, s.seg, s.pos, s.limit, s.lo, s.hi = file, seg, pos, limit, 0, 0
}

// next decodes the frame at pos into f and moves behind it. At limit it returns io.EOF; when there is no whole, valid
// frame below limit it returns a fault and stays. err is a failed read.
func (s *scanner) next(f *Frame) (fault *frameFault, err error) {
	if s.pos >= s.limit {
		return nil, io.EOF
	}
	fault = decodeFrame(s.buf[s.lo:s.hi], s.pos, f)
	for need := 0; fault != nil && fault.need > need; { // cut short by the buffer's end, or by the file's
		need = fault.need
		if err := s.fill(need); err != nil {
			return nil, err
		}
		fault = decodeFrame(s.buf[s.lo:s.hi], s.pos, f)
	}
	if fault != nil {
		if p, ok := s.file.(*packedFile); ok {
			if damage := p.damage(s.pos); damage != nil {
				fault = damage
			}
		}
		return fault, nil
	}
	s.lo += len(f.Raw)
	s.pos = f.End()
	return nil, nil
}

// fill reads until need bytes are buffered, or all there are below limit.
func (s *scanner) fill(need int) error {
	if s.hi-s.lo >= need {
		return nil
	}
	if need > len(s.buf) || s.hi == len(s.buf) && len(s.buf) < scanBufferLen {
		bigger := make([]byte, max(need, scanBufferLen)) // need <= 36 + MaxFramePayload
		s.hi = copy(bigger, s.buf[s.lo:s.hi])
		s.buf = bigger
	} else {
		s.hi = copy(s.buf, s.buf[s.lo:s.hi])
	}
	s.lo = 0
	from := s.pos + uint64(s.hi)
	if from >= s.limit {
		return nil
	}
	room := s.buf[s.hi:]
	if left := s.limit - from; left < uint64(len(room)) {
		room = room[:left]
	}
	b, err := readAtMost(s.file, room, s.seg.offset(from))
	s.hi += len(b)
	return err
}

// remains is what lies in a segment file behind a bad frame.
type remains struct {
	bytes  uint64 // up to the last byte that is not zero
	frames int    // whole, valid frames
	claim  uint64 // highest durable offset among them
	first  uint64 // where the first of them starts
	sure   bool   // the segment's header is damaged as no power failure does it
}

// searchRemains looks at every byte of a segment file from log offset pos on for frames that stand where they say they
// do. The 8 bytes of the start field make a false hit as good as impossible, and the checksum settles it.
func searchRemains(file vfs.File, seg segment, size int64, pos uint64) (r remains, err error) {
	buf := make([]byte, max(min(resyncWindow, size-seg.offset(pos)), 0))
	var frame Frame
	for off := seg.offset(pos); off < size; {
		b, err := readAtMost(file, buf[:min(int64(len(buf)), size-off)], off)
		if err != nil {
			return r, err
		}
		if len(b) == 0 {
			break
		}
		at := pos + uint64(off-seg.offset(pos)) // log offset of b[0]
		last := off+int64(len(b)) >= size
		step := len(b) - FrameHeaderLen + 1 // a header that begins later is seen in the next window
		if last || step <= 0 {
			step = len(b)
		}
		written := uint64(len(trimZeros(b)))
		if written > 0 {
			r.bytes = at + written - pos
		}
		i := 0
		for i < min(step, int(written)) && i+16 <= len(b) {
			if binary.LittleEndian.Uint64(b[i+8:]) != at+uint64(i) {
				i++
				continue
			}
			raw := b[i:]
			fault := decodeFrame(raw, at+uint64(i), &frame)
			if fault != nil && fault.need > len(raw) && !last {
				raw, err = readAtMost(file, make([]byte, fault.need), off+int64(i)) // need is bounded
				if err != nil {
					return r, err
				}
				fault = decodeFrame(raw, at+uint64(i), &frame)
			}
			if fault != nil {
				i++
				continue
			}
			if r.frames == 0 {
				r.first = frame.Start
			}
			r.frames++
			r.claim = max(r.claim, frame.Durable)
			i += len(frame.Raw)
		}
		off += int64(max(i, step))
	}
	return r, nil
}
