package logfile

import (
	"encoding/binary"
	"io"
	"sync"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

const (
	ScanBufferLen = 256 << 10 // bytes per read
	firstScanLen  = 4 << 10   // bytes of the first read: most segments of a test and many restarts need no more
	lastScanLen   = 16 << 10  // bytes up to the limit that one read takes: a client that follows 100,000 changes a second is 8 to 13 KiB behind
	resyncWindow  = 1 << 20   // bytes searched at once for frames behind damage
)

// Scanner reads the frames of one segment file in order and verifies each. NOT safe for concurrent use.
//
// Invariant: buf[lo:hi] are the bytes of the log from pos on.
type Scanner struct {
	file  vfs.File
	Seg   Segment
	Pos   uint64 // log offset of the next frame
	Limit uint64 // log offset where reading ends; may be raised between calls
	buf   []byte
	lo    int
	hi    int
	step  int // bytes of the next read
}

// released has buffers of ScanBufferLen of scanners that were released.
var released sync.Pool

// Release gives the buffer to later scanners. REQUIRES that no frame of the scanner is used any more; the scanner needs a Reset then.
func (s *Scanner) Release() {
	if len(s.buf) == ScanBufferLen {
		released.Put((*[ScanBufferLen]byte)(s.buf))
	}
	s.buf = nil
}

// Reset makes the scanner read file from pos on, which must be a frame's start.
func (s *Scanner) Reset(file vfs.File, seg Segment, pos, limit uint64) {
	if s.buf == nil {
		if b, ok := released.Get().(*[ScanBufferLen]byte); ok {
			s.buf = b[:]
		} else {
			s.buf = make([]byte, firstScanLen)
		}
	}
	s.file, s.Seg, s.Pos, s.Limit, s.lo, s.hi, s.step = file, seg, pos, limit, 0, 0, firstScanLen
}

// Next decodes the frame at pos into f and moves behind it. At limit it returns io.EOF; when there is no whole, valid
// frame below limit it returns a fault and stays. err is a failed read.
func (s *Scanner) Next(f *format.Frame) (fault *format.Fault, err error) {
	if s.Pos >= s.Limit {
		return nil, io.EOF
	}
	fault = format.DecodeFrame(s.buf[s.lo:s.hi], s.Pos, f)
	for need := 0; fault != nil && fault.Need > need; { // cut short by the buffer's end, or by the file's
		need = fault.Need
		if err := s.fill(need); err != nil {
			return nil, err
		}
		fault = format.DecodeFrame(s.buf[s.lo:s.hi], s.Pos, f)
	}
	if fault != nil {
		if p, ok := s.file.(*PackedFile); ok {
			if damage := p.damage(s.Pos); damage != nil {
				fault = damage
			}
		}
		return fault, nil
	}
	s.lo += len(f.Raw)
	s.Pos = f.End()
	return nil, nil
}

// Unread makes f, which was decoded last, the next frame again.
func (s *Scanner) Unread(f *format.Frame) {
	s.lo -= len(f.Raw)
	s.Pos = f.Start
}

// fill reads until need bytes are buffered, or all there are below limit. Each read is twice the last one, up to ScanBufferLen: a feed
// that gives a thousand changes needs 20 KiB.
func (s *Scanner) fill(need int) error {
	from := s.Pos + uint64(s.hi-s.lo)
	if s.hi-s.lo >= need || from >= s.Limit {
		return nil
	}
	if need > len(s.buf) || s.hi == len(s.buf) && len(s.buf) < ScanBufferLen {
		bigger := larger(need)
		s.hi = copy(bigger, s.buf[s.lo:s.hi])
		s.buf = bigger
	} else {
		s.hi = copy(s.buf, s.buf[s.lo:s.hi])
	}
	s.lo = 0
	left, room := s.Limit-from, s.buf[s.hi:]
	if step := max(s.step, need-s.hi); step < len(room) && left > lastScanLen {
		room = room[:step]
	}
	s.step = min(2*s.step, ScanBufferLen)
	if left < uint64(len(room)) {
		room = room[:left]
	}
	b, err := vfs.ReadAtMost(s.file, room, s.Seg.Offset(from))
	s.hi += len(b)
	return err
}

// larger returns a buffer for need bytes, which are 36 + MaxFramePayload at most.
func larger(need int) []byte {
	if need > ScanBufferLen {
		return make([]byte, need)
	}
	if b, ok := released.Get().(*[ScanBufferLen]byte); ok {
		return b[:]
	}
	return make([]byte, ScanBufferLen)
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
func searchRemains(file vfs.File, seg Segment, size int64, pos uint64) (r remains, err error) {
	buf := make([]byte, max(min(resyncWindow, size-seg.Offset(pos)), 0))
	var frame format.Frame
	for off := seg.Offset(pos); off < size; {
		b, err := vfs.ReadAtMost(file, buf[:min(int64(len(buf)), size-off)], off)
		if err != nil {
			return r, err
		}
		if len(b) == 0 {
			break
		}
		at := pos + uint64(off-seg.Offset(pos)) // log offset of b[0]
		last := off+int64(len(b)) >= size
		step := len(b) - format.FrameHeaderLen + 1 // a header that begins later is seen in the next window
		if last || step <= 0 {
			step = len(b)
		}
		written := uint64(len(format.TrimZeros(b)))
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
			fault := format.DecodeFrame(raw, at+uint64(i), &frame)
			if fault != nil && fault.Need > len(raw) && !last {
				raw, err = vfs.ReadAtMost(file, make([]byte, fault.Need), off+int64(i)) // need is bounded
				if err != nil {
					return r, err
				}
				fault = format.DecodeFrame(raw, at+uint64(i), &frame)
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
