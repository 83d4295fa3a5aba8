package logfile

import (
	"io"
	"testing"

	"github.com/counterd/counterd/persist/format"
	"github.com/counterd/counterd/persist/vfs"
)

// readCounter is a segment in memory that counts its reads.
type readCounter struct {
	vfs.File
	data  []byte
	reads int
}

func (c *readCounter) ReadAt(b []byte, off int64) (int, error) {
	c.reads++
	n := copy(b, c.data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// TestScannerReads: the last 16 KiB before the limit are one read, also by a scanner behind another one, so a client that follows a log costs one
// read for each reply. More is read in steps, as a caller may want only the first frames.
func TestScannerReads(t *testing.T) {
	const records = 500
	c := &readCounter{data: make([]byte, format.SegmentHeaderLen)}
	var ends []uint64
	for start := uint64(0); len(ends) < 64; {
		raw := make([]byte, format.FrameHeaderLen+records)
		format.PutFrameHeader(raw, false, start, 0, 1, 1)
		c.data = append(c.data, raw...)
		start += uint64(len(raw))
		ends = append(ends, start)
	}
	read := func(s *Scanner, frames int, limit uint64) {
		t.Helper()
		s.Reset(c, Segment{}, 0, limit)
		var f format.Frame
		for i := range frames {
			if fault, err := s.Next(&f); fault != nil || err != nil || f.End() != ends[i] {
				t.Fatalf("frame %d: got its end %d, %v, %v, want %d", i, f.End(), fault, err, ends[i])
			}
		}
		if _, err := s.Next(&f); frames == len(ends) && err != io.EOF {
			t.Fatalf("behind the last frame: %v", err)
		}
	}
	var s Scanner
	read(&s, len(ends), ends[63]) // in the end it has a large buffer
	for _, test := range []struct {
		frames int
		limit  uint64
		reads  int
	}{
		{19, ends[18], 1},
		{1, ends[18], 1},
		{1, ends[63], 1},
		{19, ends[63], 2},
		{64, ends[63], 4},
	} {
		c.reads = 0
		read(&s, test.frames, test.limit)
		if c.reads != test.reads {
			t.Errorf("%d frames below %d: %d reads, want %d", test.frames, test.limit, c.reads, test.reads)
		}
	}
	s.Release()
	read(&s, 19, ends[18]) // perhaps in a buffer that was released
}
